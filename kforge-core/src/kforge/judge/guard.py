"""Running a Problem's own code in a process of ours: what it raises becomes an error in the person's words."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch

from kforge.errors import CannotJudgeError, KforgeError, ProblemError
from kforge.problems.source import printable

_NO_MEMORY: Final = re.compile(
    r"DefaultCPUAllocator|not enough memory|can't allocate memory|out of memory", re.IGNORECASE
)
_TOO_LARGE: Final = re.compile(r"Storage size calculation overflowed|numel: integer multiplication overflow")
_WANTED: Final = re.compile(r"(?:tried to allocate|Unable to allocate) ([0-9.]+) ?(bytes|[KMGTPE]i?B)", re.IGNORECASE)
_MOST_TEXT: Final = 500


@contextlib.contextmanager
def persons_code(path: Path, doing: str, *, hint: str | None = None) -> Iterator[None]:
    """Run what belongs to the Problem at ``path``, as if it were started from its own folder.

    Modules beside the file can be imported, nothing is written there, and what it prints goes to stderr. Any exception
    but Ctrl-C becomes a `ProblemError`, or a `CannotJudgeError` where memory ran out; ``doing`` is the message's
    subject: ``get_inputs``.
    """
    old_path, old_argv, old_writes = sys.path[:], sys.argv, sys.dont_write_bytecode
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    sys.dont_write_bytecode = True
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (KeyboardInterrupt, KforgeError):
        raise
    except BaseException as error:
        raise _explained(error, path, doing, hint) from error
    finally:
        sys.path[:], sys.argv, sys.dont_write_bytecode = old_path, old_argv, old_writes


def _explained(error: BaseException, path: Path, doing: str, hint: str | None) -> KforgeError:
    place = _place(error, path)
    if is_out_of_memory(error):
        wanted = _WANTED.search(_text(error))
        amount = f": {_amount(wanted[1], wanted[2])} at once" if wanted else ""
        return CannotJudgeError(
            f"{doing} needs more memory than there is{amount}{place}", hint="make the inputs or the model smaller"
        )
    if isinstance(error, RuntimeError) and _TOO_LARGE.search(_text(error)):
        return CannotJudgeError(
            f"{doing} asks for a tensor larger than any memory{place}", hint="make the inputs or the model smaller"
        )
    if isinstance(error, SystemExit):
        return ProblemError(
            f"{doing} ended the program (SystemExit: {error.code}){place}",
            hint='put what only a script does under `if __name__ == "__main__":`',
        )
    text = printable(_text(error).strip().partition("\n")[0])[:_MOST_TEXT]
    said = type(error).__name__ + (f": {text}" if text else "")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return ProblemError(
        f"{doing} raises {said}{place}",
        hint=f"install {missing}, or put it beside the Problem"
        if missing
        else hint or "run the file by itself to mend it",
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception's class may be the Problem's own
        return ""


def _amount(number: str, unit: str) -> str:
    if unit != "bytes":
        return f"{number} {unit}"
    size = float(number)
    for name in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or name == "PiB":
            break
        size /= 1024
    return f"{size:.4g} {name}"


def _place(error: BaseException, path: Path) -> str:
    """Name the last line of the person that the error went through: in the file, else in one beside it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(path)]
    beside = [frame for frame in frames if Path(frame.filename).parent == path.parent]
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    if not own and not beside:
        return ""
    last = (own or beside)[-1]
    line = f": {printable(last.line.strip())}" if last.line else ""
    return f" ({Path(last.filename).name}, line {last.lineno}{line})"


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an exception means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _NO_MEMORY.search(_text(error)) is not None
