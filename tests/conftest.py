"""What every test can rely on: a home of its own, and nothing of the person's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforge.judge.isolation import probe


@pytest.fixture(autouse=True)
def kforge_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the store of each test in a temporary folder, and keys and settings of the person out of it."""
    home = tmp_path_factory.mktemp("kforge-home")
    monkeypatch.setenv("KFORGE_HOME", str(home))
    for name in ("KFORGE_PLUGINS", "KFORGE_TRACE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(scope="session")
def whole_isolation() -> None:
    """Skip tests whose hostile code could reach the machine where a layer of the isolation is missing."""
    missing = probe().missing
    if missing:
        pytest.skip(f"hostile code needs the whole isolation: {missing[0].name}: {missing[0].reason}")
