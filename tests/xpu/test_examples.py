"""The examples of docs: Problems that run, good candidates that are right, wrong ones that are wrong as announced."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge.judge.client import JudgeClient
from kforge.judge.reference import Reference, load_reference
from kforge.problems.source import read_problem
from kforge.records import Candidate, Limits, Origin, Status, Target
from tests.meta.repository import ROOT

EXAMPLES = ROOT / "docs" / "examples"
CANDIDATES = EXAMPLES / "candidates"
EXPECTED: list[dict[str, Any]] = json.loads((CANDIDATES / "expected.json").read_text(encoding="utf-8"))
PROBLEMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
FEWER = {"M": 1003, "N": 1024, "ROWS": 64, "TOKENS": 64, "HEADS": 2, "KEY_HEADS": 1, "BATCH": 8}


def _reference(name: str) -> Reference:
    """Load a Problem of the examples and make its sizes small."""
    reference = load_reference(read_problem(EXAMPLES / name))
    for size, value in FEWER.items():
        if hasattr(reference.module, size):
            setattr(reference.module, size, value)
    return reference


def _leaves(value: object) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)  # type: ignore[call-overload] # tuple or list


def test_there_are_ten_problems() -> None:
    assert len(PROBLEMS) == 10


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_run(name: str) -> None:
    reference = _reference(name)
    output = reference.run(reference.construct(0), reference.draw_inputs(0))
    assert all(bool(tensor.isfinite().all()) for tensor in _leaves(output))


def test_the_table_names_every_candidate_and_problems_that_exist() -> None:
    assert sorted(path.name for path in CANDIDATES.glob("*.py")) == sorted(row["candidate"] for row in EXPECTED)
    assert {row["problem"] for row in EXPECTED} <= set(PROBLEMS)
    assert {row["target"] for row in EXPECTED} == {"sycl@cpu"}


def test_each_problem_with_candidates_has_a_good_and_a_wrong_one() -> None:
    good = {row["problem"] for row in EXPECTED if row["verdict"] == "correct"}
    assert good == {row["problem"] for row in EXPECTED if row["verdict"] == "wrong"}
    assert len(good) >= 4


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], JudgeClient]]:
    """Open the judge of a Problem with small sizes; one lives at a time."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFORGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        known: dict[str, JudgeClient] = {}

        def judge_of(problem: str) -> JudgeClient:
            if problem not in known:
                stack.pop_all().close()
                known.clear()
                text = (EXAMPLES / problem).read_text(encoding="utf-8")
                sizes = [
                    f"{name} = {value}"
                    for name, value in FEWER.items()
                    if re.search(rf"^[A-Z_, ]*\b{name}\b", text, re.M)
                ]
                path = tmp_path_factory.mktemp("problem") / problem
                path.write_text("\n".join([text, *sizes, ""]), encoding="utf-8")
                client = JudgeClient(
                    Target.parse("sycl@cpu"), limits=Limits(build_s=60, call_s=3), compiled=False, pairs=1
                )
                known[problem] = stack.enter_context(client)
                client.open(path)
            return known[problem]

        yield judge_of
        stack.close()


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: Path(row["candidate"]).stem)
def test_candidates_get_the_verdicts_of_the_table(row: dict[str, Any], judges: Callable[[str], JudgeClient]) -> None:
    source = (CANDIDATES / row["candidate"]).read_text(encoding="utf-8")
    candidate = Candidate(source, target=Target.parse(row["target"]), origin=Origin("file"))
    verdict = judges(row["problem"]).judge(candidate).verdict
    decisive = [finding for finding in verdict.findings if finding.decisive]
    assert verdict.status is Status(row["verdict"]), decisive
    assert (decisive[0].check if decisive else None) == row["check"], decisive
    if row["check"] == "compile":
        assert decisive[0].diagnostics[0].line == 1 + source[: source.index("exq")].count("\n")
        assert "exq" in decisive[0].diagnostics[0].message
