"""The loop: ask the agent, let the judge decide, keep only what is proven faster, confirm the best."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from kforge.errors import CannotJudgeError, InterruptedByPerson, KforgeError
from kforge.events import (
    Confirmed,
    Event,
    Judged,
    Kept,
    NothingProposed,
    ProposalAsked,
    Proposed,
    Run,
    RunFinished,
    RunStarted,
    Stopped,
)
from kforge.interfaces import Agent, NothingToTry, Proposal, Renderer, Request
from kforge.plan.graph import Graph
from kforge.records import (
    Attempt,
    Candidate,
    Judgement,
    Origin,
    Outcome,
    PassKind,
    ProblemFacts,
    Target,
    Version,
)
from kforge.store import Store, write_text


class Judge(Protocol):
    """What the loop asks of the judge; `kforge.judge.client.JudgeClient` is one."""

    def open(self, problem: Path) -> ProblemFacts:
        """Read the Problem and run its reference."""
        ...

    def trace(self) -> Graph:
        """Say what the reference computes."""
        ...

    def judge(self, candidate: Candidate, *, best: Candidate | None = None, confirm: bool = False) -> Judgement:
        """Judge a candidate, in turn with the best one where it is given; ``confirm`` takes new seeds."""
        ...


@frozen
class Task:
    """What a run shall do."""

    problem: Path
    target: Target = field(kw_only=True)
    agent: str = field(kw_only=True)
    passes: int = field(kw_only=True)
    """Proposals at most."""
    patience: int = field(default=3, kw_only=True)
    """After so many optimization passes in a row without a gain the search ends."""
    output: Path | None = field(default=None, kw_only=True)
    """Where the kernel goes besides the run's folder."""
    options: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Further settings, for the record."""
    versions: tuple[Version, ...] = field(default=(), kw_only=True)


class Observer:
    """Told what happens in a run while it happens; tells nobody."""

    def opened(self, run: str, facts: ProblemFacts) -> None:
        """The Problem was read, and the run has an id."""

    def asking(self, number: int, kind: PassKind) -> None:
        """The agent is about to be asked."""

    def proposed(self, number: int, note: str) -> None:
        """A candidate is about to be judged."""

    def judged(self, attempt: Attempt) -> None:
        """A pass is over."""

    def stopped(self, reason: str) -> None:
        """The agent has nothing more to try."""

    def confirming(self, attempt: Attempt) -> None:
        """The best is judged once more."""


class Loop:
    """One run."""

    def __init__(
        self,
        task: Task,
        *,
        judge: Judge,
        agent: Agent,
        renderer: Renderer | None,
        store: Store,
        observer: Observer | None = None,
    ) -> None:
        self._task = task
        self._judge = judge
        self._agent = agent
        self._renderer = renderer
        self._store = store
        self._observer = observer or Observer()
        self._attempts: list[Attempt] = []
        self._run = ""

    def run(self) -> Run:
        """Carry the run out, and give its view.

        A Problem that cannot be read leaves no run behind. Later failures end the run as `failed` or `interrupted` in
        the store, and are raised.
        """
        task = self._task
        facts = self._judge.open(task.problem)
        graph = self._judge.trace()
        self._run = self._store.start(
            RunStarted(
                str(task.problem.absolute()),
                source=facts.source,
                target=task.target,
                agent=task.agent,
                options=task.options,
                versions=task.versions,
            )
        )
        try:
            self._observer.opened(self._run, facts)
            self._passes(facts, graph)
            self._finish(facts)
        except (KeyboardInterrupt, InterruptedByPerson) as error:
            self._end(Outcome.INTERRUPTED, None, error)
            raise
        except BaseException as error:
            self._end(Outcome.FAILED, str(error) or type(error).__name__, error)
            raise
        return self._store.run(self._run)

    def _passes(self, facts: ProblemFacts, graph: Graph) -> None:
        for number in range(1, self._task.passes + 1):
            if self._without_gain() >= self._task.patience:
                reason = f"no gain in the last {self._task.patience} passes"
                self._tell(Stopped(number, reason=reason))
                self._observer.stopped(reason)
                return
            kind = PassKind.FUNCTIONAL if self._best() is None else PassKind.OPTIMIZATION
            request = Request(
                self._task.target,
                pass_kind=kind,
                pass_number=number,
                problem=facts,
                graph=graph,
                attempts=tuple(self._attempts),
                renderer=self._renderer,
            )
            self._tell(ProposalAsked(number, pass_kind=kind))
            self._observer.asking(number, kind)
            answer = self._agent.propose(request)
            if isinstance(answer, NothingToTry):
                self._stop(number, answer.reason)
                return
            candidate = self._candidate(number, kind, answer)
            if any(attempt.candidate.hash == candidate.hash for attempt in self._attempts):
                self._stop(number, "the agent proposed a candidate that was judged before")
                return
            self._tell(Proposed(number, candidate=candidate, note=answer.note))
            self._observer.proposed(number, answer.note)
            self._pass(number, candidate, answer.note)

    def _without_gain(self) -> int:
        """Count the optimization passes since the best was found."""
        best = self._best()
        return 0 if best is None else len(self._attempts) - 1 - self._attempts.index(best)

    def _candidate(self, number: int, kind: PassKind, proposal: Proposal) -> Candidate:
        best = self._best()
        origin = Origin(
            self._task.agent,
            parent=None if best is None else best.candidate.hash,
            pass_kind=kind,
            pass_number=number,
            parameters=proposal.parameters,
        )
        return Candidate(proposal.source, target=self._task.target, origin=origin)

    def _pass(self, number: int, candidate: Candidate, note: str) -> None:
        best = self._best()
        judgement = self._judged(candidate, best=None if best is None else best.candidate)
        self._tell(Judged(number, judgement=judgement))
        kept = judgement.correct and (best is None or _faster(judgement))
        if kept:
            self._tell(Kept(number))
        attempt = Attempt(number, candidate=candidate, judgement=judgement, kept=kept, note=note)
        self._attempts.append(attempt)
        self._observer.judged(attempt)

    def _judged(self, candidate: Candidate, *, best: Candidate | None = None, confirm: bool = False) -> Judgement:
        judgement = self._judge.judge(candidate, best=best, confirm=confirm)
        if judgement.verdict.status is None:
            raise CannotJudgeError(
                judgement.verdict.reason or "the candidate cannot be judged here",
                hint="`kforge doctor` says what this machine offers",
            )
        return judgement

    def _finish(self, facts: ProblemFacts) -> None:
        """Confirm the best; where it fails on new seeds, the one that was kept before it."""
        for attempt in [one for one in reversed(self._attempts) if one.kept]:
            self._observer.confirming(attempt)
            judgement = self._judged(attempt.candidate, confirm=True)
            self._tell(Confirmed(attempt.number, judgement=judgement))
            if judgement.correct:
                measurement = judgement.measurement or attempt.judgement.measurement
                improved = measurement is not None and measurement.ratio.interval.low > 1
                path = self._write(facts, attempt.candidate)
                outcome = Outcome.IMPROVED if improved else Outcome.NO_FASTER
                self._tell(RunFinished(outcome, number=attempt.number, path=str(path)))
                return
        self._tell(RunFinished(Outcome.NO_CORRECT))

    def _write(self, facts: ProblemFacts, candidate: Candidate) -> Path:
        name = f"{Path(facts.path).stem}_{self._task.target.language}.py"
        path = self._store.write(self._run, name, candidate.source)
        if self._task.output is not None:
            return write_text(self._task.output, candidate.source)
        return path

    def _best(self) -> Attempt | None:
        return next((attempt for attempt in reversed(self._attempts) if attempt.kept), None)

    def _stop(self, number: int, reason: str) -> None:
        self._tell(NothingProposed(number, reason=reason))
        self._observer.stopped(reason)

    def _tell(self, event: Event) -> None:
        self._store.append(self._run, event)

    def _end(self, outcome: Outcome, reason: str | None, error: BaseException) -> None:
        try:
            self._tell(RunFinished(outcome, reason=reason))
        except KforgeError as second:
            # The first failure is what the person must hear of; a full disk is often the cause of both.
            error.add_note(f"the run's end could not be stored: {second.message}")


def _faster(judgement: Judgement) -> bool:
    return judgement.against_best is not None and judgement.against_best.interval.low > 1
