"""Hostile workers, from inside the whole isolation; nothing here may run in a weaker mode."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge.judge.isolation import Confinement, probe
from kforge.judge.process import Exit, NotStopped, Unreadable, WorkerProcess
from kforge.judge.zygote import Zygote

Spawn = Callable[..., WorkerProcess]
SLEEP = "say(1)\nimport time\ntime.sleep(60)"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    missing = probe().missing
    if missing:
        pytest.skip(f"hostile code needs the whole isolation: {missing[0].name}: {missing[0].reason}")
    with Zygote.start(imports=[], serve="tests.core.hostile:serve", path=[*sys.path, str(Path.cwd())]) as started:
        yield started


@pytest.fixture
def spawn(zygote: Zygote, tmp_path: Path) -> Iterator[Spawn]:
    arena = os.memfd_create("arena")
    os.ftruncate(arena, 4096)
    workers: list[WorkerProcess] = []

    def start(code: str, *, memory: int = 2**30, **limits: Any) -> WorkerProcess:
        scratch = tmp_path / f"scratch{len(workers)}"
        scratch.mkdir()
        confinement = Confinement(str(scratch), scratch_bytes=2**24, data_bytes=2**32, **limits)
        worker = zygote.spawn({"code": code}, confinement, arena, memory_bytes=memory)
        worker.sock.settimeout(20)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()
    os.close(arena)


def hear(worker: WorkerProcess) -> Any:
    with worker.sock.makefile("rb") as stream:
        return json.loads(stream.readline())


def test_a_worker_sees_no_other_process_and_reaches_none(spawn: Spawn) -> None:
    worker = spawn(f"""
import signal
judge = {os.getpid()}
attempt("kill", lambda: os.kill(judge, 0))
attempt("pidfd", lambda: os.pidfd_open(judge))
attempt("memory", lambda: open(f"/proc/{{judge}}/mem"))
say([os.getpid(), [name for name in os.listdir("/proc") if name.isdigit()], refused])
""")
    pid, seen, refused = hear(worker)
    assert (pid, seen) == (1, ["1"])
    assert refused == {"kill": "ProcessLookupError", "pidfd": "ProcessLookupError", "memory": "FileNotFoundError"}
    assert not worker.layers.missing


def test_a_worker_reads_and_writes_its_own_files_only(spawn: Spawn, tmp_path: Path) -> None:
    problem = tmp_path / "shown" / "problem.py"
    problem.parent.mkdir()
    problem.write_text("secret")
    outside = tmp_path / "outside"
    cache = tmp_path / "cache"
    cache.mkdir()
    other = tmp_path / "scratch of another"
    other.mkdir()
    worker = spawn(
        f"""
attempt("hidden", lambda: open({str(problem)!r}).read())
attempt("shadow", lambda: open("/etc/shadow").read())
outside = open({str(outside)!r}, "w") if os.path.isdir({str(tmp_path)!r}) else None
attempt("package", lambda: open({str(Path(os.__file__).parent / "kforge_test_file")!r}, "w").close())
attempt("other", lambda: os.listdir({str(other)!r}))
attempt("cache", lambda: open({str(cache / "file")!r}, "w").close())
attempt("scratch", lambda: open("file", "w").close())
attempt("home", lambda: os.listdir("/home"))
attempt("root", lambda: os.mkdir("/new"))
say(refused)
""",
        readable=(str(problem.parent),),
        writable=(str(cache),),
        hidden=(str(problem),),
    )
    refused = hear(worker)
    assert refused.pop("hidden") in ("done: ''", "PermissionError")
    assert refused.pop("cache") == refused.pop("scratch") == "done: None"
    assert not [name for name, text in refused.items() if text.startswith("done")]
    assert (cache / "file").exists()
    assert not outside.exists()  # where it is under /tmp, the worker wrote into a /tmp of its own


def test_a_worker_opens_no_socket(spawn: Spawn, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        worker = spawn("""
import socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40):
    attempt(str(int(family)), lambda: socket.socket(family))
say(refused)
""")
        assert set(hear(worker).values()) == {"PermissionError"}


def test_freeze_read_and_thaw(spawn: Spawn) -> None:
    worker = spawn("""
import ctypes, time
data = ctypes.create_string_buffer(b"x" * 8192)
say(ctypes.addressof(data))
time.sleep(60)
""")
    address = hear(worker)
    worker.freeze(5)
    worker.freeze(5)
    buffer = bytearray(6)
    worker.read_many([(address, 1), (address + 100, 2), (address + 8191, 3)], buffer)
    assert buffer.startswith(b"xxxx")
    with pytest.raises(Unreadable):
        worker.read(8, buffer)
    assert worker.children() == 0
    assert worker.resident_bytes() > 0
    worker.thaw()
    assert worker.exited() is None
    worker.kill()
    assert worker.exited() == Exit(signal="SIGKILL")
    with pytest.raises(NotStopped):
        worker.freeze(1)
    worker.kill()


def test_grandchildren_are_counted_and_die_with_a_stopped_worker(spawn: Spawn) -> None:
    worker = spawn(f"if os.fork() == 0:\n    os.setsid()\n    import time\n    time.sleep(60)\n{SLEEP}")
    hear(worker)
    assert worker.children() == 1
    worker.freeze(5)
    below = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    worker.kill()
    assert not [pid for pid in [*below, worker.pid] if Path(f"/proc/{pid}").exists()]


def test_output_is_bounded(spawn: Spawn) -> None:
    worker = spawn("for _ in range(200):\n    os.write(1, b'y' * 2**20)\nos.write(1, b'the end')\nsay(1)")
    hear(worker)
    assert worker.wait(5) == Exit(status=0)
    worker.kill()
    assert worker.output_tail().endswith("yythe end")
    assert len(worker.output_tail()) <= 64 * 1024


def test_a_memory_bomb_is_killed_and_named(spawn: Spawn) -> None:
    worker = spawn("held = [bytearray(os.urandom(2**20)) for _ in range(400)]\n" + SLEEP, memory=100 * 2**20)
    assert worker.wait(20) == Exit(signal="SIGKILL")
    assert worker.killed_because == "memory"


def test_exit_status_and_traceback(spawn: Spawn) -> None:
    worker = spawn("raise KeyError('lost')")
    assert worker.wait(10) == Exit(status=70)
    worker.kill()
    assert "KeyError: 'lost'" in worker.output_tail()


def test_nothing_outlives_a_killed_judge(zygote: Zygote, tmp_path: Path) -> None:
    program = f"""
import os, sys, time
from kforge.judge.isolation import Confinement
from kforge.judge.zygote import Zygote
arena = os.memfd_create("arena")
os.ftruncate(arena, 4096)
z = Zygote.start(imports=[], serve="tests.core.hostile:serve", path=[*sys.path, {str(Path.cwd())!r}])
w = z.spawn({{"code": {SLEEP!r}}}, Confinement({str(tmp_path)!r}, 2**20, 2**32), arena)
w.freeze(5)
print(z.pid, w.pid, flush=True)
time.sleep(60)
"""
    judge = subprocess.Popen([sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True)
    with judge:
        assert judge.stdout is not None
        pids = judge.stdout.readline().split()
        assert len(pids) == 2
        judge.kill()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if _alive(pid)]


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_start_is_quick(spawn: Spawn) -> None:
    times = []
    for _ in range(5):
        start = time.monotonic()
        spawn("say(1)")
        times.append(time.monotonic() - start)
    assert min(times) < 0.05
