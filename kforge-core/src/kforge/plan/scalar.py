"""The scalar operations that kernels are made of, and the types they compute in."""

from __future__ import annotations

from attrs import field, frozen

from kforge.plan.plan import Operand, Step

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
"""Two operands of ``dtype``'s operands' type; the result is a bool."""
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
"""Two operands of the result's type; integers wrap around."""
BITWISE = {"and": "&", "or": "|", "xor": "^"}
"""Two operands of the result's type, bool or integer."""
FLOAT_FUNCTIONS = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "rint",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)

"""One operand, result of the same floating type. ``rint`` rounds halves to even."""
FLOAT_FUNCTIONS_OF_TWO = ("atan2", "copysign", "fmax", "fmin", "fmod", "hypot", "pow")
"""Two operands, result of the same floating type; ``fmax`` and ``fmin`` prefer a number to NaN."""
OTHERS = (
    "abs",  # of any number
    "neg",  # of any number
    "div",  # of floats; of integers rounded towards zero, 0 where the divisor is 0
    "mod",  # of integers: the remainder of that division
    "max",  # of any two numbers; NaN where one is NaN
    "min",
    "not",  # bool: logical; integer: bitwise
    "isnan",  # of a float; bool
    "isinf",
    "select",  # bool, then, else
    "cast",  # from the operand's type to ``dtype``
    "shl",  # of integers, by a count
    "shr",
    "round_float16",  # of a float32: to the nearest half, as a float32
    "round_bfloat16",
)


def compute_dtype(dtype: str) -> str:
    """Give the type that elements of ``dtype`` are computed in."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def promote(one: str, other: str) -> str:
    """Give the type that torch computes an operation of two tensors of these dtypes in."""
    if one == other:
        return one
    if one in FLOATS and other in FLOATS:
        return "float64" if "float64" in (one, other) else "float32"
    for first, second in ((one, other), (other, one)):
        if first in FLOATS or second == "bool":
            return first
    if "uint8" in (one, other):
        signed = other if one == "uint8" else one
        return "int16" if signed == "int8" else signed
    return one if INTEGERS.index(one) > INTEGERS.index(other) else other


def category(dtype: str) -> int:
    """Order kinds of numbers the way torch's promotion does: bool, integer, floating."""
    if dtype == "bool":
        return 0
    return 1 if dtype in INTEGERS else 2


@frozen
class Typed:
    """An operand and its type. ``weak``: a Python number, whose type yields to any tensor's of its kind."""

    operand: Operand
    dtype: str = field(kw_only=True)
    """The type in memory; the scalar itself has `compute_dtype` of it."""
    rank: int = field(default=1, kw_only=True)
    """Dimensions of the tensor; 0 for a Python number too."""
    weak: bool = field(default=False, kw_only=True)


def common_dtype(operands: tuple[Typed, ...]) -> str:
    """Give the dtype that torch promotes operands to: dimensioned tensors first, then 0-d tensors, then numbers."""
    result: str | None = None
    for group in (
        [item.dtype for item in operands if not item.weak and item.rank > 0],
        [item.dtype for item in operands if not item.weak and item.rank == 0],
        [_number_dtype(item) for item in operands if item.weak],
    ):
        found: str | None = None
        for dtype in group:
            found = dtype if found is None else promote(found, dtype)
        if found is not None and (result is None or category(found) > category(result)):
            result = found if result is None or category(found) > category(result) else result
    assert result is not None
    return result


def _number_dtype(item: Typed) -> str:
    return {bool: "bool", int: "int64"}.get(type(item.operand), "float32")


class Builder:
    """Collects steps; the same operation on the same operands is written once."""

    def __init__(self, taken: set[str]) -> None:
        self.steps: list[Step] = []
        self._known: dict[tuple[str, tuple[tuple[type, str], ...], str], str] = {}
        self._dtypes: dict[str, str] = {}
        self._taken = taken
        self.hint = "t"
        """What the next scalars are named after."""

    def declare(self, name: str, dtype: str) -> str:
        """Note a scalar that a load defines; gives its name, made unique."""
        name = self._unique(name)
        self._dtypes[name] = dtype
        return name

    def emit(self, op: str, dtype: str, *operands: Operand) -> Operand:
        """Add a step; ``dtype`` is the result's type."""
        key = (op, tuple((type(operand), repr(operand)) for operand in operands), dtype)
        if key not in self._known:
            name = self._unique(self.hint)
            self._dtypes[name] = dtype
            self.steps.append(Step(name, op=op, operands=operands, dtype=dtype))
            self._known[key] = name
        return self._known[key]

    def cast(self, operand: Operand, dtype: str) -> Operand:
        """Convert to another type to compute in; a constant is converted here."""
        if isinstance(operand, str):
            return operand if self._dtypes[operand] == dtype else self.emit("cast", dtype, operand)
        if dtype == "bool":
            return bool(operand)
        if dtype in FLOATS:
            return float(operand)
        return int(operand)

    def dtype(self, operand: str) -> str:
        """Give the type of a scalar."""
        return self._dtypes[operand]

    def defined(self, name: str) -> Step | None:
        """Give the step that computes a scalar; None for a load."""
        return next((step for step in self.steps if step.name == name), None)

    def _unique(self, name: str) -> str:
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found
