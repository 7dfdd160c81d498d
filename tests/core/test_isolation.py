"""What a worker may see and do in the whole isolation, and what of it is reported."""

from __future__ import annotations

import json
import os
import platform
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kforge.judge import _landlock, isolation
from kforge.judge.arena import Arena
from kforge.judge.isolation import LAYERS, Confinement, exposure, probe
from kforge.judge.session import Session
from kforge.records import Candidate, Finding, Isolation, Origin, Phase, Target
from tests.core.workers import SLEEP, Spawn, hear


def test_the_probe_names_every_layer(spawn: Spawn) -> None:
    found = probe()
    assert tuple(layer.name for layer in found.layers) == LAYERS
    assert len(LAYERS) == 13
    assert not found.missing
    assert found == spawn("say(1)").layers


def test_a_probe_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    found = probe()
    assert not found.used
    assert {str(layer.reason).partition(":")[0] for layer in found.missing} == {"no process could be confined"}


def test_a_confinement_survives_json() -> None:
    full = Confinement(
        "/s", 1, 2, readable=("/a", "/b"), writable=("/c",), devices=("/dev/zero",), hidden=("/d",), open_files=3,
        file_bytes=4, layers=("limits",),
    )  # fmt: skip
    for confinement in (full, Confinement("/s", 1, 2)):
        assert Confinement.from_json(json.loads(json.dumps(confinement.to_json()))) == confinement


def _isolation(*used: str) -> Isolation:
    return isolation.isolation({name: None if name in used else "not here" for name in LAYERS})


def test_what_a_candidate_could_do_to_the_judge_is_a_finding() -> None:
    assert exposure(_isolation(*LAYERS)) is None
    assert exposure(_isolation("pid namespace")) is None
    assert exposure(_isolation("landlock signals")) is None
    assert exposure(Isolation(())) is None
    signals = exposure(_isolation("user namespace", "limits"))
    assert signals is not None
    assert (signals.check, signals.decisive) == ("isolation", False)
    assert "send signals to the judge" in signals.message
    assert "memory" not in signals.message
    nothing = exposure(_isolation())
    assert nothing is not None
    assert "memory" in nothing.message


class _Rejecting:
    def check_source(self, candidate: Candidate) -> list[Finding]:
        return [Finding("rules", phase=Phase.STATIC, message="no")]


def test_the_finding_is_in_the_judgement() -> None:
    candidate = Candidate("", target=Target("null", "cpu"), origin=Origin("file"))
    session: Any = Session.__new__(Session)
    session._verifiers = [_Rejecting()]
    session._measurer = SimpleNamespace(isolation=_isolation("limits"))
    judgement = session.judge(candidate)
    assert [finding.check for finding in judgement.verdict.findings] == ["rules", "isolation"]
    session._measurer = SimpleNamespace(isolation=_isolation(*LAYERS))
    judgement = session.judge(candidate)
    assert [finding.check for finding in judgement.verdict.findings] == ["rules"]


def test_a_worker_cannot_write_the_arena(spawn: Spawn) -> None:
    with Arena(8192) as arena:
        arena.bytes[:] = 7
        worker = spawn(
            """
import ctypes, fcntl, mmap
libc = ctypes.CDLL(None, use_errno=True)

def shared():
    mmap.mmap(arena, 8192, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)

def upgraded():
    held = mmap.mmap(arena, 8192, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    where = libc.mmap(None, 8192, 1, 1, arena, 0)
    if libc.mprotect(ctypes.c_void_p(where), ctypes.c_size_t(8192), 3):
        raise OSError(ctypes.get_errno(), "mprotect")

def punched():
    if libc.fallocate(arena, 3, ctypes.c_long(0), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), "fallocate")

attempt("pwrite", lambda: os.pwrite(arena, b"x", 0))
attempt("reopened", lambda: os.pwrite(os.open(f"/proc/self/fd/{arena}", os.O_RDWR), b"x", 0))
attempt("shared", shared)
attempt("upgraded", upgraded)
attempt("shorter", lambda: os.ftruncate(arena, 4096))
attempt("longer", lambda: os.ftruncate(arena, 2**20))
attempt("punched", punched)
attempt("unsealed", lambda: fcntl.fcntl(arena, fcntl.F_ADD_SEALS, 0))
private = mmap.mmap(arena, 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
private[0] = 9
say([private[0], private[1], refused])
""",
            arena_fd=arena.fd,
        )
        first, second, refused = hear(worker)
        assert (first, second) == (9, 7)
        assert set(refused.values()) == {"PermissionError"}
        assert set(arena.bytes) == {7}
        assert os.fstat(arena.fd).st_size == 8192


def test_no_other_process_can_be_traced_read_or_signalled(spawn: Spawn) -> None:
    trace, read = {"x86_64": (101, 310), "aarch64": (117, 270)}[platform.machine()]
    other = spawn(SLEEP)
    hear(other)
    worker = spawn(f"""
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)

def call(*numbers):
    if libc.syscall(*[ctypes.c_long(number) for number in numbers]) < 0:
        raise OSError(ctypes.get_errno(), "refused")

place = (ctypes.c_long * 2)(id(call), 8)
for name, pid in [("judge", {os.getpid()}), ("other", {other.pid})]:
    attempt(name + " traced", lambda: call({trace}, 16, pid, 0, 0))
    attempt(name + " read", lambda: call({read}, pid, ctypes.addressof(place), 1, ctypes.addressof(place), 1, 0))
    attempt(name + " signalled", lambda: os.kill(pid, 0))
    attempt(name + " held", lambda: os.pidfd_open(pid))
    attempt(name + " group", lambda: os.killpg(pid, 0))
attempt("all", lambda: os.kill(-1, 0))
attempt("parent", lambda: call({trace}, 16, os.getppid(), 0, 0))
say([os.getppid(), refused])
""")
    parent, refused = hear(worker)
    assert parent == 0
    assert set(refused.values()) <= {"ProcessLookupError", "PermissionError"}, refused
    assert other.exited() is None


def test_sockets_with_a_path_outside_are_out_of_reach(spawn: Spawn, tmp_path: Path) -> None:
    shared = tmp_path / "cache"
    shared.mkdir()
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        stream.bind(str(shared / "stream"))
        stream.listen()
        datagram.bind(str(shared / "datagram"))
        datagram.setblocking(False)
        worker = spawn(
            f"""
import socket

def connect(made, name):
    made.connect({str(shared)!r} + "/" + name)

def send(kind):
    first, second = socket.socketpair(socket.AF_UNIX, kind)
    first.sendto(b"x", {str(shared / "datagram")!r})

attempt("seen", lambda: os.stat({str(shared / "stream")!r}).st_size)
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
    attempt(str(int(kind)), lambda: connect(socket.socketpair(socket.AF_UNIX, kind)[0], "datagram"))
    attempt(str(int(kind)) + " sent", lambda: send(kind))
attempt("own", lambda: connect(sock, "stream"))
attempt("made", lambda: connect(socket.socket(socket.AF_UNIX), "stream"))
first, second = socket.socketpair()
first.sendall(b"pairs of streams work")
say([second.recv(99).decode(), refused])
""",
            writable=(str(shared),),
        )
        worked, refused = hear(worker)
        assert worked == "pairs of streams work"
        assert refused.pop("seen") == "done: 0"
        assert not [name for name, text in refused.items() if text.startswith("done")], refused
        with pytest.raises(BlockingIOError):
            datagram.recv(1)


def test_device_nodes_are_there_when_asked_for(spawn: Spawn) -> None:
    code = """
import fcntl, stat, termios
attempt("node", lambda: stat.S_ISCHR(os.stat("/dev/tty").st_mode))
attempt("ioctl", lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCGPGRP, b"1234"))
attempt("folder", lambda: os.listdir("/dev/pts") and None)
attempt("fixed", lambda: os.read(os.open("/dev/zero", os.O_RDWR), 2))
attempt("entropy", lambda: fcntl.ioctl(os.open("/dev/random", os.O_RDWR), 0x80045200, b"1234") and None)
attempt("other", lambda: os.stat("/dev/kmsg"))
say(refused)
"""
    without = hear(spawn(code))
    if without.pop("entropy") != "PermissionError":
        assert _landlock.version() < 5
    assert without == {
        "node": "FileNotFoundError", "ioctl": "FileNotFoundError", "folder": "FileNotFoundError",
        "fixed": "done: b'\\x00\\x00'", "other": "FileNotFoundError",
    }  # fmt: skip
    worker = spawn(code, devices=("/dev/tty", "/dev/pts", "/dev/random", "/dev/not-there"))
    given = hear(worker)
    assert given.pop("node") == "done: True"
    assert given.pop("folder") == "done: None"
    # The node opens: it is the worker, in a session of its own, that has no terminal.
    assert given.pop("ioctl") == "OSError"
    assert given.pop("entropy") == "done: None"
    assert given == {"fixed": without["fixed"], "other": "FileNotFoundError"}
    assert not worker.layers.missing
