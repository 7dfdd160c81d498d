"""The plan: a language-neutral list of kernels that together compute what a graph computes."""

from __future__ import annotations

import enum
import math

from attrs import field, frozen

from kforge.plan.graph import Graph, Value


class Role(enum.Enum):
    """What a tensor is to the plan."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    TEMPORARY = "temporary"
    OUTPUT = "output"


@frozen
class Load:
    """Reads the element ``offset + sum(index * stride)`` of a tensor into the scalar ``name``."""

    name: str
    tensor: str = field(kw_only=True)
    dtype: str = field(kw_only=True)
    strides: tuple[int, ...] = field(kw_only=True)
    """Elements, one for each dimension of the kernel; 0 where the tensor is broadcast."""
    offset: int = field(default=0, kw_only=True)


Operand = str | bool | int | float
"""A scalar's name, or a constant."""


@frozen
class Step:
    """Computes the scalar ``name`` of type ``dtype`` by an operation of `kforge.plan.scalar`."""

    name: str
    op: str = field(kw_only=True)
    operands: tuple[Operand, ...] = field(kw_only=True)
    dtype: str = field(kw_only=True)


@frozen
class Store:
    """Writes a scalar, converted to ``dtype``, into a contiguous tensor of the kernel's shape."""

    tensor: str
    value: Operand = field(kw_only=True)
    dtype: str = field(kw_only=True)


@frozen
class Pointwise:
    """One kernel that computes each element of its outputs by itself.

    ``shape`` is the space of indices (merged where no tensor tells two dimensions apart); each ``Store`` is contiguous.
    """

    name: str
    shape: tuple[int, ...] = field(kw_only=True)
    loads: tuple[Load, ...] = field(kw_only=True)
    steps: tuple[Step, ...] = field(kw_only=True)
    stores: tuple[Store, ...] = field(kw_only=True)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@frozen
class Tensor:
    """A tensor that the plan reads or writes: where it comes from, and what it is."""

    value: Value
    role: Role = field(kw_only=True)


@frozen
class Plan:
    """Kernels in the order in which they run, and the tensors they touch."""

    graph: Graph
    kernels: tuple[Pointwise, ...] = field(kw_only=True)
    tensors: tuple[Tensor, ...] = field(kw_only=True)

    def tensor(self, name: str) -> Tensor:
        """Give the tensor of that name; raises KeyError where there is none."""
        return {tensor.value.name: tensor for tensor in self.tensors}[name]


@frozen
class Unplanned:
    """One operation that no kernel can be planned for."""

    operation: str
    reason: str


@frozen
class Unplannable:
    """The graph cannot be planned; each operation that stands in the way is named."""

    operations: tuple[Unplanned, ...]

    def __str__(self) -> str:
        return "; ".join(f"{item.operation}: {item.reason}" for item in self.operations)
