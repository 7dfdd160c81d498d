"""Problems are read and refused without a line of them being run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kforge.errors import ExitCode, ProblemError
from kforge.problems.source import MAX_BYTES, read_problem

GOOD = "class Model: ...\ndef get_inputs(): ...\n"


def _write(folder: Path, content: str | bytes) -> Path:
    path = folder / "problem.py"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _refusal(path: Path) -> str:
    """Give the message of the error that reading must end with."""
    with pytest.raises(ProblemError) as caught:
        read_problem(path)
    assert caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE
    return caught.value.message


def test_a_problem_is_read_with_its_name_and_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    source = read_problem(Path("problem.py"))
    assert (source.path, source.text, source.name) == (tmp_path / "problem.py", GOOD, "problem")


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit(1)\n" + GOOD,
        "from helpers import Model, get_inputs\n",
        "from helpers import *\n",
        "from helpers import Net as Model\nget_inputs = lambda: []\n",
        "try:\n    import a\n    class Model: ...\nexcept ImportError:\n    class Model: ...\ndef get_inputs(): ...\n",
        "if True:\n    Model, get_inputs = 1, 2\n",
        "Model: type = object\nfor i in []:\n    pass\nelse:\n    def get_inputs(): ...\n",
        "match 1:\n    case 1:\n        class Model: ...\ndef get_inputs(): ...\n",
        GOOD + "print('\\d')\n",
    ],
)
def test_every_way_to_bind_the_names_counts_and_nothing_is_run(tmp_path: Path, text: str) -> None:
    assert read_problem(_write(tmp_path, text)).text == text


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read_problem(_write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())).text == GOOD


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" in _refusal(tmp_path / "nothing.py")
    assert "is a folder" in _refusal(tmp_path)
    assert "not a regular file" in _refusal(Path(os.devnull))
    assert "cannot be read" in _refusal(tmp_path / ("x" * 5000))
    assert _refusal(Path("a\0b.py"))


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"x = 1\ny = '\xff'\n", "is not UTF-8: byte 0xff on line 2"),
        (b"x = 1\n\0", "NUL byte on line 2"),
        (b"def f(:\n    pass\n", "line 1: invalid syntax\n    def f(:\n          ^"),
        (b"x = 1\n  y = 2\n", "line 2: unexpected indent"),
        (b"x = 1\nreturn 3\n", "line 2: 'return' outside function"),
        (b"(" * 5000, "line 1"),
        (b"x" + b".x" * 300000, "cannot be parsed"),
        (b"# nothing but a comment\n", "no class `Model`, and no other class"),
        (b"class Net: ...\nclass Other: ...\n", "no class `Model`; its classes: `Net`, `Other`"),
        (b"def f():\n    class Model: ...\n", "no class `Model`"),
        (b"if __name__ == '__main__':\n    class Model: ...\n", "no class `Model`"),
        (b"class ModelNew: ...\ndef get_inputs(): ...\n", "looks like a candidate"),
        (b"class Model: ...\ndef make(): ...\n", "no function `get_inputs`; its functions: `make`"),
    ],
)
def test_a_text_that_is_no_problem_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in _refusal(_write(tmp_path, content))


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, GOOD)
    os.truncate(path, MAX_BYTES + 1)
    assert "at most" in _refusal(path)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read: Permission denied" in _refusal(_write(tmp_path, GOOD))


def test_messages_hold_nothing_that_a_terminal_acts_on(tmp_path: Path) -> None:
    assert "\x1b" not in _refusal(_write(tmp_path, b"x = '\x1b[2J\n"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_no_content_leads_to_another_error(tmp_path: Path, content: bytes) -> None:
    try:
        read_problem(_write(tmp_path, content))
    except ProblemError as error:
        said = (error.message, error.hint)
    else:
        said = ("it is a Problem", "")
    assert said[0]
    assert said[1] is not None
