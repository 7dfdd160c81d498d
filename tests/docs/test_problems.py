"""The Problems of the page can be read and run, and so can those of the tutorial."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kforge.errors import ProblemError
from kforge.judge.reference import load_reference
from kforge.problems.source import read_problem
from kforge.records import Precision
from tests.meta.repository import ROOT

PAGES = [ROOT / "docs" / "reference" / "problems.md", ROOT / "docs" / "tutorial" / "first-kernel.md"]
EXAMPLES = [
    text
    for page in PAGES
    for text in re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if "class Model(" in text
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4
    assert any("get_init_inputs" in text for text in EXAMPLES)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_is_a_problem_that_runs(text: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(text, encoding="utf-8")
    source = read_problem(path)
    assert (source.text, source.name) == (text, "problem")
    reference = load_reference(source)
    assert reference.precision is (Precision.BF16 if "PRECISION" in text else None)
    assert reference.run(reference.construct(1), reference.draw_inputs(2)) is not None


@pytest.mark.parametrize("name", ["Model", "get_inputs"])
def test_a_needed_name_is_needed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(EXAMPLES[0].replace(name, f"Other{name}"), encoding="utf-8")
    with pytest.raises(ProblemError, match=name):
        read_problem(path)


def test_the_page_names_each_precision() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    assert [one.value for one in Precision if f'`"{one.value}"`' not in text] == []
