"""Writes one pointwise kernel: loads what is held, computes the rest, and says where a kernel must be cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from attrs import field, frozen

from kforge.plan.activations import ACTIVATIONS
from kforge.plan.graph import Node, Value
from kforge.plan.nodes import ALL, base, references
from kforge.plan.plan import Load, Operand, Pointwise, Step, Store
from kforge.plan.scalar import FLOAT_FUNCTIONS, Builder, Typed, compute_dtype
from kforge.plan.scope import Scope
from kforge.plan.views import Layout, View, apply, view_of

_DEPTH = 150
"""Operations in one chain before a kernel is cut."""
_STEPS = 1500
"""Steps of one kernel before it is cut."""
_BROADCAST = 8
"""How many times a costly value must be used before it is computed by a kernel of its own ..."""
_WORTH_A_KERNEL = 65536
"""... in a kernel of at least so many elements."""

_DEAR = (set(FLOAT_FUNCTIONS) | set(ACTIVATIONS) | {"pow", "div"}) - {"relu", "relu6", "hardtanh", "leaky_relu"}

Views = tuple[tuple[View, str | None], ...]
"""Renamings from the inside out, each with the name of the value that it was applied to in the graph."""


class Cut(Exception):  # noqa: N818 - it is no error: it says that a value needs a kernel of its own
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@frozen
class Target:
    """A value that a kernel writes, and the order of dimensions in which it lies in memory."""

    name: str
    value: Value
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in that order."""
        return tuple(self.value.shape[axis] for axis in self.order)


class Holder(Protocol):
    """What a writer asks of the planner."""

    producers: dict[str, Node]

    def readable(self, name: str) -> Value | None:
        """Give the tensor that holds a value; None where it must be computed."""
        ...

    def literal(self, name: str) -> bool | int | float | None:
        """Give the number behind a constant of one element."""
        ...

    def value(self, name: str) -> Value:
        """Give a value's shape, stride and dtype."""
        ...


@frozen
class Writer:
    """Writes one kernel."""

    planner: Holder
    shape: tuple[int, ...]
    builder: Builder = field(factory=lambda: Builder(set()))
    loads: dict[tuple[str, Layout], str] = field(factory=dict)
    memory: dict[str, str] = field(factory=dict)
    """The dtype of each tensor that is loaded from."""
    known: dict[tuple[str, Views], Typed] = field(factory=dict)
    operations: list[str] = field(factory=list)

    def write(self, targets: list[Target], name: Callable[[list[str]], str]) -> Pointwise:
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
            raise Cut(name)
        size = math.prod(self.shape)
        few = math.prod(value.shape) * _BROADCAST <= size and size >= _WORTH_A_KERNEL
        if few and value.shape and base(self.planner.producers[name]) in _DEAR:
            raise Cut(name)

    def _load(self, name: str, held: Value, views: Views) -> Operand:
        literal = self.planner.literal(name)
        if literal is not None:
            return self.builder.cast(literal, compute_dtype(held.dtype))
        layout = Layout(held.shape, held.stride)
        for view, source in views:
            applied = apply(view, layout)
            if applied is None:
                assert source is not None
                raise Cut(source)
            layout = applied
        self.memory[held.name] = held.dtype
        place = (held.name, layout)
        if place not in self.loads:
            self.loads[place] = self.builder.declare(name, compute_dtype(held.dtype))
        return self.loads[place]

    def _compute(self, name: str, views: Views, depth: int) -> Operand:
        node = self.planner.producers[name]
        value = self.planner.value(name)
        given = references(node)
        source = given.get("self", given.get("input"))
        if source is not None:
            view = view_of(node, self.planner.value(source).shape, name)
            if view is not None:
                return self._typed(source, ((view, source), *views), depth + 1).operand
        tensors = {}
        for argument, reference in given.items():
            inner = self.planner.value(reference).shape
            spread = _spread(node, argument, inner, value.shape, reference)
            tensors[argument] = self._typed(reference, (*spread, *views), depth + 1)
        self.builder.hint = name
        if base(node) not in ("_to_copy", "clone", "lift_fresh_copy"):
            self.operations.append(base(node))
        return ALL[base(node)](Scope(self.builder, node, tensors, value.dtype))


def _spread(node: Node, argument: str, inner: tuple[int, ...], shape: tuple[int, ...], source: str) -> Views:
    """Give the renamings that broadcast an operand to the shape of the result."""
    if inner == shape:
        return ()
    spread = (View("expand", shape), source)
    if base(node) == "prelu" and argument == "weight" and len(shape) > 1:
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
