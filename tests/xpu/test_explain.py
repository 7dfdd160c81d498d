"""Clang's lines and Python's, found in the candidate's file, whatever it holds."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge.records import Diagnostic, Severity
from kforge_xpu.explain import explain

KERNEL = """#include <sycl/sycl.hpp>
// nd_range_kernel
void f(float* a) {
  a[0] = wrong1;
  a[1] = wrong2;
}
"""
LOG = """rtc_0.cpp:4:10: error: use of undeclared identifier 'wrong1'
    4 |   a[0] = wrong1;
      |          ^~~~~~
rtc_0.cpp:5:10: warning: odd 'wrong2'
    5 |   a[1] = wrong2;
      |          ^~~~~~
"""


def _literals() -> dict[str, str]:
    """Ways in which authors write a kernel's source."""
    doubled = KERNEL.replace("{", "{{").replace("}", "}}")
    lines = KERNEL.splitlines(keepends=True)
    return {
        "raw": f'S = r"""{KERNEL}"""\n',
        "continued": f'S = """\\\n{KERNEL}"""\n',
        "crlf": f'S = r"""{KERNEL}"""\n'.replace("\n", "\r\n"),
        "dedented": 'S = dedent("""\\\n' + textwrap.indent(KERNEL, "    ") + '    """)\n',
        "adjacent": "S = (\n" + "".join(f"    {line!r}  # why\n" for line in lines) + ")\n",
        "escaped": f"S = {KERNEL!r}\n",
        "joined": 'S = "\\n".join([\n' + "".join(f"    {line.rstrip()!r},\n" for line in lines) + "])\n",
        "f-string": f'S = f"""{doubled}"""\n',
        "added": f'H = """{"".join(lines[:2])}"""\nS = H + """{"".join(lines[2:])}"""\n',
        "stripped": f'S = """\n\n{KERNEL}""".strip()\n',
        "second": f'A = """{KERNEL.replace("wrong", "right")}"""\nS = """{KERNEL}"""\n',
        "broken Python": f'def (:\nS = r"""{KERNEL}"""\n',
        "non-ASCII": f's = "äöü"; S = """{KERNEL}"""\n',
    }


@pytest.mark.parametrize("way", _literals())
def test_lines_of_the_kernel_are_lines_of_the_candidate(way: str) -> None:
    source = "import torch\n" + _literals()[way]
    error, warning = explain(LOG, source)
    lines = source.replace("\r\n", "\n").split("\n")
    for found, word in ((error, "wrong1"), (warning, "wrong2")):
        assert found.file == "candidate.py"
        assert found.line is not None
        assert word in lines[found.line - 1]
        assert found.column == lines[found.line - 1].index(word) + 1
        assert found.excerpt == lines[found.line - 1]
    assert (error.severity, warning.severity) == (Severity.ERROR, Severity.WARNING)


@pytest.mark.parametrize("indent", ["\t", " \t", "\t\t"])
def test_blanks_that_clang_prints_for_tabs_are_understood(indent: str) -> None:
    source = f'S = """// nd_range_kernel\n{indent}wrong;\n"""\n'
    log = f"rtc_0.cpp:2:{len(indent) + 1}: error: no\n    2 | {indent.expandtabs(8)}wrong;\n      | {' ' * 8}^\n"
    (found,) = explain(log, source)
    assert (found.file, found.line) == ("candidate.py", 2)
    assert found.column in (len(indent) + 1, None)


def test_a_line_that_is_nowhere_keeps_clangs_own_number() -> None:
    assert explain(LOG, "S = make()\n")[0] == Diagnostic(
        "use of undeclared identifier 'wrong1'",
        file="kernel source",
        line=4,
        column=10,
        excerpt="  a[0] = wrong1;",
    )


def test_a_line_that_is_in_two_places_is_not_guessed() -> None:
    source = 'A = f"""\na[0] = wrong1;\n"""\nB = f"""\na[0] = wrong1;\n"""\n'
    log = LOG.split("rtc_0.cpp:5")[0]
    assert explain(log, source)[0].file == "kernel source"


def test_a_message_of_a_header_keeps_its_name() -> None:
    log = LOG + "/sycl-jit-toolchain/include/sycl/half.hpp:90:50: note: candidate\n   90 |   a[0] = wrong1;\n"
    found = explain(log, _literals()["raw"])[2]
    assert (found.file, found.line, found.severity) == (
        "/sycl-jit-toolchain/include/sycl/half.hpp",
        90,
        Severity.NOTE,
    )


def test_a_message_without_a_place_is_kept() -> None:
    (found,) = explain("error: unknown argument: '-fno'\n", _literals()["raw"])
    assert (found.message, found.file, found.line) == ("unknown argument: '-fno'", "kernel source", None)


def test_without_an_excerpt_the_only_kernel_is_meant() -> None:
    source = _literals()["raw"]
    (found,) = explain("rtc_0.cpp:4:10: error: too long to show\n", source)
    assert (found.file, found.line, found.excerpt) == ("candidate.py", 4, "  a[0] = wrong1;")
    (found,) = explain("rtc_0.cpp:40:10: error: behind the end\n", source)
    assert (found.file, found.line) == ("kernel source", 40)


def test_clangs_text_inside_a_traceback_is_found() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/s/candidate.py", line 9, in __init__\n'
        f"kforge_xpu.errors.SyclBuildError: the SYCL source does not compile:\n{LOG}"
    )
    assert explain(log, _literals()["raw"])[0].line == 4


def test_a_traceback_names_the_candidates_line() -> None:
    source = "import torch\n\nmodule.f(1000, 64, x)\n"
    log = (
        'Traceback (most recent call last):\n  File "/s/candidate.py", line 3, in forward\n'
        '    module.f(1000, 64, x)\n  File "/l/kforge_xpu/module.py", line 160, in __call__\n    x\n'
        "kforge_xpu.errors.SyclLaunchError: f: the global size (1000,) is not divisible by the local size (64,)\n"
    )
    (found,) = explain(log, source)
    assert (found.file, found.line, found.excerpt) == ("candidate.py", 3, "module.f(1000, 64, x)")
    assert "not divisible" in found.message


def test_other_text_is_passed_on_without_a_place() -> None:
    assert explain("", "") == ()
    assert explain("ld: cannot find -lsycl", _literals()["raw"]) == (Diagnostic("ld: cannot find -lsycl"),)


PIECES = st.sampled_from(
    [
        "rtc_0.cpp:1:1: error: x",
        "rtc_0.cpp",
        ":2:3",
        " error: ",
        "\n",
        "    1 | ",
        "^",
        "x",
        "\t",
        "{{",
        "File",
        "é",
        "\r",
    ]
)
TEXTS = st.sampled_from(
    ['"""', "'", '"', "r", "f", "\\", "\n", "\\n", "\\x41", "\\N{DASH}", "x", "S = ", "(", ")", "#", "é", "\0", "\r"]
)


@settings(max_examples=150, deadline=None)
@given(st.text() | st.lists(PIECES).map("".join), st.text() | st.lists(TEXTS).map("".join))
def test_any_text_is_read(log: str, source: str) -> None:
    for found in explain(log, source):
        assert found.line is None or found.line >= 1
        if found.file == "candidate.py":
            lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            assert found.line is not None
            assert found.excerpt == lines[found.line - 1]


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=40), st.integers(0, 3))
def test_every_character_of_a_literal_is_found(value: str, form: int) -> None:
    from kforge_xpu._literals import PythonText

    # A word that escapes cannot change, behind any text.
    value += "\nwrong"
    half = len(value) // 2
    written = (repr(value), ascii(value), f"({value[:half]!r}\n  {value[half:]!r})", f"({value!r}  # '\n)")[form]
    text = PythonText(f"S = {written}\n")
    (constant,) = text.constants
    assert constant.value == value
    place = constant.place(len(constant.lines), 1)
    assert place is not None
    # The second of two literals may begin within the word.
    assert text.lines[place[0] - 1][place[1] - 1 :].startswith("w")


@pytest.mark.parametrize(
    "log, source",
    [
        (LOG, "x = '" + "\\x41" * 250_000 + "'"),
        (LOG, "S = (" + "'a[0] = wrong1;\\n'\n" * 50_000 + ")"),
        (LOG, "S = [" + "'a[0] = wrong1;', " * 50_000 + "]"),
        (LOG, "é = [" + "'é', 'a[0] = wrong1;', " * 40_000 + "]"),
        (LOG * 5_000, 'S = """' + KERNEL * 8_000 + '"""'),
        ("rtc_0.cpp:1:1: error: x\n" + "    1 | x\n" * 80_000, "x\n" * 400_000),
        ('  File "/s/candidate.py", line 1\n' * 25_000, "x"),
        (LOG, "(" * 900_000),
        (LOG, "-" * 900_000),
    ],
    ids=["escapes", "adjacent", "list", "non-ASCII", "long log", "long excerpt", "traceback", "brackets", "signs"],
)
def test_reading_takes_time_linear_in_the_text(log: str, source: str) -> None:
    start = time.perf_counter()
    explain(log, source)
    assert time.perf_counter() - start < 15
