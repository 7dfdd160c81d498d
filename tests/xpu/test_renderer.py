"""Rendered modules, built and run for real: equal to torch, for every parameter of the space."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from kforge.plan.graph import Graph
from kforge.plan.plan import Plan
from kforge.plan.planner import make_plan
from kforge.plan.trace import trace
from kforge.records import DeviceFacts
from kforge_xpu.renderer import SyclRenderer

FACTS = DeviceFacts("a CPU", kind="cpu", max_group_size=8192)
DEFAULT = {"work_group": 64, "vector": 1}

pytestmark = pytest.mark.usefixtures("vadd")


class Of(torch.nn.Module):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(*inputs)


def plan_of(model: torch.nn.Module, *inputs: object) -> Plan:
    graph = trace(model, inputs)
    assert isinstance(graph, Graph), graph
    plan = make_plan(graph)
    assert isinstance(plan, Plan), str(plan)
    assert SyclRenderer().can_render(plan, FACTS) == ()
    return plan


def rendered(plan: Plan, parameters: Mapping[str, int] = DEFAULT) -> torch.nn.Module:
    """Import the text and construct its module, with arguments that it does not need."""
    text = SyclRenderer().render(plan, parameters)
    names: dict[str, type[torch.nn.Module]] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    return names["ModelNew"](3, key="unused")


def check(model: torch.nn.Module, *inputs: torch.Tensor, parameters: Mapping[str, int] = DEFAULT) -> torch.nn.Module:
    candidate = rendered(plan_of(model, *inputs), parameters)
    candidate.load_state_dict(model.state_dict())
    with torch.no_grad():
        got, wanted = candidate(*inputs), model(*inputs)
    torch.testing.assert_close(got, wanted, rtol=2e-5, atol=2e-6, equal_nan=True)
    return candidate


def chain(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh") * torch.tanh(x) + x.sigmoid()


@pytest.mark.parametrize("vector", [1, 2, 4, 16])
def test_sizes_that_do_not_divide(vector: int) -> None:
    candidate = rendered(plan_of(Of(chain), torch.randn(1000)), {"work_group": 64, "vector": vector})
    for shape in [(1000,), (1,), (0,), (63,), (64,), (65,), (7, 143), (2, 0, 3), (4097,)]:
        x = torch.randn(shape)
        torch.testing.assert_close(candidate(x), chain(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize(
    "first, second",
    [
        ((33, 100), (100,)),
        ((33, 100), (33, 1)),
        ((5, 7, 40), (7, 1)),
        ((5, 7, 3), (7, 3)),
        ((6, 1, 50), (1, 9, 50)),
        ((3, 4), ()),
        ((9, 192), (192,)),
        ((2, 3, 128), (3, 1)),
        ((4, 5, 64), (4, 1, 64)),
    ],
    ids=str,
)
def test_broadcasting(first: tuple[int, ...], second: tuple[int, ...], vector: int) -> None:
    parameters = {"work_group": 64, "vector": vector}
    check(Of(lambda x, y: (x + y).exp() * y), torch.randn(first) / 4, torch.randn(second), parameters=parameters)


def test_strides() -> None:
    x = torch.randn(40, 60)
    candidate = check(Of(lambda x, y: x.t() * 2 + y), x, torch.randn(60, 40))
    strided = torch.randn(40, 120)[:, ::2]
    y = torch.randn(40, 60).t()
    torch.testing.assert_close(candidate(strided, y), strided.t() * 2 + y)
    with pytest.raises(ValueError, match="shape"):
        candidate(torch.randn(40, 61), y)
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert check(Of(lambda x: x.relu() + 1), image)(image).stride() == image.stride()


def test_flexible_modules_tell_when_shapes_differ() -> None:
    candidate = check(Of(lambda x, y: x * y + 1), torch.randn(40), torch.randn(40))
    torch.testing.assert_close(candidate(torch.ones(3, 5).t(), torch.ones(5, 3)), torch.full((5, 3), 2.0))
    with pytest.raises(ValueError, match="shape"):
        candidate(torch.ones(3), torch.ones(4))


@pytest.mark.parametrize("vector", [1, 8])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves(dtype: torch.dtype, vector: int) -> None:
    x = torch.linspace(-5, 5, 1001).to(dtype)
    got = rendered(plan_of(Of(chain), x), {"work_group": 64, "vector": vector})(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), chain(x.double()), rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_integers_booleans_and_doubles() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
        sums = (x + y, x // 3, x % 5, x > y, (x > 2) & (y < 4), x.to(torch.int8) * 100, x.double().exp(), x / 7)
        return {"sums": sums, "list": [x.bool(), None, -y.abs()], "x": x}

    check(Of(model), torch.arange(-40, 60), torch.arange(100) % 11)


def test_not_a_number_and_infinity() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-30, 90.0, -90.0])
    check(
        Of(lambda x: (x.relu(), x.clamp(-1, 1), x.tanh(), x.exp(), x.isnan(), x.isinf(), torch.maximum(x, -x), x != x)),
        x,
    )


@pytest.mark.parametrize("function", [torch.tanh, torch.erf], ids=["tanh", "erf"])
def test_own_functions_stay_relatively_accurate(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.cat([torch.logspace(-30, 1.5, 5000), -torch.logspace(-30, 1.5, 5000)])
    got, exact = rendered(plan_of(Of(function), x))(x).double(), function(x.double())
    assert ((got - exact).abs() / exact.abs()).max() < 4 * torch.finfo(torch.float32).eps
    assert rendered(plan_of(Of(function), x))(torch.tensor([float("nan")])).isnan().all()


class Stateful(torch.nn.Module):
    """Nested parameters, a counting buffer, constants."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.PReLU(3), torch.nn.Module())
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.tensor(0))
        self.fixed = torch.tensor([0.1, 0.2, 0.3])

    def forward(self, x: torch.Tensor, pair: list[torch.Tensor]) -> torch.Tensor:
        self.calls.add_(1)
        result: torch.Tensor = self.inner[0](x * self.scale[:, None]) + self.fixed[:, None] + pair[1]
        return result


def test_state_follows_by_name() -> None:
    model, x, pair = Stateful(), torch.randn(2, 3, 40), [torch.randn(1), torch.randn(40)]
    candidate = rendered(plan_of(model, x, pair))
    assert {name for name, _ in candidate.named_parameters()} == {"inner.0.weight", "scale"}
    candidate.load_state_dict(model.state_dict())
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(candidate(x, pair), model(x, pair))
            candidate.get_parameter("scale").mul_(2)
            model.scale.mul_(2)
    assert candidate.get_buffer("calls") == 2


def test_arguments_may_have_any_name_and_numbers_are_fixed() -> None:
    class Named(torch.nn.Module):
        def forward(self, device: torch.Tensor, start: int, shape: torch.Tensor) -> torch.Tensor:
            return device * 2 + start + shape

    inputs = (torch.randn(40), 100, torch.randn(40))
    candidate = rendered(plan_of(Named(), *inputs))
    torch.testing.assert_close(candidate(*inputs), Named()(*inputs))
    with pytest.raises(ValueError, match="fixed at 100"):
        candidate(inputs[0], 101, inputs[2])


def test_the_space_follows_device_and_types() -> None:
    plan = plan_of(Of(chain), torch.randn(100))
    small = SyclRenderer().space(plan, DeviceFacts("small", kind="xpu", max_group_size=256))
    assert {axis.name for axis in small} == {"work_group", "vector"}
    assert max(small[0].values) == 256
    for axis in small:
        assert len(set(axis.values)) == len(axis.values)
    doubles = SyclRenderer().space(plan_of(Of(chain), torch.randn(100).double()), DeviceFacts("large", kind="xpu"))
    assert max({axis.name: axis.values for axis in doubles}["vector"]) == 8
    strided = SyclRenderer().space(plan_of(Of(lambda x: x.t() + x.reshape(100, 50)), torch.randn(50, 100)), FACTS)
    assert [axis.name for axis in strided] == ["work_group"]


def test_a_kernel_with_nothing_to_do_cannot_be_rendered() -> None:
    graph = trace(Of(lambda x: x), (torch.ones(2),))
    assert isinstance(graph, Graph)
    plan = make_plan(graph)
    assert isinstance(plan, Plan)
    assert "computes nothing" in SyclRenderer().can_render(plan, FACTS)[0]


def test_the_file_runs_by_itself(tmp_path: Path, shim_folder: Path) -> None:
    text = SyclRenderer().render(plan_of(Of(chain), torch.randn(100)), DEFAULT)
    (tmp_path / "kernel.py").write_text(text)
    code = "import torch, kernel; print(kernel.ModelNew()(torch.zeros(5)).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[0.5, 0.5, 0.5, 0.5, 0.5]", done.stderr
    assert '"""' in text
    assert max(len(line) for line in text.splitlines()) <= 120
