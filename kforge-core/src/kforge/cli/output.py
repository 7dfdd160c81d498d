"""The one object that writes: results to stdout, narration to stderr, progress to a terminal only."""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TextIO

import click

from kforge.errors import ExitCode, KforgeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

P = ParamSpec("P")
_WIDE = 10_000  # outside a terminal nothing is wrapped, so that other programs can read it


class Output:
    """Writes for one command. Text from candidates cannot steer the terminal."""

    def __init__(self, *, as_json: bool = False, verbosity: int = 0, color: bool = True) -> None:
        self.as_json = as_json
        self.verbosity = verbosity
        self._color = color
        self._status: Status | None = None
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    @functools.cached_property
    def _stdout(self) -> Console:
        return self._console(sys.stdout)

    @functools.cached_property
    def _stderr(self) -> Console:
        return self._console(sys.stderr)

    def _console(self, stream: TextIO) -> Console:
        from rich.console import Console

        class Quiet(Console):
            def on_broken_pipe(self) -> None:
                """Leave it to `_write`; rich would end the program with 1, which means something else here."""
                raise  # noqa: PLE0704 - rich calls this inside its handler of BrokenPipeError

        width = None if stream.isatty() else _WIDE
        return Quiet(
            file=stream,
            width=width,
            no_color=not self._color or None,
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
        )

    # Results

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """Write a line of the result; nothing with ``--json``."""
        if not self.as_json:
            self._write(lambda: self._stdout.print(clean(text), style=style))

    def table(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, right: tuple[int, ...] = ()) -> None:
        """Write a table; the columns numbered in ``right`` hold numbers."""
        head, *body = _lines([columns, *rows], right)
        self.line(head, style="bold")
        for line in body:
            self.line(line)

    def data(self, content: dict[str, Any]) -> None:
        """Write the result for programs; only with ``--json``. Numbers that JSON has not become null."""
        if self.as_json:
            text = json.dumps(_finite(content), indent=2, allow_nan=False)
            self._write(lambda: sys.stdout.write(f"{text}\n"))

    def _write(self, write: Callable[[], object]) -> None:
        self.close()
        try:
            write()
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has seen enough. The exit code must still be the verdict's, so the command goes on in silence.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)

    # Narration

    def say(self, text: str) -> None:
        """Tell what happens; nothing with ``-q``."""
        if self.verbosity >= 0:
            self._stderr.print(clean(text))

    def detail(self, text: str) -> None:
        """Tell more; only with ``-v``."""
        if self.verbosity > 0:
            self._stderr.print(clean(text), style="dim")

    def progress(self, text: str) -> None:
        """Show what goes on just now, on a terminal; the next line replaces it."""
        if self.verbosity < 0 or not self._stderr.is_terminal:
            return
        from rich.text import Text

        if self._status is None:
            self._status = self._stderr.status(Text(clean(text)))
            self._status.start()
        else:
            self._status.update(Text(clean(text)))

    def close(self) -> None:
        """Take the progress line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    # Ends

    def fail(self, error: KforgeError) -> ExitCode:
        """Show an error that the person can mend; gives the exit code."""
        self.close()
        self.data(_error(error.exit_code, error.message, error.hint))
        sys.stderr.write(f"kforge: {clean(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"hint: {clean(error.hint)}\n")
        for note in getattr(error, "__notes__", ()):
            sys.stderr.write(f"note: {clean(note)}\n")
        return error.exit_code

    def bug(self, error: Exception) -> ExitCode:
        """Show an error that is KForge's own; gives the exit code."""
        import traceback

        import kforge

        self.close()
        hint = "this is a bug in KForge or a plugin: please report it with the lines above and `kforge doctor`'s output"
        self.data(_error(ExitCode.CANNOT_JUDGE, f"{type(error).__name__}: {error}", hint))
        sys.stderr.write(clean("".join(traceback.format_exception(error))))
        sys.stderr.write(f"kforge {kforge.__version__}: {hint}\n")
        return ExitCode.CANNOT_JUDGE


def command_output(function: Callable[Concatenate[Output, P], int | None]) -> Callable[P, int | None]:
    """Give a command the options ``--json``, ``-q``, ``-v``, ``--no-color``, and an `Output` made from them."""

    @click.option("--json", "as_json", is_flag=True, help="Write one JSON object to stdout.")
    @click.option("-q", "--quiet", is_flag=True, help="Tell nothing but the result.")
    @click.option("-v", "--verbose", count=True, help="Tell more.")
    @click.option("--no-color", is_flag=True, help="Write without colours; so does the variable NO_COLOR.")
    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> int | None:
        as_json, quiet = bool(kwargs.pop("as_json")), bool(kwargs.pop("quiet"))
        verbose, no_color = int(str(kwargs.pop("verbose"))), bool(kwargs.pop("no_color"))
        out = Output(as_json=as_json, verbosity=-1 if quiet else verbose, color=not no_color)
        try:
            return function(out, *args, **kwargs)
        finally:
            out.close()

    return command


def clean(text: str) -> str:
    """Make control characters visible, so that text from a stranger cannot steer the terminal."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def _lines(rows: Sequence[tuple[str, ...]], right: tuple[int, ...]) -> list[str]:
    """Lay rows out in columns, two spaces apart; the text of no cell is cut."""
    from rich.cells import cell_len

    cells = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            parts.append(space + cell if number in right else cell + space)
        lines.append("  ".join(parts).rstrip())
    return lines


def _error(code: ExitCode, message: str, hint: str | None) -> dict[str, Any]:
    return {
        "schema": "kforge/error/1",
        "error": {"code": int(code), "name": code.name, "message": message, "hint": hint},
    }


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content
