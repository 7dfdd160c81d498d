"""Plans: fusing, layouts, nests of outputs, state, and what cannot be planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforge.plan.plan import Role, Unplannable
from kforge.plan.planner import make_plan
from kforge.plan.views import Layout, View, apply, contiguous
from tests.core.plan_language import check, planned, traced
from tests.core.test_plan_operations import Of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


X = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
ROW = torch.linspace(1, 2, 4)

VIEWS: dict[str, Callable[[torch.Tensor], object]] = {
    "transpose": lambda x: x.transpose(0, 2) + 1,
    "permute of a result": lambda x: x.exp().permute(2, 0, 1) * 2,
    "a view as output": lambda x: (x.unsqueeze(0), x.expand(5, 2, 3, 4), x[1], x[:, 1:, ::2]),
    "reshape": lambda x: x.reshape(6, 4).exp(),
    "reshape of a result": lambda x: (x + 1).reshape(4, 6) * 2,
    "reshape that needs a copy": lambda x: x.transpose(0, 1).reshape(6, 4) + 1,
    "reshape of a transposed result": lambda x: x.exp().transpose(0, 1).reshape(24) + x.reshape(24),
    "squeeze": lambda x: x[:, :1].squeeze(1) * 3,
    "rows and columns": lambda x: x[0] * x[0, 0] + x[0, :, :1],
    "select and slice": lambda x: x[0, 1:, 1] - x[1, :2, -1],
    "both ways round": lambda x: x[0] + x[0].reshape(4, 3).t(),
    "outer": lambda x: x.reshape(-1, 1) * x.reshape(1, -1),
    "chunks": lambda x: x[..., :2] * x[..., 2:].sigmoid(),
    "splits": lambda x: [part.exp() + 1 for part in (*x.chunk(3, dim=-1), *x.split([1, 2], dim=1), *x.unbind(1))],
    "copies": lambda x: (x.clone(), x.transpose(1, 2).contiguous() + 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_renaming_of_indices(name: str, folder: Path) -> None:
    check(Of(VIEWS[name]), (X,), folder)


def test_operations_of_one_shape_become_one_kernel(folder: Path) -> None:
    plan = check(Of(lambda x, b: F.gelu(x + b) * torch.tanh(x) + 2), (X, ROW), folder)
    (kernel,) = plan.kernels
    assert kernel.shape == (6, 4)
    assert {load.tensor: load.strides for load in kernel.loads} == {"x": (4, 1), "b": (0, 1)} or len(kernel.loads) == 2
    assert len(kernel.stores) == 1


def test_outputs_of_one_shape_share_a_kernel_and_others_get_their_own(folder: Path) -> None:
    plan = check(Of(lambda x, b: {"a": (x + 1, x * 2), "b": [b.exp(), None, 3]}), (X, ROW), folder)
    assert sorted(len(kernel.stores) for kernel in plan.kernels) == [1, 2]
    assert sorted(kernel.shape for kernel in plan.kernels) == [(4,), (24,)]


def test_memory_order_is_kept(folder: Path) -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    plan = check(Of(lambda x: x.relu() + 1), (image,), folder)
    (kernel,) = plan.kernels
    assert kernel.shape == (120,)
    (output,) = [tensor for tensor in plan.tensors if tensor.role is Role.OUTPUT]
    assert output.value.stride == image.stride()


def test_empty_and_zero_dimensional_tensors(folder: Path) -> None:
    check(Of(lambda x: x + 1), (torch.ones(0, 3),), folder)
    check(Of(lambda x, y: x.exp() * y), (torch.tensor(2.0), torch.tensor(3)), folder)


def test_what_is_not_needed_is_left_away(folder: Path) -> None:
    plan = check(Of(lambda x, y: (x + 1, (x * y).exp())[0]), (X, X), folder)
    assert [len(kernel.loads) for kernel in plan.kernels] == [1]


def test_a_costly_small_value_is_computed_once(folder: Path) -> None:
    plan = check(Of(lambda x, b: x * b.exp() + b), (torch.randn(512, 256), torch.randn(256)), folder)
    assert [kernel.shape for kernel in plan.kernels] == [(256,), (512, 256)]


def test_a_long_chain_is_cut(folder: Path) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(400):
            x = x * 1.001 + 0.001
        return x

    assert len(check(Of(chain), (torch.ones(3),), folder).kernels) > 2


class Stateful(torch.nn.Module):
    """Nested parameters, buffers that are read and one that counts, constants of two sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.PReLU(3), torch.nn.Module())
        self.scale = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.tensor(0.5))
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.tensor(0), persistent=False)
        self.fixed = torch.tensor([0.1, 0.2, 0.3])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        result: torch.Tensor = self.inner[0](x * self.scale[:, None]) + self.shift + self.fixed[:, None]
        return result * torch.tensor(2.0)


def test_state_is_named_and_changes_are_told(folder: Path) -> None:
    plan = planned(Stateful(), (X,))
    graph = plan.graph
    assert {state.path for state in graph.parameters} == {"inner.0.weight", "scale"}
    assert {(state.path, state.persistent) for state in graph.buffers} == {("shift", True), ("calls", False)}
    assert [(mutation.target, mutation.buffer) for mutation in graph.mutations] == [("calls", True)]
    assert plan.tensor(graph.mutations[0].value).role is Role.TEMPORARY
    check(Stateful(), (X,), folder)


REFUSED: dict[str, tuple[Callable[..., object], list[str]]] = {
    "sums": (lambda x: x.exp().sum(1), ["sum.dim_IntList"]),
    "several": (lambda x: torch.sort(x)[0] + x.cumsum(1), ["cumsum.default", "sort.default"]),
    "products": (lambda x: F.linear(x, torch.ones(4, 4)) + 1, ["linear.default"]),
    "random": (lambda x: x + torch.rand_like(x), ["rand_like.default"]),
    "complex": (lambda x: torch.complex(x, x).real, ["complex.default"]),
    "changed": (lambda x: x.add_(1), ["change of input inputs_0"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_planned_is_named(name: str) -> None:
    function, operations = REFUSED[name]
    answer = make_plan(traced(Of(function), (X.clone(),)))
    assert isinstance(answer, Unplannable)
    assert {item.operation.split(" (")[0] for item in answer.operations} >= set(operations)
    assert all(item.reason for item in answer.operations)


SIZES = st.lists(st.integers(1, 5), min_size=0, max_size=4)


@given(SIZES, st.data())
@settings(max_examples=60, deadline=None)
def test_layouts_agree_with_torch(sizes: list[int], data: st.DataObject) -> None:
    tensor = torch.arange(torch.Size(sizes).numel()).reshape(sizes)
    layout: Layout | None = Layout(tuple(sizes), contiguous(tuple(sizes)))
    base = tensor.reshape(-1)
    for _ in range(4):
        kind = data.draw(st.sampled_from(["permute", "select", "slice", "reshape", "expand"]))
        view, tensor_next = _drawn(kind, tensor, data)
        if view is None:
            continue
        assert layout is not None
        applied = apply(view, layout)
        if applied is None:
            with pytest.raises(RuntimeError):
                tensor.view(view.numbers)
            return
        layout, tensor = applied, tensor_next
        assert layout.shape == tuple(tensor.shape)
        assert torch.equal(base.as_strided(layout.shape, layout.strides, layout.offset), tensor)


def _drawn(kind: str, tensor: torch.Tensor, data: st.DataObject) -> tuple[View | None, torch.Tensor]:
    rank = tensor.dim()
    if kind == "permute":
        order = data.draw(st.permutations(range(rank)))
        return View("permute", tuple(order)), tensor.permute(order)
    if kind == "expand":
        shape = (data.draw(st.integers(1, 3)), *tensor.shape)
        return View("expand", shape), tensor.expand(shape)
    if kind == "reshape":
        count = tensor.numel()
        first = data.draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0]))
        return View("reshape", (first, 1, count // first)), tensor.reshape(first, 1, count // first)
    if rank == 0:
        return None, tensor
    axis = data.draw(st.integers(0, rank - 1))
    start = data.draw(st.integers(0, tensor.shape[axis] - 1))
    if kind == "select":
        return View("select", (axis, start)), tensor.select(axis, start)
    size = tensor.shape[axis] - start
    return View("slice", (axis, start, size, 1)), tensor.narrow(axis, start, size)


UNARY: list[Callable[[torch.Tensor], torch.Tensor]] = [
    torch.tanh,
    torch.sigmoid,
    F.relu,
    F.silu,
    torch.abs,
    torch.neg,
    F.gelu,
    lambda x: x * 0.3,
    lambda x: x.exp().log1p(),
]
BINARY: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda x, y: torch.where(x > y, x, y * 0.5),
]
SHAPES = [(), (4,), (3, 1), (3, 4), (2, 1, 4), (2, 3, 4), (1, 3, 1)]
DTYPES = [torch.float32, torch.float32, torch.float64, torch.int32, torch.bool]


@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_chains_agree_with_torch(folder: Path, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 3))
    inputs = []
    for number in range(count):
        shape, dtype = data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from(DTYPES))
        inputs.append(
            (torch.linspace(-2, 3, max(1, torch.Size(shape).numel())) * (number + 1)).reshape(shape).to(dtype)
        )
    recipe = [
        (
            data.draw(st.integers(0, 20)),
            data.draw(st.integers(0, 20)),
            data.draw(st.integers(0, len(UNARY) + len(BINARY) - 1)),
        )
        for _ in range(data.draw(st.integers(1, 8)))
    ]

    def model(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = [item.float() if item.dtype == torch.bool else item for item in given]
        for one, other, which in recipe:
            first, second = values[one % len(values)], values[other % len(values)]
            if which >= len(UNARY):
                values.append(BINARY[which - len(UNARY)](first, second))
            elif first.is_floating_point():
                values.append(UNARY[which](first))
            else:
                values.append(first + 1)
        return tuple(values[count:])

    check(Of(model), inputs, folder)
