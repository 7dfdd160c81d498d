"""Every hostile candidate gets the right verdict, leaves nothing behind, and harms no honest one after it."""

from __future__ import annotations

import os

import pytest

from kforge.records import Limits, Phase, Status
from tests.judge.conftest import Opens
from tests.judge.court import Court, assert_correct, decisive, shown
from tests.judge.hostile import HONEST, PROBLEM, Hostile, answers, crashes, hostile, limits, values

FAMILIES = (crashes.CANDIDATES, limits.CANDIDATES, answers.CANDIDATES, values.CANDIDATES)
EVERYONE = [one for family in FAMILIES for one in family]

pytestmark = pytest.mark.usefixtures("whole_isolation")


@pytest.fixture(scope="module")
def court(convene: Opens) -> Court:
    return convene(PROBLEM)


def _judged(court: Court, candidate: Hostile) -> None:
    judgement = court.judge(candidate.source)
    assert judgement.verdict.status is candidate.status, shown(judgement)
    if candidate.status is Status.CORRECT:
        assert_correct(judgement)
        return
    finding = decisive(judgement)
    assert finding.check in candidate.checks, shown(judgement)
    assert candidate.phase in (None, finding.phase), shown(judgement)
    assert candidate.says in finding.message
    assert judgement.measurement is None


def test_there_are_more_than_fifty() -> None:
    assert len({one.name for one in EVERYONE}) == len(EVERYONE) >= 50


@pytest.mark.parametrize("candidate", EVERYONE, ids=lambda one: one.name)
def test_verdict(court: Court, candidate: Hostile) -> None:
    _judged(court, candidate)
    if candidate in [family[-1] for family in FAMILIES]:
        assert_correct(court.judge(HONEST))


@pytest.fixture(scope="module")
def patient(convene: Opens) -> Court:
    return convene(PROBLEM, limits=Limits(build_s=30.0, call_s=30.0, memory_bytes=2**30))


@pytest.mark.parametrize("candidate", limits.BOMBS, ids=lambda one: one.name)
def test_memory_bomb(patient: Court, candidate: Hostile) -> None:
    _judged(patient, candidate)
    if candidate is limits.BOMBS[-1]:
        assert_correct(patient.judge(HONEST))


def test_memory_that_may_not_be_read_is_rejected_unless_the_judge_is_root(court: Court) -> None:
    hidden = "libc.prctl(4, 0, 0, 0, 0)"  # PR_SET_DUMPABLE
    if os.geteuid() == 0:
        _judged(court, hostile("not dumpable", Status.CORRECT, top=hidden))
    else:
        _judged(court, hostile("not dumpable", Status.REJECTED, "unreadable", top=hidden))


def test_a_worse_time_is_seen_whatever_the_candidate_does_to_its_clocks(court: Court) -> None:
    slow = hostile("slow", Status.CORRECT, top="time.time = time.perf_counter = time.monotonic = lambda: 0",
                   forward="time.sleep(0.02)\nreturn self.right(x)")  # fmt: skip
    judgement = court.judge(slow.source)
    assert_correct(judgement)
    assert judgement.measurement is not None
    assert judgement.measurement.ratio.speedup < 0.5
    assert judgement.measurement.candidate.median_s > 0.02


def test_an_endless_build_is_ended_within_its_limit(court: Court) -> None:
    judgement = court.judge(hostile("endless", Status.TIMED_OUT, top="while True: pass").source)
    assert decisive(judgement).phase is Phase.BUILD
    assert judgement.seconds < 15
