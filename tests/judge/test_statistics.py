"""Speed-ups and their intervals, from samples whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from kforge.judge.statistics import ratio, times


def _processes(truth: float, spread: float, luck: float, seed: int, count: int = 3) -> list[list[float]]:
    generator = np.random.default_rng(seed)
    return [
        [float(value) for value in truth * np.exp(generator.normal(0, luck) + generator.normal(0, spread, 15))]
        for _ in range(count)
    ]


def test_the_truth_is_inside_the_interval() -> None:
    inside = 0
    for seed in range(60):
        found = ratio("eager", _processes(2.0, 0.05, 0.02, seed))
        inside += found.interval.low <= 2.0 <= found.interval.high
        assert found.interval.low <= found.speedup <= found.interval.high
        assert (found.pairs, found.processes) == (45, 3)
    assert inside >= 50


def test_the_luck_of_processes_widens_the_interval() -> None:
    narrow = np.median([ratio("x", _processes(1, 0.05, 0.0, seed)).interval.half_width for seed in range(20)])
    wide = np.median([ratio("x", _processes(1, 0.05, 0.1, seed)).interval.half_width for seed in range(20)])
    assert wide > 2 * narrow


def test_batches_that_something_else_disturbed_move_nothing() -> None:
    rounds = _processes(1.5, 0.01, 0.0, 1)
    for row in rounds:
        row[3], row[9] = 9.0, 0.1
    assert ratio("x", rounds).speedup == pytest.approx(1.5, rel=0.02)


def test_processes_may_have_different_numbers_of_rounds() -> None:
    found = ratio("x", [[2.0] * 15, [2.0] * 5, [2.0]])
    assert (found.speedup, found.interval.low, found.interval.high, found.pairs) == (2.0, 2.0, 2.0, 21)


def test_times_give_median_and_spread() -> None:
    found = times("eager", [1.0, 2.0, 3.0, 4.0, 100.0], 7, 3)
    assert found.median_s == 3.0
    assert found.low_s < found.median_s < found.high_s
    assert (found.batches, found.calls_per_batch, found.processes) == (5, 7, 3)
