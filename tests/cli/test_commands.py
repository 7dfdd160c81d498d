"""Commands: what they print, where, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kforge.cli import main
from kforge.judge import client
from kforge.records import Status
from tests.meta.repository import ROOT
from tests.scripted import ScriptedJudge

SCHEMAS = ROOT / "docs" / "reference" / "schema"


def _valid(text: str) -> dict[str, Any]:
    """Check a command's JSON against its published schema."""
    data: dict[str, Any] = json.loads(text)
    name = data["schema"].split("/")[1]
    jsonschema.validate(data, json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))
    return data


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a Problem and a candidate."""
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text("class Model: ...\n", encoding="utf-8")
    Path("c.py").write_text("class ModelNew: ...\n", encoding="utf-8")
    return tmp_path


def _judge(monkeypatch: pytest.MonkeyPatch, *script: tuple[Status | None, float, float] | BaseException) -> None:
    monkeypatch.setattr(client, "JudgeClient", lambda *args, **kwargs: ScriptedJudge(script))


VERIFY = ["verify", "c.py", "--problem", "p.py", "--target", "null@cpu"]


def test_verify_prints_device_times_and_claim(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, (Status.CORRECT, 2.0, 0))
    assert main(VERIFY) == 0
    assert (
        capsys.readouterr().out
        == """\
correct: c.py on null@cpu

device      Toy CPU (cpu, 2 cores)
versions    torch 2.0
precision   fp32; library operators not allowed
isolation   without pid namespace (not allowed here)

program        median  5 to 95 % of batches  batches  calls each  processes  candidate is faster by
candidate        1 ms  900 us to 1.1 ms           30           8          3
eager            4 ms  3.6 ms to 4.4 ms           30           8          3  4.00x (3.60 to 4.40)
torch.compile    2 ms  1.8 ms to 2.2 ms           30           8          3  2.00x (1.80 to 2.20)

2.00x, 95 % interval 1.80 to 2.20 (30 pairs, 3 processes): faster than torch.compile, the fastest baseline
"""
    )


def test_verify_names_the_worst_element(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, (Status.WRONG, 0, 0))
    assert main(VERIFY) == 1
    out = capsys.readouterr().out
    assert "worst element output[1, 3]: expected 0.5, got 0.75; off by 0.25, allowed 1e-05" in out


@pytest.mark.parametrize("status, code", [(Status.CORRECT, 0), (Status.WRONG, 1), (None, 4)])
def test_verify_writes_its_schema(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: Status | None,
    code: int,
) -> None:
    _judge(monkeypatch, (status, 2.0, 0))
    assert main([*VERIFY, "--json"]) == code
    data = _valid(capsys.readouterr().out)
    assert data["verdict"] == (status.value if status else None)


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["verify", "no.py", "--problem", "p.py", "--target", "null@cpu"], 2, "no.py does not exist"),
        (["verify", ".", "--problem", "p.py", "--target", "null@cpu"], 2, "is a folder"),
        (["verify", "c.py", "--problem", "no.py", "--target", "null@cpu"], 2, "no.py does not exist"),
        (["verify", "c.py", "--problem", "p.py", "--target", "nonsense"], 2, "is not a target"),
        (["verify", "c.py", "--problem", "p.py", "--target", "nope@cpu"], 3, "no language 'nope'"),
        (["run", "p.py", "--agent", "nobody"], 3, "no agent 'nobody'"),
        (["run", "p.py", "--output", "no/where.py"], 2, "there is no folder no"),
        (["nonsense"], 2, "No such command"),
        (["runs", "show"], 2, "there is no run"),
    ],
)
def test_bad_input_is_one_message_and_leaves_nothing(
    files: Path, kforge_home: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    assert main([*words, "--json"] if words != ["nonsense"] else words) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    if shown.out:
        assert _valid(shown.out)["error"]["code"] == code
    assert list(kforge_home.iterdir()) == []


def test_an_interrupt_is_130(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(monkeypatch, KeyboardInterrupt())
    assert main(VERIFY) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_bug_is_a_traceback_with_the_way_to_report_it(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, RuntimeError("boom"))
    assert main(VERIFY) == 4
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "please report it" in err


def test_an_end_of_file_is_no_interrupt(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(monkeypatch, EOFError("marshal data too short"))
    assert main(VERIFY) == 4
    assert "marshal data too short" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["plugins"], ["doctor"], ["runs"], ["runs", "list"]])
def test_listings_work_and_write_their_schema(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    capsys.readouterr()
    if command != ["runs"]:
        assert main([*command, "--json"]) == 0
        _valid(capsys.readouterr().out)


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["plugins"]])
def test_help_and_listings_import_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys; from kforge.cli import main; main(sys.argv[1:]);"
        "sys.exit(' '.join({'torch', 'openai', 'numpy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
