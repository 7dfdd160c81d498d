"""The tutorial types commands and names files that exist; its verdicts are those that are tested elsewhere."""

from __future__ import annotations

import json
import re
import shlex

import click
import pytest

from kforge.cli import kforge
from kforge.records import Candidate, Origin, Target
from kforge.verifiers import CodeVerifier
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs" / "tutorial" / "first-kernel.md").read_text(encoding="utf-8")
BASH = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for block in BASH for line in block.splitlines() if line.startswith("kforge ")]
SAVED = set(re.findall(r"as `(\w+\.py)`", PAGE))
"""Files that the reader writes."""


def _found(words: list[str]) -> tuple[click.Command, list[str]]:
    """Give the command that words name, and the words after its name."""
    command: click.Command = kforge
    while isinstance(command, click.Group):
        inner = command.get_command(click.Context(command), words[0])
        assert inner is not None, words
        command, words = inner, words[1:]
    return command, words


def test_there_are_commands() -> None:
    assert {"doctor", "run", "verify", "runs"} == {words[1] for words in COMMANDS}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_exists_with_its_options(words: list[str]) -> None:
    command, rest = _found(words[1:])
    known = {name for parameter in command.params for name in parameter.opts}
    assert [word for word in rest if word.startswith("-") and word not in known] == []
    files = [word for word in rest if word.endswith(".py")]
    assert [name for name in files if name not in SAVED and not (ROOT / name).is_file()] == []


def test_verdicts_are_those_that_are_expected() -> None:
    expected = {
        row["candidate"]: row
        for row in json.loads((ROOT / "docs/examples/candidates/expected.json").read_text(encoding="utf-8"))
    }
    told = {
        "softmax_good.py": ("correct", None),
        "softmax_wrong_tail.py": ("wrong", "values"),
        "gelu_tanh_compile_error.py": ("build_failed", "compile"),
        "softmax_no_max.py": ("wrong", "nonfinite"),
    }
    judged = [word.rpartition("/")[2] for words in COMMANDS for word in words if "/candidates/" in word]
    assert sorted(judged) == sorted(told)
    assert {name: (expected[name]["verdict"], expected[name]["check"]) for name in told} == told
    assert [verdict for verdict, _ in told.values() if f"`{verdict}`" not in PAGE and f"\n{verdict}:" not in PAGE] == []


def test_the_kernel_of_the_page_is_a_candidate() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (source,) = [text for text in blocks if "class ModelNew" in text]
    candidate = Candidate(source, target=Target("sycl", "cpu"), origin=Origin("manual"))
    assert CodeVerifier().check_source(candidate) == ()
