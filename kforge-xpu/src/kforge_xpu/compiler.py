"""The language ``sycl``: what it needs here, what its workers need, and how its failures read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata, resources
from pathlib import Path

from kforge.errors import MissingError
from kforge.interfaces import Renderer, WorkerSetup
from kforge.records import Availability, Diagnostic, Version
from kforge_xpu import _locate
from kforge_xpu._runtime import torch_has_xpu
from kforge_xpu.errors import SyclUnavailable

_SHIM = "KFORGE_SHIM_DIR"
_COMPILER_HINT = "apt-get install g++, or set CXX"
_XPU_HINT = (
    "install Intel's GPU driver and a torch built for it: "
    "pip install torch --index-url https://download.pytorch.org/whl/xpu"
)


class SyclCompiler:
    """The `kforge.interfaces.Compiler` of the language ``sycl``."""

    def available(self, device: str) -> Availability:
        """Say whether SYCL source can be built for ``device``, ``cpu`` or ``xpu``.

        For ``cpu`` neither torch nor libsycl is loaded; for ``xpu`` torch is imported, to ask it for the device.
        """
        if device not in ("cpu", "xpu"):
            return Availability(ok=False, reason=f"SYCL serves cpu and xpu, not {device}")
        versions: list[Version] = []
        try:
            versions.append(Version("intel-sycl-rt", _locate.find_installation().version))
            if device == "cpu":
                if _locate.find_opencl_cpu() is None:
                    raise SyclUnavailable("intel-opencl-rt, SYCL's CPU device, is not installed", _locate.PIP_HINT)
                versions.append(Version("intel-opencl-rt", metadata.version("intel-opencl-rt")))
            versions.append(_compiler_version(_cpp_compiler()))
            if device == "xpu":
                versions.append(_torch_with_xpu())
        except SyclUnavailable as problem:
            return Availability(ok=False, reason=problem.message, hint=problem.hint, versions=tuple(versions))
        return Availability(ok=True, versions=tuple(versions))

    def prepare(self, cache: Path) -> WorkerSetup:
        """Build the host shim below ``cache`` where it is not there yet (3 s). Raises `MissingError`."""
        folder = cache / "shim"
        try:
            _cpp_compiler()
            with _shim_in(folder):
                _locate.prepare_shim()
            import torch  # noqa: F401 - what follows asks it; the judge imports it anyway, and may be doing so now

            gpu = torch_has_xpu()
            if not gpu and _locate.find_opencl_cpu() is None:
                raise SyclUnavailable("intel-opencl-rt, SYCL's CPU device, is not installed", _locate.PIP_HINT)
            libraries = _locate.find_installation().library.parent
        except SyclUnavailable as problem:
            raise MissingError(problem.message, hint=problem.hint) from problem
        cached = {"SYCL_CACHE_PERSISTENT": "1"}
        # A worker starts from a clean environment: what the person has set must not decide what a candidate runs on.
        needed = _locate.runtime_environment(gpu=gpu, environ=cached)
        return WorkerSetup(
            environment=tuple(sorted({**cached, **needed, _SHIM: str(folder)}.items())),
            imports=("kforge_xpu.module",),
            readable=(folder, *_outside_the_installation(libraries)),
            cache_variables=("SYCL_CACHE_DIR",),
        )

    def explain(self, log: str, source: str) -> tuple[Diagnostic, ...]:
        """Read clang's messages, or else a Python traceback, and name lines of ``source`` where they are certain."""
        from kforge_xpu.explain import explain

        return explain(log, source)

    def renderer(self) -> Renderer | None:
        """Give the renderer of plans."""
        from kforge_xpu.renderer import SyclRenderer

        return SyclRenderer()

    def guide(self) -> str:
        """Give the rules for an author."""
        return _packaged("guide.md")

    def example(self) -> str:
        """Give a worked candidate: softmax over the rows of a matrix."""
        return _packaged("example.py.txt")


def _packaged(name: str) -> str:
    return resources.files("kforge_xpu").joinpath("texts", name).read_text(encoding="utf-8")


def _cpp_compiler() -> list[str]:
    try:
        command = _locate.find_compiler()
    except ValueError as problem:
        raise SyclUnavailable(f"CXX={os.environ.get('CXX')!r} is no command: {problem}", _COMPILER_HINT) from None
    if command is None:
        raise SyclUnavailable("no C++ compiler was found", _COMPILER_HINT)
    return command


def _compiler_version(command: Sequence[str]) -> Version:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            [command[0], "--version"], capture_output=True, text=True, errors="replace", timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Version(name, "unknown")
    found = re.search(r"\d+(\.\d+)+", done.stdout[:10_000])
    return Version(name, found.group() if found else "unknown")


def _torch_with_xpu() -> Version:
    import torch

    if not torch.xpu.is_available():
        raise SyclUnavailable(f"torch {torch.__version__} sees no Intel GPU", _XPU_HINT)
    return Version("torch", str(torch.__version__))


@contextmanager
def _shim_in(folder: Path) -> Iterator[None]:
    before = os.environ.get(_SHIM)
    os.environ[_SHIM] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SHIM]
        else:
            os.environ[_SHIM] = before


def _outside_the_installation(folder: Path) -> tuple[Path, ...]:
    """The folder, where workers may not read it anyhow: with `pip install --user` libraries lie beside no prefix."""
    real = folder.resolve()
    known = {Path(prefix).resolve() for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix)}
    return () if any(real.is_relative_to(prefix) for prefix in known) else (folder,)
