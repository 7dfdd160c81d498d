"""SYCL modules in processes of their own: forks, crashes, sandboxes, and machines on which something is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kforge_xpu import _locate
from kforge_xpu.module import prepare_shim, runtime_environment
from tests.xpu.conftest import Child

USE = """
import torch
from kforge_xpu import SyclModule
def use():
    c = torch.zeros(64)
    SyclModule(VADD).vadd(64, 64, torch.ones(64), torch.ones(64), c, 64)
    assert c.sum() == 128, c
"""


def test_importing_the_package_loads_neither_torch_nor_sycl(child: Child) -> None:
    done = child(
        "import sys, kforge_xpu, kforge_xpu.module\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert 'libsycl' not in open('/proc/self/maps').read()"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_plain_python_needs_no_environment(child: Child) -> None:
    code = f"import os\nfor n in ('OCL_ICD_FILENAMES', 'ONEAPI_DEVICE_SELECTOR'): os.environ.pop(n, None)\n{USE}\nuse()"
    done = child(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_may_be_made_before_torch_is_imported(child: Child) -> None:
    done = child(f"from kforge_xpu import SyclModule\nSyclModule(VADD)\n{USE}\nuse()")
    assert (done.returncode, done.stderr) == (0, "")


FORK = """
import os
def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as problem:
            print(type(problem).__name__, problem, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_workers_forked_before_the_runtime_is_loaded_work(child: Child) -> None:
    done = child(f"{USE}{FORK}\nfork(use)\nfork(use)")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_of_a_process_that_used_the_runtime_is_told_so(child: Child) -> None:
    done = child(f"{USE}{FORK}\nmodule = SyclModule(VADD)\nfork(lambda: module.vadd(1, 1, None, None, None, 0))", 30)
    assert "SyclUnavailable the SYCL runtime was loaded before this process was forked" in done.stdout
    done = child(f"{USE}{FORK}\nuse()\nfork(use)", 30)
    assert "SyclUnavailable the SYCL runtime was loaded before this process was forked" in done.stdout


def test_a_kernel_that_writes_through_a_bad_pointer_kills_its_process(child: Child) -> None:
    done = child(f"{USE}\nSyclModule(VADD).vadd(1, 1, None, None, None, 1)")
    assert done.returncode == -signal.SIGSEGV


def test_an_endless_kernel_ends_only_with_its_process(child: Child) -> None:
    code = (
        f"{USE}\nsource = HEAD + 'KERNEL(1) void spin(volatile int* x) {{ while (*x == 0) {{}} }}'\n"
        "module = SyclModule(source)\nprint('built', flush=True)\n"
        "module.spin(1, 1, torch.zeros(1, dtype=torch.int32))\nprint('ended')"
    )
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        child(code, 10)
    assert caught.value.stdout == b"built\n"


def test_bfloat16_works_with_the_persistent_cache(child: Child, tmp_path: Path) -> None:
    code = (
        f"{USE}\nimport time\nstart = time.perf_counter()\nmodule = SyclModule(HEAD + '''KERNEL(1) void widen("
        "const sycl::ext::oneapi::bfloat16* x, float* y) { y[0] = float(x[0]); }''')\n"
        "print(time.perf_counter() - start)\n"
        "y = torch.zeros(1); module.widen(1, 1, torch.full((1,), 1.5, dtype=torch.bfloat16), y)\nassert y.item() == 1.5"
    )
    cache = {"SYCL_CACHE_PERSISTENT": "1", "SYCL_CACHE_DIR": str(tmp_path / "cache")}
    first, second = child(code, **cache), child(code, **cache)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert float(second.stdout) < float(first.stdout)


def test_a_shim_that_is_there_is_only_read(child: Child, shim_folder: Path) -> None:
    before = sorted((path.name, path.stat().st_mtime_ns) for path in shim_folder.iterdir())
    shim_folder.chmod(0o500)
    try:
        done = child(f"{USE}\nuse()")
    finally:
        shim_folder.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted((path.name, path.stat().st_mtime_ns) for path in shim_folder.iterdir()) == before


def test_a_worker_that_sees_no_compiler_uses_the_shim_that_is_there(child: Child) -> None:
    done = child(f"{USE}\nuse()", PATH="/nowhere", CXX="")
    assert (done.returncode, done.stderr) == (0, "")


PREPARE = "from kforge_xpu.module import prepare_shim; print(prepare_shim())"


def test_two_processes_may_build_the_shim_at_once(shim_folder: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "KFORGE_SHIM_DIR": str(tmp_path / "new")}
    both = [
        subprocess.Popen([sys.executable, "-c", PREPARE], env=environ, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    paths = [process.communicate(timeout=100)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert paths[0] == paths[1]
    assert [str(path) for path in (tmp_path / "new").iterdir()] == paths[:1]


FAILING = """
import sys
from kforge_xpu import SyclModule, SyclUnavailable
try:
    SyclModule("")
except SyclUnavailable as problem:
    print(problem.message, "|", problem.hint)
"""


def test_a_missing_compiler_is_named_with_its_remedy(child: Child, tmp_path: Path) -> None:
    done = child(FAILING, PATH="/nowhere", CXX="", KFORGE_SHIM_DIR=str(tmp_path))
    assert done.stdout == "no C++ compiler was found | apt-get install g++, or set CXX\n"


def test_a_compiler_that_fails_shows_what_it_said(child: Child, tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho cannot today >&2\nexit 3\n")
    compiler.chmod(0o755)
    done = child(FAILING, CXX=f"{compiler} --flag", KFORGE_SHIM_DIR=str(tmp_path / "shim"))
    assert "could not build the SYCL host shim (exit 3):\ncannot today" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_shim_folder_that_cannot_be_written_is_named(child: Child, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = child(FAILING, KFORGE_SHIM_DIR=str(tmp_path / "shim"))
    assert f"cannot be built in {tmp_path / 'shim'}" in done.stdout
    assert "set KFORGE_SHIM_DIR" in done.stdout


def test_a_shim_folder_that_is_a_file_is_named(child: Child, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = child(FAILING, KFORGE_SHIM_DIR=str(tmp_path / "file"))
    assert f"cannot be built in {tmp_path / 'file'}" in done.stdout


PRETEND = """
from importlib import metadata
real = metadata.distribution
class Old:
    version = "2025.3.2"
def distribution(name):
    if name == NAME:
        if OLD: return Old()
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.distribution = distribution
"""


@pytest.mark.parametrize(
    "name, old, message",
    [
        ("intel-sycl-rt", False, "the package intel-sycl-rt is not installed"),
        ("intel-sycl-rt", True, "intel-sycl-rt 2025.3.2 cannot compile SYCL source in-process; 2026.0 or newer can"),
        ("intel-opencl-rt", False, "intel-opencl-rt, SYCL's CPU device, is not installed"),
    ],
)
def test_a_missing_or_old_package_is_named_with_its_remedy(child: Child, name: str, old: bool, message: str) -> None:
    done = child(f"NAME, OLD = {name!r}, {old}\n{PRETEND}{FAILING}")
    assert done.stdout == f'{message} | pip install "kforge-xpu[cpu]"\n', done.stderr


def test_a_selector_that_excludes_the_cpu_is_named(child: Child) -> None:
    done = child(FAILING, ONEAPI_DEVICE_SELECTOR="level_zero:gpu")
    assert "SYCL has no CPU device here" in done.stdout
    assert "ONEAPI_DEVICE_SELECTOR='level_zero:gpu' must permit a cpu" in done.stdout


def test_a_compiler_without_a_folder_for_temporary_files_is_not_blamed_on_the_source(
    child: Child, tmp_path: Path
) -> None:
    done = child(FAILING.replace('SyclModule("")', "SyclModule(VADD)"), TMPDIR=str(tmp_path / "absent"))
    assert f"cannot write in {tmp_path / 'absent'}" in done.stdout, done.stderr
    assert "| set TMPDIR to a folder that can be written" in done.stdout


def test_the_environment_names_the_cpu_driver_and_keeps_what_a_person_set(shim_folder: Path) -> None:
    driver = _locate.find_opencl_cpu()
    assert driver is not None
    assert driver.is_file()
    assert runtime_environment(environ={}) == {
        "OCL_ICD_FILENAMES": str(driver),
        "ONEAPI_DEVICE_SELECTOR": "*:cpu",
    }
    assert runtime_environment(environ={"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}).keys() == {"OCL_ICD_FILENAMES"}
    assert runtime_environment(gpu=True, environ={}) == {"OCL_ICD_FILENAMES": str(driver)}
    other = runtime_environment(environ={"OCL_ICD_FILENAMES": "/a/driver.so"})
    assert other["OCL_ICD_FILENAMES"] == f"/a/driver.so:{driver}"
    assert runtime_environment(environ=other)["OCL_ICD_FILENAMES"] == other["OCL_ICD_FILENAMES"]


def test_the_shim_is_built_once(shim_folder: Path) -> None:
    path = prepare_shim()
    stamp = path.stat().st_mtime_ns
    assert prepare_shim() == path
    assert path.stat().st_mtime_ns == stamp


STAND_IN = """
import ctypes
from kforge_xpu import _runtime
class Stream:
    @property
    def sycl_queue(self):
        return _runtime.runtime().queue("cpu")
torch.xpu.is_available = lambda: True
torch.xpu.current_device = lambda: 0
torch.xpu.current_stream = lambda index=None: Stream()
"""


def test_a_queue_of_torchs_stream_is_adopted_by_its_address(child: Child) -> None:
    # No Intel GPU here: a queue on the CPU stands in for the stream's, and addresses for tensors on the GPU.
    done = child(
        f"{USE}{STAND_IN}\nmodule = SyclModule(VADD)\nassert module._program.kind == 'xpu'\n"
        "a, c = torch.ones(64), torch.zeros(64)\n"
        "one, to = ctypes.c_void_p(a.data_ptr()), ctypes.c_void_p(c.data_ptr())\n"
        "module.vadd(64, 64, one, one, to, 64)\n"
        # Tensors on the CPU make a second build; its launches wait for the queue, which is the same one.
        "module.vadd(64, 64, a, c, c, 64)\nassert c.tolist() == [3.0] * 64, c",
        ONEAPI_DEVICE_SELECTOR="*:cpu",
    )
    assert (done.returncode, done.stderr) == (0, "")
