"""Finds all that cannot be planned, before anything is."""

from __future__ import annotations

from attrs import frozen

from kforge.plan.graph import Graph, Node, Value
from kforge.plan.nodes import ALL, base, producers, references, wanted
from kforge.plan.plan import Unplanned
from kforge.plan.scalar import DTYPES, Builder, Typed, compute_dtype
from kforge.plan.scope import CannotLowerError, Scope
from kforge.plan.views import view_of


@frozen
class Check:
    """Finds all that cannot be planned, before anything is."""

    graph: Graph

    def problems(self) -> tuple[Unplanned, ...]:
        makers, values = producers(self.graph), self.graph.values()
        found = [
            Unplanned(f"change of input {mutation.target}", "a candidate must leave its inputs as they are")
            for mutation in self.graph.mutations
            if not mutation.buffer
        ]
        waiting, seen = list(wanted(self.graph)), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in makers:
                reason = self._reason(makers[name], name, values)
                if reason is not None:
                    found.append(Unplanned(f"{makers[name].op} ({name})", reason))
                waiting += references(makers[name]).values()
            elif reason := self._unusable(name, values[name]):
                found.append(Unplanned(name, reason))
        return tuple(found)

    def _unusable(self, name: str, value: Value) -> str | None:
        if value.dtype not in DTYPES:
            return f"dtype {value.dtype}"
        if any(c.value.name == name and c.elements is None for c in self.graph.constants):
            return "a constant tensor too large to be written into the source; register it as a buffer"
        return None

    def _reason(self, node: Node, name: str, values: dict[str, Value]) -> str | None:
        given = references(node)
        for used in (name, *given.values()):
            if values[used].dtype not in DTYPES:
                return f"dtype {values[used].dtype}"
        source = given.get("self", given.get("input"))
        if source is not None and view_of(node, values[source].shape, name) is not None:
            return None
        if len(node.results) > 1 and base(node) != "log_sigmoid_forward":
            return "several results"
        if base(node) not in ALL:
            return "no kernel kind computes it"
        builder = Builder(set())
        tensors = {
            argument: Typed(
                builder.declare(argument, compute_dtype(values[reference].dtype)),
                dtype=values[reference].dtype,
                rank=len(values[reference].shape),
            )
            for argument, reference in given.items()
        }
        try:
            ALL[base(node)](Scope(builder, node, tensors, values[name].dtype))
        except (CannotLowerError, OverflowError, ValueError) as error:
            return str(error)
        return None
