"""One operation while it is written as scalar steps."""

from __future__ import annotations

from kforge.plan.graph import Argument, Node
from kforge.plan.plan import Operand
from kforge.plan.scalar import FLOATS, Builder, Typed, common_dtype, compute_dtype


class CannotLowerError(Exception):
    """This operation, with these arguments, has no scalar form; the text says why."""


class Scope:
    """One operation while it is written: its operands, where its result is typed, and how steps are added."""

    def __init__(self, builder: Builder, node: Node, tensors: dict[str, Typed], dtype: str) -> None:
        self.builder = builder
        self.node = node
        self.tensors = tensors
        self.memory_dtype = dtype
        """The result's dtype in memory."""
        self.dtype = compute_dtype(dtype)
        """The type that the result is computed in."""
        self._given = dict(node.arguments)

    def raw(self, name: str) -> Argument:
        """Give an argument as it stands in the graph; None where there is none."""
        return self._given.get(name)

    def typed(self, name: str) -> Typed:
        """Give an argument as an operand with its type."""
        if name in self.tensors:
            return self.tensors[name]
        value = self._given[name]
        if not isinstance(value, bool | int | float):
            raise CannotLowerError(f"{name} is {value!r}")
        kind = {bool: "bool", int: "int64"}.get(type(value), "float32")
        return Typed(value, dtype=kind, rank=0, weak=True)

    def arg(self, name: str, dtype: str | None = None) -> Operand:
        """Give an argument converted to the result's type, or to ``dtype``."""
        return self.builder.cast(self.typed(name).operand, dtype or self.dtype)

    def number(self, name: str, default: float) -> float:
        """Give an argument that is a number."""
        value = self._given.get(name)
        if value is None:
            return default
        if not isinstance(value, bool | int | float):
            raise CannotLowerError(f"{name} is {value!r}")
        return value

    def common(self, *names: str) -> str:
        """Give the type that torch compares or computes these arguments in."""
        return compute_dtype(common_dtype(tuple(self.typed(name) for name in names)))

    def emit(self, op: str, *operands: Operand, dtype: str | None = None) -> Operand:
        """Add a step of the result's type, or of ``dtype``."""
        return self.builder.emit(op, dtype or self.dtype, *operands)

    def constant(self, value: float) -> Operand:
        """Give a number in the result's type."""
        return self.builder.cast(value, self.dtype)

    def compare(self, op: str, one: Operand, other: Operand) -> Operand:
        """Compare two operands of one type."""
        return self.builder.emit(op, "bool", one, other)

    def select(self, condition: Operand, one: Operand, other: Operand) -> Operand:
        """Choose between two operands of the result's type."""
        return self.emit("select", condition, one, other)

    def max(self, one: Operand, other: Operand) -> Operand:
        """The larger one; NaN where one is NaN."""
        return self.emit("max", one, other)

    def min(self, one: Operand, other: Operand) -> Operand:
        """The smaller one; NaN where one is NaN."""
        return self.emit("min", one, other)

    def require_float(self) -> None:
        """Raise where the result is no floating type."""
        if self.memory_dtype not in FLOATS:
            raise CannotLowerError(f"its result is {self.memory_dtype}")
