"""The loop keeps what is proven faster, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforge.errors import CannotJudgeError
from kforge.events import Run
from kforge.loop import Loop, Task
from kforge.records import Outcome, Status, Target
from kforge.store import Store
from tests.scripted import ScriptedAgent, ScriptedJudge

GOOD, WRONG = Status.CORRECT, Status.WRONG


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """Give a Problem's file."""
    path = tmp_path / "softmax.py"
    path.write_text("class Model: ...\n", encoding="utf-8")
    return path


def _run(
    judge: ScriptedJudge, problem: Path, *, passes: int = 6, patience: int = 9, count: int = 3,
    output: Path | None = None,
) -> Run:  # fmt: skip
    task = Task(problem, target=Target("toy", "cpu"), agent="scripted", passes=passes, patience=patience, output=output)
    return Loop(task, judge=judge, agent=ScriptedAgent(count), renderer=None, store=Store()).run()


def test_a_faster_candidate_is_kept_confirmed_and_written(problem: Path, tmp_path: Path) -> None:
    judge = ScriptedJudge([(WRONG, 0, 0), (GOOD, 1.5, 0), (GOOD, 2.0, 1.3), (GOOD, 1.9, 0)])
    run = _run(judge, problem, output=tmp_path / "best.py")
    assert run.outcome is Outcome.IMPROVED
    assert [attempt.kept for attempt in run.attempts] == [False, True, True]
    assert judge.asked[-1] == ("class ModelNew: number = 3\n", False, True)
    assert run.finished is not None
    assert run.finished.path == str(tmp_path / "best.py")
    assert (tmp_path / "best.py").read_text(encoding="utf-8") == "class ModelNew: number = 3\n"
    assert (Store().folder(run.id) / "softmax_toy.py").is_file()
    assert run.stopped == "the script is over"


def test_a_candidate_that_is_faster_only_within_the_interval_is_not_kept(problem: Path) -> None:
    run = _run(ScriptedJudge([(GOOD, 1.5, 0), (GOOD, 1.6, 1.05), (GOOD, 1.5, 0)]), problem, passes=2)
    assert [attempt.kept for attempt in run.attempts] == [True, False]
    assert run.best is not None
    assert run.best.number == 1


def test_a_best_that_beats_no_baseline_is_no_faster_kernel(problem: Path) -> None:
    run = _run(ScriptedJudge([(GOOD, 1.05, 0), (GOOD, 1.05, 0)]), problem, passes=1)
    assert run.outcome is Outcome.NO_FASTER


def test_no_correct_candidate_is_said(problem: Path) -> None:
    run = _run(ScriptedJudge([(WRONG, 0, 0), (WRONG, 0, 0)]), problem, passes=2)
    assert (run.outcome, run.best) == (Outcome.NO_CORRECT, None)


def test_a_best_that_fails_its_confirmation_gives_way_to_the_one_before(problem: Path) -> None:
    run = _run(ScriptedJudge([(GOOD, 2, 0), (GOOD, 3, 1.5), (WRONG, 0, 0), (GOOD, 2, 0)]), problem, passes=2)
    assert run.best is not None
    assert (run.outcome, run.best.number) == (Outcome.IMPROVED, 1)


def test_a_search_that_gains_nothing_ends(problem: Path) -> None:
    run = _run(
        ScriptedJudge([(GOOD, 2, 0)] + [(GOOD, 2, 0.9)] * 8 + [(GOOD, 2, 0)]), problem, passes=9, patience=2, count=9
    )
    assert [attempt.kept for attempt in run.attempts] == [True, False, False]
    assert run.stopped == "no gain in the last 2 passes"


def test_an_interrupt_ends_the_run_as_interrupted(problem: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _run(ScriptedJudge([(GOOD, 2, 0), KeyboardInterrupt()]), problem)
    (run,) = Store().runs()
    assert run.outcome is Outcome.INTERRUPTED
    assert len(run.attempts) == 1


def test_a_judge_that_cannot_judge_ends_the_run_as_failed(problem: Path) -> None:
    with pytest.raises(CannotJudgeError, match="memory ran out"):
        _run(ScriptedJudge([(None, 0, 0)]), problem)
    (run,) = Store().runs()
    assert run.outcome is Outcome.FAILED
