"""From a graph to a plan: pointwise operations are fused greedily; outputs of one shape share a kernel."""

from __future__ import annotations

from attrs import evolve

from kforge.plan.check import Check
from kforge.plan.graph import Graph, Value
from kforge.plan.nodes import producers, wanted
from kforge.plan.plan import Plan, Pointwise, Role, Tensor, Unplannable
from kforge.plan.views import contiguous, is_contiguous
from kforge.plan.writer import Cut, Target, Writer


def make_plan(graph: Graph) -> Plan | Unplannable:
    """Plan kernels for a graph, or name the operations that stand in the way."""
    problems = Check(graph).problems()
    if problems:
        return Unplannable(problems)
    return _Planner(graph).plan()


class _Planner:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = graph.values()
        self.producers = producers(graph)
        self._kernels: list[Pointwise] = []
        self._made: dict[str, Tensor] = {}
        """Outputs and temporaries by the name of the value that they hold."""
        self._temporary: dict[str, Value] = {}
        """What kernels may read, by the name of the value in the graph."""

    def plan(self) -> Plan:
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Target]] = {}
        for name in wanted(self._graph):
            target = _target(self._values[name])
            groups.setdefault((target.value.shape, target.order), []).append(target)
        outputs = set(self._graph.outputs.names())
        for targets in groups.values():
            self._add(targets)
            for target in targets:
                role = Role.OUTPUT if target.name in outputs else Role.TEMPORARY
                self._made[target.name] = Tensor(target.value, role=role)
        used = {load.tensor for kernel in self._kernels for load in kernel.loads}
        leaves = tuple(tensor for tensor in self._leaves() if tensor.value.name in used)
        return Plan(self._graph, kernels=tuple(self._kernels), tensors=leaves + tuple(self._made.values()))

    def _leaves(self) -> tuple[Tensor, ...]:
        graph = self._graph
        return (
            *(Tensor(value, role=Role.INPUT) for value in graph.inputs),
            *(Tensor(state.value, role=Role.PARAMETER) for state in graph.parameters),
            *(Tensor(state.value, role=Role.BUFFER) for state in graph.buffers),
            *(Tensor(constant.value, role=Role.CONSTANT) for constant in graph.constants),
        )

    def _add(self, targets: list[Target]) -> None:
        while True:
            try:
                kernel = Writer(self, targets[0].shape).write(targets, self._kernel_name)
            except Cut as cut:
                self._materialise(cut.name)
            else:
                self._kernels.append(kernel)
                return

    def _materialise(self, name: str) -> None:
        """Plan a kernel that writes a value, row by row, into a temporary tensor."""
        value = self._values[name]
        taken = {*self._values, *self._made}
        inner = next(f"{name}_{ending}" for ending in ("rows", *range(len(taken))) if f"{name}_{ending}" not in taken)
        plain = evolve(value, name=inner, stride=contiguous(value.shape))
        self._add([Target(name, plain, tuple(range(len(value.shape))))])
        self._made[inner] = Tensor(plain, role=Role.TEMPORARY)
        self._temporary[name] = plain

    def readable(self, name: str) -> Value | None:
        """Give the tensor that holds a value; None where it must be computed."""
        if name in self._temporary:
            return self._temporary[name]
        return None if name in self.producers else self._values[name]

    def literal(self, name: str) -> bool | int | float | None:
        """Give the number behind a constant of one element."""
        for constant in self._graph.constants:
            if constant.value.name == name and constant.elements is not None and len(constant.elements) == 1:
                element = constant.elements[0]
                assert isinstance(element, bool | int | float)
                return element
        return None

    def value(self, name: str) -> Value:
        return self._values[name]

    def _kernel_name(self, operations: list[str]) -> str:
        words = [word.strip("_") for word in dict.fromkeys(operations)][:4] or ["copy"]
        name = "_".join(words) + "_kernel"
        taken = {kernel.name for kernel in self._kernels}
        return name if name not in taken else f"{name}_{len(taken)}"


def _target(value: Value) -> Target:
    """Keep the memory order that the reference's output has where it is dense; else rows."""
    rank = len(value.shape)
    order = tuple(sorted(range(rank), key=lambda axis: (-value.stride[axis], axis)))
    shape = tuple(value.shape[axis] for axis in order)
    if is_contiguous(value.shape, value.stride) or not is_contiguous(
        shape, tuple(value.stride[axis] for axis in order)
    ):
        return Target(value.name, evolve(value, stride=contiguous(value.shape)), tuple(range(rank)))
    return Target(value.name, value, order)
