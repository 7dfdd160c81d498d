"""One judge with its Problem, and a look at what it leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from attrs import define, field

from kforge.judge import _processes
from kforge.judge.client import JudgeClient
from kforge.records import Candidate, Finding, Judgement, Limits, Origin, ProblemFacts, Status, Target

SECRET_KEY: Final = "sk-no-worker-may-see-this"
QUICK: Final = Limits(build_s=6.0, call_s=4.0)
"""Tests of endless candidates need not wait as long as a compiler may take."""


@define
class Court:
    """A judge for ``null@cpu`` without torch.compile, so that it opens in seconds."""

    client: JudgeClient
    facts: ProblemFacts
    folder: Path
    _closed: bool = False
    _around: list[set[str]] = field(factory=list)

    @classmethod
    def open(cls, folder: Path, problem: str, **options: Any) -> Court:
        """Start a judge on a Problem's text; its folders lie in ``folder``."""
        path = folder / "problem.py"
        path.write_text(problem, encoding="utf-8")
        around = _around()
        client = JudgeClient(Target("null", "cpu"), **{"limits": QUICK, "compiled": False, "pairs": 1, **options})
        try:
            return cls(client, client.open(path), folder, around=around)
        except BaseException:
            client.close()
            assert not list((folder / "tmp").iterdir())
            raise

    def judge(self, source: str) -> Judgement:
        """Judge a candidate, and check that nothing but the zygote is left running or lying about."""
        judgement = self.client.judge(Candidate(source, target=Target("null", "cpu"), origin=Origin("file")))
        assert len(self.running()) == 1, "the zygote alone may be left"
        (scratch,) = (self.folder / "tmp").iterdir()
        assert not [path.name for path in scratch.iterdir() if path.name.startswith("worker")]
        assert _around() == self._around
        return judgement

    def running(self) -> list[int]:
        """Give all living processes below the judge."""
        process = self.client._process
        assert process is not None
        return _processes.living(_processes.descendants(process.pid))

    def close(self) -> None:
        """End the judge; nothing may be left."""
        if self._closed:
            return
        self._closed = True
        below = self.running()
        self.client.close()
        assert not _processes.living(below)
        assert not list((self.folder / "tmp").iterdir())


def _around() -> list[set[str]]:
    """Give what lies where hostile programs like to leave things."""
    return [{path.name for path in Path(folder).iterdir()} for folder in ("/dev/shm", "/var/tmp")]


def decisive(judgement: Judgement) -> Finding:
    """Give the finding that decided."""
    return next(finding for finding in judgement.verdict.findings if finding.decisive)


def shown(judgement: Judgement) -> str:
    """Give a verdict in one line, for a failing test's message."""
    findings = [f"{one.check} ({one.phase.value}): {one.message[:300]}" for one in judgement.verdict.findings]
    return f"{judgement.verdict.status}: " + " | ".join(findings)


def assert_correct(judgement: Judgement) -> None:
    """Check that a candidate was found correct and timed."""
    assert judgement.verdict.status is Status.CORRECT, shown(judgement)
    assert judgement.measurement is not None
    assert judgement.measurement.candidate.median_s > 0


def assert_wrong(judgement: Judgement, *checks: str) -> Finding:
    """Check that a candidate was found wrong by one of these checks."""
    assert judgement.verdict.status is Status.WRONG, shown(judgement)
    finding = decisive(judgement)
    assert finding.check in checks, shown(judgement)
    return finding
