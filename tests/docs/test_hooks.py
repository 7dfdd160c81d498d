"""The page of hooks names every hook, record field and method, and its examples work."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from kforge import interfaces, profiles
from kforge.manager import HOOKS, SELECTION, TRACE, Manager, Source, load
from kforge.records import Availability, Candidate, DeviceFacts, Diagnostic, Finding, Origin, PassKind, Phase, Target
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = dict(re.findall(r"^##+ (\w+)\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL))
TARGET = Target("toy", "cpu")


def _own_classes(module: ModuleType) -> list[type]:
    return [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]


DESCRIBED = [
    *_own_classes(interfaces), *_own_classes(profiles), Availability, Candidate, DeviceFacts, Diagnostic, Finding
]  # fmt: skip


def _members(one: type) -> list[str]:
    """List fields and properties of a record, or the methods of a Protocol."""
    fields = [field.name for field in attrs.fields(one)] if attrs.has(one) else []
    own = {name: value for name, value in vars(one).items() if not name.startswith("_")}
    if fields:
        return [*fields, *(name for name, value in own.items() if isinstance(value, property))]
    return [name for name, value in own.items() if inspect.isfunction(value)]


def _rows(section: str) -> list[tuple[str, str]]:
    """Read names and arguments from the first column of a section's table."""
    return re.findall(r"^\| `(\w+)(?:\(([\w, ]*)\))?` \|", section, re.MULTILINE)


def test_each_hook_has_a_section_and_an_example() -> None:
    assert [name for name in SECTIONS if name.startswith("kforge_")] == list(HOOKS)
    for hook, record in HOOKS.items():
        assert f"def {hook}() -> Iterator[{record.__name__}]:" in SECTIONS[hook]
    assert len(EXAMPLES) == len(HOOKS)


@pytest.mark.parametrize("one", DESCRIBED, ids=lambda one: one.__name__)
def test_each_field_and_method_is_described(one: type) -> None:
    rows = _rows(SECTIONS[one.__name__])
    assert [name for name, _ in rows] == _members(one)
    if not attrs.has(one):
        given = {name: [word for word in words.split(", ") if word] for name, words in rows}
        assert given == {name: list(inspect.signature(getattr(one, name)).parameters)[1:] for name in given}


def test_settings_are_named() -> None:
    assert f"| `{SELECTION}` |" in PAGE
    assert f"| `{TRACE}` |" in PAGE


def _object(hook: str) -> Any:
    """Run the example of a hook, register it, and build the object of its one record."""
    (text,) = [example for example in EXAMPLES if f"def {hook}(" in example]
    module = ModuleType(f"example_{hook}")
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    plugins = Manager()
    plugins.register(module, Source("toy", distribution="kforge-toy", version="1.0"))
    assert plugins.broken == ()
    (provided,) = plugins.offered()
    assert isinstance(provided.record, HOOKS[hook])
    made = provided.record.build()
    protocol = getattr(interfaces, HOOKS[hook].__name__.removesuffix("Plugin"))
    for name in _members(protocol):
        parameters = inspect.signature(getattr(made, name)).parameters
        assert list(parameters) == list(inspect.signature(getattr(protocol, name)).parameters)[1:]
    return made


def test_the_agent_of_the_page_proposes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    agent = _object("kforge_agents")
    fields: dict[str, Any] = {"pass_kind": PassKind.FUNCTIONAL, "pass_number": 1, "problem": None, "graph": None}
    request = interfaces.Request(TARGET, **fields)
    assert isinstance(agent.propose(request), interfaces.NothingToTry)
    (tmp_path / "one.py").write_text("x = 1\n", encoding="utf-8")
    assert agent.propose(request) == interfaces.Proposal("x = 1\n", note="one.py")


def test_the_compiler_of_the_page_answers(tmp_path: Path) -> None:
    compiler = _object("kforge_compilers")
    assert compiler.available("cpu").ok
    assert compiler.prepare(tmp_path).cache_variables == ("TOY_CACHE",)
    assert compiler.explain("toy error: odd\nelse", "") == (Diagnostic("odd", file="candidate.py"),)
    assert "ModelNew" in compiler.example()


def test_the_verifier_of_the_page_finds_what_it_looks_for() -> None:
    verifier = _object("kforge_verifiers")
    sources = ("import threading\n", "import torch\n", "(")
    candidates = [Candidate(source, target=TARGET, origin=Origin("manual")) for source in sources]
    found = [verifier.check_source(candidate) for candidate in candidates]
    assert [[one.phase for one in findings] for findings in found] == [[Phase.STATIC], [], []]


def test_the_profiler_of_the_page_reads_its_file(tmp_path: Path) -> None:
    profiler = _object("kforge_profilers")
    text = json.dumps({"toy-trace": 1, "kernels": [{"name": "add", "launches": 2, "seconds": 0.5}]})
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    assert profiler.recognises(text.encode())
    assert profiler.parse([path]).kernels == (profiles.KernelProfile("add", launches=2, total_s=0.5),)


def test_the_device_of_the_page_adds_a_fact() -> None:
    facts = _object("kforge_devices").enrich(DeviceFacts("CPU", kind="cpu"))
    assert [name for name, _ in facts.extra] == ["governor"]


def _install(folder: Path, distribution: str, project: dict[str, Any], text: str) -> None:
    """Lay a distribution with its entry points into a folder, as an installer would."""
    name = distribution.replace("-", "_")
    (folder / name).mkdir()
    (folder / name / "plugin.py").write_text(text, encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    entries = "".join(f"{key} = {name}.plugin\n" for key in project["entry-points"]["kforge"])
    (info / "entry_points.txt").write_text(f"[kforge]\n{entries}", encoding="utf-8")


def _kforge(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("kforge")), *words]
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True)


def test_the_entry_point_of_the_page_is_found_and_selected(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    project = tomllib.loads(block)["project"]
    text = EXAMPLES[0]
    _install(tmp_path, project["name"], project, text)
    assert project["entry-points"]["kforge"] == {"toy": "kforge_toy.plugin"}
    for selection in ("toy", "kforge-toy:toy"):
        done = _kforge(tmp_path, "plugins", KFORGE_PLUGINS=selection, KFORGE_TRACE="1")
        assert done.returncode == 0, done.stderr
        assert "folder" in done.stdout
        assert "kforge_agents() of kforge-toy 1.0" in done.stderr
    assert "kforge-toy" not in _kforge(tmp_path, "plugins", KFORGE_PLUGINS="").stdout
    assert _kforge(tmp_path, "plugins", KFORGE_PLUGINS="toys").returncode == 2


def test_two_claims_of_one_name_are_told(tmp_path: Path) -> None:
    project = {"version": "1.0", "entry-points": {"kforge": {"toy": ""}}}
    for distribution in ("kforge-toy", "kforge-other"):
        _install(tmp_path, distribution, project, EXAMPLES[0])
    problem = ROOT / "docs" / "examples" / "gelu_tanh.py"
    done = _kforge(tmp_path, "run", str(problem), "--agent", "folder")
    assert done.returncode == 2
    assert "kforge-toy" in done.stderr
    assert "kforge-other" in done.stderr


def test_no_example_takes_a_name_of_a_built_in_plugin() -> None:
    built_in = {
        getattr(one.record, "name", getattr(one.record, "language", "")) for one in load({SELECTION: ""}).offered()
    }
    assert built_in.isdisjoint({"folder", "toy", "no-threads", "toy-trace", "toy-governor"})
