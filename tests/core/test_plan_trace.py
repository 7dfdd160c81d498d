"""Tracing: what the plain graph holds, and that it survives JSON."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

from kforge.errors import UsageError
from kforge.plan.graph import Graph, Items, Ref, StructureKind, Untraceable
from kforge.plan.trace import trace
from kforge.serialize import from_json, from_plain, to_json
from tests.core.plan_language import traced
from tests.core.test_plan_operations import Of

X = torch.randn(2, 3, 8, 8)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.norm(self.convolution(x)))
        result: torch.Tensor = torch.softmax(self.linear(F.layer_norm(x, (6, 6))) @ torch.ones(5, 2), -1)
        return result


def operations(graph: Graph) -> list[str]:
    return [node.op.partition(".")[0] for node in graph.nodes]


def test_composite_operations_stay_whole() -> None:
    found = operations(traced(Block().eval(), (X,)))
    assert {"linear", "gelu", "layer_norm", "matmul", "softmax"} <= set(found)
    assert any("conv" in op for op in found)
    assert any("batch_norm" in op for op in found)


def test_training_mode_changes_buffers_and_nothing_in_the_module() -> None:
    model = Block()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    graph = traced(model, (X,))
    assert graph.training
    assert {mutation.target for mutation in graph.mutations} == {
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    }
    assert {name for name in graph.values() if name.endswith("result0")}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_graph_survives_json() -> None:
    model = Of(lambda x: {"a": (x.masked_fill(x > 0, float("-inf")), None), "b": x.permute(0, 2, 3, 1)})
    graph = traced(model, (X,))
    assert from_json(to_json(graph), Graph) == graph
    assert "Infinity" not in to_json(graph)
    assert graph.outputs.kind is StructureKind.DICT
    assert graph.outputs.keys == ("a", "b")
    assert len(graph.outputs.names()) == 2


def test_lists_and_numbers_among_the_arguments() -> None:
    class Several(torch.nn.Module):
        def forward(self, pair: list[torch.Tensor], factor: float) -> torch.Tensor:
            return pair[0] * factor + pair[1]

    graph = traced(Several(), ([X, X], 2.5))
    assert graph.arguments == (Items((Ref("pair_0"), Ref("pair_1"))), 2.5)


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("not today")


class Sized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


@pytest.mark.parametrize(
    "model, words", [(Branch(), "torch.export"), (Broken(), "not today"), (Sized(), "torch.export")]
)
def test_what_cannot_be_traced_has_a_reason(model: torch.nn.Module, words: str) -> None:
    answer = trace(model, (X,))
    assert isinstance(answer, Untraceable), answer
    assert words in answer.reason


def test_a_spoilt_argument_is_told_with_its_path() -> None:
    data = json.loads(to_json(traced(Of(lambda x: x + 1), (X,))))
    data["nodes"][0]["arguments"][0][1] = {"reference": "x"}
    with pytest.raises(UsageError, match=r"nodes\[0\]"):
        from_plain(data, Graph)
