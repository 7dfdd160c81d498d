"""From one operation of the graph to scalar steps. Each function writes what torch computes for one element."""

from __future__ import annotations

from collections.abc import Callable

from kforge.plan.plan import Operand
from kforge.plan.scalar import BITWISE, COMPARISONS, FLOAT_FUNCTIONS, FLOATS, INTEGERS
from kforge.plan.scope import CannotLowerError, Scope

Lowering = Callable[[Scope], Operand]


def _function(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        scope.require_float()
        return scope.emit(op, scope.arg("self"))

    return lower


def _rounding(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        if scope.raw("decimals"):
            raise CannotLowerError("rounding to decimals")
        value = scope.arg("self")
        return scope.emit(op, value) if scope.dtype in FLOATS else value

    return lower


def _function_of_two(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        scope.require_float()
        return scope.emit(op, scope.arg("self"), scope.arg("other"))

    return lower


def _compare(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        dtype = scope.common("self", "other")
        return scope.compare(op, scope.arg("self", dtype), scope.arg("other", dtype))

    return lower


def _logical(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        return scope.emit(op, _truth(scope, "self"), _truth(scope, "other"), dtype="bool")

    return lower


def _bitwise(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        return scope.emit(op, scope.arg("self"), scope.arg("other"))

    return lower


def _truth(scope: Scope, name: str) -> Operand:
    return scope.arg(name, "bool")


def _add(scope: Scope, sign: str = "add", one: str = "self", other: str = "other") -> Operand:
    left, right = scope.arg(one), scope.arg(other)
    alpha = scope.number("alpha", 1)
    if alpha != 1:
        right = scope.emit("mul", right, scope.constant(alpha))
    if scope.dtype == "bool":
        return scope.emit("or" if sign == "add" else "xor", left, right)
    if sign == "add" and (shortcut := _one_plus_tanh(scope, left, right)) is not None:
        return shortcut
    return scope.emit(sign, left, right)


def _one_plus_tanh(scope: Scope, left: Operand, right: Operand) -> Operand | None:
    """Write ``1 + tanh(u)`` as ``2 / (1 + exp(-2 u))``: cheaper, and exact where the sum would cancel."""
    for inner, one in ((left, right), (right, left)):
        step = scope.builder.defined(inner) if isinstance(inner, str) else None
        if step is not None and step.op == "tanh" and not isinstance(one, str) and one == 1:
            power = scope.emit("exp", scope.emit("mul", step.operands[0], scope.constant(-2)))
            return scope.emit("div", scope.constant(2), scope.emit("add", power, scope.constant(1)))
    return None


def _mul(scope: Scope) -> Operand:
    left, right = scope.arg("self"), scope.arg("other")
    return scope.emit("and" if scope.dtype == "bool" else "mul", left, right)


def _div(scope: Scope) -> Operand:
    mode = scope.raw("rounding_mode")
    left, right = scope.arg("self"), scope.arg("other")
    if mode == "floor":
        return _floor_divided(scope, left, right)
    if mode == "trunc" and scope.dtype in FLOATS:
        return scope.emit("trunc", scope.emit("div", left, right))
    return scope.emit("div", left, right)


def _floor_divided(scope: Scope, left: Operand, right: Operand) -> Operand:
    if scope.dtype in INTEGERS:
        quotient = scope.emit("div", left, right)
        rest = scope.emit("mod", left, right)
        inexact = scope.compare("ne", rest, scope.constant(0))
        negative = scope.compare("lt", scope.emit("xor", left, right), scope.constant(0))
        return scope.emit("sub", quotient, scope.emit("cast", scope.emit("and", inexact, negative, dtype="bool")))
    # As torch does it: from the remainder, which is exact where the quotient is not.
    rest = scope.emit("fmod", left, right)
    quotient = scope.emit("div", scope.emit("sub", left, rest), right)
    zero, one = scope.constant(0), scope.constant(1)
    apart = scope.emit("xor", scope.compare("lt", right, zero), scope.compare("lt", rest, zero), dtype="bool")
    inexact = scope.emit("and", scope.compare("ne", rest, zero), apart, dtype="bool")
    quotient = scope.select(inexact, scope.emit("sub", quotient, one), quotient)
    floor = scope.emit("floor", quotient)
    high = scope.compare("gt", scope.emit("sub", quotient, floor), scope.constant(0.5))
    floor = scope.select(high, scope.emit("add", floor, one), floor)
    signed_zero = scope.emit("copysign", zero, scope.emit("div", left, right))
    floor = scope.select(scope.compare("ne", quotient, zero), floor, signed_zero)
    return scope.select(scope.compare("eq", right, zero), scope.emit("div", left, right), floor)


def _remainder(scope: Scope) -> Operand:
    left, right = scope.arg("self"), scope.arg("other")
    rest = scope.emit("fmod" if scope.dtype in FLOATS else "mod", left, right)
    zero = scope.constant(0)
    apart = scope.emit("xor", scope.compare("lt", rest, zero), scope.compare("lt", right, zero), dtype="bool")
    wrong = scope.emit("and", scope.compare("ne", rest, zero), apart, dtype="bool")
    return scope.select(wrong, scope.emit("add", rest, right), rest)


def _fmod(scope: Scope) -> Operand:
    return scope.emit("fmod" if scope.dtype in FLOATS else "mod", scope.arg("self"), scope.arg("other"))


def power(scope: Scope, base: Operand, exponent: Operand) -> Operand:
    """Write a power; small constant exponents become products and roots, as in torch."""
    if isinstance(exponent, bool | int | float):
        if exponent in (0, 1, 2, 3, 4):
            return _product(scope, base, int(exponent))
        if scope.dtype in FLOATS and abs(exponent) in (0.5, 1, 2):
            root = scope.emit("sqrt", base) if abs(exponent) == 0.5 else _product(scope, base, int(abs(exponent)))
            return root if exponent > 0 else scope.emit("div", scope.constant(1), root)
    if scope.dtype not in FLOATS:
        raise CannotLowerError("an integer power that is no constant between 0 and 4")
    return scope.emit("pow", base, exponent)


def _product(scope: Scope, base: Operand, count: int) -> Operand:
    if count == 0:
        return scope.constant(1)
    if count == 1:
        return base
    square = scope.emit("mul", base, base)
    return square if count == 2 else scope.emit("mul", square, base if count == 3 else square)


def _pow(scope: Scope) -> Operand:
    return power(scope, scope.arg("self"), scope.arg("exponent"))


def _extreme(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        op_here = {"max": "or", "min": "and"}[op] if scope.dtype == "bool" else op
        return scope.emit(op_here, scope.arg("self"), scope.arg("other"))

    return lower


def _plain_extreme(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        here = op if scope.dtype in FLOATS else op.removeprefix("f")
        return scope.emit(here, scope.arg("self"), scope.arg("other"))

    return lower


def _clamp(scope: Scope) -> Operand:
    value = scope.arg("self")
    if scope.raw("min") is not None:
        value = scope.max(value, scope.arg("min"))
    if scope.raw("max") is not None:
        value = scope.min(value, scope.arg("max"))
    return value


def _where(scope: Scope) -> Operand:
    return scope.select(_truth(scope, "condition"), scope.arg("self"), scope.arg("other"))


def _masked_fill(scope: Scope) -> Operand:
    return scope.select(_truth(scope, "mask"), scope.arg("value"), scope.arg("self"))


def _addcmul(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        first, second = scope.arg("tensor1"), scope.arg("tensor2")
        value = scope.number("value", 1)
        if value != 1:
            first = scope.emit("mul", first, scope.constant(value))
        return scope.emit("add", scope.arg("self"), scope.emit(op, first, second))

    return lower


def _lerp(scope: Scope) -> Operand:
    start, end, weight = scope.arg("self"), scope.arg("end"), scope.arg("weight")
    apart = scope.emit("sub", end, start)
    near = scope.emit("add", start, scope.emit("mul", weight, apart))
    rest = scope.emit("sub", scope.constant(1), weight)
    far = scope.emit("sub", end, scope.emit("mul", apart, rest))
    return scope.select(scope.compare("lt", scope.emit("abs", weight), scope.constant(0.5)), near, far)


def _sign(scope: Scope) -> Operand:
    value = scope.arg("self")
    if scope.dtype == "bool":
        return value
    zero, one = scope.constant(0), scope.constant(1)
    below = scope.select(scope.compare("lt", value, zero), scope.constant(-1), zero)
    if scope.dtype == "uint8":
        below = zero
    return scope.select(scope.compare("gt", value, zero), one, below)


def _abs(scope: Scope) -> Operand:
    value = scope.arg("self")
    return value if scope.memory_dtype in ("bool", "uint8") else scope.emit("abs", value)


def _is(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        item = scope.typed("self")
        if item.dtype not in FLOATS:
            return op == "isfinite"
        if op != "isfinite":
            return scope.emit(op, item.operand, dtype="bool")
        unbounded = scope.emit("isinf", item.operand, dtype="bool")
        return scope.emit(
            "not", scope.emit("or", unbounded, scope.emit("isnan", item.operand, dtype="bool"), dtype="bool")
        )

    return lower


def _cast(scope: Scope) -> Operand:
    source = scope.typed("self")
    value = scope.arg("self")
    if scope.memory_dtype in ("float16", "bfloat16") and source.dtype != scope.memory_dtype:
        if not isinstance(value, str):
            raise CannotLowerError("a constant of a short floating type")
        return scope.emit(f"round_{scope.memory_dtype}", value)
    return value


def _filled(value: float | None) -> Lowering:
    def lower(scope: Scope) -> Operand:
        if value is not None:
            return scope.constant(value)
        return scope.arg("fill_value" if scope.raw("fill_value") is not None else "s")

    return lower


def _copied(scope: Scope) -> Operand:
    return scope.arg("src")


def _threshold(scope: Scope) -> Operand:
    value = scope.arg("self")
    below = scope.compare("le", value, scope.constant(scope.number("threshold", 0)))
    return scope.select(below, scope.constant(scope.number("value", 0)), value)


def _logical_not(scope: Scope) -> Operand:
    return scope.emit("not", _truth(scope, "self"), dtype="bool")


def _reversed_sub(scope: Scope) -> Operand:
    return _add(scope, "sub", "other", "self") if scope.number("alpha", 1) == 1 else _scaled_rsub(scope)


def _scaled_rsub(scope: Scope) -> Operand:
    scaled = scope.emit("mul", scope.arg("self"), scope.constant(scope.number("alpha", 1)))
    return scope.emit("sub", scope.arg("other"), scaled)


def _shifted(op: str) -> Lowering:
    def lower(scope: Scope) -> Operand:
        return scope.emit(op, scope.arg("self"), scope.arg("other"))

    return lower


LOWERINGS: dict[str, Lowering] = {
    **{name: _function(name) for name in FLOAT_FUNCTIONS if name not in ("ceil", "floor", "rint", "trunc")},
    "special_erf": _function("erf"),
    "special_expm1": _function("expm1"),
    "ceil": _rounding("ceil"),
    "floor": _rounding("floor"),
    "round": _rounding("rint"),
    "trunc": _rounding("trunc"),
    "fix": _rounding("trunc"),
    **{name: _function_of_two(name) for name in ("atan2", "copysign", "hypot")},
    **{name: _compare(name) for name in COMPARISONS},
    **{f"logical_{name}": _logical(name) for name in BITWISE},
    **{f"bitwise_{name}": _bitwise(name) for name in BITWISE},
    **{f"__{name}__": _bitwise(name) for name in BITWISE},
    "bitwise_not": lambda scope: scope.emit("not", scope.arg("self")),
    "bitwise_left_shift": _shifted("shl"),
    "bitwise_right_shift": _shifted("shr"),
    "__lshift__": _shifted("shl"),
    "__rshift__": _shifted("shr"),
    "logical_not": _logical_not,
    "add": _add,
    "sub": lambda scope: _add(scope, "sub"),
    "rsub": _reversed_sub,
    "mul": _mul,
    "div": _div,
    "true_divide": _div,
    "floor_divide": lambda scope: _floor_divided(scope, scope.arg("self"), scope.arg("other")),
    "remainder": _remainder,
    "fmod": _fmod,
    "pow": _pow,
    "square": lambda scope: _product(scope, scope.arg("self"), 2),
    "maximum": _extreme("max"),
    "minimum": _extreme("min"),
    "fmax": _plain_extreme("fmax"),
    "fmin": _plain_extreme("fmin"),
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "where": _where,
    "masked_fill": _masked_fill,
    "addcmul": _addcmul("mul"),
    "addcdiv": _addcmul("div"),
    "lerp": _lerp,
    "sign": _sign,
    "sgn": _sign,
    "abs": _abs,
    "neg": lambda scope: scope.emit("neg", scope.arg("self")),
    "positive": _cast,
    "isnan": _is("isnan"),
    "isinf": _is("isinf"),
    "isfinite": _is("isfinite"),
    "_to_copy": _cast,
    "to": _cast,
    "clone": _cast,
    "contiguous": _cast,
    "lift_fresh_copy": _cast,
    "copy": _copied,
    "full": _filled(None),
    "full_like": _filled(None),
    "new_full": _filled(None),
    "scalar_tensor": _filled(None),
    "fill": lambda scope: scope.arg("value"),
    **{name: _filled(1) for name in ("ones", "ones_like", "new_ones")},
    **{name: _filled(0) for name in ("zeros", "zeros_like", "new_zeros")},
    "threshold": _threshold,
}
"""By the operation's name without its overload; `kforge.plan.activations` adds its own."""
