"""Prints a kernel's scalar steps as C. What differs between C-like languages comes in a `Dialect`."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import field, frozen

from kforge.plan.plan import Operand, Pointwise, Step
from kforge.plan.scalar import ARITHMETIC, BITWISE, COMPARISONS, FLOATS, INTEGERS, compute_dtype

_UNSIGNED = {"uint8": "uint8", "int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
_BITS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}


@frozen
class Dialect:
    """How one language writes types and functions."""

    types: Mapping[str, str]
    """The C type for each type to compute in, and for ``uint16``, ``uint32`` and ``uint64``."""
    functions: Mapping[str, str | Mapping[str, str]] = field(kw_only=True)
    """For each function of `kforge.plan.scalar`: a template such as ``fmod({0}, {1})``, or one for each dtype."""
    reserved: frozenset[str] = field(default=frozenset(), kw_only=True)
    """Words that no variable may be named."""

    def knows(self, op: str, dtype: str) -> bool:
        """Say whether the language has this function for this type."""
        template = self.functions.get(op)
        return template is not None and (isinstance(template, str) or dtype in template)

    def call(self, op: str, dtype: str, *arguments: str) -> str:
        """Write a call; raises KeyError where the language has no such function."""
        template = self.functions[op]
        return (template if isinstance(template, str) else template[dtype]).format(*arguments)


_WORDS = """
    asm auto bool break case catch char class const constexpr continue default delete do double else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new not nullptr
    operator or private protected public register restrict return short signed sizeof static struct switch
    template this throw true try typedef typename union unsigned using virtual void volatile wchar_t while xor
    and half isnan isinf main
"""
C_WORDS = frozenset(_WORDS.split())
"""Words that mean something in C, C++ or their headers."""


def constant(value: bool | int | float, dtype: str, dialect: Dialect) -> str:
    """Write a number of a type exactly."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in INTEGERS:
        return _integer(int(value), dtype)
    number = float(value)
    if math.isnan(number):
        text = dialect.call("nan", dtype)
    elif math.isinf(number) or (dtype == "float32" and abs(number) > 3.4028235677973366e38):
        text = ("-" if number < 0 else "") + dialect.call("infinity", dtype)
    else:
        suffix = "f" if dtype == "float32" else ""
        text = repr(_single(number)) if dtype == "float32" else repr(number)
        text += suffix if any(mark in text for mark in ".e") else f".0{suffix}"
    return f"({text})" if text.startswith("-") else text


def _single(number: float) -> float:
    """Round to the nearest float32, so that the digits printed are those of the number that is used."""
    import struct

    exact: float = struct.unpack("<f", struct.pack("<f", number))[0]
    for digits in range(1, 10):
        short = float(f"{exact:.{digits}g}")
        if abs(short) <= 3.4028234663852886e38 and struct.unpack("<f", struct.pack("<f", short))[0] == exact:
            return short
    return exact


def _integer(value: int, dtype: str) -> str:
    bits = _BITS[dtype]
    value &= (1 << bits) - 1
    if dtype != "uint8" and value >> (bits - 1):
        value -= 1 << bits
    suffix = "LL" if dtype == "int64" else ""
    if value == -(1 << (bits - 1)):
        return f"(-{-value - 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def _built_in(op: str, dtype: str) -> bool:
    """Say whether C's own operators write this."""
    if op in {*ARITHMETIC, *BITWISE, *COMPARISONS, "not", "select", "cast", "neg", "div"}:
        return True
    return dtype in INTEGERS and op in ("abs", "max", "min", "mod", "shl", "shr")


@frozen
class Printer:
    """Prints the steps of one kernel."""

    kernel: Pointwise
    dialect: Dialect
    _names: dict[str, str] = field(init=False, factory=dict)
    _dtypes: dict[str, str] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._dtypes.update({load.name: compute_dtype(load.dtype) for load in self.kernel.loads})
        self._dtypes.update({step.name: step.dtype for step in self.kernel.steps})
        taken = {*C_WORDS, *self.dialect.reserved}
        for name in self._dtypes:
            found = "".join(letter if letter.isalnum() else "_" for letter in name)
            while found in taken:
                found += "_"
            taken.add(found)
            self._names[name] = found

    def name(self, scalar: str) -> str:
        """Give the C name of a scalar."""
        return self._names[scalar]

    def dtype(self, operand: Operand) -> str | None:
        """Give the type of a scalar; None for a constant."""
        return self._dtypes[operand] if isinstance(operand, str) else None

    def missing(self) -> tuple[str, ...]:
        """Name what the language cannot write."""
        found = []
        for step in self.kernel.steps:
            dtype = self._operand_dtype(step)
            if not _built_in(step.op, dtype) and not self.dialect.knows(step.op, dtype):
                found.append(f"{step.op} of {dtype}")
            if step.dtype not in self.dialect.types:
                found.append(f"type {step.dtype}")
        return tuple(dict.fromkeys(found))

    def statements(self) -> tuple[str, ...]:
        """Write each step as the definition of a constant."""
        return tuple(
            f"const {self.dialect.types[step.dtype]} {self.name(step.name)} = {self.expression(step)};"
            for step in self.kernel.steps
        )

    def operand(self, operand: Operand, dtype: str) -> str:
        """Write an operand; ``dtype`` is the type of a constant."""
        return self.name(operand) if isinstance(operand, str) else constant(operand, dtype, self.dialect)

    def expression(self, step: Step) -> str:
        """Write one step's right-hand side."""
        op, dtype = step.op, self._operand_dtype(step)
        if op == "select":
            condition = self.operand(step.operands[0], "bool")
            one, other = (self.operand(operand, step.dtype) for operand in step.operands[1:])
            return f"{condition} ? {one} : {other}"
        given = [self.operand(operand, dtype) for operand in step.operands]
        if op == "cast":
            return self._cast(given[0], dtype, step.dtype)
        if op in COMPARISONS:
            return f"{given[0]} {COMPARISONS[op]} {given[1]}"
        if op == "not":
            return f"!{given[0]}" if dtype == "bool" else self._narrow(f"~{given[0]}", dtype)
        if op in BITWISE:
            return self._narrow(f"{given[0]} {BITWISE[op]} {given[1]}", dtype)
        if dtype in FLOATS:
            if op in ARITHMETIC or op == "div":
                return f"{given[0]} {ARITHMETIC.get(op, '/')} {given[1]}"
            return f"-{given[0]}" if op == "neg" else self.dialect.call(op, dtype, *given)
        return self._of_integers(op, dtype, given)

    def _operand_dtype(self, step: Step) -> str:
        operands = step.operands[1:] if step.op == "select" else step.operands
        for operand in operands:
            if isinstance(operand, str):
                return self._dtypes[operand]
        if step.op in COMPARISONS or step.op == "cast":
            kinds = {type(operand) for operand in operands}
            return "float64" if float in kinds else ("int64" if int in kinds else "bool")
        return step.dtype

    def _narrow(self, text: str, dtype: str) -> str:
        """C computes short integers as int; bring the result back."""
        return f"{self.dialect.types[dtype]}({text})" if dtype in ("uint8", "int8", "int16") else text

    def _of_integers(self, op: str, dtype: str, given: list[str]) -> str:
        own, unsigned = self.dialect.types[dtype], self.dialect.types[_UNSIGNED.get(dtype, "uint32")]
        if op in ("max", "min"):
            return f"{given[0]} {'>' if op == 'max' else '<'} {given[1]} ? {given[0]} : {given[1]}"
        if op in ARITHMETIC:
            # Unsigned numbers wrap around; signed ones must not overflow in C.
            return f"{own}({unsigned}({given[0]}) {ARITHMETIC[op]} {unsigned}({given[1]}))"
        if op == "neg":
            return f"{own}({unsigned}(0) - {unsigned}({given[0]}))"
        if op == "abs":
            return f"{given[0]} < 0 ? {own}({unsigned}(0) - {unsigned}({given[0]})) : {given[0]}"
        if op in ("shl", "shr"):
            return self._shift(op, dtype, given)
        if op in ("div", "mod"):
            return self._quotient(op, dtype, given)
        raise KeyError(f"{op} of {dtype}")

    def _shift(self, op: str, dtype: str, given: list[str]) -> str:
        own, unsigned = self.dialect.types[dtype], self.dialect.types[_UNSIGNED[dtype]]
        value, count = given
        inside = f"{count} >= 0 && {count} < {_BITS[dtype]}"
        if op == "shl":
            return f"{inside} ? {own}({unsigned}({value}) << {count}) : {own}(0)"
        beyond = f"{own}(0)" if dtype == "uint8" else f"{own}({value} >> {_BITS[dtype] - 1})"
        return f"{inside} ? {own}({value} >> {count}) : {beyond}"

    def _quotient(self, op: str, dtype: str, given: list[str]) -> str:
        own, unsigned = self.dialect.types[dtype], self.dialect.types[_UNSIGNED[dtype]]
        value, divisor = given
        plain = f"{own}({value} {'/' if op == 'div' else '%'} {divisor})"
        if dtype == "uint8":
            return f"{divisor} == 0 ? {own}(0) : {plain}"
        # A quotient of the smallest number and -1 does not fit, and the processor would stop the program.
        minus = f"{own}({unsigned}(0) - {unsigned}({value}))" if op == "div" else f"{own}(0)"
        return f"{divisor} == 0 ? {own}(0) : {divisor} == -1 ? {minus} : {plain}"

    def _cast(self, text: str, source: str, dtype: str) -> str:
        if dtype == "bool":
            return f"{text} != 0" if source != "bool" else text
        # Through int64, a negative float becomes a short integer the way torch converts it.
        if source in FLOATS and dtype in ("uint8", "int8", "int16"):
            return f"{self.dialect.types[dtype]}({self.dialect.types['int64']}({text}))"
        return f"{self.dialect.types[dtype]}({text})"
