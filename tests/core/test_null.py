"""The null backend reads tracebacks."""

from __future__ import annotations

from pathlib import Path

from kforge.null import NullCompiler
from kforge.records import Diagnostic
from kforge.verifiers import CodeVerifier

LOG = """\
something printed
Traceback (most recent call last):
  File "/x/worker.py", line 10, in build
    exec(code)
  File "candidate.py", line 3, in <module>
    value = unknown + 1
            ^^^^^^^
NameError: name 'unknown' is not defined
"""


def test_a_traceback_becomes_a_diagnostic_in_the_candidates_lines() -> None:
    (found,) = NullCompiler().explain(LOG, "import torch\nif True:\n    value = unknown + 1\n")
    expected = Diagnostic(
        "NameError: name 'unknown' is not defined",
        file="candidate.py",
        line=3,
        column=13,
        excerpt="    value = unknown + 1",
    )
    assert found == expected


def test_a_text_without_a_traceback_has_no_diagnostic() -> None:
    assert NullCompiler().explain("nothing happened\n", "") == ()


def test_it_is_available_and_asks_for_nothing(tmp_path: Path) -> None:
    compiler = NullCompiler()
    assert compiler.available("anything").ok
    assert compiler.prepare(tmp_path).environment == ()
    assert compiler.renderer() is None


def test_its_example_is_a_candidate() -> None:
    from kforge.records import Candidate, Origin, Target

    candidate = Candidate(NullCompiler().example(), target=Target("null", "cpu"), origin=Origin("test"))
    assert CodeVerifier().check_source(candidate) == ()
