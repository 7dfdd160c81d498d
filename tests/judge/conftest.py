"""Judges in processes of their own, as the command line starts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.judge.court import SECRET_KEY, Court

Opens = Callable[..., Court]


@pytest.fixture(scope="module")
def convene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opens]:
    """Open a judge on a Problem's text; all are closed at the end of the module, and nothing may be left of them."""
    courts: list[Court] = []

    def start(problem: str, **options: object) -> Court:
        folder = tmp_path_factory.mktemp("court")
        with pytest.MonkeyPatch.context() as patch:
            (folder / "tmp").mkdir()
            patch.setenv("TMPDIR", str(folder / "tmp"))
            patch.setattr("tempfile.tempdir", None)
            patch.setenv("KFORGE_CACHE", str(folder / "cache"))
            patch.setenv("OPENAI_API_KEY", SECRET_KEY)
            court = Court.open(folder, problem, **options)
        courts.append(court)
        return court

    yield start
    for court in courts:
        court.close()


@pytest.fixture
def once(convene: Opens, tmp_path: Path) -> Iterator[Opens]:
    """Open judges for one test only."""
    courts: list[Court] = []

    def start(problem: str, **options: object) -> Court:
        courts.append(convene(problem, **options))
        return courts[-1]

    yield start
    for court in courts:
        court.close()
