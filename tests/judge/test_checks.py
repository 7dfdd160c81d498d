"""Comparing values: what a correct kernel does differently is allowed, and nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge.judge.checks import BLOCK, CHUNK, Expected, budget_of, compare_shape, compare_tensor
from kforge.judge.values import Other, TensorAt, dtype_name
from kforge.records import Finding, Phase


def _expected(exact: torch.Tensor, dtype: torch.dtype, reduction: int = 1) -> Expected:
    declared = exact.to(dtype)
    return Expected(exact, dtype=dtype_name(dtype), budget=budget_of(exact, declared, dtype, reduction))


def _compare(expected: Expected, got: torch.Tensor) -> Finding | None:
    return compare_tensor("output", expected, got, Phase.COMPARE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_rounding_is_allowed_and_ten_times_the_budget_is_not(dtype: torch.dtype) -> None:
    exact = torch.randn(3 * CHUNK + 77, dtype=torch.float64) + 3
    expected = _expected(exact, dtype)
    assert _compare(expected, exact.to(dtype)) is None
    assert expected.budget is not None
    for at in (0, CHUNK, exact.numel() - 1):
        wrong = exact.clone()
        wrong[at] += 10 * float(expected.budget.element(exact[at]))
        finding = _compare(expected, wrong.to(dtype))
        assert finding is not None
        assert (finding.check, finding.index) == ("values", (at,))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_one_wrong_element_is_named_by_its_index(shape: list[int], chance: object) -> None:
    exact = torch.rand(shape, dtype=torch.float64) + 1
    flat = chance.randrange(exact.numel())  # type: ignore[attr-defined] # hypothesis gives a random.Random
    wrong = exact.float()
    wrong.view(-1)[flat] = -1
    finding = _compare(_expected(exact, torch.float32), wrong)
    assert finding is not None
    assert finding.index is not None
    assert wrong[finding.index] == -1
    assert finding.got == "-1.0"
    assert finding.expected == repr(float(exact.view(-1)[flat]))


def test_the_worst_of_many_is_named_and_all_are_counted() -> None:
    exact = torch.ones(500_000, dtype=torch.float64)
    wrong = exact.float()
    wrong[10], wrong[400_000], wrong[499_999] = 2, 9, 3
    finding = _compare(_expected(exact, torch.float32), wrong)
    assert finding is not None
    assert finding.index == (400_000,)
    assert finding.error == 8
    assert "3 of 500000 elements" in finding.message


def test_a_lower_precision_throughout_is_seen_where_no_element_shows_it() -> None:
    exact = torch.rand(8 * BLOCK, dtype=torch.float64) + 1
    expected = _expected(exact, torch.float32)
    assert expected.budget is not None
    noise = torch.where(torch.rand(exact.shape) > 0.5, 1.0, -1.0) * 0.9 * expected.budget.element(exact)
    finding = _compare(expected, (exact + noise).float())
    assert finding is not None
    assert "lower precision" in finding.message
    single = exact.clone()
    single[5] += noise[5]
    assert _compare(expected, single.float()) is None


@pytest.mark.parametrize("right, came, fine", [
    (math.nan, math.nan, True), (math.nan, 1.0, False), (1.0, math.nan, False), (math.inf, math.inf, True),
    (math.inf, -math.inf, False), (math.inf, 3e38, False), (1.0, math.inf, False), (0.0, -0.0, True),
])  # fmt: skip
def test_numbers_that_are_not_finite_must_stand_where_they_stand(right: float, came: float, fine: bool) -> None:
    exact = torch.tensor([1.0, right, 2.0], dtype=torch.float64)
    finding = _compare(_expected(exact, torch.float32), torch.tensor([1.0, came, 2.0]))
    assert (finding is None) == fine
    if finding is not None:
        assert (finding.check, finding.index, finding.error) == ("nonfinite", (1,), None)


def test_infinities_of_the_reference_widen_no_budget() -> None:
    exact = torch.tensor([math.inf, 1.0, math.nan], dtype=torch.float64)
    assert _compare(_expected(exact, torch.float32), torch.tensor([math.inf, 1.001, math.nan])) is not None


def test_complex_numbers_are_compared_in_both_parts() -> None:
    exact = torch.randn(40, dtype=torch.complex128)
    expected = Expected(exact, dtype="complex64", budget=budget_of(exact, exact.to(torch.complex64), torch.float32, 1))
    assert _compare(expected, exact.to(torch.complex64)) is None
    wrong = exact.to(torch.complex64)
    wrong[7] += 0.01j
    finding = _compare(expected, wrong)
    assert finding is not None
    assert finding.index == (7,)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_whole_numbers_must_be_equal(dtype: torch.dtype) -> None:
    right = torch.tensor([1, 0, 1]).to(dtype)
    expected = Expected(right, dtype=dtype_name(dtype), budget=None)
    assert _compare(expected, right.clone()) is None
    finding = _compare(expected, right.logical_not().to(dtype))
    assert finding is not None
    assert "must be equal" in finding.message


def test_large_whole_numbers_are_told_apart() -> None:
    right = torch.tensor([2**60, -(2**62)])
    finding = _compare(Expected(right, dtype="int64", budget=None), right + 1)
    assert finding is not None
    assert finding.expected != finding.got


@given(st.integers(1, 2**16), st.sampled_from([torch.float32, torch.float16]))
@settings(max_examples=40, deadline=None)
def test_sums_in_any_order_are_within_the_budget_of_their_length(length: int, dtype: torch.dtype) -> None:
    values = torch.randn(8, length).to(dtype)
    exact, declared = values.double().sum(1), values.sum(1)
    expected = Expected(exact, dtype=dtype_name(dtype), budget=budget_of(exact, declared, dtype, length))
    assert _compare(expected, values.flip(1).float().sum(1).to(dtype)) is None
    assert _compare(expected, values[:, torch.randperm(length)].float().sum(1).to(dtype)) is None


@pytest.mark.parametrize("expected, got, check", [
    (1, 1, None), (1, 2, "values"), (1, True, "structure"), (1.0, 1, "structure"), (1.0, 1.0 + 1e-7, None),
    (1.0, 1.001, "values"), (math.nan, math.nan, None), (math.inf, math.inf, None), (math.inf, 1.0, "values"),
    (1 + 1j, 1 + 1j, None), (1j, 2j, "values"), ("a", "a", None), ("a", "b", "values"), (None, None, None),
    (None, 0, "structure"), (torch.float32, torch.float32, None), (torch.float32, torch.float16, "values"),
    (1, Other("builtins.int"), "structure"), (Other("x"), Other("x"), "structure"),
])  # fmt: skip
def test_plain_values(expected: object, got: object, check: str | None) -> None:
    finding = compare_shape("output[0]", expected, got, Phase.COMPARE)
    assert (finding and finding.check) == check


def test_kinds_of_tensors() -> None:
    expected = _expected(torch.zeros(2, 3, dtype=torch.float64), torch.float32)

    def came(shape: tuple[int, ...] = (2, 3), dtype: str = "float32", type_name: str = "torch.Tensor") -> str | None:
        got = TensorAt(0, shape=shape, stride=(1,) * len(shape), dtype=dtype, type_name=type_name)
        finding = compare_shape("output", expected, got, Phase.COMPARE)
        return finding.check if finding else None

    assert came() is None
    assert came(shape=(3, 2)) == "shape"
    assert came(dtype="float16") == "dtype"
    assert came(type_name="candidate.Mine") == "type"
    finding = compare_shape("output", expected, 1.0, Phase.COMPARE)
    assert finding is not None
    assert finding.message == "output: float came, a tensor is expected"
