"""Inputs between timed batches: new to whoever saw the old ones, and still of the Problem's kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from kforge.errors import CannotJudgeError
from kforge.judge.arena import ALIGNMENT, Arena, Layout
from kforge.judge.inputs import Ring, is_plain_noise


def _ring(*drawn: tuple[object, ...], slots: int = 3) -> tuple[Ring, Arena, bool]:
    layout = Layout()
    ring = Ring(drawn, layout, slots)
    arena = Arena(layout.size)
    keyed = ring.prepare(arena)
    for slot in range(slots):
        ring.put(arena, slot, drawn[0])
    return ring, arena, keyed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_redrawn_numbers_are_new_and_of_the_same_size(dtype: torch.dtype) -> None:
    first, second = (torch.randn(64, 65).to(dtype) for _ in range(2))
    ring, arena, keyed = _ring((first, 2), (second, 2))
    with arena:
        assert keyed
        seen = [first.clone(), second.clone()]
        for _ in range(4):
            ring.redraw(arena, 1)
            now, number = ring.arguments(arena, 1)
            assert number == 2
            assert all(int((now == old).sum()) < old.numel() // 20 + 200 for old in seen)
            assert torch.isfinite(now).all()
            # Signs and powers of two are those of a master, moved: so are size and spread.
            near = min(float((now.double().abs().mean() - one.double().abs().mean()).abs()) for one in (first, second))
            assert near < 0.2
            seen.append(now.clone())
        untouched, _ = ring.arguments(arena, 0)
        assert torch.equal(untouched, first)


def test_values_with_a_meaning_stay_as_they_were_drawn() -> None:
    mask, whole, relu = torch.rand(64) > 0.5, torch.arange(64), torch.randn(64, 64).relu()
    noise = torch.randn(64, 64)
    ring, arena, keyed = _ring((mask, whole, relu, noise), (mask, whole, relu, noise))
    with arena:
        assert keyed
        ring.redraw(arena, 2)
        again = ring.arguments(arena, 2)
        for before, after in zip((mask, whole, relu), again[:3], strict=True):
            assert torch.equal(before, after)
        assert not torch.equal(noise, again[3])


@pytest.mark.parametrize("tensor, noise", [
    (torch.randn(4096), True), (torch.rand(4096), True), (torch.randn(4096).bfloat16(), True),
    (torch.zeros(4096), False), (torch.ones(4096), False), (torch.randn(4096).relu(), False),
    (torch.randint(0, 9, (4096,)).float(), False), (torch.tensor([1.5, float("inf")] * 99), False),
    (torch.randn(4096).sign() * 0.5, False), (torch.arange(4096), False), (torch.rand(0), False),
    (torch.rand(4096) > 0.5, False), (torch.randn(64, dtype=torch.complex64), False),
])  # fmt: skip
def test_what_counts_as_noise(tensor: torch.Tensor, noise: bool) -> None:
    assert is_plain_noise(tensor) == noise


def test_where_nothing_can_be_keyed_it_is_said() -> None:
    ring, arena, keyed = _ring((torch.arange(8),), (torch.arange(8),))
    with arena:
        assert not keyed
        assert ring.slots == 3


def test_strides_are_kept_and_nothing_overlaps() -> None:
    turned, wide, step = torch.randn(6, 7).t(), torch.randn(5, 1).expand(5, 9), torch.randn(40)[::3]
    ring, arena, _ = _ring((turned, [wide, {"step": step}]), (turned, [wide, {"step": step}]))
    with arena:
        one, (two, three) = ring.arguments(arena, 1)
        for mine, its in ((one, turned), (two, wide), (three["step"], step)):
            assert mine.stride() == its.stride()
            assert torch.equal(mine, its)
        spans = sorted((place.at, place.at + 4 * place.span) for slot in range(3) for place in ring.places(slot))
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        assert all(start % ALIGNMENT == 0 for start, _ in spans)


@pytest.mark.parametrize("other", [
    (torch.randn(9),), (torch.randn(8).double(),), (torch.randn(2, 4),), (torch.randn(16)[::2],),
    (torch.randn(8), torch.randn(8)), (),
])  # fmt: skip
def test_inputs_of_another_layout_are_refused(other: tuple[torch.Tensor, ...]) -> None:
    ring, arena, _ = _ring((torch.randn(8),), (torch.randn(8),))
    with arena, pytest.raises(CannotJudgeError, match="other shapes"):
        ring.put(arena, 0, other)


def test_no_key_makes_a_slow_denormal_number() -> None:
    small = torch.randn(70_000) * 1e-3
    small[5] = 0.0
    ring, arena, keyed = _ring((small,), (small,))
    with arena:
        assert keyed
        for _ in range(5):
            ring.redraw(arena, 0)
            (now,) = ring.arguments(arena, 0)
            assert not ((now != 0) & (now.abs() < np.finfo(np.float32).tiny)).any()
