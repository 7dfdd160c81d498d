"""What a plugin implements: one record and one Protocol for each of the five hooks.

A record describes and does nothing; the core calls its ``build`` when and in the process where it needs the object.
Objects are used by one thread of one process. A Protocol's methods raise `KforgeError` for what the person can mend and
return records for what a candidate did; any other exception is a bug of the plugin and is reported with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from kforge.plan.graph import Graph
from kforge.plan.plan import Plan
from kforge.profiles import Profile
from kforge.records import (
    Attempt,
    Availability,
    Candidate,
    DeviceFacts,
    Diagnostic,
    Finding,
    PassKind,
    ProblemFacts,
    Target,
)


@frozen
class Axis:
    """One parameter of a renderer: its name and the values that are worth trying, the best guess first."""

    name: str
    values: tuple[int, ...] = field(kw_only=True)


class Renderer(Protocol):
    """Writes candidates for one language from a plan."""

    def can_render(self, plan: Plan, facts: DeviceFacts) -> tuple[str, ...]:
        """Say what in the plan cannot be written in this language, one reason each; empty when all can."""
        ...

    def space(self, plan: Plan, facts: DeviceFacts) -> tuple[Axis, ...]:
        """Give the parameters that may be varied for this plan on this device."""
        ...

    def render(self, plan: Plan, parameters: Mapping[str, int]) -> str:
        """Write a complete, commented module that defines ``ModelNew``; same arguments, same text."""
        ...


@frozen
class WorkerSetup:
    """What the judge must arrange before a worker of a language may start."""

    environment: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Variables that must be set before anything is imported."""
    imports: tuple[str, ...] = field(default=(), kw_only=True)
    """Modules that the zygote imports before it forks; they must start no thread and touch no device or tensor."""
    readable: tuple[Path, ...] = field(default=(), kw_only=True)
    """Folders outside the Python installation and the system that a candidate's build must read."""
    cache_variables: tuple[str, ...] = field(default=(), kw_only=True)
    """Variables set to the folder of this candidate's own build cache."""


class Compiler(Protocol):
    """One language: can it be used here, what its workers need, how its failures read."""

    def available(self, device: str) -> Availability:
        """Say whether candidates of this language can be built here for ``device`` (torch's type)."""
        ...

    def prepare(self, cache: Path) -> WorkerSetup:
        """Make, in the trusted judge, what all candidates share, under ``cache``; called once, before any worker."""
        ...

    def explain(self, log: str, source: str) -> tuple[Diagnostic, ...]:
        """Read a failed build's text; lines of the candidate's ``source`` are named ``candidate.py``.

        ``log`` is hostile text of any length up to 1 MiB.
        """
        ...

    def renderer(self) -> Renderer | None:
        """Give the language's renderer, or None where it has none."""
        ...

    def guide(self) -> str:
        """Give what an author must know to write a candidate in this language (Markdown)."""
        ...

    def example(self) -> str:
        """Give one complete worked candidate."""
        ...


@frozen
class CompilerPlugin:
    """A language that candidates may be written in."""

    language: str
    devices: tuple[str, ...] = field(kw_only=True)
    """torch device types it can serve; ``("*",)`` for any."""
    summary: str = field(kw_only=True)
    build: Callable[[], Compiler] = field(kw_only=True)


class Verifier(Protocol):
    """One further check of a candidate, in the trusted judge."""

    def check_source(self, candidate: Candidate) -> tuple[Finding, ...]:
        """Read the source before any process is started, never execute it. A decisive finding ends the judgement."""
        ...


@frozen
class VerifierPlugin:
    """A named verifier."""

    name: str
    summary: str = field(kw_only=True)
    build: Callable[[], Verifier] = field(kw_only=True)


class Profiler(Protocol):
    """Reads one tool's files."""

    def available(self, target: Target) -> Availability:
        """Say whether this tool can collect here."""
        ...

    def recognises(self, head: bytes) -> bool:
        """Say, from a file's first 64 KiB, whether this tool wrote it."""
        ...

    def parse(self, files: Sequence[Path]) -> Profile:
        """Read files that a person already has; hostile input: bounded memory, `UsageError` when unreadable."""
        ...


@frozen
class ProfilerPlugin:
    """A named profiler."""

    name: str
    summary: str = field(kw_only=True)
    build: Callable[[], Profiler] = field(kw_only=True)


class Device(Protocol):
    """What is known about one kind of device beyond what torch says."""

    def available(self) -> Availability:
        """Say whether such a device is here."""
        ...

    def enrich(self, facts: DeviceFacts) -> DeviceFacts:
        """Add what this plugin knows to the generic facts."""
        ...


@frozen
class DevicePlugin:
    """Facts for one torch device type. It never owns the name: several may enrich one device."""

    name: str
    kind: str = field(kw_only=True)
    """torch's device type."""
    summary: str = field(kw_only=True)
    build: Callable[[], Device] = field(kw_only=True)


@frozen
class Request:
    """What an agent is asked: the Problem, and all that happened in this run so far."""

    target: Target
    pass_kind: PassKind = field(kw_only=True)
    pass_number: int = field(kw_only=True)
    problem: ProblemFacts = field(kw_only=True)
    graph: Graph = field(kw_only=True)
    attempts: tuple[Attempt, ...] = field(default=(), kw_only=True)
    renderer: Renderer | None = field(default=None, kw_only=True)

    @property
    def best(self) -> Attempt | None:
        """The attempt that is kept at the moment."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.kept), None)


@frozen
class Proposal:
    """A candidate's source and what its author says about it."""

    source: str
    note: str = field(kw_only=True)
    parameters: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)


@frozen
class NothingToTry:
    """The agent has no (further) candidate; the reason is shown to the person."""

    reason: str


class Agent(Protocol):
    """Proposes candidates. It keeps no state: the same request gives an equally good answer after a restart."""

    def propose(self, request: Request) -> Proposal | NothingToTry:
        """Give the next candidate."""
        ...


@frozen
class AgentPlugin:
    """A named agent."""

    name: str
    summary: str = field(kw_only=True)
    build: Callable[[], Agent] = field(kw_only=True)
