"""What commands are given: files, targets, precision. Faults are told before anything is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kforge.errors import KforgeError, MissingError, ProblemError, UsageError
from kforge.records import Precision, Target

if TYPE_CHECKING:
    from kforge.interfaces import Compiler
    from kforge.manager import Manager

F = TypeVar("F", bound=Callable[..., Any])
_MOST_BYTES = 1024 * 1024


class TargetType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.3 only
    """``language@device``."""

    name = "target"

    def convert(self, value: str | Target, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """Read the written form; `UsageError` carries the hint."""
        return value if isinstance(value, Target) else Target.parse(value)


def _precision(ctx: click.Context, param: click.Parameter, value: str | None) -> Precision | None:  # noqa: ARG001 - click's form
    return None if value is None else Precision(value)


def precision_option(function: F) -> F:
    """Add ``--precision``."""
    return click.option(
        "--precision",
        type=click.Choice([one.value for one in Precision]),
        callback=_precision,
        envvar="KFORGE_PRECISION",
        show_envvar=True,
        help="Precision at which a candidate may compute; default: that of the inputs.",
    )(function)


def library_option(function: F) -> F:
    """Add ``--allow-library``."""
    return click.option(
        "--allow-library", is_flag=True, help="Let torch's own operators do the work that a kernel should do."
    )(function)


def problem_file(path: Path) -> Path:
    """Check that a Problem's file can be read; `ProblemError` says what is wrong."""
    hint = "a Problem is a Python file that defines Model, get_inputs and get_init_inputs"
    _read(path, "the Problem", hint, ProblemError)
    return path


def candidate_file(path: Path) -> str:
    """Read a candidate's source; `UsageError` says what is wrong with the file."""
    hint = "a candidate is a Python file that defines ModelNew"
    data = _read(path, "the candidate", hint, UsageError)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the candidate {path} is not UTF-8 text (byte {error.start})", hint=hint) from error


def _read(path: Path, what: str, hint: str, kind: type[KforgeError]) -> bytes:
    try:
        if path.is_dir():
            raise kind(f"{what} {path} is a folder", hint=hint)
        if path.exists() and not path.is_file():
            raise kind(f"{what} {path} is no regular file", hint=hint)
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise kind(f"{what} {path} does not exist", hint=hint) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise kind(f"{what} {path} cannot be read: {said}", hint=hint) from error
    if len(data) > _MOST_BYTES:
        raise kind(f"{what} {path} is larger than {_MOST_BYTES} bytes", hint=hint)
    if not data.strip():
        raise kind(f"{what} {path} is empty", hint=hint)
    return data


def usable_compiler(plugins: Manager, target: Target) -> Compiler:
    """Build the compiler of a target; `MissingError` says what is missing here and how to get it."""
    from kforge.building import build

    found = plugins.compiler(target)
    compiler = build(found.record, found.source)
    available = compiler.available(target.device)
    if not available.ok:
        raise MissingError(f"{target} cannot be used here: {available.reason}", hint=available.hint)
    return compiler


def default_target(plugins: Manager) -> Target:
    """Choose the best target that works here and has a renderer: accelerators before the CPU.

    Raises `MissingError` with the reason and hint of each that does not work.
    """
    from kforge.building import build

    pairs = [(one, device) for one in plugins.compilers() for device in one.record.devices if device != "*"]
    hints = []
    for one, device in sorted(pairs, key=lambda pair: pair[1] == "cpu"):
        record = one.record
        try:
            compiler = build(record, one.source)
        except KforgeError as error:
            hints.append(f"{record.language}@{device}: {error.message}")
            continue
        available = compiler.available(device)
        if available.ok and compiler.renderer() is not None:
            return Target(record.language, device)
        reason = available.reason or "it has no renderer"
        hints.append(f"{record.language}@{device}: {reason}" + (f" ({available.hint})" if available.hint else ""))
    hints += [f"{one.source.distribution} is broken: {one.reason}" for one in plugins.broken]
    hint = "; ".join(hints) or "install a plugin that brings a language; `kforge doctor` names those that are known"
    raise MissingError("no target works here", hint=hint)


def output_file(path: Path) -> None:
    """Check that a result can be written there before hours are spent; `UsageError` says why not."""
    if path.is_dir():
        raise UsageError(f"--output {path} is a folder", hint="name a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--output {path}: there is no folder {path.parent}", hint=f"mkdir -p {path.parent}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"--output {path} cannot be written", hint="choose another file")
