"""One worker as the judge sees it: freeze, read, count its children, kill. One thread at a time drives it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal

from attrs import frozen

from kforge.judge import _linux, _processes
from kforge.judge._keeper import Kept, keeper
from kforge.records import Isolation

_KILL_S: Final = 10.0
"""Seconds until a killed process is given up: one that hangs in a driver cannot be reaped."""


@frozen
class Exit:
    """How a process ended: a status, or the name of a signal."""

    status: int | None = None
    signal: str | None = None


class NotStopped(Exception):  # noqa: N818 - a fact about a worker that the judge turns into a finding
    """The worker did not stop within the deadline, or has ended; it is dead now."""


class Unreadable(Exception):  # noqa: N818 - as above
    """The worker's memory cannot be read; ``errno`` says why (EFAULT, EPERM or ESRCH)."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.errno = error.errno


class WorkerProcess:
    """A worker, the judge's own child; always use it as a context manager or call `kill`."""

    def __init__(self, pid: int, sock: socket.socket, output: int, *, memory_bytes: int, arena: os.stat_result) -> None:
        self.pid = pid
        self.sock = sock
        """Stream socket to the worker, for a `kforge.judge.protocol.Channel`."""
        self.layers = Isolation(())
        self._exit: Exit | None = None
        self._frozen = False
        self._descriptor = os.pidfd_open(pid)
        self._kept: Kept = keeper().add(pid, self._descriptor, output, memory_bytes, arena)

    @property
    def killed_because(self) -> Literal["memory", "deadline"] | None:
        """Why the judge's own watchdog killed it, if it did."""
        return self._kept.killed_because

    def freeze(self, deadline_s: float) -> None:
        """Stop all its threads, and wait until the kernel says so; raises `NotStopped` after ``deadline_s`` seconds."""
        if self._exit is not None:
            raise NotStopped("it has ended")
        if self._frozen and _processes.stopped(self.pid):
            return  # a second stop would not be reported
        # The watchdog's kill ends this wait: a wait that polls would be five times slower than the stop itself.
        self._kept.deadline = time.monotonic() + deadline_s
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGSTOP)
            pid, status = os.waitpid(self.pid, os.WUNTRACED)
        except OSError as error:
            raise NotStopped(str(error)) from None
        finally:
            self._kept.deadline = None
        if pid and os.WIFSTOPPED(status):
            self._frozen = True
            return
        self._exit = _exit(status)
        raise NotStopped("its stop was not confirmed in time" if self.killed_because else "it has ended")

    def thaw(self) -> None:
        """Let it go on; does nothing to one that has ended."""
        self._frozen = False
        with suppress(OSError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)

    def children(self) -> int:
        """Count its living descendants."""
        return len(_processes.living([*_processes.descendants(self.pid), *self._strays()]))

    def read(self, address: int, buffer: bytearray | memoryview) -> None:
        """Fill ``buffer`` from its memory; raises `Unreadable`."""
        self.read_many([(address, memoryview(buffer).nbytes)], buffer)

    def read_many(self, ranges: Sequence[tuple[int, int]], buffer: bytearray | memoryview) -> None:
        """Copy (address, bytes) ranges one after the other into ``buffer``, by 1024 a system call.

        Raises `Unreadable`, and ValueError when the buffer is too small or cannot be written.
        """
        size = sum(length for _, length in ranges)
        if size > memoryview(buffer).nbytes:
            raise ValueError(f"{size} bytes do not fit into the buffer")
        if size == 0:
            return
        target = (ctypes.c_char * size).from_buffer(buffer)
        try:
            _linux.read_memory(self.pid, ranges, ctypes.addressof(target))
        except OSError as error:
            raise Unreadable(error) from None

    def exited(self) -> Exit | None:
        """Say how it ended, or None while it lives; does not wait."""
        if self._exit is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self._exit = Exit()
            else:
                if pid:
                    self._exit = _exit(status)
        return self._exit

    def wait(self, timeout_s: float) -> Exit | None:
        """Wait for its end, for ``timeout_s`` seconds at most."""
        if self._exit is None:
            select.select([self._descriptor], [], [], timeout_s)
        return self.exited()

    def output_tail(self) -> str:
        """Give the last 64 KiB that it printed."""
        return self._kept.text()

    def kill(self) -> None:
        """Kill it and all below it, and reap; may be called twice and never raises."""
        if self._kept.closed:
            return
        _processes.kill_tree(self.pid, self._descriptor)
        self.wait(_KILL_S)
        _processes.kill_all(self._strays())
        keeper().remove(self._kept)
        self.sock.close()
        os.close(self._descriptor)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _strays(self) -> list[int]:
        """Give descendants that the judge has adopted, which happens without a PID namespace only."""
        if not self.layers.layers or "pid namespace" in self.layers.used:
            return []
        return _processes.adopted(keeper().pids())


def become_subreaper() -> None:
    """Make this process the parent of workers, whose parents end before they start."""
    _linux.become_subreaper()


def end_all() -> None:
    """Kill every process below this one, zygotes and workers included; for the judge's own end, from any thread."""
    _processes.kill_below(os.getpid())


def _exit(status: int) -> Exit:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return Exit(signal=signal.Signals(number).name)
        except ValueError:
            return Exit(signal=f"signal {number}")
    return Exit(status=os.WEXITSTATUS(status))
