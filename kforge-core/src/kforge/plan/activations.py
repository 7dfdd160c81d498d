"""Activation functions as scalar steps. Each formula keeps its relative accuracy for large and small arguments."""

from __future__ import annotations

import math

from kforge.plan.lowering import Lowering
from kforge.plan.plan import Operand
from kforge.plan.scope import Scope


def sigmoid(scope: Scope, value: Operand) -> Operand:
    """``1 / (1 + exp(-value))``: exp's overflow gives the right limit."""
    one = scope.constant(1)
    return scope.emit("div", one, scope.emit("add", scope.emit("exp", scope.emit("neg", value)), one))


def _x(scope: Scope) -> Operand:
    scope.require_float()
    return scope.arg("self")


def _relu(scope: Scope) -> Operand:
    return scope.max(scope.arg("self"), scope.constant(0))


def _relu6(scope: Scope) -> Operand:
    return scope.min(_relu(scope), scope.constant(6))


def _sigmoid(scope: Scope) -> Operand:
    return sigmoid(scope, _x(scope))


def _log_sigmoid(scope: Scope) -> Operand:
    x = _x(scope)
    tail = scope.emit("log1p", scope.emit("exp", scope.emit("neg", scope.emit("abs", x))))
    return scope.emit("sub", scope.min(x, scope.constant(0)), tail)


def _silu(scope: Scope) -> Operand:
    x = _x(scope)
    one = scope.constant(1)
    return scope.emit("div", x, scope.emit("add", scope.emit("exp", scope.emit("neg", x)), one))


def _gelu(scope: Scope) -> Operand:
    x = _x(scope)
    if scope.raw("approximate") == "tanh":
        cube = scope.emit("mul", scope.emit("mul", x, x), x)
        bent = scope.emit("add", x, scope.emit("mul", cube, scope.constant(0.044715)))
        # x/2 (1 + tanh u) is x / (1 + exp(-2 u)).
        power = scope.emit("exp", scope.emit("mul", bent, scope.constant(-2 * math.sqrt(2 / math.pi))))
        return scope.emit("div", x, scope.emit("add", power, scope.constant(1)))
    bell = scope.emit("erf", scope.emit("mul", x, scope.constant(math.sqrt(0.5))))
    return scope.emit("mul", scope.emit("mul", x, scope.constant(0.5)), scope.emit("add", bell, scope.constant(1)))


def _hardtanh(scope: Scope) -> Operand:
    low = scope.constant(scope.number("min_val", -1))
    return scope.min(scope.max(scope.arg("self"), low), scope.constant(scope.number("max_val", 1)))


def _gate(scope: Scope, x: Operand) -> Operand:
    shifted = scope.emit("add", x, scope.constant(3))
    return scope.min(scope.max(shifted, scope.constant(0)), scope.constant(6))


def _hardsigmoid(scope: Scope) -> Operand:
    return scope.emit("div", _gate(scope, _x(scope)), scope.constant(6))


def _hardswish(scope: Scope) -> Operand:
    x = _x(scope)
    return scope.emit("div", scope.emit("mul", x, _gate(scope, x)), scope.constant(6))


def _leaky_relu(scope: Scope) -> Operand:
    x = _x(scope)
    below = scope.emit("mul", x, scope.constant(scope.number("negative_slope", 0.01)))
    return scope.select(scope.compare("gt", x, scope.constant(0)), x, below)


def _prelu(scope: Scope) -> Operand:
    x = _x(scope)
    below = scope.emit("mul", x, scope.arg("weight"))
    return scope.select(scope.compare("gt", x, scope.constant(0)), x, below)


def _elu(scope: Scope) -> Operand:
    x = _x(scope)
    alpha, scale = scope.number("alpha", 1), scope.number("scale", 1)
    inner = scope.emit("mul", x, scope.constant(scope.number("input_scale", 1)))
    below = scope.emit("mul", scope.emit("expm1", inner), scope.constant(alpha * scale))
    above = x if scale == 1 else scope.emit("mul", x, scope.constant(scale))
    return scope.select(scope.compare("gt", x, scope.constant(0)), above, below)


def _celu(scope: Scope) -> Operand:
    x = _x(scope)
    alpha = scope.number("alpha", 1)
    inner = scope.emit("expm1", scope.emit("div", x, scope.constant(alpha)))
    return scope.select(scope.compare("gt", x, scope.constant(0)), x, scope.emit("mul", inner, scope.constant(alpha)))


def _selu(scope: Scope) -> Operand:
    x = _x(scope)
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    below = scope.emit("mul", scope.emit("expm1", x), scope.constant(alpha * scale))
    return scope.select(scope.compare("gt", x, scope.constant(0)), scope.emit("mul", x, scope.constant(scale)), below)


def _softplus_of(scope: Scope, x: Operand, beta: float, threshold: float) -> Operand:
    scaled = x if beta == 1 else scope.emit("mul", x, scope.constant(beta))
    soft = scope.emit("log1p", scope.emit("exp", scaled))
    soft = soft if beta == 1 else scope.emit("div", soft, scope.constant(beta))
    return scope.select(scope.compare("gt", scaled, scope.constant(threshold)), x, soft)


def _softplus(scope: Scope) -> Operand:
    return _softplus_of(scope, _x(scope), scope.number("beta", 1), scope.number("threshold", 20))


def _mish(scope: Scope) -> Operand:
    x = _x(scope)
    # tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2); beyond 20 it is 1, and e squared would overflow.
    power = scope.emit("exp", scope.min(x, scope.constant(20)))
    product = scope.emit("mul", power, scope.emit("add", power, scope.constant(2)))
    return scope.emit("mul", x, scope.emit("div", product, scope.emit("add", product, scope.constant(2))))


def _shrink(scope: Scope, hard: bool) -> Operand:
    x, edge = _x(scope), scope.constant(scope.number("lambd", 0.5))
    low = scope.emit("neg", edge) if isinstance(edge, str) else -edge
    zero = scope.emit("mul", x, scope.constant(0))  # keeps NaN
    above = x if hard else scope.emit("sub", x, edge)
    below = x if hard else scope.emit("add", x, edge)
    inner = scope.select(scope.compare("lt", x, low), below, zero)
    return scope.select(scope.compare("gt", x, edge), above, inner)


ACTIVATIONS: dict[str, Lowering] = {
    "relu": _relu,
    "relu6": _relu6,
    "sigmoid": _sigmoid,
    "special_expit": _sigmoid,
    "log_sigmoid": _log_sigmoid,
    "log_sigmoid_forward": _log_sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "hardtanh": _hardtanh,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "leaky_relu": _leaky_relu,
    "prelu": _prelu,
    "_prelu_kernel": _prelu,
    "elu": _elu,
    "celu": _celu,
    "selu": _selu,
    "softplus": _softplus,
    "mish": _mish,
    "softshrink": lambda scope: _shrink(scope, hard=False),
    "hardshrink": lambda scope: _shrink(scope, hard=True),
    "reciprocal": lambda scope: scope.emit("div", scope.constant(1), _x(scope)),
}
"""By the operation's name without its overload."""
