"""Starts of zygotes and workers that fail, each with a text that says why."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kforge.errors import HarnessError
from kforge.judge.isolation import Confinement
from kforge.judge.process import Exit
from kforge.judge.zygote import Zygote
from tests.core.workers import SERVE, SLEEP, Spawn, hear, still_alive


def _children() -> set[str]:
    return set(Path("/proc/thread-self/children").read_text().split())


@pytest.mark.parametrize(
    "imports, serve, text",
    [
        (["nobody_has_this"], SERVE, "ModuleNotFoundError: No module named 'nobody_has_this'"),
        (["tests.core.raises_at_import"], SERVE, "ModuleNotFoundError"),
        ([], "tests.core.hostile:nothing", "AttributeError"),
    ],
)
def test_a_failed_import_is_told(imports: list[str], serve: str, text: str) -> None:
    before = _children()
    with pytest.raises(HarnessError, match=text):
        Zygote.start(imports=imports, serve=serve, path=[*sys.path, str(Path.cwd())]).__enter__()
    assert _children() == before


@pytest.mark.parametrize("way, text", [("os._exit(3)", "ended"), ("sys.exit(3)", "ended"), ("1 / 0", "Division")])
def test_an_import_that_ends_the_zygote_is_told(tmp_path: Path, way: str, text: str) -> None:
    (tmp_path / "ends_the_zygote.py").write_text(f"import os, sys\n{way}\n")
    with pytest.raises(HarnessError, match=text):
        Zygote.start(
            imports=["ends_the_zygote"], serve=SERVE, path=[*sys.path, str(tmp_path), str(Path.cwd())]
        ).__enter__()


def test_threads_of_an_import_are_warned_of(tmp_path: Path) -> None:
    (tmp_path / "starts_a_thread.py").write_text("import threading\nthreading.Timer(60, print).start()\n")
    path = [*sys.path, str(tmp_path), str(Path.cwd())]
    with Zygote.start(imports=["starts_a_thread"], serve=SERVE, path=path) as started:
        assert started.warnings[0].startswith("2 threads after the imports")


def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch, spawn: Spawn) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    path = [*sys.path, str(Path.cwd())]
    with Zygote.start({"ONLY_THIS": "1"}, imports=[], serve=SERVE, path=path) as started:
        names = {item.partition("=")[0] for item in Path(f"/proc/{started.pid}/environ").read_text().split("\0")}
    assert "ONLY_THIS" in names
    assert not names & {"OPENAI_API_KEY", "KFORGE_HOME", "PYTHONPATH"}


def test_a_worker_that_cannot_be_confined_is_told(zygote: Zygote, spawn: Spawn, tmp_path: Path) -> None:
    spawn("say(1)")  # the first one starts the keeper, which has a descriptor of its own
    confinement = Confinement(str(tmp_path / "nobody made it"), scratch_bytes=2**20, data_bytes=2**32)
    arena = os.memfd_create("arena")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(HarnessError, match=r"(?s)could not be confined.*No such file or directory"):
        zygote.spawn({"code": SLEEP}, confinement, arena)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    os.close(arena)


def test_a_request_too_long_is_told_and_harms_nothing(zygote: Zygote, spawn: Spawn, tmp_path: Path) -> None:
    confinement = Confinement(str(tmp_path), scratch_bytes=2**20, data_bytes=2**32)
    with pytest.raises(HarnessError, match="60000 is the most"):
        zygote.spawn({"code": "x" * 70_000}, confinement, 0)
    worker = spawn("say('still here')")
    assert hear(worker) == "still here"
    assert worker.wait(5) == Exit(status=0)


def test_a_zygote_that_has_ended_is_told(spawn: Spawn, tmp_path: Path) -> None:
    confinement = Confinement(str(tmp_path), scratch_bytes=2**20, data_bytes=2**32)
    arena = os.memfd_create("arena")
    started = Zygote.start(imports=[], serve=SERVE, path=[*sys.path, str(Path.cwd())])
    started.wait_ready()
    pid = started.pid
    os.kill(pid, 9)
    with pytest.raises(HarnessError, match=r"the zygote (ended|cannot be reached)"):
        started.spawn({"code": SLEEP}, confinement, arena)
    started.close()
    with pytest.raises(HarnessError, match="cannot be reached"):
        started.spawn({"code": SLEEP}, confinement, arena)
    os.close(arena)
    assert not still_alive([pid], seconds=0)
