"""A failed build's text, read for the candidate's author: clang's messages in lines of ``candidate.py``."""

from __future__ import annotations

from kforge.null import python_diagnostics
from kforge.records import Diagnostic, Severity
from kforge_xpu.diagnostics import parse_clang

_SEVERITIES = {"warning": Severity.WARNING, "note": Severity.NOTE, "remark": Severity.NOTE}


def explain(log: str, source: str) -> tuple[Diagnostic, ...]:
    """Give clang's messages, or the place of a Python exception; nothing where the text holds neither."""
    found = parse_clang(log)
    if not any("error" in one.severity for one in found):
        return python_diagnostics(log, source)
    return tuple(
        Diagnostic(
            one.message,
            file="kernel source",
            line=one.line,
            column=one.column,
            severity=_SEVERITIES.get(one.severity, Severity.ERROR),
        )
        for one in found
    )
