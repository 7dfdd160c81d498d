"""Bad input through real processes: one message, its exit code, no traceback, and nothing left behind."""

from __future__ import annotations

import json
import subprocess

import jsonschema
import pytest

from kforge.errors import ExitCode
from tests.cli.real import GOOD, PROBLEM, Place, mounts_are_private
from tests.meta.repository import ROOT

SCHEMA = ROOT / "docs" / "reference" / "schema" / "error.json"
HEAD, _, TAIL = PROBLEM.partition("        return torch.relu(x) + 1\n")
INPUTS = "    return [torch.rand(4096)]\n"
NOT_PRIVATE = "this machine lets nobody mount in a namespace of their own"
GROWING = "        kept = [torch.ones(2**26) for _ in range(16)]\n        return x + sum(one[0] for one in kept)\n"


def _forward(line: str) -> str:
    return f"{HEAD}        {line}\n{TAIL}"


PROBLEMS: dict[str, tuple[str | None, int, str]] = {
    "no such file": (None, 2, "does not exist"),
    "empty": ("", 2, "is empty"),
    "blank": (" \n\n", 2, "is empty"),
    "syntax": (PROBLEM + "def :\n", 2, "line 11: invalid syntax"),
    "not UTF-8": ("\ud800", 2, "is not UTF-8"),
    "no Model": (PROBLEM.replace("Model(", "Net("), 2, "defines no class `Model`; its classes: `Net`"),
    "no get_inputs": (PROBLEM.replace("get_inputs", "inputs"), 2, "defines no function `get_inputs`"),
    "inputs raise": (
        PROBLEM.replace(INPUTS, "    raise OSError('no data')\n"),
        2,
        "get_inputs raises OSError: no data",
    ),
    "inputs return nothing": (PROBLEM.replace(INPUTS, "    pass\n"), 2, "get_inputs returned nothing"),
    "inputs exit": (PROBLEM.replace(INPUTS, "    raise SystemExit(0)\n"), 2, "ended the program (SystemExit: 0)"),
    "raises": (_forward("raise ValueError('a\x1b[2Jb')"), 2, "the reference's forward raises ValueError: a"),
    "returns None": (_forward("return None"), 2, "the reference's forward returned None"),
    "crashes": (_forward("__import__('ctypes').string_at(0)"), 2, "ended the judge with signal SIGSEGV"),
    "writes to stdout": (
        "import os\nos.write(1, b'raw')\nprint('more')\n" + _forward("return print('x')"),
        2,
        "forward returned None",
    ),
    "too much memory": (_forward("return torch.empty(10**13) + x"), 4, "needs more memory than there is: 36.38 TiB"),
    "random": (_forward("return x + torch.rand(4096)"), 4, "the reference is not deterministic"),
    "wildly random": (_forward("return x * __import__('secrets').randbelow(10**9)"), 4, "is not deterministic"),
}
CHEAP = ("no such file", "empty", "blank", "syntax", "not UTF-8", "no Model", "no get_inputs")
CASES = [
    pytest.param(command, name, id=f"{command} {name}")
    for name in PROBLEMS
    for command in ("verify", "run")
    if command == "verify" or name in (*CHEAP, "returns None")
]


def check(place: Place, done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    """Check that a command failed as it should, and cleanly."""
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("kforge: ") == 1
    assert done.stderr.count("\nhint: ") == 1
    assert place.left() == []
    assert not (place.folder / "home" / "runs").exists()


def check_json(place: Place, done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    """Check all that, and the one object on stdout."""
    check(place, done, code, message)
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert found["error"]["code"] == code
    assert message in found["error"]["message"]
    assert found["error"]["hint"]


@pytest.mark.parametrize("command, name", CASES)
def test_a_bad_problem(place: Place, command: str, name: str) -> None:
    text, code, message = PROBLEMS[name]
    path = place.folder / "p.py"
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    words = ("verify", "c.py", "--problem", "p.py") if command == "verify" else ("run", "p.py")
    check_json(place, place.run(*words, "--target", "null@cpu", "--json"), code, message)
    assert list((place.folder / "home").iterdir()) == []


@pytest.mark.parametrize("words", [("verify", "c.py", "--problem", "home"), ("run", "home")])
def test_a_folder(place: Place, words: tuple[str, ...]) -> None:
    check_json(place, place.run(*words, "--target", "null@cpu", "--json"), 2, "home is a folder")


@pytest.mark.parametrize(
    "text, message",
    [(None, "does not exist"), ("", "is empty"), ("\udcff", "is not UTF-8"), ("#" * 2**21, "is larger than")],
)
def test_a_bad_candidate_file(place: Place, text: str | None, message: str) -> None:
    path = place.folder / "c.py"
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    words = ("verify", "c.py", "--problem", "p.py", "--target", "null@cpu", "--json")
    check_json(place, place.run(*words), 2, message)


VERIFY = ("verify", "c.py", "--problem", "p.py")


@pytest.mark.parametrize(
    "words, code, message",
    [
        ((*VERIFY, "--target", "null"), 2, "'null' is not a target"),
        ((*VERIFY, "--target", "nil@cpu"), 3, "there is no language 'nil'"),
        ((*VERIFY, "--target", "null@cuda:99"), 3, "'cuda"),
        (("run", "p.py", "--target", "null@cuda:99"), 3, "'cuda"),
        ((*VERIFY, "--target", "null@toaster"), 3, "'toaster'"),
        ((*VERIFY, "--target", "null@cpu:1"), 3, "there is one device cpu"),
        ((*VERIFY, "--target", "null@cpu", "--precision", "fp7"), 2, "'fp7' is not one of"),
        ((*VERIFY, "--target", "null@cpu", "--precision", "tf32"), 2, "tf32 does not exist on this device"),
        (("run", "p.py", "--target", "null@cpu", "--agent", "nobody"), 3, "there is no agent 'nobody'"),
        (("run", "p.py", "--target", "null@cpu", "--passes", "0"), 2, "0 is not in the range"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else None,
)
def test_a_wrong_word(place: Place, words: tuple[str, ...], code: int, message: str) -> None:
    if "99" in " ".join(words):
        import torch

        if torch.cuda.is_available():
            message = "cuda"
    check_json(place, place.run(*words, "--json"), code, message)
    assert list((place.folder / "home").iterdir()) == []


@pytest.mark.parametrize("words", [(*VERIFY, "--target", "null@cpu"), ("run", "p.py"), ("plugins",), ("doctor",)])
def test_an_unknown_plugin(place: Place, words: tuple[str, ...]) -> None:
    done = place.run(*words, "--json", environment={"KFORGE_PLUGINS": "nope"})
    check_json(place, done, 2, "KFORGE_PLUGINS names 'nope', which is not installed")


def test_no_model_new_is_a_verdict(place: Place) -> None:
    place.write("c.py", "x = 1\n")
    done = place.run(*VERIFY, "--target", "null@cpu", "--json")
    assert done.returncode == ExitCode.NOT_CORRECT
    assert json.loads(done.stdout)["verdict"] == "no_code"
    assert place.left() == []


# Memory and disk

GIB = 2**20
"""In kB, as /proc/meminfo counts."""


@pytest.mark.parametrize(
    "problem, message",
    [
        (_forward(GROWING.strip()), "the reference's forward needs more memory than there is: 256 MiB at once"),
        (PROBLEM.replace("4096", "2**26"), "memory"),  # whose allocation fails first is luck
        (PROBLEM.replace("4096", "3 * 2**23"), "judging this Problem takes about"),
    ],
    ids=["reference", "copies", "sizes"],
)
def test_a_problem_for_a_larger_machine(place: Place, problem: str, message: str) -> None:
    if not mounts_are_private():
        pytest.skip(NOT_PRIVATE)
    # No test fills this machine: what is said to be free is less than what is.
    replace = f"s/^MemAvailable:.*/MemAvailable: {3 * GIB} kB/"
    before = (
        f"sed '{replace}' /proc/meminfo > {place.folder}/meminfo && mount --bind {place.folder}/meminfo /proc/meminfo"
    )
    place.write("p.py", problem)
    check_json(place, place.run(*VERIFY, "--target", "null@cpu", "--json", before=before), 4, message)


DISKS = {
    "read-only": "mount --bind {0} {0} && mount -o remount,bind,ro {0}",
    "full": "mount -t tmpfs -o size=1m none {0}",
    "limited": "ulimit -f 8",
}


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize(
    "variable, words",
    [("KFORGE_HOME", ("run", "p.py")), ("KFORGE_CACHE", VERIFY), ("TMPDIR", VERIFY)],
    ids=["home", "cache", "temporary"],
)
def test_a_disk_that_takes_nothing(place: Place, disk: str, variable: str, words: tuple[str, ...]) -> None:
    if disk != "limited" and not mounts_are_private():
        pytest.skip(NOT_PRIVATE)
    if disk == "read-only" and variable == "TMPDIR":
        pytest.skip("Python takes another temporary folder by itself")
    folder = place.folder / "disk"
    folder.mkdir()
    before = DISKS[disk].format(folder)
    if disk == "full" and variable == "KFORGE_HOME":
        before += f" && dd if=/dev/zero of={folder}/fill bs=64k 2>/dev/null; true"
    done = place.run(*words, "--target", "null@cpu", before=before, environment={variable: str(folder)})
    where = "" if disk == "limited" else str(folder)
    check(place, done, ExitCode.CANNOT_JUDGE, f"kforge: {where}")
    hint = done.stderr.rpartition("hint: ")[2]
    assert "=FOLDER" in hint
    assert variable in hint or disk == "limited"


# What a language needs

SYCL = (*VERIFY, "--target", "sycl@cpu", "--json")
GONE = """\
from importlib import metadata

found = metadata.Distribution.from_name.__func__


def from_name(cls, name):
    if name in ("intel-sycl-rt", "intel-opencl-rt"):
        raise metadata.PackageNotFoundError(name)
    return found(cls, name)


metadata.Distribution.from_name = classmethod(from_name)
"""


@pytest.mark.parametrize("words", [SYCL, ("run", "p.py", "--json")], ids=["verify", "run"])
def test_without_the_extra_it_says_what_to_type(place: Place, words: tuple[str, ...]) -> None:
    (place.folder / "site").mkdir()
    place.write("site/sitecustomize.py", GONE)
    done = place.run(*words, environment={"PYTHONPATH": str(place.folder / "site")})
    check_json(place, done, 3, "")
    assert 'pip install "kforge-xpu[cpu]"' in done.stderr


@pytest.mark.parametrize("words", [SYCL, ("run", "p.py", "--json")], ids=["verify", "run"])
def test_without_a_compiler_it_says_what_to_type(place: Place, words: tuple[str, ...]) -> None:
    pytest.importorskip("kforge_xpu")
    done = place.run(*words, environment={"PATH": str(place.folder / "mark"), "CXX": ""})
    check_json(place, done, 3, "")
    assert "no C++ compiler was found" in done.stderr
    assert "apt-get install g++" in done.stderr


@pytest.mark.parametrize("text", ["import sys; sys.exit(0)", "import nobody_has_this"])
def test_a_plugin_that_does_not_load_changes_no_verdict(place: Place, text: str) -> None:
    done = _with_plugin(place, text, (*VERIFY, "--target", "null@cpu", "--json"), GOOD.replace("ModelNew", "Other"))
    assert done.returncode == ExitCode.NOT_CORRECT, done.stderr
    assert json.loads(done.stdout)["verdict"] == "no_code"
    assert "Traceback" not in done.stderr
    assert place.left() == []


LATE = """\
from kforge import hookimpl
from kforge.interfaces import VerifierPlugin


def _build():
    {}


@hookimpl
def kforge_verifiers():
    yield VerifierPlugin("late", summary="fails when it is needed", build=_build)
"""


@pytest.mark.parametrize("line", ["import sys; sys.exit(0)", "raise RuntimeError('boom')"])
def test_a_verifier_that_cannot_be_made_is_named(place: Place, line: str) -> None:
    done = _with_plugin(place, LATE.format(line), (*VERIFY, "--target", "null@cpu", "--json"), GOOD)
    check_json(place, done, 3, "the plugin kforge-bad 1.0 (entry point bad) is broken")


def _with_plugin(place: Place, text: str, words: tuple[str, ...], candidate: str) -> subprocess.CompletedProcess[str]:
    info = place.folder / "kforge_bad-1.0.dist-info"
    info.mkdir()
    place.write("bad_module.py", text)
    place.write(f"{info.name}/METADATA", "Metadata-Version: 2.1\nName: kforge-bad\nVersion: 1.0\n")
    place.write(f"{info.name}/entry_points.txt", "[kforge]\nbad = bad_module\n")
    place.write("c.py", candidate)
    return place.run(*words, environment={"PYTHONPATH": str(place.folder)})
