"""A judge and an agent that follow a script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kforge.interfaces import NothingToTry, Proposal, Request
from kforge.plan.graph import Graph
from kforge.records import (
    Candidate,
    DeviceFacts,
    Finding,
    Interval,
    Isolation,
    Judgement,
    Layer,
    Measurement,
    Phase,
    Precision,
    ProblemFacts,
    Ratio,
    Status,
    Times,
    Verdict,
    Version,
)

DEVICE = DeviceFacts("Toy CPU", kind="cpu", cores=2)
ISOLATION = Isolation((Layer("limits", used=True), Layer("pid namespace", used=False, reason="not allowed here")))
WRONG = Finding(
    "values",
    phase=Phase.COMPARE,
    message="2 of 4 elements are off",
    output="output",
    index=(1, 3),
    expected="0.5",
    got="0.75",
    error=0.25,
    allowed=1e-5,
)


def facts(path: Path) -> ProblemFacts:
    """Give facts of a Problem."""
    return ProblemFacts(
        path.stem,
        path=str(path),
        source=path.read_text(encoding="utf-8"),
        precision=Precision.FP32,
        inputs=(),
        parameters=(),
        outputs=(),
        device=DEVICE,
        isolation=ISOLATION,
    )


def times(name: str, median_s: float) -> Times:
    """Give times of one program."""
    return Times(
        name, median_s=median_s, low_s=median_s * 0.9, high_s=median_s * 1.1, batches=30, calls_per_batch=8, processes=3
    )


def ratio(opponent: str, speedup: float) -> Ratio:
    """Give a ratio whose interval is 10 % wide on both sides."""
    interval = Interval(speedup * 0.9, speedup * 1.1)
    return Ratio(opponent, speedup=speedup, interval=interval, pairs=30, processes=3)


def measured(speedup: float) -> Measurement:
    """Give a measurement with this speed-up over the faster baseline."""
    return Measurement(
        times("candidate", 1e-3),
        baselines=(times("eager", 2e-3 * speedup), times("torch.compile", 1e-3 * speedup)),
        ratios=(ratio("eager", 2 * speedup), ratio("torch.compile", speedup)),
        baseline="torch.compile",
        stable=True,
        device=DEVICE,
        versions=(Version("torch", version="2.0"),),
        precision=Precision.FP32,
        library_allowed=False,
    )


class ScriptedJudge:
    """Answers with the script's entries in turn: (status, speed-up, ratio against the best)."""

    def __init__(self, script: Sequence[tuple[Status | None, float, float] | BaseException]) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, bool, bool]] = []
        """Source, whether a best was given, whether it was a confirmation."""

    def __enter__(self) -> ScriptedJudge:
        return self

    def __exit__(self, *_: object) -> None: ...

    def open(self, problem: Path) -> ProblemFacts:
        """Read the Problem."""
        return facts(problem)

    def trace(self) -> Graph:
        """Give no graph that anybody here looks at."""
        return Graph.__new__(Graph)

    def judge(self, candidate: Candidate, *, best: Candidate | None = None, confirm: bool = False) -> Judgement:
        """Follow the script."""
        self.asked.append((candidate.source, best is not None, confirm))
        entry = self.script.pop(0)
        if isinstance(entry, BaseException):
            raise entry
        status, speedup, against = entry
        correct = status is Status.CORRECT
        verdict = Verdict(
            status,
            reason=None if status else "memory ran out",
            findings=(WRONG,) if status is Status.WRONG else (),
        )
        return Judgement(
            candidate.hash,
            verdict=verdict,
            measurement=measured(speedup) if correct else None,
            against_best=ratio("best", against) if correct and best is not None else None,
            isolation=ISOLATION,
            seconds=1.0,
        )


class ScriptedAgent:
    """Proposes numbered sources, so many and no more."""

    def __init__(self, count: int) -> None:
        self._count = count

    def propose(self, request: Request) -> Proposal | NothingToTry:
        """Give the next source."""
        if request.pass_number > self._count:
            return NothingToTry("the script is over")
        return Proposal(f"class ModelNew: number = {request.pass_number}\n", note=f"idea {request.pass_number}")
