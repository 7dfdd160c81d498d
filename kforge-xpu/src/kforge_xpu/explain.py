"""A failed build's text, read for the candidate's author: clang's messages in lines of ``candidate.py``."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from attrs import frozen

from kforge.null import python_diagnostics
from kforge.records import Diagnostic, Severity
from kforge_xpu._literals import Constant, PythonText
from kforge_xpu.diagnostics import ClangDiagnostic, parse_clang

CANDIDATE = "candidate.py"
KERNEL_SOURCE = "kernel source"
"""Stands for the string given to SyclModule, where its lines cannot be found in the file."""

_SEVERITIES = {"warning": Severity.WARNING, "note": Severity.NOTE, "remark": Severity.NOTE}
# What libsycl calls the text given to it.
_KERNEL_FILE = re.compile(r"\Artc_[0-9]+\.cpp\Z")
_CARET = re.compile(r"\A[ \t~^]*\^[ \t~^]*\Z")
_MARKS = ("nd_range_kernel", "single_task_kernel")
_MOST = 100
_LONGEST = 2000
# A line that stands in more places than this says nothing about where it came from.
_MOST_PLACES = 64


@frozen
class _Place:
    """A place in the file; `shift` is the file's line less the kernel source's."""

    line: int
    column: int | None
    shift: int


def explain(log: str, source: str) -> tuple[Diagnostic, ...]:
    """Give clang's messages, or the place of a Python exception; nothing where the text holds neither."""
    found = parse_clang(log)
    if not any("error" in one.severity for one in found):
        return python_diagnostics(log, source)
    if len(found) > _MOST:
        found = [one for one in found if "error" in one.severity][:_MOST]
    return _Explanation(found, PythonText(source)).diagnostics()


class _Explanation:
    """Finds the lines of one log in one file."""

    def __init__(self, found: Sequence[ClangDiagnostic], text: PythonText) -> None:
        self._found = found
        self._text = text
        self._exact: dict[tuple[int, str], list[Constant]] = defaultdict(list)
        self._loose: dict[str, list[tuple[Constant, int]]] = defaultdict(list)
        self._written: dict[str, list[int]] = defaultdict(list)
        # What the log shows, since files may have a million lines.
        shown = {key for one in found if _in_kernel(one) for key in _shown(one)}
        for constant in text.constants:
            for number, line in enumerate(constant.lines, start=1):
                key = _blanks_as_one(line)
                if key in shown:
                    self._exact[number, key].append(constant)
                    self._loose[key].append((constant, number))
        for number, line in enumerate(text.lines, start=1):
            # As it stands, and as an f-string gives it.
            for key in {_blanks_as_one(line), _blanks_as_one(line.replace("{{", "{").replace("}}", "}"))} & shown:
                self._written[key].append(number)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Give all, those of the kernel source with the place where the candidate wrote them."""
        constant = self._constant()
        places = [self._places(one, constant) for one in self._found]
        votes = Counter(place.shift for found in places for place in {one.shift: one for one in found}.values())
        return tuple(
            self._diagnostic(one, _chosen(found, votes)) for one, found in zip(self._found, places, strict=True)
        )

    def _constant(self) -> Constant | None:
        """The constant that most of the log's lines stand in, at the very numbers that clang gives."""
        votes: Counter[Constant] = Counter()
        for one in self._found:
            if _in_kernel(one) and one.line is not None:
                for key in _shown(one):
                    votes.update(self._exact.get((one.line, key), ())[:_MOST_PLACES])
        if votes:
            # Of equals the first of the file: it is built first.
            most = max(votes.values())
            return next(constant for constant in self._text.constants if votes[constant] == most)
        kernels = [constant for constant in self._text.constants if any(mark in constant.value for mark in _MARKS)]
        excerpts = any(one.excerpt for one in self._found if _in_kernel(one))
        return kernels[0] if len(kernels) == 1 and not excerpts else None

    def _places(self, one: ClangDiagnostic, constant: Constant | None) -> list[_Place]:
        if not _in_kernel(one) or one.line is None or one.column is None:
            return []
        shown = _source_line(one.excerpt)
        key = _blanks_as_one(shown)
        if constant is not None and one.line <= len(constant.lines):
            own = constant.lines[one.line - 1]
            if not key or key == _blanks_as_one(own):
                place = _in_constant(constant, one.line, _column(one.column, shown or own, own), one.line)
                return [place] if place else []
        if not key:
            return []
        loose = self._loose.get(key, ())
        written = self._written.get(key, ())
        if max(len(loose), len(written)) > _MOST_PLACES:
            return []
        places = [
            _in_constant(home, number, _column(one.column, shown, home.lines[number - 1]), one.line)
            for home, number in loose
        ]
        found = {place.line: place for place in places if place is not None}
        for number in written:
            line = self._text.lines[number - 1]
            column = _column(one.column, shown, line) if _blanks_as_one(line) == key else None
            found.setdefault(number, _Place(number, column, number - one.line))
        return list(found.values())

    def _diagnostic(self, one: ClangDiagnostic, place: _Place | None) -> Diagnostic:
        severity = _SEVERITIES.get(one.severity, Severity.ERROR)
        message = one.message[:_LONGEST]
        if place is not None:
            written = self._text.lines[place.line - 1][:_LONGEST]
            return Diagnostic(
                message, file=CANDIDATE, line=place.line, column=place.column, severity=severity, excerpt=written
            )
        excerpt = _source_line(one.excerpt)[:_LONGEST] or None if one.file is not None else None
        file = KERNEL_SOURCE if one.file is None or _in_kernel(one) else one.file[:_LONGEST]
        return Diagnostic(
            message, file=file, line=one.line or None, column=one.column or None, severity=severity, excerpt=excerpt
        )


def _in_kernel(one: ClangDiagnostic) -> bool:
    # A traceback may have put a word before the name.
    return one.file is not None and _KERNEL_FILE.match(one.file[-40:].rpartition(" ")[2]) is not None


def _shown(one: ClangDiagnostic) -> set[str]:
    return {_blanks_as_one(line) for line in _excerpt_lines(one.excerpt)} - {""}


def _excerpt_lines(excerpt: str) -> list[str]:
    # clang shows no more lines than this for one message.
    return excerpt.split("\n", 16)[:16]


def _chosen(places: Sequence[_Place], votes: Counter[int]) -> _Place | None:
    """The only place, or the only one that agrees best with what is known of the log's other lines."""
    if len(places) < 2:
        return places[0] if places else None
    most = max(votes[place.shift] for place in places)
    best = [place for place in places if votes[place.shift] == most]
    return best[0] if len(best) == 1 else None


def _in_constant(constant: Constant, line: int, column: int | None, reported: int) -> _Place | None:
    found = constant.place(line, column or 1)
    if found is None:
        return None
    return _Place(found[0], found[1] if column is not None else None, found[0] - reported)


def _source_line(excerpt: str) -> str:
    """The line that the caret stands below; the first where there is no caret."""
    lines = _excerpt_lines(excerpt)
    for above, below in itertools.pairwise(lines):
        if _CARET.match(below):
            return above
    return lines[0]


def _column(column: int, shown: str, own: str) -> int | None:
    """The character of `own`, from 1, that clang's column means, which counts bytes of the line that it saw.

    What it saw may have been indented otherwise, by textwrap.dedent say; it prints tabs as blanks.
    """
    seen, real = len(shown) - len(shown.lstrip()), len(own) - len(own.lstrip())
    if "\t" in own[:real]:
        # Blanks and tabs together may have been shortened and look as before.
        if own[:real].strip("\t") or real * 8 != seen:
            return None
        seen = real
    if column <= seen:
        return max(1, column + real - seen)
    rest = own[real:].encode(errors="replace")[: column - seen - 1].decode(errors="ignore")
    return real + len(rest) + 1


def _blanks_as_one(line: str) -> str:
    return " ".join(line.split())
