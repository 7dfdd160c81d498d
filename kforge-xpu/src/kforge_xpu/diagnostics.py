"""Reading clang's diagnostics out of a compiler log."""

from __future__ import annotations

import re

import attrs

# Every part is bounded and stays on its line; colons may occur in a file's name.
_LINE = re.compile(
    r"(?P<file>[^\n]{1,4096}?):(?P<line>[0-9]{1,9}):(?P<column>[0-9]{1,9}):[ \t]*"
    r"(?P<severity>fatal error|error|warning|note|remark):[ \t]*(?P<message>[^\n]*)"
)
_BARE = re.compile(r"(?P<severity>fatal error|error|warning|note|remark):[ \t]*(?P<message>[^\n]*)")


@attrs.frozen
class ClangDiagnostic:
    """One message of clang. `line` and `column` count from 1; None (and `file` None) where clang names no place.

    `severity` is one of `fatal error`, `error`, `warning`, `note`, `remark`. `excerpt` holds the lines that clang
    printed below the message: source line and caret, without their margin.
    """

    file: str | None
    line: int | None
    column: int | None
    severity: str
    message: str
    excerpt: str = ""


def parse_clang(log: str) -> list[ClangDiagnostic]:
    """All diagnostics of a log, in order; text that is none is skipped. Never raises, time is linear in the log."""
    found: list[ClangDiagnostic] = []
    excerpt: list[str] = []
    for raw in log.split("\n"):
        diagnostic = _parse_line(raw.strip())
        if diagnostic is None:
            # Where a message of a header comes from says nothing about the message before it.
            if not raw.lstrip().startswith("In file included from "):
                excerpt.append(_without_margin(raw.rstrip()))
            continue
        _attach(found, excerpt)
        excerpt = []
        found.append(diagnostic)
    _attach(found, excerpt)
    return found


def _parse_line(line: str) -> ClangDiagnostic | None:
    # Lines longer than any real diagnostic are cut, since finding the place in one takes time quadratic in its colons.
    line = line[:8192]
    # clang's words are looked for first: most lines of a log have none of them.
    if "error:" not in line and "warning:" not in line and "note:" not in line and "remark:" not in line:
        return None
    match = _LINE.match(line)
    if match:
        return ClangDiagnostic(
            match["file"], int(match["line"]), int(match["column"]), match["severity"], match["message"].strip()
        )
    match = _BARE.match(line)
    if match:
        return ClangDiagnostic(None, None, None, match["severity"], match["message"].strip())
    return None


def _without_margin(line: str) -> str:
    number, bar, rest = line.partition("|")
    if bar and (not number.strip() or number.strip().isdigit()):
        return rest[1:] if rest.startswith(" ") else rest
    return line


def _attach(found: list[ClangDiagnostic], excerpt: list[str]) -> None:
    text = "\n".join(excerpt).strip("\n")
    if found and text:
        found[-1] = attrs.evolve(found[-1], excerpt=text)
