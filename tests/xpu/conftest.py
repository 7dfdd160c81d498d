"""What the SYCL tests share: a runtime that is really there, a shim built once, kernels, and child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforge_xpu import SyclModule, SyclUnavailable
from kforge_xpu.module import prepare_shim
from tests.xpu.kernels import HEAD, VADD

Child = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def shim_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the shim, built before the first test that needs it; skips where it cannot be."""
    with pytest.MonkeyPatch.context() as patch:
        if "KFORGE_SHIM_DIR" not in os.environ:
            patch.setenv("KFORGE_SHIM_DIR", str(tmp_path_factory.mktemp("shim")))
        try:
            path = prepare_shim()
        except SyclUnavailable as problem:
            pytest.skip(str(problem))
        yield path.parent


@pytest.fixture(scope="session")
def vadd(shim_folder: Path) -> SyclModule:
    """A module with the kernel `vadd` (float32, 1 dimension)."""
    try:
        return SyclModule(VADD)
    except SyclUnavailable as problem:
        pytest.skip(str(problem))


@pytest.fixture
def child(shim_folder: Path) -> Child:
    """Run Python code in a fresh process, with the kernel texts at hand and a time limit."""

    def run(code: str, timeout: float = 60, **environ: str) -> subprocess.CompletedProcess[str]:
        text = f"HEAD = {HEAD!r}\nVADD = {VADD!r}\n{code}"
        return subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **environ},
            check=False,
        )

    return run
