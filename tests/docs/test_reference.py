"""Indexes and reference pages are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kforge.errors import ExitCode
from tests.meta.repository import ROOT

ADR = ROOT / "docs" / "adr"


def _records() -> list[Path]:
    """List the decision records."""
    return sorted(path for path in ADR.glob("*.md") if path.name != "README.md")


def test_the_index_of_decision_records_is_complete() -> None:
    rows = re.findall(r"^\| \[?(\d{4})\]?.*\]\((\S+)\)", (ADR / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(path.name[:4], path.name) for path in _records()]


def test_numbers_of_decision_records_are_unique() -> None:
    numbers = [path.name[:4] for path in _records()]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("record", _records(), ids=lambda path: path.name)
def test_a_decision_record_has_number_title_and_status(record: Path) -> None:
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", record.name)
    text = record.read_text(encoding="utf-8")
    assert re.match(rf"# {record.name[:4]}\. \S", text)
    assert re.search(r"^Status: (proposed|accepted|replaced by \d{4})$", text, re.MULTILINE)


def test_the_page_of_exit_codes_is_complete() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]


def test_every_page_is_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    pending, reached = [docs / "index.md"], set()
    while pending:
        page = pending.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:\s]+\.md)", page.read_text(encoding="utf-8"))
        pending += [(page.parent / link).resolve() for link in links if (page.parent / link).is_file()]
    assert [str(path.relative_to(ROOT)) for path in sorted(docs.glob("**/*.md")) if path not in reached] == []
