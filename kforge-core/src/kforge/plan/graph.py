"""The plain graph that the judge answers when it is asked what a reference computes. No torch object crosses."""

from __future__ import annotations

import enum

from attrs import field, frozen


@frozen
class Ref:
    """Names another value of the graph."""

    name: str


@frozen
class Items:
    """A list or tuple among a node's arguments."""

    items: tuple[Argument, ...]


Argument = Ref | Items | bool | int | float | str | None
"""One argument of a node. A dtype, device, layout or memory format is torch's word without ``torch.``."""


@frozen
class Value:
    """Shape (sizes), stride (elements) and dtype (torch's word without ``torch.``) of one tensor."""

    name: str
    shape: tuple[int, ...] = field(kw_only=True)
    stride: tuple[int, ...] = field(kw_only=True)
    dtype: str = field(kw_only=True)


@frozen
class Node:
    """One operation: ``op`` is the overload's name without its namespace, such as ``add.Tensor``.

    ``arguments`` holds every argument of the operation's schema by name, defaults included. A result that is no tensor,
    or that the operation leaves away, is None in ``results``.
    """

    op: str
    arguments: tuple[tuple[str, Argument], ...] = field(kw_only=True)
    results: tuple[Value | None, ...] = field(kw_only=True)

    def argument(self, name: str) -> Argument:
        """Give the argument of that name; raises KeyError where the schema has none."""
        return dict(self.arguments)[name]


@frozen
class State:
    """A parameter or buffer: the value it has in the graph, and its name in ``state_dict``."""

    value: Value
    path: str = field(kw_only=True)
    persistent: bool = field(default=True, kw_only=True)
    """Whether ``state_dict`` holds it."""


@frozen
class Constant:
    """A tensor that the module closes over; ``elements`` (row by row) is None when there are too many."""

    value: Value
    elements: tuple[Argument, ...] | None = field(default=None, kw_only=True)


class StructureKind(enum.Enum):
    """How a nest of outputs is built at one place."""

    VALUE = "value"
    CONSTANT = "constant"
    TUPLE = "tuple"
    LIST = "list"
    DICT = "dict"


@frozen
class Structure:
    """One place in the nest that the reference returns."""

    kind: StructureKind
    name: str | None = field(default=None, kw_only=True)
    """The value's name, for `VALUE`."""
    constant: Argument = field(default=None, kw_only=True)
    """For `CONSTANT`; also ``None`` itself."""
    keys: tuple[str, ...] = field(default=(), kw_only=True)
    """For `DICT`, one for each of ``items``."""
    items: tuple[Structure, ...] = field(default=(), kw_only=True)

    def names(self) -> tuple[str, ...]:
        """Give the names of all tensors in the nest, in their order."""
        own = () if self.name is None else (self.name,)
        return own + tuple(name for item in self.items for name in item.names())


@frozen
class Mutation:
    """Something that the reference changes: a buffer by its path, or an input by its name, becomes ``value``."""

    target: str
    value: str = field(kw_only=True)
    buffer: bool = field(kw_only=True)
    """Whether ``target`` is a buffer; else it is an input."""


@frozen
class Graph:
    """What a reference computes, as a list of operations in an order in which they can run."""

    nodes: tuple[Node, ...]
    arguments: tuple[Argument, ...] = field(kw_only=True)
    """The arguments of ``forward`` in their order; a number or text is fixed at its traced value."""
    inputs: tuple[Value, ...] = field(kw_only=True)
    """The tensors among ``arguments``."""
    parameters: tuple[State, ...] = field(default=(), kw_only=True)
    buffers: tuple[State, ...] = field(default=(), kw_only=True)
    constants: tuple[Constant, ...] = field(default=(), kw_only=True)
    outputs: Structure = field(kw_only=True)
    mutations: tuple[Mutation, ...] = field(default=(), kw_only=True)
    training: bool = field(default=False, kw_only=True)
    """Whether the module was traced in training mode."""

    def values(self) -> dict[str, Value]:
        """Give every tensor of the graph by its name."""
        found = {value.name: value for value in self.inputs}
        found.update({state.value.name: state.value for state in self.parameters + self.buffers})
        found.update({constant.value.name: constant.value for constant in self.constants})
        found.update({value.name: value for node in self.nodes for value in node.results if value is not None})
        return found


@frozen
class Untraceable:
    """There is no graph; ``reason`` says why, for a person."""

    reason: str
