"""Measurements: fresh pairs of candidate and eager workers, beside one compiled worker that stays."""

from __future__ import annotations

import fcntl
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

import numpy as np
import torch
from attrs import define, field

from kforge import __version__
from kforge.disk import CACHE, require_room
from kforge.judge.program import Failure, Program
from kforge.judge.race import ROUNDS, Lane, Race
from kforge.judge.statistics import UNSTABLE, ratio, times
from kforge.judge.workshop import BASELINE_BUILD_S, Workshop
from kforge.records import Candidate, DeviceFacts, Isolation, Measurement, Phase, Precision, Ratio, Version

FAR: Final = 1.5
"""A baseline that takes so many times as long as the other is timed in one pair of processes."""
QUICK_ROUNDS: Final = 9
"""Enough to choose the next candidate by."""
STEADY: Final = 0.04
"""Half-width of the interval, as a share, above which further pairs of processes are timed."""
EAGER: Final = "eager"
COMPILED: Final = "torch.compile"
BEST: Final = "best"
PROMISING: Final = 1.02
"""A candidate that is not this much faster than the best in its first processes is not timed in further ones."""


@define
class _Samples:
    """What one program took, by pair of processes."""

    seconds: list[float] = field(factory=list)
    ratios: list[list[float]] = field(factory=list)
    calls: int = 1
    processes: int = 0

    def add(self, lane: Lane, candidate: Lane, *, fresh: bool) -> None:
        """Take in one race."""
        self.seconds += lane.seconds
        self.ratios.append([mine / its for mine, its in zip(lane.seconds, candidate.seconds, strict=True)])
        self.calls = lane.calls
        self.processes = self.processes + 1 if fresh else 1


@define
class Measurer:
    """Times candidates of one session."""

    workshop: Workshop
    precision: Precision
    facts: DeviceFacts
    library_allowed: bool = field(kw_only=True)
    limit_s: float = field(kw_only=True)
    pairs: int = field(kw_only=True)
    """Pairs of processes; up to twice as many where the interval stays wide."""
    tell: Callable[[str, str], None] = field(kw_only=True)
    notes: list[str] = field(factory=list)
    overheads_s: list[float] = field(factory=list)
    """For each pair of processes so far, what it took beyond builds and timed windows."""
    _compiled: Program | None = None
    _compiled_ready: bool = False
    _eager_loses: bool = False
    """Known after the first pair of processes: then passes need only the faster baseline."""
    _eager_is_far: bool = False

    isolation: Isolation = field(factory=lambda: Isolation(()))
    """The layers that workers of this session have."""

    def start(self, *, compiled: bool) -> None:
        """Learn the layers from a first worker, torch.compile's, which builds while candidates are compared."""
        if compiled:
            first = self._compiled = self.workshop.spawn_baseline(COMPILED)
            self.workshop.build_baseline(first, compiled=True)
        else:
            with self.workshop.spawn("first", {}, warm=0) as first:
                first.wait_ready()
        assert first.isolation is not None
        self.isolation = first.isolation

    def _compiled_program(self) -> Program | None:
        if self._compiled is not None and not self._compiled_ready:
            self.tell("baseline", "waiting for torch.compile")
            try:
                self._compiled.take(BASELINE_BUILD_S)
                self._ready(self._compiled)
                self._compiled_ready = True
            except Failure as failure:
                require_room(self.workshop.cache, CACHE)  # else the baseline fell to a full disk
                said = " ".join(failure.finding.message.partition("\n\n")[0].split())[:300]
                self.notes.append(f"torch.compile cannot compile this reference: {said}")
                self._compiled.__exit__()
                self._compiled = None
        return self._compiled

    def _ready(self, program: Program) -> None:
        """Give a built worker the weights and the ring, and stop it."""
        self.workshop.load(program, self.workshop.case)
        self.workshop.bind(program)
        program.phase = Phase.TIMING
        program.freeze()

    def measure(
        self, candidate: Candidate, best: Candidate | None, recheck: Callable[[Program], None], *, thorough: bool
    ) -> tuple[Measurement, Ratio | None]:
        """Time a candidate that compared right; raises `Failure` when it fails or is caught while timed.

        A ``thorough`` one gets further pairs of processes while the interval is wide; else a candidate that does not
        promise to beat ``best`` is timed in one pair only.
        """
        compiled = self._compiled_program()
        samples: dict[str, _Samples] = {}
        mine = _Samples()
        notes = list(self.notes)
        with self._device_lock():
            # A first candidate that is correct is kept whatever its time; the confirmation says how good it is.
            most = 2 * self.pairs if thorough else self.pairs if best is not None else 1
            for number in range(most):
                if number >= self.pairs and self._steady(samples):
                    break
                self.tell("time", f"timing, pair of processes {number + 1} of {min(most, max(number + 1, self.pairs))}")
                for lane in self._race(candidate, best, compiled, recheck, number, thorough=thorough):
                    name = lane.program.name
                    if name == "candidate":
                        first = lane
                        mine.add(lane, lane, fresh=True)
                    else:
                        samples.setdefault(name, _Samples()).add(lane, first, fresh=name != COMPILED)
                if EAGER in samples and COMPILED in samples:
                    slow, quick = (np.median(samples[name].seconds) for name in (EAGER, COMPILED))
                    self._eager_loses, self._eager_is_far = bool(slow > quick), bool(slow > FAR * quick)
                if not thorough and BEST in samples and ratio(BEST, samples[BEST].ratios).speedup < PROMISING:
                    notes.append("not timed in further processes: it does not beat the best so far")
                    break
        return self._measurement(mine, samples, notes)

    @staticmethod
    def _steady(samples: dict[str, _Samples]) -> bool:
        """Say whether the interval against the fastest opponent is narrow enough."""
        ratios = [ratio(name, sample.ratios) for name, sample in samples.items()]
        return min(ratios, key=lambda one: one.speedup).interval.half_width <= STEADY

    def _race(
        self, candidate: Candidate, best: Candidate | None, compiled: Program | None,
        recheck: Callable[[Program], None], number: int, *, thorough: bool = True,
    ) -> list[Lane]:  # fmt: skip
        workshop, started = self.workshop, time.monotonic()
        with ExitStack() as stack:
            eager = compiled is None or self._needs_eager(best, number)
            programs = self._start(stack, candidate, best, number, eager=eager)
            if compiled is not None:
                workshop.bind(compiled)
                programs.insert(len(programs) - 1 if programs[-1].name == EAGER else len(programs), compiled)
            lanes = [Lane(program, trusted=program.name in (EAGER, COMPILED)) for program in programs]
            race = Race(
                workshop.arena, workshop.ring, lanes, workshop.case.output,
                call_limit_s=self.limit_s, max_calls=workshop.sizes.max_calls,
                redraw_whole=None if workshop.keyed else workshop.redraw_whole,
            )  # fmt: skip
            race.run(ROUNDS if thorough else QUICK_ROUNDS)
            built = sum(program.build_s for program in programs if program is not compiled)
            self.overheads_s.append(time.monotonic() - started - built - race.window_s)
            recheck(programs[0])
            return race.lanes

    def _needs_eager(self, best: Candidate | None, number: int) -> bool:
        """Say whether eager is raced beside torch.compile in a pair of processes.

        Where it loses, passes do without it, and so do pairs that only narrow an interval; far behind, all but one.
        """
        if best is None and number < (1 if self._eager_is_far else self.pairs):
            return True
        return not self._eager_loses

    def _start(
        self, stack: ExitStack, candidate: Candidate, best: Candidate | None, number: int, *, eager: bool
    ) -> list[Program]:
        """Start and build fresh workers: candidate, best, eager. Their memory is touched side by side."""
        workshop = self.workshop
        plans: list[tuple[Callable[[], Program], Callable[[Program], None]]] = [
            (partial(workshop.spawn_candidate, one, name), partial(workshop.build_candidate, candidate=one))
            for one, name in ((candidate, "candidate"), (best, BEST)) if one is not None
        ]  # fmt: skip
        if eager:
            plans.append((partial(workshop.spawn_baseline, EAGER), partial(workshop.build_baseline, compiled=False)))
        # Of two equal programs the one that was started first seemed to be slower (1.1 ± 0.6 %): they take turns.
        turn = -1 if number % 2 else 1
        programs = [stack.enter_context(spawn()) for spawn, _ in plans[::turn]][::turn]
        for program, (_, finish) in zip(programs, plans, strict=True):
            finish(program)
            self._ready(program)
        return programs

    def _measurement(
        self, mine: _Samples, samples: dict[str, _Samples], notes: list[str]
    ) -> tuple[Measurement, Ratio | None]:
        ratios = {name: ratio(name, sample.ratios) for name, sample in samples.items()}
        against = ratios.pop(BEST, None)
        baseline = min(ratios, key=lambda name: ratios[name].speedup)
        if COMPILED in ratios:
            notes.append("torch.compile's worker stayed for all pairs: the luck of its process is not averaged")
        width = ratios[baseline].interval.half_width
        if width > UNSTABLE:
            notes.append(
                f"unstable: the interval is ±{100 * width:.1f} %, more than ±{100 * UNSTABLE:.0f} %; "
                "close other programs and run it again"
            )
        if mine.calls >= self.workshop.sizes.max_calls and mine.seconds and mine.seconds[-1] * mine.calls < 0.005:
            notes.append("batches were shorter than 5 ms: the machine's memory allows no more calls at once")
        if self.facts.kind != "cpu":
            notes.append("reduced isolation: inputs and outputs were copied through host memory, on both sides")
        measurement = Measurement(
            times("candidate", mine.seconds, mine.calls, mine.processes),
            baselines=tuple(
                times(name, sample.seconds, sample.calls, sample.processes)
                for name, sample in samples.items() if name != BEST
            ),
            ratios=tuple(ratios.values()), baseline=baseline, stable=width <= UNSTABLE, notes=tuple(notes),
            device=self.facts, versions=_versions(), precision=self.precision, library_allowed=self.library_allowed,
        )  # fmt: skip
        return measurement, against

    @contextmanager
    def _device_lock(self) -> Iterator[None]:
        """Two judgings never time together on one device."""
        self.workshop.cache.mkdir(parents=True, exist_ok=True)
        with (self.workshop.cache / f"{self.facts.kind}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.tell("wait", "waiting for another judgement on this device")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        """End the compiled baseline."""
        if self._compiled is not None:
            self._compiled.__exit__()
            self._compiled = None


def _versions() -> tuple[Version, ...]:
    return (
        Version("kforge", version=__version__),
        Version("python", version=platform.python_version()),
        Version("torch", version=torch.__version__),
        Version("kernel", version=platform.release()),
    )
