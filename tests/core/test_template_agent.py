"""The template agent: its first guess, its search by measured numbers, and its refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from attrs import evolve, frozen

from kforge.agents.template import TemplateAgent
from kforge.interfaces import Axis, NothingToTry, Proposal, Request
from kforge.plan.plan import Plan
from kforge.records import (
    Attempt,
    Candidate,
    DeviceFacts,
    Interval,
    Isolation,
    Judgement,
    Measurement,
    Origin,
    PassKind,
    Precision,
    ProblemFacts,
    Ratio,
    Status,
    Target,
    Times,
    Verdict,
)
from tests.core.plan_language import traced
from tests.core.test_plan_operations import Of

DEVICE = DeviceFacts("a device", kind="cpu")
TARGET = Target("toy", "cpu")


@frozen
class ToyRenderer:
    """Writes its parameters down."""

    reasons: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = (
        Axis("work_group", values=(128, 64, 256, 512, 1024)),
        Axis("vector", values=(1, 2, 4)),
    )

    def can_render(self, plan: Plan, facts: DeviceFacts) -> tuple[str, ...]:
        return self.reasons

    def space(self, plan: Plan, facts: DeviceFacts) -> tuple[Axis, ...]:
        return self.axes

    def render(self, plan: Plan, parameters: Mapping[str, int]) -> str:
        return repr(dict(parameters))


def request(function: Callable[..., object] = lambda x: x.exp() + 1) -> Request:
    problem = ProblemFacts(
        "p",
        path="p.py",
        source="",
        precision=Precision.FP32,
        inputs=(),
        parameters=(),
        outputs=(),
        device=DEVICE,
        isolation=Isolation(()),
    )
    return Request(
        TARGET,
        pass_kind=PassKind.FUNCTIONAL,
        pass_number=0,
        problem=problem,
        graph=traced(Of(function), (torch.ones(4, 4),)),
        renderer=ToyRenderer(),
    )


def times(name: str, seconds: float) -> Times:
    return Times(name, median_s=seconds, low_s=seconds, high_s=seconds, batches=9, calls_per_batch=2, processes=3)


def judged(before: Request, proposal: Proposal, seconds: float | None, status: Status = Status.CORRECT) -> Request:
    """Give the request after a proposal was judged; the fastest is kept."""
    origin = Origin("template", parameters=proposal.parameters)
    candidate = Candidate(proposal.source, target=TARGET, origin=origin)
    measurement = None
    if seconds is not None:
        ratio = Ratio("eager", speedup=1 / seconds, interval=Interval(1, 1), pairs=9, processes=3)
        measurement = Measurement(
            times("candidate", seconds),
            baselines=(times("eager", 1.0),),
            ratios=(ratio,),
            baseline="eager",
            stable=True,
            device=DEVICE,
            precision=Precision.FP32,
            library_allowed=False,
        )
    judgement = Judgement(candidate.hash, verdict=Verdict(status), measurement=measurement, seconds=1.0)
    best = before.best
    old = best.judgement.measurement if best else None
    kept = status is Status.CORRECT and (old is None or (seconds or 9.0) < old.candidate.median_s)
    attempt = Attempt(len(before.attempts), candidate=candidate, judgement=judgement, kept=kept, note=proposal.note)
    return evolve(
        before,
        attempts=(*before.attempts, attempt),
        pass_kind=PassKind.OPTIMIZATION,
        pass_number=before.pass_number + 1,
    )


def searched(cost: Callable[[int, int], float | None]) -> tuple[Request, list[str], str]:
    """Run the search to its end; gives the last request, all notes, and the final reason."""
    current, notes = request(), list[str]()
    while True:
        answer = TemplateAgent().propose(current)
        if isinstance(answer, NothingToTry):
            return current, notes, answer.reason
        notes.append(answer.note)
        group, vector = (value for _, value in answer.parameters)
        seconds = cost(group, vector)
        current = judged(current, answer, seconds, Status.CORRECT if seconds else Status.BUILD_FAILED)


def test_the_first_guess_is_the_first_value_of_each_axis() -> None:
    answer = TemplateAgent().propose(request())
    assert isinstance(answer, Proposal)
    assert answer.parameters == (("work_group", 128), ("vector", 1))
    assert "work-group 128" in answer.note


def test_the_search_follows_what_pays_and_tells_the_numbers() -> None:
    last, notes, reason = searched(lambda group, vector: abs(group - 512) * 1e-5 + 0.01 + 0.002 * vector)
    best = last.best
    assert best is not None
    assert dict(best.candidate.origin.parameters) == {"work_group": 512, "vector": 1}
    assert any("work-group 128 -> 256: 15.8 ms -> 14.6 ms, so next 512" in note for note in notes), notes
    assert any("no gain" in note for note in notes)
    assert "14" not in reason
    assert "work-group 512, vector 1" in reason
    assert "12 ms" in reason


def test_no_candidate_is_proposed_twice_and_failures_are_passed_by() -> None:
    last, notes, _ = searched(
        lambda group, vector: None if vector == 2 or group == 128 else 1e-5 * group + vector * 1e-6
    )
    sources = [attempt.candidate.source for attempt in last.attempts]
    assert len(sources) == len(set(sources)) <= 15
    assert "attempt 0 was build_failed" in notes[1]
    best = last.best
    assert best is not None
    assert dict(best.candidate.origin.parameters) == {"work_group": 64, "vector": 1}


def test_a_space_without_a_correct_point_is_exhausted() -> None:
    _, notes, reason = searched(lambda group, vector: None)
    assert len(notes) == 15
    assert "none is correct" in reason


def test_the_same_request_gives_the_same_answer() -> None:
    first = TemplateAgent().propose(request())
    assert isinstance(first, Proposal)
    later = judged(request(), first, 0.5)
    assert TemplateAgent().propose(later) == TemplateAgent().propose(later)


def test_attempts_of_others_are_left_alone() -> None:
    foreign = judged(request(), Proposal("by hand", note="", parameters=()), 0.25)
    answer = TemplateAgent().propose(foreign)
    assert isinstance(answer, Proposal)
    assert answer.parameters == (("work_group", 128), ("vector", 1))


@pytest.mark.parametrize(
    "asked, words",
    [
        (lambda: request(lambda x: x.cumsum(0)), ["cumsum.default", "--agent openai"]),
        (lambda: evolve(request(), renderer=None), ["no renderer"]),
        (lambda: evolve(request(), renderer=ToyRenderer(reasons=("k: erf of float64",))), ["erf of float64"]),
    ],
)
def test_an_impossible_plan_is_explained(asked: Callable[[], Request], words: list[str]) -> None:
    answer = TemplateAgent().propose(asked())
    assert isinstance(answer, NothingToTry)
    assert all(word in answer.reason for word in words)
