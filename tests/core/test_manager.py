"""Plugins are loaded as they are in life: from folders with .dist-info on sys.path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kforge.errors import MissingError, UsageError
from kforge.manager import Manager, load
from kforge.records import Target

GOOD = """
from kforge import hookimpl
from kforge.interfaces import CompilerPlugin

@hookimpl
def kforge_compilers():
    yield CompilerPlugin("toy", devices=("cpu",), summary="a toy", build=object)
"""


class Installer:
    """Installs fake distributions into a folder on sys.path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, text: str, *, version: str = "1.0") -> None:
        module = name.replace("-", "_") + "_module"
        (self.folder / f"{module}.py").write_text(text, encoding="utf-8")
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[kforge]\n{name} = {module}\n", encoding="utf-8")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Give an installer."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return Installer(tmp_path)


def _languages(plugins: Manager) -> set[str]:
    return {one.record.language for one in plugins.compilers()}


@pytest.fixture(autouse=True)
def _fresh_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.endswith("_module")]:
        monkeypatch.delitem(sys.modules, name)


def test_a_good_plugin_is_found_with_its_distribution_and_version(install: Installer) -> None:
    install("kforge-good", GOOD, version="2.5")
    found = load().compiler(Target("toy", "cpu"))
    assert (found.record.language, str(found.source), found.source.entry_point) == (
        "toy",
        "kforge-good 2.5",
        "kforge-good",
    )


@pytest.mark.parametrize(
    "text, reason",
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("raise SystemExit(3)", "ends the program"),
        ("import a_library_nobody_has", "needs the module 'a_library_nobody_has'"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_plugin_that_fails_at_import_is_named_and_the_rest_works(install: Installer, text: str, reason: str) -> None:
    install("kforge-bad", text)
    install("kforge-good", GOOD)
    plugins = load()
    (broken,) = [one for one in plugins.broken if one.source.distribution == "kforge-bad"]
    assert reason in broken.reason
    assert "kforge-bad" in broken.remedy
    assert {"null", "toy"} <= _languages(plugins)


@pytest.mark.parametrize(
    "body, reason",
    [
        ("    raise SystemExit(1)\n    yield", "SystemExit"),
        ("    yield 3", "yields 3, which is no CompilerPlugin"),
        ("    return 7", "TypeError"),
    ],
)
def test_a_plugin_that_fails_while_yielding_is_named(install: Installer, body: str, reason: str) -> None:
    install("kforge-bad", f"from kforge import hookimpl\n@hookimpl\ndef kforge_compilers():\n{body}\n")
    plugins = load()
    assert "null" in _languages(plugins)
    (broken,) = [one for one in plugins.broken if one.source.distribution == "kforge-bad"]
    assert reason in broken.reason


@pytest.mark.parametrize(
    "text, reason",
    [
        ("from kforge import hookimpl\n@hookimpl\ndef kforge_compiler(): return ()", "did you mean kforge_compilers?"),
        ("def kforge_compilers(): return ()", "lacks the marker"),
        ("from kforge import hookimpl\n@hookimpl\ndef kforge_agents(nonsense): return ()", "nonsense"),
    ],
)
def test_misspelt_hooks_are_named(install: Installer, text: str, reason: str) -> None:
    install("kforge-bad", text)
    (broken,) = [one for one in load().broken if one.source.distribution == "kforge-bad"]
    assert reason in broken.reason


def test_two_claims_of_one_name_are_an_error_that_names_both(install: Installer) -> None:
    install("kforge-one", GOOD)
    install("kforge-two", GOOD, version="2.0")
    plugins = load()
    with pytest.raises(UsageError, match=r"'toy' is claimed by kforge-one 1\.0 .* and kforge-two 2\.0") as caught:
        plugins.compilers()
    assert "KFORGE_PLUGINS=" in str(caught.value.hint)
    (conflict,) = plugins.conflicts
    assert (conflict.kind, conflict.name) == ("compiler", "toy")
    assert plugins.agents() != ()


def test_the_setting_restricts_what_loads(install: Installer) -> None:
    install("kforge-one", GOOD)
    install("kforge-two", GOOD)
    assert _languages(load({"KFORGE_PLUGINS": "kforge-two"})) == {"null", "toy"}
    assert _languages(load({"KFORGE_PLUGINS": ""})) == {"null"}


def test_an_unknown_name_in_the_setting_is_an_error_that_names_what_exists(install: Installer) -> None:
    install("kforge-one", GOOD)
    with pytest.raises(UsageError, match="'nobody'") as caught:
        load({"KFORGE_PLUGINS": "nobody"})
    assert "kforge-one" in str(caught.value.hint)


def test_the_trace_prints_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    load({"KFORGE_PLUGINS": "", "KFORGE_TRACE": "1"}).compilers()
    err = capsys.readouterr().err
    assert "kforge_compilers() of kforge-core" in err
    assert "language='null'" in err
    assert " ms\n" in err


def test_an_unknown_language_is_missing_and_the_hint_lists_those_that_are_here() -> None:
    with pytest.raises(MissingError, match="'nope'") as caught:
        load({"KFORGE_PLUGINS": ""}).compiler(Target("nope", "cpu"))
    assert "null" in str(caught.value.hint)
