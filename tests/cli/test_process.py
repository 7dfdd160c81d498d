"""The command in a process of its own: how fast it starts, and what broken plugins do to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

KFORGE = Path(sys.executable).with_name("kforge")


def _took(*command: str | Path) -> float:
    """Give the seconds of the fastest of three."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def test_help_takes_under_a_quarter_of_an_import_of_torch() -> None:
    assert _took(KFORGE, "--help") < _took(sys.executable, "-c", "import torch") / 4


@pytest.mark.parametrize("text", ["import sys; sys.exit(3)", "raise RuntimeError('boom')", "import nobody_has_this"])
@pytest.mark.parametrize("words", [["--help"], ["plugins"], ["doctor"], ["runs"]], ids=" ".join)
def test_a_broken_plugin_leaves_every_command_working(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "bad_module.py").write_text(text, encoding="utf-8")
    info = tmp_path / "kforge_bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kforge-bad\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[kforge]\nbad = bad_module\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([KFORGE, *words], env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if words == ["plugins"]:
        assert "broken: kforge-bad 1.0, entry point bad:" in done.stdout


def test_a_reader_that_goes_away_changes_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([KFORGE, "plugins"], stdout=writer, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
