"""``kforge verify`` and ``kforge run`` with the real judge, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kforge.errors import ExitCode
from kforge.manager import load
from kforge.records import Target
from tests.cli.real import GOOD, KFORGE, Place
from tests.meta.repository import ROOT

VERIFY = ("verify", "c.py", "--problem", "p.py", "--target", "null@cpu")


def _valid(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    schema = ROOT / "docs" / "reference" / "schema" / f"{data['schema'].split('/')[1]}.json"
    jsonschema.validate(data, json.loads(schema.read_text(encoding="utf-8")))
    return data


def _needs_sycl() -> None:
    available = load().compiler(Target.parse("sycl@cpu")).record.build().available("cpu")
    if not available.ok:
        pytest.skip(f"sycl@cpu does not work here: {available.reason}")


def test_a_good_candidate_is_measured_against_both_baselines(place: Place) -> None:
    done = place.run(*VERIFY, "--json")
    assert done.returncode == ExitCode.DONE, done.stderr
    data = _valid(done.stdout)
    assert data["verdict"] == "correct"
    assert set(data["measurement"]["baselines_s"]) == {"eager", "torch.compile"}
    assert done.stderr == ""
    assert place.left() == []


def test_a_wrong_candidate_names_its_worst_element(place: Place) -> None:
    place.write("c.py", GOOD.replace("+ 1", "+ 1 + (torch.arange(4096) == 77)"))
    done = place.run(*VERIFY, "--json")
    assert done.returncode == ExitCode.NOT_CORRECT, done.stderr
    data = _valid(done.stdout)
    assert data["verdict"] == "wrong"
    assert data["findings"][0]["index"] == [77]
    assert data["measurement"] is None
    assert place.left() == []


@pytest.mark.parametrize(
    "line, verdict, said",
    [
        ("raise KeyError('oops')", "crashed", "oops"),
        ("__import__('ctypes').string_at(0)", "crashed", "SIGSEGV"),
        ("return None", "wrong", "None"),
        ("return (", "no_code", "was never closed"),
    ],
    ids=["raises", "crashes", "returns None", "syntax"],
)
def test_a_broken_candidate_is_a_verdict(place: Place, line: str, verdict: str, said: str) -> None:
    place.write("c.py", GOOD.replace("return torch.relu(x) + 1", line))
    done = place.run(*VERIFY, "--json")
    assert done.returncode == ExitCode.NOT_CORRECT, done.stderr
    data = _valid(done.stdout)
    assert (data["verdict"], said in str(data["findings"])) == (verdict, True), data["findings"]
    assert "Traceback" not in done.stderr
    assert place.left() == []


def test_two_commands_at_once_wait_for_each_other(place: Place) -> None:
    command = [str(KFORGE), *VERIFY, "--json"]
    started = [
        subprocess.Popen(command, cwd=place.folder, env=place.variables(), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        out, _ = process.communicate(timeout=100)
        assert process.returncode == ExitCode.DONE
        assert _valid(out)["verdict"] == "correct"
    assert place.left() == []


def test_a_run_ends_with_a_kernel_in_the_store_and_in_a_file(place: Place) -> None:
    _needs_sycl()
    done = place.run("run", "p.py", "--target", "sycl@cpu", "--passes", "1", "--output", "best.py", "--json")
    assert done.returncode == ExitCode.DONE, done.stderr
    data = _valid(done.stdout)
    assert data["outcome"] in ("improved", "no faster kernel found")
    shown = place.run("runs", "show", "--json")
    assert json.loads(shown.stdout) == data
    stored = place.run("runs", "path").stdout.strip()
    written = (place.folder / "best.py").read_text(encoding="utf-8")
    assert [path.read_text(encoding="utf-8") for path in Path(stored).iterdir()] == [written]
    assert place.left() == []
