"""The language `sycl` as the core sees it: what it says of this machine, what workers need, guide and example."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kforge.errors import MissingError
from kforge_xpu import SyclBuildError, SyclModule, _locate
from kforge_xpu.compiler import SyclCompiler
from kforge_xpu.errors import SyclUnavailable
from kforge_xpu.plugin import kforge_compilers
from tests.xpu.conftest import Child
from tests.xpu.kernels import VADD

GUIDE = SyclCompiler().guide()
SNIPPETS = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
GUIDE_HEAD = "#include <sycl/sycl.hpp>\nnamespace syclexp = sycl::ext::oneapi::experimental;\n"


def test_the_plugin_offers_sycl_on_cpu_and_xpu() -> None:
    (record,) = kforge_compilers()
    assert (record.language, record.devices) == ("sycl", ("cpu", "xpu"))
    assert isinstance(record.build(), SyclCompiler)


def test_asking_for_the_cpu_loads_neither_torch_nor_sycl() -> None:
    code = (
        "import sys\nfrom kforge_xpu.compiler import SyclCompiler\nSyclCompiler().available('cpu')\n"
        "assert 'torch' not in sys.modules\nassert 'libsycl' not in open('/proc/self/maps').read()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_cpu_is_available_with_versions(shim_folder: Path) -> None:
    answer = SyclCompiler().available("cpu")
    assert answer.ok, answer
    names = [version.name for version in answer.versions]
    assert names[:2] == ["intel-sycl-rt", "intel-opencl-rt"]
    assert len(names) == 3


def test_another_device_is_not_served() -> None:
    assert "not cuda" in str(SyclCompiler().available("cuda").reason)


def test_an_intel_gpu_is_available_only_where_torch_sees_one(
    monkeypatch: pytest.MonkeyPatch, shim_folder: Path
) -> None:
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    answer = SyclCompiler().available("xpu")
    assert not answer.ok
    assert "sees no Intel GPU" in str(answer.reason)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    assert SyclCompiler().available("xpu").ok


def _without(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.distribution

    def distribution(name: str) -> importlib.metadata.Distribution:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)


@pytest.mark.parametrize("package", ["intel-sycl-rt", "intel-opencl-rt"])
def test_a_missing_runtime_is_named_with_the_command(
    package: str, monkeypatch: pytest.MonkeyPatch, shim_folder: Path, tmp_path: Path
) -> None:
    _without(package, monkeypatch)
    answer = SyclCompiler().available("cpu")
    assert not answer.ok
    assert package in str(answer.reason)
    assert answer.hint == 'pip install "kforge-xpu[cpu]"'
    monkeypatch.setattr(_locate, "prepare_shim", _locate.find_installation)
    with pytest.raises(MissingError, match=package) as raised:
        SyclCompiler().prepare(tmp_path)
    assert raised.value.hint == answer.hint


@pytest.mark.parametrize("words", [{"PATH": "/nonexistent", "CXX": ""}, {"CXX": "'"}], ids=["none", "unreadable"])
def test_a_missing_compiler_is_named_with_the_command(
    words: dict[str, str], monkeypatch: pytest.MonkeyPatch, shim_folder: Path, tmp_path: Path
) -> None:
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    answer = SyclCompiler().available("cpu")
    assert not answer.ok
    assert answer.hint == "apt-get install g++, or set CXX"
    with pytest.raises(MissingError):
        SyclCompiler().prepare(tmp_path)


def test_prepare_builds_the_shim_and_says_what_workers_need(
    monkeypatch: pytest.MonkeyPatch, shim_folder: Path, tmp_path: Path, child: Child
) -> None:
    # The shim that the session has built already stands in for the build.
    (tmp_path / "shim").mkdir()
    for built in shim_folder.glob("sycl-*.so"):
        (tmp_path / "shim" / built.name).symlink_to(built)
    before = os.environ.get("KFORGE_SHIM_DIR")
    setup = SyclCompiler().prepare(tmp_path)
    assert os.environ.get("KFORGE_SHIM_DIR") == before
    environment = dict(setup.environment)
    assert environment["KFORGE_SHIM_DIR"] == str(tmp_path / "shim")
    assert environment["SYCL_CACHE_PERSISTENT"] == "1"
    assert int(environment["SYCL_CACHE_MIN_DEVICE_IMAGE_SIZE"]) > 1 << 29
    assert "libintelocl.so" in environment["OCL_ICD_FILENAMES"]
    assert setup.cache_variables == ("SYCL_CACHE_DIR",)
    assert tmp_path / "shim" in setup.readable
    code = "import torch\nfrom kforge_xpu import SyclModule\nprint(SyclModule(VADD).kernel_names)"
    done = child(code, **environment, SYCL_CACHE_DIR=str(tmp_path / "own"))
    assert done.stdout == "('vadd',)\n", done.stderr
    assert list((tmp_path / "own").rglob("*"))


def test_a_shim_that_cannot_be_built_is_missing(monkeypatch: pytest.MonkeyPatch, shim_folder: Path) -> None:
    def broken() -> Path:
        raise SyclUnavailable("broken", "mend it")

    monkeypatch.setattr(_locate, "prepare_shim", broken)
    with pytest.raises(MissingError, match="broken") as raised:
        SyclCompiler().prepare(Path("cache"))
    assert raised.value.hint == "mend it"


def test_a_runtime_beside_the_installation_is_readable(
    monkeypatch: pytest.MonkeyPatch, shim_folder: Path, tmp_path: Path
) -> None:
    installation = _locate.find_installation()
    elsewhere = _locate.Installation(installation.version, tmp_path / "lib" / "libsycl.so.9", installation.headers)
    monkeypatch.setattr(_locate, "find_installation", lambda: elsewhere)
    monkeypatch.setattr(_locate, "prepare_shim", lambda: tmp_path)
    assert tmp_path / "lib" in SyclCompiler().prepare(tmp_path).readable


def test_the_imports_start_no_thread_and_load_no_sycl() -> None:
    code = (
        "import os, torch, kforge_xpu.module\nassert len(os.listdir('/proc/self/task')) == 1\n"
        "assert 'libsycl' not in open('/proc/self/maps').read()"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)


def test_the_guide_has_python_and_cpp() -> None:
    assert [language for language, _ in SNIPPETS].count("python") == 1
    assert [language for language, _ in SNIPPETS].count("cpp") >= 4


def test_every_kernel_of_the_guide_compiles(vadd: SyclModule) -> None:
    # In one build: each takes two seconds by itself.
    text = GUIDE_HEAD + "".join(code for language, code in SNIPPETS if language == "cpp")
    module = SyclModule(text)
    assert module.kernel_names == ("square", "row_sums", "transposed", "sums_of_16")
    x = torch.randn(37, 50)
    out = torch.empty(50, 37)
    module.transposed((48, 64), (16, 16), x, out, 37, 50)
    assert torch.equal(out, x.T)
    sums = torch.empty(37)
    module.row_sums(37 * 32, 32, x, sums, 50)
    torch.testing.assert_close(sums, x.sum(1))
    flat = torch.randn(64)
    short = torch.empty(4)
    module.sums_of_16(64, 32, flat, short)
    torch.testing.assert_close(short, flat.reshape(4, 16).sum(1))
    a, b = torch.randn(100).bfloat16(), torch.randn(100).half()
    squares = torch.empty_like(a)
    module.square(128, 64, a, b, squares, 100)
    torch.testing.assert_close(squares, (a.float() ** 2 + b.float()).bfloat16())


def _candidate(text: str) -> torch.nn.Module:
    names: dict[str, object] = {}
    exec(compile(text, "candidate.py", "exec"), names)
    made = names["ModelNew"]
    assert isinstance(made, type)
    module = made()
    assert isinstance(module, torch.nn.Module)
    return module


def test_the_candidate_of_the_guide_runs(vadd: SyclModule) -> None:
    (text,) = [code for language, code in SNIPPETS if language == "python"]
    x = torch.randn(7, 301)
    assert torch.equal(_candidate(text)(x), x * 2)


@pytest.mark.parametrize("shape", [(5, 301), (2, 3, 64), (4, 1), (0, 8), (3, 0)])
def test_the_example_computes_what_torch_does(vadd: SyclModule, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) * 10
    torch.testing.assert_close(_candidate(SyclCompiler().example())(x), torch.softmax(x, -1))


def test_the_example_takes_what_is_not_contiguous(vadd: SyclModule) -> None:
    x = torch.randn(33, 20).T
    torch.testing.assert_close(_candidate(SyclCompiler().example())(x), torch.softmax(x, -1))


def test_a_failed_build_names_the_candidates_lines(vadd: SyclModule) -> None:
    source = f'import torch\n\nSOURCE = r"""{VADD.replace("c[i] = a[i]", "c[i] = missing")}"""\n'
    names: dict[str, str] = {}
    exec(source, {}, names)
    with pytest.raises(SyclBuildError, match="missing") as raised:
        SyclModule(names["SOURCE"])
    (found,) = SyclCompiler().explain(raised.value.log, source)
    line = next(line for line in source.split("\n") if "missing" in line)
    assert (found.file, found.line, found.excerpt) == ("candidate.py", source.split("\n").index(line) + 1, line)
    assert found.column == line.index("missing") + 1


def test_a_prepared_cache_does_not_outrun_an_import_of_torch(tmp_path: Path) -> None:
    """The judge imports torch while the compiler prepares in another thread."""
    SyclCompiler().prepare(tmp_path)
    program = f"""
import threading
from pathlib import Path
from kforge_xpu.compiler import SyclCompiler
failed = []
def prepare():
    try:
        SyclCompiler().prepare(Path({str(tmp_path)!r}))
    except BaseException as error:
        failed.append(error)
thread = threading.Thread(target=prepare)
thread.start()
import torch
thread.join()
assert not failed, failed
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
