"""The code verifier reads anything, and answers with findings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge.records import Candidate, Finding, Origin, Phase, Target
from kforge.verifiers import CodeVerifier


def _check(source: str) -> tuple[Finding, ...]:
    return CodeVerifier().check_source(Candidate(source, target=Target("null", "cpu"), origin=Origin("test")))


@pytest.mark.parametrize(
    "source",
    ["class ModelNew: pass", "if True:\n    class ModelNew: pass", "class A: pass\nModelNew = A"],
)
def test_a_module_that_defines_the_class_has_no_finding(source: str) -> None:
    assert _check(source) == ()


@pytest.mark.parametrize(
    "source, check, message",
    [
        ("", "code", "the candidate is empty"),
        ("class Model: pass\ndef helper(): pass", "code", "no class ModelNew; found: Model, helper"),
        ("x = 1", "code", "no class ModelNew; found no class or function"),
        ("def f():\n    class ModelNew: pass", "code", "class ModelNew is not at module level"),
        ("x\0y", "code", "the candidate holds a NUL byte in line 1"),
        ("\ud800", "code", "the candidate is not UTF-8 text (character 0)"),
        ("#" * 1048577, "code", "the candidate has 1048577 bytes, at most 1048576 are read"),
        ("-" * 300000 + "1", "syntax", "the source is nested too deeply to be read"),
    ],
)
def test_what_is_wrong_is_said(source: str, check: str, message: str) -> None:
    (finding,) = _check(source)
    assert (finding.check, finding.message, finding.phase, finding.decisive) == (check, message, Phase.CODE, True)


def test_a_syntax_error_has_its_place_and_line() -> None:
    (finding,) = _check("x = 1\ndef f(:\n")
    (diagnostic,) = finding.diagnostics
    assert (diagnostic.file, diagnostic.line, diagnostic.column) == ("candidate.py", 2, 7)
    assert diagnostic.excerpt == "def f(:"


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="([{:'\"\\\n\t fclassModelNew=#\0\r\x0c")))
def test_no_text_raises(source: str) -> None:
    assert all(finding.decisive for finding in _check(source))
