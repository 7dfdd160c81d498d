"""Reading clang's text, whatever it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_xpu.diagnostics import ClangDiagnostic, parse_clang

LOG = """Device compilation failed
Detailed information:
\trtc_0.cpp:5:137: error: use of undeclared identifier 'undefined_name'
    5 | void f() { undefined_name; }
      |            ^~~~~~~~~~~~~~
In file included from rtc_0.cpp:1:
/sycl-jit-toolchain/include/sycl/half.hpp:90:50: note: candidate: takes 2 arguments
error: unknown argument: '-fno'
rtc_0.cpp:7:1: warning: unused
1 error generated.
"""


def test_places_messages_and_excerpts_are_read() -> None:
    assert parse_clang(LOG) == [
        ClangDiagnostic(
            "rtc_0.cpp",
            5,
            137,
            "error",
            "use of undeclared identifier 'undefined_name'",
            "void f() { undefined_name; }\n           ^~~~~~~~~~~~~~",
        ),
        ClangDiagnostic("/sycl-jit-toolchain/include/sycl/half.hpp", 90, 50, "note", "candidate: takes 2 arguments"),
        ClangDiagnostic(None, None, None, "error", "unknown argument: '-fno'"),
        ClangDiagnostic("rtc_0.cpp", 7, 1, "warning", "unused", "1 error generated."),
    ]


def test_a_text_without_diagnostics_gives_none() -> None:
    assert parse_clang("") == parse_clang("ld: cannot find -lsycl\n") == []


PIECES = st.sampled_from(
    ["rtc_0.cpp", ":", "1", "12", " error: ", "warning:", "note:", "\n", "|", "^", " ", "\t", "\0"]
)


@given(st.text() | st.lists(PIECES).map("".join))
def test_any_text_is_read(log: str) -> None:
    for found in parse_clang(log):
        assert found.severity in {"fatal error", "error", "warning", "note", "remark"}
        assert (found.line is None) == (found.file is None) == (found.column is None)


@pytest.mark.parametrize("piece", [":1:1", "a:1:", "error:", " ", "error: \n", "x:1:1: error: e\n", "1 | \n", ":"])
def test_reading_takes_time_linear_in_the_text(piece: str) -> None:
    start = time.perf_counter()
    parse_clang(piece * (2_000_000 // len(piece)) + " error: x")
    assert time.perf_counter() - start < 8
