"""The null backend: candidates are plain torch modules. It runs the whole road without a compiler or an accelerator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kforge.hookspecs import hookimpl
from kforge.interfaces import Compiler, CompilerPlugin, Renderer, WorkerSetup
from kforge.records import Availability, Diagnostic

_PLACE = re.compile(r'^\s*File "(?P<file>[^"\n]{1,500})", line (?P<line>[0-9]{1,9})', re.MULTILINE)
_CARET = re.compile(r"^(?P<indent>[ ]*)[~]*(?P<caret>\^+)[~]*\s*$")
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,200})(: (?P<message>.*))?$")
_CANDIDATE = "candidate.py"
_MOST_MESSAGE = 2000

_GUIDE = """\
A candidate of the language `null` is a plain PyTorch module: a file that defines `ModelNew` with the constructor and
the `forward` of the reference's `Model`. There is no compiler, and no kernel of its own. It shows that judge, store and
loop work on this machine, and what rewriting a reference by hand would gain.
"""

_EXAMPLE = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")
"""


class NullCompiler:
    """Builds nothing; reads tracebacks."""

    def available(self, device: str) -> Availability:
        """Say that it always works: Python is its compiler."""
        return Availability(ok=True)

    def prepare(self, cache: Path) -> WorkerSetup:
        """Ask for nothing."""
        return WorkerSetup()

    def explain(self, log: str, source: str) -> tuple[Diagnostic, ...]:
        """Read the last traceback in ``log``; its innermost place in the candidate is the diagnostic's."""
        return python_diagnostics(log, source)

    def renderer(self) -> Renderer | None:
        """Have none: a module that calls torch is what the reference is already."""
        return None

    def guide(self) -> str:
        """Give what an author must know."""
        return _GUIDE

    def example(self) -> str:
        """Give a worked candidate."""
        return _EXAMPLE


def python_diagnostics(log: str, source: str) -> tuple[Diagnostic, ...]:
    """Read the last Python traceback of a text; nothing is found where it holds none.

    The place is the innermost line of ``candidate.py``, since what lies deeper was called from there.
    """
    start = max(log.rfind("Traceback (most recent call last):"), 0)
    text = log[start:]
    places = list(_PLACE.finditer(text))
    message = _message(text, after=places[-1].end() if places else 0)
    if message is None:
        return ()
    own = [match for match in places if Path(match["file"]).name == _CANDIDATE]
    if not own:
        place = places[-1] if places else None
        return (Diagnostic(message, file=place["file"] if place else None, line=int(place["line"]) if place else None),)
    place = own[-1]
    number = int(place["line"])
    lines = source.split("\n")
    excerpt = lines[number - 1].rstrip("\r") if 1 <= number <= len(lines) else None
    return (
        Diagnostic(message, file=_CANDIDATE, line=number, column=_column(text, place.end(), excerpt), excerpt=excerpt),
    )


def _message(text: str, *, after: int) -> str | None:
    """Give the exception's line, the last one that looks like it."""
    for line in reversed(text[after:].splitlines()):
        match = _RAISED.match(line)
        if match is not None and (
            match["message"] is not None or match["type"].endswith(("Error", "Exception", "Exit"))
        ):
            return line[:_MOST_MESSAGE]
    return None


def _column(text: str, after: int, excerpt: str | None) -> int | None:
    """Give the column (from 1) that carets below the printed line point at; the print drops the line's indentation."""
    following = text[after : after + 4096].splitlines()[1:3]
    if excerpt is None or len(following) < 2:
        return None
    printed, marks = following
    caret = _CARET.match(marks)
    if caret is None or printed.strip() != excerpt.strip():
        return None
    offset = caret.start("caret") - (len(printed) - len(printed.lstrip()))
    column = offset + len(excerpt) - len(excerpt.lstrip()) + 1
    return column if column > 0 else None


def _null() -> Compiler:
    return NullCompiler()


@hookimpl
def kforge_compilers() -> Iterator[CompilerPlugin]:
    """The language that needs no compiler."""
    yield CompilerPlugin("null", devices=("*",), summary="plain torch modules, no compiler", build=_null)
