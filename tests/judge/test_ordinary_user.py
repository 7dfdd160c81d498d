"""Hostile candidates get the same verdicts where the judge is no root."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.meta.repository import ROOT

SOME = "child or dumpable or address or exit or spoilt"
"""Of the tests of hostile candidates: what depends on who may read, signal and stop whom."""


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
@pytest.mark.timeout(300)
def test_hostile_candidates_of_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(prefix="kforge-ordinary-") as folder:
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tmp/p"]
        done = subprocess.run(
            [sys.executable, "tests/core/ordinary.py", folder, *tests, "tests/judge/test_hostile.py", "-k", SOME],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert Path(folder).exists()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 15
