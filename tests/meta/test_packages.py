"""Rules for the four distributions."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.meta.detectors import loaded_by_import
from tests.meta.repository import PACKAGES, ROOT, sources


def _project(distribution: str) -> dict[str, Any]:
    """Read the project table of a distribution."""
    text = (ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


@pytest.mark.parametrize("distribution,module", PACKAGES.items())
def test_a_package_is_whole(distribution: str, module: str) -> None:
    folder = ROOT / distribution
    assert (folder / "src" / module / "py.typed").is_file()
    assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {distribution}\n")
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert _project(distribution)["license"] == "Apache-2.0"


def test_all_packages_have_one_version() -> None:
    modules = {name: ROOT / name / "src" / module / "__init__.py" for name, module in PACKAGES.items()}
    stated = {
        name: re.findall(r'^__version__ = "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
        for name, path in modules.items()
    }
    version = _project("kforge-core")["version"]
    assert {name: [_project(name)["version"]] for name in PACKAGES} == stated
    assert stated == {name: [version] for name in PACKAGES}


def test_every_dependency_has_a_version_known_to_work() -> None:
    known = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    pinned = {name.lower().replace("_", "-") for name in known}
    needed = {
        re.split(r"[^\w-]", requirement)[0]
        for name in PACKAGES
        for requirement in (
            *_project(name)["dependencies"],
            *_project(name).get("optional-dependencies", {}).get("cpu", []),
        )
    }
    assert needed - set(PACKAGES) - pinned == set()


def test_entry_points_name_plugin_modules_that_exist() -> None:
    entries = {name: _project(name).get("entry-points", {}).get("kforge", {}) for name in PACKAGES}
    existing = {
        name: {module.removeprefix("kforge_"): f"{module}.plugin"}
        for name, module in PACKAGES.items()
        if (ROOT / name / "src" / module / "plugin.py").is_file() and module != "kforge"
    }
    assert {name: entry for name, entry in entries.items() if entry} == existing


def _plugin_modules() -> list[str]:
    """Name the modules that are imported to learn what is installed."""
    paths = (path for path in sources() if path.name == "plugin.py" or path.match("kforge/cli/__init__.py"))
    return sorted(
        ".".join(path.parts[path.parts.index("src") + 1 :]).removesuffix(".py").removesuffix(".__init__")
        for path in paths
    )


@pytest.mark.parametrize("module", _plugin_modules())
def test_a_plugin_module_imports_nothing_slow(module: str) -> None:
    assert loaded_by_import(module, []) == []


def test_there_are_plugin_modules() -> None:
    assert "kforge_xpu.plugin" in _plugin_modules()
