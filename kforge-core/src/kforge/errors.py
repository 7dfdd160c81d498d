"""Errors that are meant for the person at the terminal, and the exit codes of every command."""

from __future__ import annotations

import enum
from typing import ClassVar


class ExitCode(enum.IntEnum):
    """What a ``kforge`` command returns to the shell; part of the command line's contract."""

    DONE = 0
    """``verify``: correct. ``run``: `improved` or `no faster kernel found`. Else: the command did its work."""
    NOT_CORRECT = 1
    """There is no correct candidate."""
    USAGE = 2
    """Wrong usage, or a Problem that cannot be read or run."""
    MISSING = 3
    """A plugin, a tool or a device is missing."""
    CANNOT_JUDGE = 4
    """The Problem cannot be judged here, or the harness failed (memory, disk, reference not deterministic)."""
    INTERRUPTED = 130
    """Ctrl-C, SIGTERM or SIGHUP."""


class KforgeError(Exception):
    """A mistake or a lack that the person can mend; shown as one message and a hint, never as a traceback.

    ``hint`` says what to type next.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KforgeError):
    """The command line, a setting or a name given by the person is wrong."""


class ProblemError(KforgeError):
    """The Problem cannot be read, or its reference does not run."""


class MissingError(KforgeError):
    """A plugin, a tool, a library or a device is not here."""

    exit_code = ExitCode.MISSING


class CannotJudgeError(KforgeError):
    """This Problem cannot be judged on this machine; nobody's candidate is to blame."""

    exit_code = ExitCode.CANNOT_JUDGE


class HarnessError(KforgeError):
    """The harness itself failed: no memory, no disk, a process of ours that died."""

    exit_code = ExitCode.CANNOT_JUDGE


class InterruptedByPerson(KforgeError):  # noqa: N818 - a person's Ctrl-C is an end, not an error
    """The person pressed Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED
