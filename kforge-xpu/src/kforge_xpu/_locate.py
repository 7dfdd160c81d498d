"""Where Intel's SYCL runtime is, which environment it needs, and the host shim built against it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import attrs

from kforge_xpu.errors import SyclUnavailable

PIP_HINT = 'pip install "kforge-xpu[cpu]"'
_OLDEST = (2026, 0)
_SMALLEST_IMAGE = "SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE"
_SHIM_SOURCE = Path(__file__).with_name("shim") / "shim.cpp"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING")


@attrs.frozen
class Installation:
    """An installed intel-sycl-rt: its version, libsycl.so.N and the folder of its headers."""

    version: str
    library: Path
    headers: Path


def find_installation() -> Installation:
    """The installed intel-sycl-rt. Raises SyclUnavailable where there is none, or one older than 2026.0."""
    try:
        distribution = metadata.distribution("intel-sycl-rt")
    except metadata.PackageNotFoundError:
        raise SyclUnavailable("the package intel-sycl-rt is not installed", PIP_HINT) from None
    version = distribution.version
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < _OLDEST:
        raise SyclUnavailable(
            f"intel-sycl-rt {version} cannot compile SYCL source in-process; 2026.0 or newer can", PIP_HINT
        )
    library = _find(distribution, r"libsycl\.so\.\d+", "lib")
    header = _find(distribution, r"sycl\.hpp", "include/sycl")
    if library is None or header is None:
        missing = "libsycl.so" if library is None else "sycl/sycl.hpp"
        raise SyclUnavailable(
            f"intel-sycl-rt {version} is installed without {missing}", f"{PIP_HINT} --force-reinstall"
        )
    return Installation(version, library, header.parent.parent)


def find_opencl_cpu() -> Path | None:
    """libintelocl.so of the installed intel-opencl-rt, or None."""
    try:
        distribution = metadata.distribution("intel-opencl-rt")
    except metadata.PackageNotFoundError:
        return None
    return _find(distribution, r"libintelocl\.so", "lib")


def _find(distribution: metadata.Distribution, name: str, folder: str) -> Path | None:
    # The record is searched as text: building a path object for each of its thousands of lines costs 20 ms.
    record = distribution.read_text("RECORD") or ""
    tail = rf"^\"?([^,\"\n]*{re.escape(folder)}/{name})\"?,"
    places = [Path(str(distribution.locate_file(match))) for match in re.findall(tail, record, re.MULTILINE)]
    if not places:
        # Installers other than pip may leave no record.
        places = [path for path in (Path(sys.prefix) / folder).glob("*") if re.fullmatch(name, path.name)]
    return next((Path(os.path.normpath(path)) for path in places if path.exists()), None)


def runtime_environment(*, gpu: bool = False, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that must be set before anything in the process loads libsycl or an OpenCL loader.

    `OCL_ICD_FILENAMES` makes the CPU of intel-opencl-rt visible; what it holds already is kept.
    `ONEAPI_DEVICE_SELECTOR` keeps a process to the CPU: it is absent with `gpu`, and where the person has set one.
    `SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE` keeps SYCL_CACHE_PERSISTENT, where that is set, from crashing.
    `environ`: what is set already, the process's own by default. Nothing is changed here; nothing is raised.
    """
    present = os.environ if environ is None else environ
    needed: dict[str, str] = {}
    driver = find_opencl_cpu()
    if driver is not None:
        known = [name for name in present.get("OCL_ICD_FILENAMES", "").split(os.pathsep) if name]
        names = known if str(driver) in known else [*known, str(driver)]
        needed["OCL_ICD_FILENAMES"] = os.pathsep.join(names)
    if present.get("SYCL_CACHE_PERSISTENT", "0") not in ("", "0") and not present.get(_SMALLEST_IMAGE):
        # libsycl 2026.2 crashes when it looks for a kernel that uses bfloat16 among the cached device images. Larger
        # than any image: that cache stays unused, the far more useful one of the kernel compiler works.
        needed[_SMALLEST_IMAGE] = "1000000000"
    if not gpu and not present.get("ONEAPI_DEVICE_SELECTOR"):
        # "opencl:cpu" fails with 2026.2.
        needed["ONEAPI_DEVICE_SELECTOR"] = "*:cpu"
    return needed


def shim_folder() -> Path:
    """`KFORGE_SHIM_DIR`, or `kforge` in the user's cache folder."""
    chosen = os.environ.get("KFORGE_SHIM_DIR")
    if chosen:
        return Path(chosen)
    import platformdirs

    return platformdirs.user_cache_path("kforge")


def find_compiler() -> list[str] | None:
    """The command of this machine's C++ compiler: $CXX (which may hold arguments), g++, c++ or clang++."""
    for command in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        words = shlex.split(command)
        path = shutil.which(words[0]) if words else None
        if path is not None:
            return [path, *words[1:]]
    return None


def prepare_shim() -> Path:
    """The host shim's shared library, built now if this runtime and compiler have none yet (3 s).

    Call it once in a trusted process: later processes only read the file. Safe while other processes do the same.
    Raises SyclUnavailable without a runtime, without a compiler, or where it cannot be written.
    """
    installation = find_installation()
    compiler = find_compiler()
    folder = shim_folder()
    source = _SHIM_SOURCE.read_bytes()
    stem = f"sycl-{installation.version}-{hashlib.sha256(source).hexdigest()[:16]}"
    if compiler is None:
        # Any compiler's build will do: only C crosses the shim's border.
        ready = next(iter(sorted(folder.glob(f"{stem}-*.so"))), None)
        if ready is not None:
            return ready
        raise SyclUnavailable("no C++ compiler was found", "apt-get install g++, or set CXX")
    path = folder / f"{stem}-{_compiler_key(compiler)}.so"
    # Asked of the system call rather than of the file's existence: a folder may be closed to this process.
    if not os.access(path, os.R_OK):
        _build(compiler, installation, path)
    return path


def _compiler_key(compiler: Sequence[str]) -> str:
    # The file rather than its --version: a sandboxed worker need not be able to run it.
    real = Path(compiler[0]).resolve()
    facts = real.stat()
    text = repr((str(real), facts.st_size, facts.st_mtime_ns, tuple(compiler[1:]), _FLAGS))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(compiler: Sequence[str], installation: Installation, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A folder of its own beside the target: the rename stays on one file system, and other processes do not meet.
        with tempfile.TemporaryDirectory(prefix=".building-", dir=path.parent) as scratch:
            output = Path(scratch) / path.name
            _compile(compiler, installation, output)
            output.replace(path)
    except OSError as problem:
        raise SyclUnavailable(
            f"the SYCL host shim cannot be built in {path.parent}: {problem}",
            "set KFORGE_SHIM_DIR to a folder that can be written, or call kforge_xpu.module.prepare_shim() beforehand",
        ) from problem


def _compile(compiler: Sequence[str], installation: Installation, output: Path) -> None:
    command = [*compiler, *_FLAGS, "-isystem", str(installation.headers), str(_SHIM_SOURCE), "-o", str(output)]
    command.append(str(installation.library))
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise SyclUnavailable(f"{compiler[0]} did not finish the SYCL host shim in 300 s", "set CXX") from None
    if done.returncode != 0 or not output.exists():
        text = (done.stderr or done.stdout).strip()[:4000]
        raise SyclUnavailable(
            f"{compiler[0]} could not build the SYCL host shim (exit {done.returncode}):\n{text}",
            "apt-get install g++, or set CXX to a C++17 compiler",
        )
