"""What happens in a run, as events in their order, and the view of a run that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from kforge.records import Attempt, Candidate, Judgement, Outcome, PassKind, Target, Version


@frozen
class RunStarted:
    """A run began: all that its result depends on."""

    problem: str
    """Path of the Problem's file."""
    source: str = field(kw_only=True)
    """The Problem's text at that time."""
    target: Target = field(kw_only=True)
    agent: str = field(kw_only=True)
    options: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    versions: tuple[Version, ...] = field(default=(), kw_only=True)


@frozen
class ProposalAsked:
    """The agent is about to be asked."""

    number: int
    pass_kind: PassKind = field(kw_only=True)


@frozen
class Proposed:
    """The agent gave a candidate, which is about to be judged."""

    number: int
    candidate: Candidate = field(kw_only=True)
    note: str | None = field(default=None, kw_only=True)


@frozen
class NothingProposed:
    """The agent had nothing to try."""

    number: int
    reason: str = field(kw_only=True)


@frozen
class Stopped:
    """A stop rule ended the passes before pass ``number``."""

    number: int
    reason: str = field(kw_only=True)


@frozen
class Judged:
    """The candidate of a pass was judged."""

    number: int
    judgement: Judgement = field(kw_only=True)


@frozen
class Kept:
    """The candidate of a pass became the best."""

    number: int


@frozen
class Confirmed:
    """The best was judged once more, on new seeds; it stays the best when it is correct again."""

    number: int
    judgement: Judgement = field(kw_only=True)


@frozen
class RunFinished:
    """A run ended."""

    outcome: Outcome
    number: int | None = field(default=None, kw_only=True)
    """The pass whose candidate is the run's result."""
    path: str | None = field(default=None, kw_only=True)
    """Where the result was written."""
    reason: str | None = field(default=None, kw_only=True)


Event = RunStarted | ProposalAsked | Proposed | NothingProposed | Stopped | Judged | Kept | Confirmed | RunFinished

KINDS: Mapping[str, type[Event]] = {
    "run_started": RunStarted,
    "proposal_asked": ProposalAsked,
    "proposal": Proposed,
    "nothing_proposed": NothingProposed,
    "stopped": Stopped,
    "judged": Judged,
    "kept": Kept,
    "confirmed": Confirmed,
    "run_finished": RunFinished,
}
"""The word under which each event is stored."""


@frozen
class Run:
    """A run as its events tell it."""

    id: str
    started_at: float = field(kw_only=True)
    """Seconds since 1970, UTC."""
    last_at: float = field(kw_only=True)
    """Time of the last event, in the same unit."""
    started: RunStarted = field(kw_only=True)
    attempts: tuple[Attempt, ...] = field(default=(), kw_only=True)
    confirmed: Confirmed | None = field(default=None, kw_only=True)
    stopped: str | None = field(default=None, kw_only=True)
    """Why the agent had nothing more to try."""
    finished: RunFinished | None = field(default=None, kw_only=True)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs, or when it was killed."""
        return None if self.finished is None else self.finished.outcome

    @property
    def best(self) -> Attempt | None:
        """The attempt that is its result, with the confirming judgement where there is one."""
        number = self._best_number()
        for attempt in self.attempts:
            if attempt.number == number:
                return attempt if self.confirmed is None else _confirmed(attempt, self.confirmed)
        return None

    def _best_number(self) -> int | None:
        if self.finished is not None and self.finished.outcome in {
            Outcome.IMPROVED,
            Outcome.NO_FASTER,
            Outcome.NO_CORRECT,
        }:
            return self.finished.number
        return next((attempt.number for attempt in reversed(self.attempts) if attempt.kept), None)


def _confirmed(attempt: Attempt, confirmed: Confirmed) -> Attempt:
    if confirmed.number != attempt.number:
        return attempt
    # The confirmation may leave the timing to the first judgement.
    measurement = confirmed.judgement.measurement or attempt.judgement.measurement
    return evolve(attempt, judgement=evolve(confirmed.judgement, measurement=measurement))


def view(run: str, events: Iterable[tuple[float, Event]]) -> Run | None:
    """Add up a run's events, each with its time; None when the first of them is not the run's start."""
    result: Run | None = None
    proposals: dict[int, Proposed] = {}
    for at, event in events:
        if isinstance(event, RunStarted):
            result = Run(run, started_at=at, last_at=at, started=event)
        elif result is not None:
            if isinstance(event, Proposed):
                proposals[event.number] = event
            result = evolve(_after(result, event, proposals), last_at=at)
    return result


def _after(run: Run, event: Event, proposals: Mapping[int, Proposed]) -> Run:
    if isinstance(event, Judged) and event.number in proposals:
        proposal = proposals[event.number]
        attempt = Attempt(
            event.number,
            candidate=proposal.candidate,
            judgement=event.judgement,
            kept=False,
            note=proposal.note,
        )
        return evolve(run, attempts=(*run.attempts, attempt))
    if isinstance(event, Kept):
        kept = (evolve(one, kept=True) if one.number == event.number else one for one in run.attempts)
        return evolve(run, attempts=tuple(kept))
    if isinstance(event, Confirmed):
        return evolve(run, confirmed=event)
    if isinstance(event, NothingProposed | Stopped):
        return evolve(run, stopped=event.reason)
    if isinstance(event, RunFinished):
        return evolve(run, finished=event)
    return run
