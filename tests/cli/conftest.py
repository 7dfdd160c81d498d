"""Folders for commands that run in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.real import Place


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one cache to all commands, since torch.compile takes most of their time otherwise."""
    return tmp_path_factory.mktemp("kforge-cache")


@pytest.fixture
def place(tmp_path: Path, shared_cache: Path) -> Place:
    """Give a Problem, a candidate and fresh folders."""
    return Place(tmp_path, shared_cache)
