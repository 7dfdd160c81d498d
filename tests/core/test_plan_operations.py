"""Every planned operation, printed as C++ and compiled, computes what torch computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.core.plan_language import check, computed, flat, nested, planned

INF, NAN = math.inf, math.nan
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    1e-4,
    -1e-4,
    25.0,
    -25.0,
    100.0,
    INF,
    -INF,
    NAN,
]


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(*inputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


def edges(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of special numbers."""
    line = torch.tensor(EDGES, dtype=dtype)
    return line.repeat_interleave(len(EDGES)), line.repeat(len(EDGES))


ONE = {
    "exponentials": lambda x: (x.exp(), x.expm1(), x.exp2(), x.sigmoid(), F.logsigmoid(x), F.softplus(x, 2.0, 10.0)),
    "logarithms": lambda x: (x.log(), x.log1p(), x.log2(), x.log10(), x.sqrt(), x.rsqrt(), x.reciprocal(), x.square()),
    "trigonometry": lambda x: (x.sin(), x.cos(), x.clamp(-1.4, 1.4).tan(), x.asin(), x.acos(), x.atan()),
    "hyperbolic": lambda x: (x.tanh(), x.clamp(-9, 9).sinh(), x.clamp(-9, 9).cosh(), x.asinh(), x.acosh(), x.atanh()),
    "errors": lambda x: (x.erf(), x.erfc(), F.gelu(x.clamp(-30, 30)), F.gelu(x, approximate="tanh")),
    "rounding": lambda x: (x.floor(), x.ceil(), x.round(), x.trunc(), x.sign(), x.abs(), -x, x.positive()),
    "kinks": lambda x: (
        F.relu(x),
        F.relu6(x),
        F.hardtanh(x, -0.7, 0.9),
        F.leaky_relu(x, 0.2),
        F.threshold(x, 0.5, 7.0),
    ),
    "activations": lambda x: (F.silu(x), F.mish(x), F.elu(x, 1.3), F.selu(x), F.celu(x, 0.7), F.hardswish(x)),
    "more": lambda x: (F.hardsigmoid(x), F.softsign(x), F.softshrink(x, 0.4), F.hardshrink(x, 0.4), F.tanhshrink(x)),
    "clamps": lambda x: (x.clamp(min=-0.5), x.clamp(max=0.7), x.clamp(-0.5, 0.7), x.clamp_min(0.1), x.clamp_max(0.1)),
    "powers": lambda x: (x**2, x**3, x**4, x**0.5, x**-1, x**-0.5, x**-2, x**1.7, x**0, 2.0**x, x.pow(-3)),
    "scalars": lambda x: (
        x + 2,
        2 - x,
        x * 0.1,
        x / 3,
        1 / x,
        x % 0.7,
        x // 0.3,
        torch.rsub(x, 1, alpha=2),
        x.fmod(0.7),
    ),
    "questions": lambda x: (
        x > 0.5,
        x == 1,
        x != x,
        x.isnan(),
        x.isinf(),
        x.isfinite(),
        x <= 0,
        ~(x > 0),
        x.logical_not(),
    ),
    "one plus tanh": lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3))),
    "filling": lambda x: (
        torch.ones_like(x),
        torch.full_like(x, 0.3) + x,
        torch.zeros(3, 1) + x[:3],
        x.masked_fill(x > 1, -INF),
    ),
}

TWO = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y, torch.add(x, y, alpha=0.3), torch.sub(x, y, alpha=2)),
    "extremes": lambda x, y: (
        torch.maximum(x, y),
        torch.minimum(x, y),
        torch.fmax(x, y),
        torch.fmin(x, y),
        x.clamp(y, y + 1),
    ),
    "comparisons": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "logic": lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y), (x > 0) & (y > 0)),
    "choice": lambda x, y: (
        torch.where(x > y, x, y),
        torch.where(x > 0, 1.0, y),
        torch.lerp(x, y, 0.3),
        torch.lerp(x, y, 0.8),
    ),
    "combined": lambda x, y: (torch.addcmul(x, y, y, value=0.4), torch.addcdiv(x, y, y + 0.25, value=-2)),
    "pairs": lambda x, y: (
        torch.atan2(x, y),
        torch.copysign(x, y),
        torch.hypot(x, y),
        torch.pow(x.abs(), y.clamp(-3, 3)),
    ),
    "remainders": lambda x, y: (x % y, torch.fmod(x, y), x // y, torch.div(x, y, rounding_mode="trunc")),
}


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_operation_on_special_numbers(name: str, dtype: torch.dtype, folder: Path) -> None:
    values = torch.cat([torch.tensor(EDGES, dtype=dtype), torch.linspace(-6, 6, 101, dtype=dtype)])
    check(Of(ONE[name]), (values,), folder)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_operation_on_pairs_of_special_numbers(name: str, dtype: torch.dtype, folder: Path) -> None:
    check(Of(TWO[name]), edges(dtype), folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_computed_in_single_precision(dtype: torch.dtype, folder: Path) -> None:
    x, y = torch.linspace(-4, 4, 301).to(dtype), torch.linspace(3, -2, 301).to(dtype)

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.gelu(x) * y, x.exp() + y, torch.log1p(x.abs()) - y / 3

    plan = planned(Of(model), (x, y))
    assert {step.dtype for kernel in plan.kernels for step in kernel.steps} == {"float32"}
    got = flat(nested(plan.graph.outputs, computed(plan, Of(model), (x, y), folder)))
    for one, exact in zip(got, model(x.double(), y.double()), strict=True):
        assert isinstance(one, torch.Tensor)
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_cast_to_a_half_rounds(dtype: torch.dtype, folder: Path) -> None:
    x = torch.linspace(-300, 300, 999)
    check(Of(lambda x: (x.to(dtype), x.to(dtype).float() * 2, x.to(dtype) > 0.1)), (x,), folder)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_wrap_and_divide_as_in_torch(dtype: torch.dtype, folder: Path) -> None:
    ends = torch.iinfo(dtype)
    line = torch.tensor([ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, 2, 3, 7, 100], dtype=dtype)
    x, y = line.repeat_interleave(len(line)), line.repeat(len(line))

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.where(y == 0, 1, y)
        whole = torch.where((whole == -1) & (x == ends.min), 1, whole)
        sums = (x + y, x - y, x * y, -x, x.abs(), x**2, x + 300, x.sign(), ~x, x & y, x | y, x ^ y)
        quotients = (x // whole, x % whole, torch.fmod(x, whole), x / whole, torch.div(x, whole, rounding_mode="trunc"))
        return (*sums, *quotients, torch.maximum(x, y), x.clamp(0, 5), x > y, x.float() * 0.5, x + 0.5, x << 1, x >> 1)

    check(Of(model), (x, y), folder)


def test_booleans_follow_torch(folder: Path) -> None:
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    check(
        Of(lambda x, y: (x & y, x | y, x ^ y, ~x, x + y, x * y, x + 1, x * 2.5, x.float(), torch.maximum(x, y))),
        (x, y),
        folder,
    )


MIXED = [
    (torch.int32, torch.float32),
    (torch.int64, torch.float16),
    (torch.float16, torch.bfloat16),
    (torch.float32, torch.float64),
    (torch.bool, torch.int32),
    (torch.uint8, torch.int8),
]


@pytest.mark.parametrize("first, second", MIXED, ids=str)
def test_types_are_promoted_as_in_torch(first: torch.dtype, second: torch.dtype, folder: Path) -> None:
    x, y = torch.arange(12).to(first), (torch.arange(12) * 3 % 7 - 3).to(second)
    scalar = torch.tensor(2.5, dtype=torch.float64)
    check(
        Of(lambda x, y, s: (x + y, x * y, x > y, torch.where(x > 1, x, y), y * s, x > s, x == 2.5)),
        (x, y, scalar),
        folder,
    )


def test_numbers_are_printed_exactly(folder: Path) -> None:
    numbers = [0.1, 1e-45, 3.4028234663852886e38, 1e39, -1e300, 16777217, 1 / 3, 2**-149, -INF]
    check(
        Of(lambda x: tuple(x + number for number in numbers) + tuple(x.double() * number for number in numbers)),
        (torch.ones(2),),
        folder,
    )
