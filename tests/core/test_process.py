"""Hostile workers, from inside the whole isolation; nothing here may run in a weaker mode."""

from __future__ import annotations

import errno
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kforge.judge.process import Exit, NotStopped, Unreadable
from tests.core.workers import SERVE, SLEEP, Spawn, hear, still_alive


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


def test_nothing_outlives_a_killed_judge(whole_isolation: None, tmp_path: Path) -> None:
    judge = subprocess.Popen([sys.executable, "-P", "-c", _judge(tmp_path)], stdout=subprocess.PIPE, text=True)
    with judge:
        assert judge.stdout is not None
        pids = judge.stdout.readline().split()
        assert len(pids) == 2
        judge.kill()
    assert not still_alive(pids)


def test_end_all_ends_zygotes_and_workers(whole_isolation: None, tmp_path: Path) -> None:
    program = _judge(tmp_path, then="from kforge.judge.process import end_all\nend_all()\nprint('after', flush=True)")
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    pids = done.stdout.split()
    assert pids.pop() == "after"
    assert len(pids) == 2
    assert not still_alive(pids, seconds=0)


def _judge(scratch: Path, then: str = "time.sleep(60)") -> str:
    """Give the text of a judge that starts a zygote and a frozen worker, prints their pids and goes on."""
    return f"""
import os, sys, time
from kforge.judge.isolation import Confinement
from kforge.judge.zygote import Zygote
arena = os.memfd_create("arena")
os.ftruncate(arena, 4096)
z = Zygote.start(imports=[], serve={SERVE!r}, path=[*sys.path, {str(Path.cwd())!r}])
z.wait_ready()
w = z.spawn({{"code": {SLEEP!r}}}, Confinement({str(scratch)!r}, 2**20, 2**32), arena)
w.freeze(5)
print(z.pid, w.pid, flush=True)
{then}
"""


def test_a_start_is_quick(spawn: Spawn) -> None:
    times = []
    for _ in range(5):
        start = time.monotonic()
        spawn("say(1)")
        times.append(time.monotonic() - start)
    assert min(times) < 0.05


def test_more_ranges_than_one_call_reads(spawn: Spawn) -> None:
    worker = spawn("""
import ctypes, time
data = ctypes.create_string_buffer(bytes(range(256)) * 16)
say(ctypes.addressof(data))
time.sleep(60)
""")
    address = hear(worker)
    worker.freeze(5)
    buffer = bytearray(2500)
    ranges = [(address + 4095 - place, 1) for place in range(2500)]
    worker.read_many(ranges, buffer)
    assert buffer == bytes((255 - place) % 256 for place in range(2500))
    ranges[1500] = (8, 1)
    with pytest.raises(Unreadable) as caught:
        worker.read_many(ranges, buffer)
    assert caught.value.errno == errno.EFAULT
    with pytest.raises(ValueError, match="do not fit"):
        worker.read_many(ranges, bytearray(2))


def test_a_worker_that_forbids_its_memory(spawn: Spawn) -> None:
    worker = spawn("""
import ctypes, time
data = ctypes.create_string_buffer(b"xyz")
ctypes.CDLL(None).prctl(4, 0)
say(ctypes.addressof(data))
time.sleep(60)
""")
    address = hear(worker)
    worker.freeze(5)
    buffer = bytearray(3)
    if os.geteuid() == 0:  # may read it all the same
        worker.read(address, buffer)
        assert buffer == b"xyz"
        return
    with pytest.raises(Unreadable) as caught:
        worker.read(address, buffer)
    assert caught.value.errno == errno.EPERM


def test_a_child_that_sends_sigcont(spawn: Spawn) -> None:
    for _ in range(5):
        worker = spawn(f"""
import signal
if os.fork() == 0:
    while True:
        os.kill(1, signal.SIGCONT)
{SLEEP}
""")
        hear(worker)
        below = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
        started = time.monotonic()
        try:
            worker.freeze(1)
        except NotStopped:
            assert worker.killed_because == "deadline"
        else:
            assert worker.children() == 1  # seen stopped for a moment: what the judge goes by is then the child
        assert time.monotonic() - started < 3
        worker.kill()
        assert not still_alive([*below, worker.pid], seconds=0)


def test_a_worker_that_cannot_stop_dies_at_the_deadline(spawn: Spawn) -> None:
    call = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    worker = spawn(f"""
import ctypes, signal, time
say(1)
if ctypes.CDLL(None).syscall({call}, {0x4000 | signal.SIGCHLD}, 0, 0, 0, 0) == 0:
    time.sleep(60)
""")
    hear(worker)
    while not Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text():
        time.sleep(0.01)
    started = time.monotonic()
    with pytest.raises(NotStopped, match="not confirmed in time"):
        worker.freeze(0.3)
    assert time.monotonic() - started < 2
    assert worker.killed_because == "deadline"
    assert worker.exited() == Exit(signal="SIGKILL")
