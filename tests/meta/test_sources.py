"""Rules for the text of sources and documents."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.meta import detectors
from tests.meta.repository import PACKAGES, ROOT, committed, python_files, shown, sources


def _findings(detector: Callable[[str], list[str]], paths: Iterable[Path]) -> list[str]:
    """Apply a detector to text files, and name the file in each finding."""
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{shown(path)}: {finding}" for finding in detector(text)]
    return found


def _may_import_slowly() -> list[str]:
    """Give the patterns of the one allow-list, which ruff reads as well."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    return [pattern for pattern, codes in settings["per-file-ignores"].items() if "TID253" in codes]


def _allowed(name: str, patterns: Iterable[str]) -> bool:
    """Say whether a file, or all files of a folder, are named by a pattern."""
    return any(name == pattern or name.startswith(pattern.removesuffix("**")) for pattern in patterns)


def test_the_search_finds_files() -> None:
    assert {shown(path).split("/")[0] for path in sources()} == set(PACKAGES)
    assert {"noxfile.py", "tests/meta/test_sources.py"} <= {shown(path) for path in python_files()}
    assert ROOT / "README.md" in committed("*.md")


def test_no_shipped_file_is_too_long() -> None:
    assert _findings(detectors.too_long, sources()) == []


def test_no_shipped_function_is_too_long() -> None:
    assert _findings(detectors.long_functions, (path for path in sources() if path.suffix == ".py")) == []


def test_core_names_no_vendor_and_no_language() -> None:
    assert _findings(detectors.vendor_names, sources("kforge-core")) == []


def test_every_silenced_check_has_a_reason() -> None:
    assert _findings(detectors.unexplained_silencers, python_files()) == []


def test_slow_modules_are_imported_where_work_is_done() -> None:
    patterns = _may_import_slowly()
    paths = [path for path in sources() if path.suffix == ".py" and not _allowed(shown(path), patterns)]
    assert _findings(detectors.slow_imports, paths) == []


def test_the_allow_list_names_no_package_as_a_whole() -> None:
    patterns = _may_import_slowly()
    assert not _allowed("kforge-core/src/kforge/cli/__init__.py", patterns)
    assert not any(_allowed(f"{name}/src/{module}/plugin.py", patterns) for name, module in PACKAGES.items())


def test_no_committed_file_holds_a_path_of_one_machine() -> None:
    assert _findings(detectors.machine_paths, committed()) == []


@pytest.mark.parametrize("page", committed("*.md"), ids=shown)
def test_relative_links_resolve(page: Path) -> None:
    assert detectors.broken_links(page) == []
