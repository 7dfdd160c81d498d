"""A zygote, ``python -m kforge.judge.zygote FD``, and the judge's side of it.

The judge starts it with a clean environment and has it fork workers; what runs in it is in `kforge.judge._zygote`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from kforge.errors import HarnessError
from kforge.judge import _linux, _zygote
from kforge.judge.isolation import Confinement
from kforge.judge.process import WorkerProcess
from kforge.records import Isolation, Layer

INHERITED: Final = ("PATH", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "CC", "CXX")
"""All that comes from the person's environment: where programs and libraries lie, and what compilers to use."""
FIXED: Final = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    # One thread in the zygote: numpy's library starts its own at import otherwise, and forks would inherit its locks.
    "OPENBLAS_NUM_THREADS": "1",
    # Huge pages on the heap: far fewer page faults, and less luck for each process.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_START_S: Final = 120.0
"""Seconds for the imports of a zygote."""
_SPAWN_S: Final = 20.0
"""Seconds from the request to a confined worker."""


class Zygote:
    """One zygote process. Start it from a thread that lives as long: its end would end the zygote and all workers."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, warnings: tuple[str, ...]) -> None:
        self._process = process
        self._control = control
        self.warnings = warnings
        """What may make its workers hang, such as threads that an import started."""

    @classmethod
    def start(
        cls,
        environment: Mapping[str, str] | None = None,
        imports: Iterable[str] = ("torch",),
        path: Sequence[str] | None = None,
        scratch: Path | None = None,
        *,
        serve: str = "kforge.judge.worker:serve",
    ) -> Zygote:
        """Start one; before its first worker it needs `wait_ready`, which entering it as a context manager does.

        ``environment`` is what a compiler needs on top of the clean one; ``path`` is ``sys.path``, by default this
        process's; ``scratch`` a folder for what imports write.
        """
        _linux.become_subreaper()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        clean = {name: os.environ[name] for name in INHERITED if name in os.environ}
        clean |= {} if scratch is None else {"HOME": str(scratch), "TMPDIR": str(scratch)}
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-B", "-u", "-m", "kforge.judge.zygote", str(theirs.fileno())],
                env={**clean, **FIXED, **(environment or {})},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
            )
        started = cls(process, ours, ())
        folders = [folder for folder in (sys.path if path is None else path) if folder.startswith("/")]
        _zygote.send(ours, {"path": folders, "imports": list(imports), "serve": serve}, ())
        return started

    def wait_ready(self) -> None:
        """Wait for its imports; raises `HarnessError` when one fails."""
        self.warnings = tuple(self._answer(_START_S)["warnings"])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def spawn(
        self,
        settings: Mapping[str, Any],
        confinement: Confinement,
        arena_fd: int,
        *,
        memory_bytes: int | None = None,
    ) -> WorkerProcess:
        """Fork a worker, confined and ready to serve.

        ``memory_bytes`` is the memory, private and shared, that it and its children may hold; by default its
        ``data_bytes``.
        Raises `HarnessError` when it cannot be started.
        """
        ours, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        gate, start = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        request = {"settings": dict(settings), "confinement": confinement.to_json()}
        worker = None
        try:
            try:
                answer = self._ask(request, (channel.fileno(), arena_fd, writer, start.fileno()), _SPAWN_S)
            finally:
                channel.close()
                start.close()
                os.close(writer)
            worker = WorkerProcess(
                answer["pid"], ours, reader, memory_bytes=memory_bytes or confinement.data_bytes,
                arena=os.fstat(arena_fd),
            )  # fmt: skip
            worker.layers = _release(gate)
        except BaseException as error:
            if worker is None:
                ours.close()
                os.close(reader)
            else:
                worker.kill()
                if isinstance(error, HarnessError):
                    error.message += "\n" + worker.output_tail()
            raise
        finally:
            gate.close()
        return worker

    def close(self) -> None:
        """End it; its workers go on, and are the judge's to kill."""
        self._control.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Zygote:
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, packet: _zygote.Packet, descriptors: Sequence[int], seconds: float) -> _zygote.Packet:
        try:
            self._control.settimeout(seconds)
            _zygote.send(self._control, packet, descriptors)
        except OSError as error:
            raise HarnessError(f"the zygote cannot be reached: {error}") from None
        return self._answer(seconds)

    def _answer(self, seconds: float) -> _zygote.Packet:
        try:
            self._control.settimeout(seconds)
            answer, _ = _zygote.receive(self._control)
        except TimeoutError:
            raise HarnessError(f"the zygote did not answer within {seconds:g} s") from None
        except OSError as error:
            raise HarnessError(f"the zygote cannot be reached: {error}") from None
        if answer is None:
            raise HarnessError("the zygote ended")
        if "failed" in answer:
            raise HarnessError(f"the zygote failed:\n{answer['failed']}")
        return answer


def _release(gate: socket.socket) -> Isolation:
    """Let the worker go on, now that this process is its parent, and wait until it is confined."""
    gate.settimeout(_SPAWN_S)
    try:
        gate.send(b"g")
        data = gate.recv(_zygote.PACKET)
    except OSError as error:
        raise HarnessError(f"a worker did not start: {error}") from None
    if not data:
        raise HarnessError("a worker ended before it was confined")
    answer = json.loads(data)
    if "failed" in answer:
        raise HarnessError(f"a worker could not be confined:\n{answer['failed']}")
    return Isolation(tuple(Layer(x["name"], used=x["used"], reason=x["reason"]) for x in answer["layers"]))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the judge's to handle
    with socket.socket(fileno=int(sys.argv[1])) as judge:
        _zygote.main(judge)
