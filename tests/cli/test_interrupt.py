"""Ctrl-C and other signals, at every stage: a quick end with its exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from kforge.errors import ExitCode
from kforge.manager import load
from kforge.records import Target
from tests.cli.real import GOOD, PROBLEM, Place, Terminal

QUICK_S = 6.0
VERIFY = ("verify", "c.py", "--problem", "p.py", "--target", "null@cpu")
SLEEPS = "        __import__('time').sleep(9)\n"
CONSTRUCTOR = "    def __init__(self):\n        super().__init__()\n"
FORWARD = "    def forward(self, x):\n"


def _check_end(terminal: Terminal, place: Place, code: int = ExitCode.INTERRUPTED) -> None:
    started = time.monotonic()
    assert terminal.end(QUICK_S) == code, terminal.text
    assert time.monotonic() - started < QUICK_S
    assert "Traceback" not in terminal.text
    assert place.left() == []


def _judge(place: Place) -> int:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mine = str(place.folder / "mark").encode() in (process / "environ").read_bytes()
            if mine and b"kforge.judge\0" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("there is no judge")


@pytest.mark.parametrize(
    "stage, problem, candidate",
    [
        ("running the reference", PROBLEM.replace(FORWARD, FORWARD + SLEEPS), GOOD),
        ("building", PROBLEM, GOOD.replace(FORWARD, CONSTRUCTOR + SLEEPS + "\n" + FORWARD)),
        ("comparing on secret case", PROBLEM, GOOD.replace(FORWARD, FORWARD + SLEEPS)),
        ("waiting for torch.compile", PROBLEM.replace("+ 1", "+ 2"), GOOD.replace("+ 1", "+ 2")),
        ("timing, pair of processes", PROBLEM, GOOD),
    ],
    ids=["reference", "building", "comparing", "compiling", "timing"],
)
def test_ctrl_c_while(place: Place, tmp_path: Path, stage: str, problem: str, candidate: str) -> None:
    place.write("p.py", problem)
    place.write("c.py", candidate)
    if stage.startswith("waiting"):
        place.cache = tmp_path / "fresh"
    with Terminal(place, *VERIFY) as terminal:
        terminal.wait_for(stage)
        terminal.press_ctrl_c()
        _check_end(terminal, place)
        assert "kforge: interrupted" in terminal.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_command_alone(place: Place, number: signal.Signals) -> None:
    place.write("c.py", GOOD.replace(FORWARD, FORWARD + SLEEPS))
    with Terminal(place, *VERIFY) as terminal:
        terminal.wait_for("comparing")
        terminal.process.send_signal(number)
        _check_end(terminal, place)


def test_an_impatient_person(place: Place) -> None:
    with Terminal(place, *VERIFY) as terminal:
        terminal.wait_for("running the reference")
        for _ in range(5):
            terminal.press_ctrl_c()
            time.sleep(0.02)
        assert terminal.end(QUICK_S) == ExitCode.INTERRUPTED
        assert place.left() == []


@pytest.mark.parametrize("stage", ["preparing", "building"])
def test_a_killed_command_leaves_nothing(place: Place, stage: str) -> None:
    place.write("c.py", GOOD.replace(FORWARD, CONSTRUCTOR + SLEEPS + "\n" + FORWARD))
    with Terminal(place, *VERIFY) as terminal:
        terminal.wait_for(stage)
        terminal.process.kill()
        _check_end(terminal, place, -signal.SIGKILL)


def test_a_killed_judge_is_a_message(place: Place) -> None:
    place.write("c.py", GOOD.replace(FORWARD, CONSTRUCTOR + SLEEPS + "\n" + FORWARD))
    with Terminal(place, *VERIFY) as terminal:
        terminal.wait_for("building")
        os.kill(_judge(place), signal.SIGKILL)
        _check_end(terminal, place, ExitCode.CANNOT_JUDGE)
        assert "kforge: the judge was killed" in terminal.text
        assert "hint: " in terminal.text


TRACED = """\
        if any(frame.f_code.co_name == "trace" for frame, _ in __import__("traceback").walk_stack(None)):
            print("now tracing", flush=True)
"""


def test_ctrl_c_while_tracing_leaves_no_run(place: Place) -> None:
    place.write("p.py", PROBLEM.replace(FORWARD, f"{CONSTRUCTOR}{TRACED}    {SLEEPS}\n{FORWARD}"))
    with Terminal(place, "run", "p.py", "--target", "null@cpu") as terminal:
        terminal.wait_for("now tracing")
        terminal.press_ctrl_c()
        _check_end(terminal, place)
    assert json.loads(place.run("runs", "list", "--json").stdout)["runs"] == []


def test_an_interrupted_run_is_stored(place: Place) -> None:
    available = load().compiler(Target.parse("sycl@cpu")).record.build().available("cpu")
    if not available.ok:
        pytest.skip(f"sycl@cpu does not work here: {available.reason}")
    with Terminal(place, "run", "p.py", "--target", "sycl@cpu") as terminal:
        terminal.wait_for("building")
        terminal.process.send_signal(signal.SIGTERM)
        _check_end(terminal, place)
    shown = place.run("runs", "show", "--json")
    assert shown.returncode == ExitCode.DONE
    assert json.loads(shown.stdout)["outcome"] == "interrupted"
    assert "interrupted: " in place.run("runs", "show").stdout
