"""What a person sees of a run, while it goes on and at its end."""

from __future__ import annotations

import shlex
from pathlib import Path

from kforge.cli import report, words
from kforge.cli.output import Output
from kforge.events import Run
from kforge.loop import Observer
from kforge.records import Attempt, Outcome, PassKind, ProblemFacts


class Narrator(Observer):
    """Tells each step of a run in one line."""

    def __init__(self, out: Output, passes: int) -> None:
        self._out = out
        self._passes = passes
        self._head = ""

    def opened(self, run: str, facts: ProblemFacts) -> None:
        """Name the run, and what the audit found."""
        self._out.say(f"run {run} on {facts.device.name}")
        for finding in facts.findings:
            self._out.say(f"problem: {finding.check}: {finding.message}")
        if facts.isolation.missing:
            self._out.say(f"isolation without {', '.join(one.name for one in facts.isolation.missing)}")

    def asking(self, number: int, kind: PassKind) -> None:
        """Show the pass."""
        self._head = f"pass {number}/{self._passes} {kind.value}"
        self._out.progress(f"{self._head}: asking for a candidate")

    def proposed(self, number: int, note: str) -> None:
        """Show what is tried."""
        self._head = f"{self._head}: {note}"
        self._out.progress(self._head)

    def judged(self, attempt: Attempt) -> None:
        """Tell how a pass ended."""
        self._out.say(f"{self._head}: {report.short(attempt.judgement)}{' (kept)' if attempt.kept else ''}")

    def stopped(self, reason: str) -> None:
        """Tell why there are no more passes."""
        self._out.say(f"nothing more to try: {reason}")

    def confirming(self, attempt: Attempt) -> None:
        """Show the last judgement."""
        self._out.say(f"confirming the candidate of pass {attempt.number} on new seeds")


def show(out: Output, run: Run, *, problem: Path) -> None:
    """Write a finished run: baselines and best, outcome, where the kernel lies, what to do next."""
    out.data({"schema": "kforge/run/1", **words.run(run)})
    best = run.best
    outcome = "unfinished" if run.outcome is None else run.outcome.value
    good = run.outcome in {Outcome.IMPROVED, Outcome.NO_FASTER}
    out.line(f"{outcome}: {problem} on {run.started.target}", style="bold green" if good else "bold red")
    if run.finished is not None and run.finished.reason:
        out.line(f"  {run.finished.reason}")
    if best is None:
        last = run.attempts[-1] if run.attempts else None
        if last is not None:
            report.verdict(out, last.judgement.verdict, f"the last candidate, pass {last.number}")
        elif run.stopped:
            out.line(f"  {run.stopped}")
        out.line(f"next: kforge runs show {run.id}")
        return
    if best.judgement.measurement is not None:
        report.measurement(out, best.judgement.measurement, best.judgement.isolation)
    path = None if run.finished is None else run.finished.path
    if path is not None:
        out.line()
        out.line(f"kernel  {path}")
        command = ["kforge", "verify", path, "--problem", str(problem), "--target", str(run.started.target)]
        out.line(f"next    {shlex.join(command)}")
