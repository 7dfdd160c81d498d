"""``kforge run`` and ``kforge runs`` on a scripted judge and agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from kforge import hookimpl, manager
from kforge.cli import main
from kforge.interfaces import AgentPlugin
from kforge.judge import client
from kforge.records import Outcome, Status
from kforge.store import Store
from tests.meta.repository import ROOT
from tests.scripted import ScriptedAgent, ScriptedJudge

RUN = ["run", "p.py", "--agent", "scripted", "--target", "null@cpu", "--passes", "3"]


class _Plugin:
    """Brings the scripted agent."""

    @hookimpl
    def kforge_agents(self) -> Iterator[AgentPlugin]:
        """Yield it."""
        yield AgentPlugin("scripted", summary="follows a script", build=lambda: ScriptedAgent(2))


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text("class Model: ...\n", encoding="utf-8")
    plugins = manager.load({"KFORGE_PLUGINS": ""})
    plugins.register(_Plugin(), manager.Source("scripted", distribution="kforge-scripted", version="1.0"))
    monkeypatch.setattr(manager, "manager", lambda: plugins)


def _judge(monkeypatch: pytest.MonkeyPatch, *script: tuple[Status | None, float, float] | BaseException) -> None:
    monkeypatch.setattr(client, "JudgeClient", lambda *args, **kwargs: ScriptedJudge(script))


def _valid(text: str, schema: str) -> None:
    path = ROOT / "docs" / "reference" / "schema" / f"{schema}.json"
    jsonschema.validate(json.loads(text), json.loads(path.read_text(encoding="utf-8")))


def test_a_run_tells_its_passes_and_ends_with_table_file_and_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, (Status.WRONG, 0, 0), (Status.CORRECT, 2.0, 0), (Status.CORRECT, 2.0, 0))
    assert main(RUN) == 0
    shown = capsys.readouterr()
    (run,) = Store().runs()
    path = Store().folder(run.id) / "p_null.py"
    assert path.is_file()
    assert (
        shown.err
        == f"""\
p.py for null@cpu, agent scripted, at most 3 passes
run {run.id} on Toy CPU
isolation without pid namespace
pass 1/3 functional: idea 1: wrong: 2 of 4 elements are off
pass 2/3 functional: idea 2: correct, 1 ms, 2.00x against torch.compile (kept)
nothing more to try: the script is over
confirming the candidate of pass 2 on new seeds
"""
    )
    assert shown.out.startswith("improved: p.py on null@cpu\n")
    assert f"kernel  {path}\nnext    kforge verify {path} --problem p.py --target null@cpu\n" in shown.out


def test_the_json_of_a_run_is_that_of_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, (Status.CORRECT, 2.0, 0), (Status.CORRECT, 2.0, 1.0), (Status.CORRECT, 2.0, 0))
    assert main([*RUN, "--json", "-q"]) == 0
    first = capsys.readouterr().out
    assert main(["runs", "show", "--json"]) == 0
    assert capsys.readouterr().out == first
    _valid(first, "run")
    assert main(["runs", "list", "--json"]) == 0
    _valid(capsys.readouterr().out, "runs")
    assert main(["runs", "show"]) == 0


def test_a_run_without_a_correct_candidate_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, (Status.WRONG, 0, 0), (Status.WRONG, 0, 0))
    assert main(RUN) == 1
    assert "worst element" in capsys.readouterr().out


def test_an_interrupted_run_is_130_and_stored_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    _judge(monkeypatch, KeyboardInterrupt())
    assert main(RUN) == 130
    (run,) = Store().runs()
    assert run.outcome is Outcome.INTERRUPTED


def test_path_and_rm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(monkeypatch, (Status.CORRECT, 2.0, 0), (Status.CORRECT, 2.0, 1.0), (Status.CORRECT, 2.0, 0))
    assert main([*RUN, "-q"]) == 0
    capsys.readouterr()
    assert main(["runs", "path"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert folder.is_dir()
    assert main(["runs", "path", "--json"]) == 0
    _valid(capsys.readouterr().out, "runs-path")
    assert main(["runs", "rm", "last", "--json"]) == 0
    _valid(capsys.readouterr().out, "runs-rm")
    assert not folder.exists()
    assert Store().runs() == ()
