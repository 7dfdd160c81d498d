"""Inside the zygote: imports what workers need, once, and forks them on request.

Its control socket (SOCK_SEQPACKET) carries one JSON object a packet, with descriptors on the way in. The judge's side
is `kforge.judge.zygote`. See docs/adr/0001 for the processes.
"""

from __future__ import annotations

import errno
import gc
import importlib
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from kforge.judge import _linux, isolation
from kforge.judge.isolation import Confinement, Reasons

PACKET: Final = 60_000
"""Most bytes of one packet."""
DESCRIPTORS: Final = ("channel", "arena", "output", "start")
"""What comes with a request to spawn, in this order."""
FAILED_STATUS: Final = 70
"""Exit status of a worker that failed before the candidate could reach it."""

Serve = Callable[[socket.socket, int, dict[str, Any], Sequence[dict[str, Any]]], None]
Packet = dict[str, Any]


def send(sock: socket.socket, packet: Packet, descriptors: Sequence[int] = ()) -> None:
    """Send one packet; raises OSError, also for one that is too long."""
    data = json.dumps(packet).encode()
    if len(data) > PACKET:
        # The kernel would send more, and the other side would lose the end of it.
        raise OSError(errno.EMSGSIZE, f"a packet of {len(data)} bytes; {PACKET} is the most")
    socket.send_fds(sock, [data], list(descriptors))


def receive(sock: socket.socket) -> tuple[Packet | None, list[int]]:
    """Wait for one packet and its descriptors; None at the end of the other side."""
    data, descriptors, _, _ = socket.recv_fds(sock, PACKET, len(DESCRIPTORS))
    return (json.loads(data) if data else None), descriptors


def main(control: socket.socket) -> None:
    """Serve the judge until it closes its end."""
    parent = os.getppid()
    _linux.die_with_parent()
    settings, _ = receive(control)
    if settings is None or os.getppid() != parent:
        return
    try:
        serve = _prepare(settings)
    except Exception:  # noqa: BLE001 - an import may raise anything, and the judge tells the person
        send(control, {"failed": traceback.format_exc()[-PACKET // 16 :]})
        return
    send(control, {"ready": True, "warnings": _warnings()})
    while True:
        request, descriptors = receive(control)
        if request is None:
            return
        send(control, _spawn(control, serve, request, descriptors))


def _prepare(settings: Packet) -> Serve:
    sys.path[:] = settings["path"]
    for name in settings["imports"]:
        importlib.import_module(name)
    module, _, function = settings["serve"].partition(":")
    serve: Serve = getattr(importlib.import_module(module), function)
    # Else the first collection in a worker would copy every page that holds an object.
    gc.collect()
    gc.freeze()
    gc.disable()
    return serve


def _warnings() -> list[str]:
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names only
    if threads == 1:
        return []
    return [f"{threads} threads after the imports: locks that they hold stay locked in every worker"]


def _spawn(control: socket.socket, serve: Serve, request: Packet, descriptors: list[int]) -> Packet:
    """Fork the middle process, wait for its end, and give the worker's pid and the layers used so far."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        _guarded(lambda: _middle(control, serve, request, descriptors, (reader, writer)))
    os.close(writer)
    for descriptor in descriptors:
        os.close(descriptor)
    with os.fdopen(reader, "rb") as pipe:
        report = pipe.read()
    _, status = os.waitpid(middle, 0)
    if not report:
        return {"failed": f"the process between zygote and worker ended with wait status {status}"}
    answer: Packet = json.loads(report)
    return answer


def _guarded(action: Callable[[], None]) -> NoReturn:
    """Do what a forked process does; it never returns into its parent's code."""
    status = 0
    try:
        action()
    except BaseException:  # noqa: BLE001 - the text goes to whoever reads the output; nothing may unwind further
        status = FAILED_STATUS
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _middle(
    control: socket.socket, serve: Serve, request: Packet, descriptors: list[int], pipe: tuple[int, int]
) -> None:
    channel, arena, output, start = descriptors
    reader, writer = pipe
    control.close()
    os.close(reader)
    try:
        os.setsid()
        isolation.reset_signals()
        isolation.offer_to_oom_killer()
        confinement = Confinement.from_json(request["confinement"])
        reasons = isolation.leave(confinement)
        worker = os.fork()
    except Exception:
        os.write(writer, json.dumps({"failed": traceback.format_exc()[-2000:]}).encode())
        raise
    if worker == 0:
        os.close(writer)
        _guarded(lambda: _worker(serve, request, (channel, arena, output, start), confinement, reasons))
    os.write(writer, json.dumps({"pid": worker}).encode())


def _worker(
    serve: Serve,
    request: Packet,
    descriptors: tuple[int, int, int, int],
    confinement: Confinement,
    reasons: Reasons,
) -> None:
    """Become the worker: wait for the judge's go, die with it, confine, serve."""
    channel, arena, start = _standard_streams(descriptors)
    with socket.socket(fileno=start) as gate:
        if gate.recv(1) != b"g":
            return
        _linux.die_with_parent()
        if select.select([gate], [], [], 0)[0]:
            return  # the judge ended before it was the parent to die with
        os.setsid()
        try:
            if reasons["pid namespace"] is not None:
                _linux.become_subreaper()
            reasons = isolation.confine(confinement, reasons)
        except Exception:
            gate.send(json.dumps({"failed": traceback.format_exc()[-2000:]}).encode())
            raise
        # Nothing of the candidate runs before these have left.
        layers = [{"name": x.name, "used": x.used, "reason": x.reason} for x in isolation.isolation(reasons).layers]
        os.environ.update(HOME=confinement.scratch, TMPDIR=confinement.scratch, PWD=confinement.scratch)
        gate.send(json.dumps({"layers": layers}).encode())
    serve(socket.socket(fileno=channel), arena, request["settings"], layers)


def _standard_streams(descriptors: tuple[int, int, int, int]) -> tuple[int, int, int]:
    """Put the output pipe on 1 and 2 and nothing on 0, close all that a worker has no use for; give the others."""
    high = [os.dup2(descriptor, 200 + place, inheritable=False) for place, descriptor in enumerate(descriptors)]
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(high[2], 1)
    os.dup2(high[2], 2)
    moved = [os.dup2(descriptor, 3 + place, inheritable=False) for place, descriptor in enumerate(high)]
    os.close(moved[2])
    os.closerange(3 + len(moved), os.sysconf("SC_OPEN_MAX"))
    return moved[0], moved[1], moved[3]
