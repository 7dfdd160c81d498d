"""How many pairs of processes a measurement takes, and who is raced in them; times come from a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import define, field

from kforge.judge.measure import BEST, COMPILED, EAGER, Measurer
from kforge.records import Candidate, DeviceFacts, Measurement, Origin, Precision, Target

CANDIDATE = Candidate("", target=Target("null", "cpu"), origin=Origin("file"))


@define
class Scripted(Measurer):
    """Gives, for each program by name, seconds a call that spread by ``noise``."""

    times_s: dict[str, float] = field(factory=dict, kw_only=True)
    noise: float = field(default=0.001, kw_only=True)
    raced: list[list[str]] = field(factory=list, kw_only=True)

    def _compiled_program(self) -> Any:
        return object() if COMPILED in self.times_s else None

    def _race(
        self, candidate: Candidate, best: Candidate | None, compiled: Any, recheck: Any, number: int, *,
        thorough: bool = True,
    ) -> list[Any]:  # fmt: skip
        names = ["candidate", *([] if best is None else [BEST]), *([] if compiled is None else [COMPILED])]
        if compiled is None or self._needs_eager(best, number):
            names.append(EAGER)
        self.raced.append(names)
        chance = np.random.default_rng(number)
        return [
            SimpleNamespace(
                program=SimpleNamespace(name=name), calls=1, window_s=1.0,
                seconds=list(self.times_s[name] * np.exp(chance.normal(0, self.noise, 15))),
            )
            for name in names
        ]  # fmt: skip


Makes = Callable[..., Scripted]


@pytest.fixture
def measurer(tmp_path: Path) -> Makes:
    def make(noise: float = 0.001, **times_s: float) -> Scripted:
        workshop: Any = SimpleNamespace(cache=tmp_path, sizes=SimpleNamespace(max_calls=9))
        named = {"candidate": 1.0, EAGER: 2.0, **{name.replace("compiled", COMPILED): s for name, s in times_s.items()}}
        return Scripted(
            workshop, Precision.FP32, DeviceFacts("a CPU", kind="cpu"), library_allowed=False, limit_s=1, pairs=3,
            tell=lambda *_: None, times_s=named, noise=noise,
        )  # fmt: skip

    return make


def _measure(measurer: Scripted, best: Candidate | None = None, *, thorough: bool = True) -> Measurement:
    return measurer.measure(CANDIDATE, best, lambda _: None, thorough=thorough)[0]


def _with_eager(raced: Sequence[Sequence[str]]) -> list[bool]:
    return [EAGER in names for names in raced]


def test_a_narrow_interval_takes_three_pairs_and_a_wide_one_six(measurer: Makes) -> None:
    quiet, noisy = measurer(), measurer(noise=0.5)
    assert _measure(quiet).stable
    assert len(quiet.raced) == 3
    wide = _measure(noisy)
    assert not wide.stable
    assert "unstable" in " ".join(wide.notes)
    assert len(noisy.raced) == 6


def test_a_search_takes_one_pair_at_first_and_for_what_does_not_beat_the_best(measurer: Makes) -> None:
    first, slower, faster = measurer(noise=0.5), measurer(best=1.0), measurer(best=1.2)
    _measure(first, thorough=False)
    assert len(first.raced) == 1
    assert "does not beat the best" in " ".join(_measure(slower, CANDIDATE, thorough=False).notes)
    assert len(slower.raced) == 1
    _measure(faster, CANDIDATE, thorough=False)
    assert len(faster.raced) == 3


def test_eager_is_raced_as_long_as_it_may_be_the_faster_baseline(measurer: Makes) -> None:
    wins, near, far = (measurer(noise=0.5, compiled=compiled) for compiled in (9.0, 1.9, 0.2))
    assert _measure(wins).baseline == EAGER
    assert _with_eager(wins.raced) == [True] * 6
    far_times = _measure(far)
    assert far_times.baseline == COMPILED
    assert {one.name: one.processes for one in far_times.baselines}[EAGER] == 1
    assert _with_eager(far.raced) == [True] + [False] * 5
    _measure(near)
    assert _with_eager(near.raced)[:3] == [True] * 3


def test_passes_do_without_eager_once_it_has_lost(measurer: Makes) -> None:
    measured = measurer(compiled=1.5, best=1.2)
    _measure(measured, thorough=False)
    _measure(measured, CANDIDATE, thorough=False)
    assert _with_eager(measured.raced) == [True, False, False, False]
