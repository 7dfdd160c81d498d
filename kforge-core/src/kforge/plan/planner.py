"""From a graph to a plan: pointwise operations are fused greedily; outputs of one shape share a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import evolve, field, frozen

from kforge.plan.activations import ACTIVATIONS
from kforge.plan.graph import Graph, Node, Ref, Value
from kforge.plan.lowering import LOWERINGS
from kforge.plan.plan import Load, Operand, Plan, Pointwise, Role, Step, Store, Tensor, Unplannable, Unplanned
from kforge.plan.scalar import DTYPES, FLOAT_FUNCTIONS, Builder, Typed, compute_dtype
from kforge.plan.scope import CannotLowerError, Scope
from kforge.plan.views import Layout, View, apply, contiguous, is_contiguous, view_of

_DEPTH = 150
"""Operations in one chain before a kernel is cut."""
_STEPS = 1500
"""Steps of one kernel before it is cut."""
_BROADCAST = 8
"""How many times a costly value must be used before it is computed by a kernel of its own ..."""
_WORTH_A_KERNEL = 65536
"""... in a kernel of at least so many elements."""

_ALL = LOWERINGS | ACTIVATIONS
_DEAR = (set(FLOAT_FUNCTIONS) | set(ACTIVATIONS) | {"pow", "div"}) - {"relu", "relu6", "hardtanh", "leaky_relu"}

Views = tuple[tuple[View, str | None], ...]
"""Renamings from the inside out, each with the name of the value that it was applied to in the graph."""


class _Cut(Exception):  # noqa: N818 - it is no error: it says that a value needs a kernel of its own
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@frozen
class _Target:
    """A value that a kernel writes, and the order of dimensions in which it lies in memory."""

    name: str
    value: Value
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in that order."""
        return tuple(self.value.shape[axis] for axis in self.order)


def make_plan(graph: Graph) -> Plan | Unplannable:
    """Plan kernels for a graph, or name the operations that stand in the way."""
    problems = _Check(graph).problems()
    if problems:
        return Unplannable(problems)
    return _Planner(graph).plan()


def wanted(graph: Graph) -> tuple[str, ...]:
    """Give the names of the values that must be computed: outputs that are no inputs, and new contents of buffers."""
    computed = {value.name for node in graph.nodes for value in node.results if value is not None}
    names = [*graph.outputs.names(), *(mutation.value for mutation in graph.mutations)]
    return tuple(dict.fromkeys(name for name in names if name in computed))


def _producers(graph: Graph) -> dict[str, Node]:
    return {value.name: node for node in graph.nodes for value in node.results if value is not None}


def _references(node: Node) -> dict[str, str]:
    return {name: argument.name for name, argument in node.arguments if isinstance(argument, Ref)}


def _base(node: Node) -> str:
    return node.op.partition(".")[0]


@frozen
class _Check:
    """Finds all that cannot be planned, before anything is."""

    graph: Graph

    def problems(self) -> tuple[Unplanned, ...]:
        producers, values = _producers(self.graph), self.graph.values()
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
            if name in producers:
                reason = self._reason(producers[name], name, values)
                if reason is not None:
                    found.append(Unplanned(f"{producers[name].op} ({name})", reason))
                waiting += _references(producers[name]).values()
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
        references = _references(node)
        for used in (name, *references.values()):
            if values[used].dtype not in DTYPES:
                return f"dtype {values[used].dtype}"
        source = references.get("self", references.get("input"))
        if source is not None and view_of(node, values[source].shape, name) is not None:
            return None
        if len(node.results) > 1 and _base(node) != "log_sigmoid_forward":
            return "several results"
        if _base(node) not in _ALL:
            return "no kernel kind computes it"
        builder = Builder(set())
        tensors = {
            argument: Typed(
                builder.declare(argument, compute_dtype(values[reference].dtype)),
                dtype=values[reference].dtype,
                rank=len(values[reference].shape),
            )
            for argument, reference in references.items()
        }
        try:
            _ALL[_base(node)](Scope(builder, node, tensors, values[name].dtype))
        except (CannotLowerError, OverflowError, ValueError) as error:
            return str(error)
        return None


class _Planner:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._values = graph.values()
        self.producers = _producers(graph)
        self._kernels: list[Pointwise] = []
        self._made: dict[str, Tensor] = {}
        """Outputs and temporaries by the name of the value that they hold."""
        self._temporary: dict[str, Value] = {}
        """What kernels may read, by the name of the value in the graph."""

    def plan(self) -> Plan:
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[_Target]] = {}
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

    def _add(self, targets: list[_Target]) -> None:
        while True:
            try:
                kernel = _Writer(self, targets[0].shape).write(targets, self._kernel_name)
            except _Cut as cut:
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
        self._add([_Target(name, plain, tuple(range(len(value.shape))))])
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


def _target(value: Value) -> _Target:
    """Keep the memory order that the reference's output has where it is dense; else rows."""
    rank = len(value.shape)
    order = tuple(sorted(range(rank), key=lambda axis: (-value.stride[axis], axis)))
    shape = tuple(value.shape[axis] for axis in order)
    if is_contiguous(value.shape, value.stride) or not is_contiguous(
        shape, tuple(value.stride[axis] for axis in order)
    ):
        return _Target(value.name, evolve(value, stride=contiguous(value.shape)), tuple(range(rank)))
    return _Target(value.name, value, order)


@frozen
class _Writer:
    """Writes one kernel."""

    planner: _Planner
    shape: tuple[int, ...]
    builder: Builder = field(factory=lambda: Builder(set()))
    loads: dict[tuple[str, Layout], str] = field(factory=dict)
    memory: dict[str, str] = field(factory=dict)
    """The dtype of each tensor that is loaded from."""
    known: dict[tuple[str, Views], Typed] = field(factory=dict)
    operations: list[str] = field(factory=list)

    def write(self, targets: list[_Target], name: Callable[[list[str]], str]) -> Pointwise:
        stores = []
        for target in targets:
            order: Views = () if target.order == tuple(range(len(target.order))) else ((_permute(target.order), None),)
            value = self._typed(target.name, order, depth=0, root=True)
            stores.append(Store(target.value.name, value=value.operand, dtype=target.value.dtype))
        steps, loads = _live(self.builder.steps, stores, self.loads)
        shape, strides = _merged(self.shape, [layout for (_, layout) in loads])
        return Pointwise(
            name(self.operations),
            shape=shape,
            loads=tuple(
                Load(
                    scalar,
                    tensor=tensor,
                    dtype=self.memory[tensor],
                    strides=stride,
                    offset=layout.offset,
                )
                for ((tensor, layout), scalar), stride in zip(loads.items(), strides, strict=True)
            ),
            steps=steps,
            stores=tuple(stores),
        )

    def _typed(self, name: str, views: Views, depth: int, *, root: bool = False) -> Typed:
        key = (name, views)
        if key not in self.known:
            value = self.planner.value(name)
            held = self.planner.readable(name)
            if held is not None:
                operand = self._load(name, held, views)
            else:
                if not root:
                    self._consider_cut(name, value, depth)
                operand = self._compute(name, views, depth)
            self.known[key] = Typed(operand, dtype=value.dtype, rank=len(value.shape))
        return self.known[key]

    def _consider_cut(self, name: str, value: Value, depth: int) -> None:
        if depth > _DEPTH or len(self.builder.steps) > _STEPS:
            raise _Cut(name)
        size = math.prod(self.shape)
        few = math.prod(value.shape) * _BROADCAST <= size and size >= _WORTH_A_KERNEL
        if few and value.shape and _base(self.planner.producers[name]) in _DEAR:
            raise _Cut(name)

    def _load(self, name: str, held: Value, views: Views) -> Operand:
        literal = self.planner.literal(name)
        if literal is not None:
            return self.builder.cast(literal, compute_dtype(held.dtype))
        layout = Layout(held.shape, held.stride)
        for view, source in views:
            applied = apply(view, layout)
            if applied is None:
                assert source is not None
                raise _Cut(source)
            layout = applied
        self.memory[held.name] = held.dtype
        place = (held.name, layout)
        if place not in self.loads:
            self.loads[place] = self.builder.declare(name, compute_dtype(held.dtype))
        return self.loads[place]

    def _compute(self, name: str, views: Views, depth: int) -> Operand:
        node = self.planner.producers[name]
        value = self.planner.value(name)
        references = _references(node)
        source = references.get("self", references.get("input"))
        if source is not None:
            view = view_of(node, self.planner.value(source).shape, name)
            if view is not None:
                return self._typed(source, ((view, source), *views), depth + 1).operand
        tensors = {}
        for argument, reference in references.items():
            inner = self.planner.value(reference).shape
            spread = _spread(node, argument, inner, value.shape, reference)
            tensors[argument] = self._typed(reference, (*spread, *views), depth + 1)
        self.builder.hint = name
        if _base(node) not in ("_to_copy", "clone", "lift_fresh_copy"):
            self.operations.append(_base(node))
        return _ALL[_base(node)](Scope(self.builder, node, tensors, value.dtype))


def _spread(node: Node, argument: str, inner: tuple[int, ...], shape: tuple[int, ...], source: str) -> Views:
    """Give the renamings that broadcast an operand to the shape of the result."""
    if inner == shape:
        return ()
    spread = (View("expand", shape), source)
    if _base(node) == "prelu" and argument == "weight" and len(shape) > 1:
        # Unlike any other operand, this one lies along the second dimension.
        return (View("reshape", (*inner, *(1 for _ in shape[2:]))), source), spread
    return (spread,)


def _permute(order: tuple[int, ...]) -> View:
    return View("permute", order)


def _live(
    steps: list[Step], stores: list[Store], loads: dict[tuple[str, Layout], str]
) -> tuple[tuple[Step, ...], dict[tuple[str, Layout], str]]:
    """Drop what no store needs."""
    needed = {store.value for store in stores if isinstance(store.value, str)}
    kept = []
    for step in reversed(steps):
        if step.name in needed:
            kept.append(step)
            needed |= {operand for operand in step.operands if isinstance(operand, str)}
    return tuple(reversed(kept)), {place: name for place, name in loads.items() if name in needed}


def _merged(shape: tuple[int, ...], layouts: list[Layout]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Merge neighbouring dimensions that every load walks through with one stride."""
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in layouts]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = [layout.strides[axis] for layout in layouts]
        if sizes and all(held[-1] == step * size for held, step in zip(strides, steps, strict=True)):
            sizes[-1] *= size
            for held, step in zip(strides, steps, strict=True):
                held[-1] = step
        else:
            sizes.append(size)
            for held, step in zip(strides, steps, strict=True):
                held.append(step)
    return tuple(sizes), [tuple(held) for held in strides]
