"""Machines that offer less: workers start, serve and die as everywhere, and what is missing has a reason.

Nothing here tries to reach anything: without namespaces a mount, a trace or a signal would reach the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforge.judge.isolation import LAYERS, exposure
from kforge.judge.process import Exit, WorkerProcess
from tests.core.workers import Spawn, hear, still_alive

LANDLOCK = ("landlock files", "landlock network", "landlock signals")
ALONE = ("no new privileges", "no capabilities", *LANDLOCK, "no sockets", "limits")
MODES = {
    "no Landlock": tuple(name for name in LAYERS if name not in LANDLOCK),
    "no namespaces": ALONE,
    "no namespaces, no Landlock": tuple(name for name in ALONE if name not in LANDLOCK),
    "no filter": tuple(name for name in LAYERS if name != "no sockets"),
    "no PID namespace": tuple(name for name in LAYERS if name != "pid namespace"),
    "only no new privileges": ("no new privileges",),
    "nothing": (),
}
FAMILY = """
import ctypes, time
data = ctypes.create_string_buffer(b"served")
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.write(writer, b"x")
        time.sleep(60)
    os._exit(0)
os.read(reader, 1)
os.wait()
open("file", "w").close()
say(ctypes.addressof(data))
"""
"""A worker whose grandchild is an orphan in a session of its own."""

modes = pytest.mark.parametrize("layers", MODES.values(), ids=MODES.keys())


def _below(worker: WorkerProcess) -> list[str]:
    return Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()


@modes
def test_a_worker_starts_serves_and_dies_with_its_descendants(
    spawn_as_asked: Spawn, layers: tuple[str, ...], whole_isolation: None
) -> None:
    worker = spawn_as_asked(FAMILY + "time.sleep(60)", layers=layers)
    address = hear(worker)
    assert {layer.name for layer in worker.layers.missing} == set(LAYERS) - set(layers)
    assert {layer.reason for layer in worker.layers.missing} <= {"switched off"}
    worker.freeze(5)
    buffer = bytearray(6)
    worker.read(address, buffer)
    assert buffer == b"served"
    assert worker.children() == 1
    below = _below(worker)
    assert len(below) == 1
    worker.kill()
    assert worker.exited() == Exit(signal="SIGKILL")
    assert not still_alive([*below, worker.pid], seconds=0)


@pytest.mark.parametrize("layers", [MODES[name] for name in MODES if name != "nothing"], ids=list(MODES)[:-1])
def test_an_orphan_of_a_worker_that_has_ended_dies(spawn_as_asked: Spawn, layers: tuple[str, ...]) -> None:
    worker = spawn_as_asked(FAMILY + "sock.recv(1)\nos._exit(5)", layers=layers)
    hear(worker)
    below = _below(worker)
    worker.sock.sendall(b"x")
    assert worker.wait(5) == Exit(status=5)
    worker.kill()
    assert not still_alive([*below, worker.pid], seconds=0)


@pytest.mark.parametrize("mode", ["no namespaces, no Landlock", "nothing"])
def test_a_candidate_that_could_signal_the_judge_is_a_finding(spawn_as_asked: Spawn, mode: str) -> None:
    found = exposure(spawn_as_asked("say(1)", layers=MODES[mode]).layers)
    assert found is not None
    assert "pid namespace: switched off" in found.message


def test_without_namespaces_the_other_layers_hold(spawn_as_asked: Spawn, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.write_text("secret")
    worker = spawn_as_asked(
        f"""
import socket
attempt("beside", lambda: open({str(beside)!r}).read())
attempt("socket", lambda: socket.socket())
attempt("pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("scratch", lambda: open("file", "w").close())
say(refused)
""",
        layers=ALONE,
    )
    refused = {"beside": "PermissionError", "socket": "PermissionError", "pair": "PermissionError"}
    expected = {**refused, "scratch": "done: None"}
    if "landlock files" not in worker.layers.used:
        expected["beside"] = "done: 'secret'"
    assert hear(worker) == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs no user namespace; test_ordinary_user.py runs this")
def test_an_ordinary_user_without_user_namespaces(spawn_as_asked: Spawn) -> None:
    worker = spawn_as_asked(FAMILY + "time.sleep(60)", layers=LAYERS[1:])
    hear(worker)
    missing = {layer.name: layer.reason for layer in worker.layers.missing}
    assert missing.pop("user namespace") == "switched off"
    assert missing == {name: "unshare: Operation not permitted" for name in LAYERS if name in missing}
    assert set(missing) == {name for name in LAYERS if name.endswith("namespace")} - {"user namespace"}
    worker.freeze(5)
    assert worker.children() == 1
    below = _below(worker)
    worker.kill()
    assert not still_alive([*below, worker.pid], seconds=0)


def test_a_pid_namespace_without_a_fresh_proc(spawn_as_asked: Spawn, whole_isolation: None) -> None:
    layers = tuple(name for name in LAYERS if name != "mount namespace")
    worker = spawn_as_asked("say(os.getpid())", layers=layers)
    assert hear(worker) == 1
    missing = {layer.name: layer.reason for layer in worker.layers.missing}
    assert missing == {"pid namespace": "no fresh /proc: no mount namespace", "mount namespace": "switched off"}
    assert exposure(worker.layers) is None
