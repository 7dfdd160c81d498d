"""The string constants of a Python source, and where in the file each of their characters stands.

The source is parsed, never run. It may be any text: what is no Python has no constants.
"""

from __future__ import annotations

import ast
import bisect
import re
import warnings
from collections.abc import Iterator

_LITERAL = re.compile(r"(?P<prefix>[rRuU]?)(?P<quote>'''|\"\"\"|'|\")")
_PIECE = re.compile(
    r"""
    (?P<plain>[^\\\n'"]+)
  | (?P<newline>\n)
  | (?P<joined>\\\n)
  | (?P<escape>\\(?: x[0-9a-fA-F]{2} | u[0-9a-fA-F]{4} | U[0-9a-fA-F]{8} | N\{[^}\n]*\} | [0-7]{1,3} | [abfnrtv\\'"] ))
  | (?P<odd>\\.)
  | (?P<quote>['"])
    """,
    re.VERBOSE,
)
_RAW_PIECE = re.compile(r"(?P<plain>[^\\\n'\"]+)|(?P<newline>\n)|(?P<odd>\\[^\n])|(?P<odd_end>\\\n)|(?P<quote>['\"])")


class PythonText:
    """A Python source, by line; `constants` are its string constants in the order of the file."""

    def __init__(self, source: str) -> None:
        # Python reads all ends of lines as this one.
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = text.split("\n")
        self._text = text
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._bytes: dict[int, bytes] = {}
        self.constants = [Constant(self, node) for node in _constants(text)]

    def offset(self, line: int, column: int) -> int:
        """The place of a line (from 1) and column (from 0, in bytes, as ast has it) in the text."""
        text = self.lines[line - 1]
        if not text.isascii():
            encoded = self._bytes.setdefault(line, text.encode(errors="replace"))
            column = len(encoded[:column].decode(errors="replace"))
        return self._starts[line - 1] + column

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a place in the text."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return line + 1, offset - self._starts[line] + 1

    def between(self, start: int, end: int) -> str:
        """A part of the text."""
        return self._text[start:end]


class Constant:
    """One string constant, implicit concatenation included. `lines` are those of its value."""

    def __init__(self, text: PythonText, node: ast.Constant) -> None:
        self.value: str = str(node.value)
        self.lines = self.value.split("\n")
        self._text = text
        self._node = node
        self._runs: list[tuple[int, int]] | None = None

    def place(self, line: int, column: int) -> tuple[int, int] | None:
        """Line and column of the file, of a line and column of the value; all from 1. None where it is not known."""
        if not 1 <= line <= len(self.lines):
            return None
        if self._runs is None:
            self._runs = self._read()
        if not self._runs:
            return None
        before = sum(len(text) + 1 for text in self.lines[: line - 1])
        wanted = before + min(max(column - 1, 0), len(self.lines[line - 1]))
        at, offset = self._runs[bisect.bisect_right(self._runs, (wanted, 1 << 62)) - 1]
        return self._text.place(offset + wanted - at)

    def _read(self) -> list[tuple[int, int]]:
        """Runs of characters that stand in file and value alike: each run's start in the value and in the file."""
        node = self._node
        if node.end_lineno is None or node.end_col_offset is None:
            return []
        start = self._text.offset(node.lineno, node.col_offset)
        written = self._text.between(start, self._text.offset(node.end_lineno, node.end_col_offset))
        runs: list[tuple[int, int]] = []
        length = 0
        for piece, place in _decoded(written):
            if not runs or runs[-1][1] - runs[-1][0] != start + place - length:
                runs.append((length, start + place))
            length += piece
        # Else the literal was read otherwise than Python does.
        return runs if length == len(self.value) else []


def _constants(text: str) -> list[ast.Constant]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node)
        # The parts of an f-string have no place of their own before Python 3.12.
        if not isinstance(node, ast.JoinedStr):
            pending += ast.iter_child_nodes(node)
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _decoded(written: str) -> Iterator[tuple[int, int]]:
    """Pieces of the value of adjacent literals: how many characters of the value, and where the piece is written.

    An escape stands for one character, so a piece that holds one is a piece by itself.
    """
    at = 0
    while at < len(written):
        opening = _LITERAL.match(written, at)
        if opening is None:
            # Between adjacent literals: blanks, ends of lines, comments, brackets.
            end = written.find("\n", at) if written[at] == "#" else at
            at = len(written) if end < 0 else end + 1
            continue
        raw, quote = opening["prefix"] in ("r", "R"), opening["quote"]
        at = opening.end()
        pattern = _RAW_PIECE if raw else _PIECE
        while at < len(written) and not written.startswith(quote, at):
            piece = pattern.match(written, at)
            if piece is None:
                return
            if piece.lastgroup != "joined":
                yield 1 if piece.lastgroup == "escape" else piece.end() - at, at
            at = piece.end()
        at += len(quote)
