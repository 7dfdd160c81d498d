"""The judge as an ordinary user, also where these tests run as root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.core.ordinary import USER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")

Run = Callable[..., subprocess.CompletedProcess[str]]
SCRIPT = Path(__file__).with_name("ordinary.py")
KFORGE = Path(sys.executable).with_name("kforge")
PROBLEM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.randn(64, 1024)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x.clamp(min=0) * 2
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that the user owns and can reach, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="kforge-ordinary-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def run(folder: Path) -> Run:
    program = f"""
import os, pytest, kforge.judge.zygote
open("pyproject.toml").close()
open({str(SCRIPT)!r}).close()
open({str(folder / "tmp" / "file")!r}, "w").close()
os.remove({str(folder / "tmp" / "file")!r})
print(os.getuid())
"""
    words = [sys.executable, "-P", str(SCRIPT), str(folder), sys.executable, "-c", program]
    reach = subprocess.run(words, capture_output=True, text=True, check=False)
    for path in folder.iterdir():
        path.rmdir()
    if reach.stdout.strip() != str(USER):
        pytest.skip(f"nothing can be run as uid {USER} here: {reach.stderr.strip().splitlines()[-1:]}")

    def start(*command: str | Path, seconds: float = 100) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-P", SCRIPT, folder, *command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)

    return start


def test_workers_of_an_ordinary_user(run: Run, folder: Path) -> None:
    names = ["test_process.py", "test_zygote.py", "test_isolation.py", "test_weaker_isolation.py"]
    tests = [SCRIPT.with_name(name) for name in names]
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests", *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    if skipped:
        pytest.skip(f"uid {USER}: {skipped}")


def test_doctor_and_verify_as_an_ordinary_user(run: Run, folder: Path) -> None:
    problem = folder / "problem.py"
    problem.write_text(PROBLEM)
    candidate = folder / "candidate.py"
    candidate.write_text(CANDIDATE)
    folder.chmod(0o755)
    program = f"""
import subprocess, sys
verify = ["verify", {str(candidate)!r}, "--problem", {str(problem)!r}, "--target", "null@cpu"]
for words in (["doctor"], verify):
    done = subprocess.run([{str(KFORGE)!r}, *words, "--json"], capture_output=True, text=True)
    print(done.stdout.replace("\\n", " "))
    if done.returncode:
        sys.exit(done.stderr)
"""
    done = run(sys.executable, "-c", program)
    assert done.returncode == 0, done.stdout + done.stderr
    doctor, verify = map(json.loads, done.stdout.splitlines())
    assert doctor["can_judge"]
    assert doctor["isolation"] == verify["isolation"]
    assert verify["verdict"] == "correct"
    # Without a PID namespace and Landlock's signals a finding says so; none is decisive.
    assert not [finding for finding in verify["findings"] if finding["check"] != "isolation"]
    assert not list((folder / "tmp").iterdir())
