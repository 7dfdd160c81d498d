"""One thread of the judge for all workers: reads what they print, and kills those past a limit."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from collections.abc import Container
from contextlib import suppress
from typing import Final, Literal

from kforge.judge import _processes

TAIL: Final = 64 * 1024
"""Bytes of output that are kept."""
_EVERY_S: Final = 0.1
"""Seconds between looks: often enough beside RLIMIT_DATA, and too rare to be seen in a time."""
_AT_ONCE: Final = 65536


class Kept:
    """What the thread knows of one worker."""

    def __init__(self, pid: int, descriptor: int, output: int, memory_bytes: int, arena: os.stat_result) -> None:
        self.pid = pid
        self.deadline: float | None = None
        """Monotonic seconds; past it the worker is killed."""
        self.killed_because: Literal["memory", "deadline"] | None = None
        self.closed = False
        self._descriptor = descriptor
        self._output = output
        self._memory_bytes = memory_bytes
        self._arena = arena
        self._tail = bytearray()
        self._lock = threading.Lock()

    def read(self) -> bool:
        """Take what is there to read; False at the end of the output."""
        with self._lock:
            if self.closed:
                return False
            try:
                data = os.read(self._output, _AT_ONCE)
            except BlockingIOError:
                return True
            self._tail += data
            del self._tail[:-TAIL]
            return bool(data)

    def text(self) -> str:
        """Give the tail of the output, with what is in the pipe now."""
        if not self.closed:
            for _ in range(TAIL // 4096):
                before = len(self._tail)
                if not self.read() or len(self._tail) == before:
                    break
        with self._lock:
            return self._tail.decode("utf-8", "replace")

    def look(self, now: float) -> None:
        """Kill the worker if it is past a limit."""
        if self.killed_because is not None:
            return
        if self.deadline is not None and now > self.deadline:
            self._end("deadline")
        elif _processes.held_bytes(self.pid, self._arena) > self._memory_bytes:
            self._end("memory")

    def _end(self, reason: Literal["memory", "deadline"]) -> None:
        with self._lock:
            if not self.closed:
                self.killed_because = reason
                with suppress(OSError):
                    signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Close the pipe; called by the keeper."""
        with self._lock:
            self.closed = True
            os.close(self._output)


class Keeper:
    """The thread; it starts with the first worker and sleeps while there is none."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._kept: dict[int, Kept] = {}
        self._lock = threading.Lock()
        self._any = threading.Event()
        threading.Thread(target=self._run, name="keeper", daemon=True).start()

    def add(self, pid: int, descriptor: int, output: int, memory_bytes: int, arena: os.stat_result) -> Kept:
        """Take over a worker and the reading end of its output."""
        os.set_blocking(output, False)
        kept = Kept(pid, descriptor, output, memory_bytes, arena)
        with self._lock:
            self._kept[output] = kept
            self._selector.register(output, selectors.EVENT_READ, kept)
            self._any.set()
        return kept

    def remove(self, kept: Kept) -> None:
        """Let go of a worker that has ended, after a last look at its output."""
        kept.text()
        with self._lock:
            for output in [output for output, other in self._kept.items() if other is kept]:
                del self._kept[output]
                with suppress(KeyError):
                    self._selector.unregister(output)
                kept.close()
            if not self._kept:
                self._any.clear()

    def pids(self) -> Container[int]:
        """Give the workers that are kept."""
        with self._lock:
            return {kept.pid for kept in self._kept.values()}

    def _run(self) -> None:
        next_look = 0.0
        while True:
            self._any.wait()
            for key, _ in self._selector.select(_EVERY_S):
                if not key.data.read():
                    with self._lock, suppress(KeyError):
                        self._selector.unregister(key.fileobj)
            now = time.monotonic()
            if now >= next_look:
                next_look = now + _EVERY_S
                with self._lock:
                    everyone = list(self._kept.values())
                for kept in everyone:
                    kept.look(now)


_keeper: Keeper | None = None


def keeper() -> Keeper:
    """Give the judge's one keeper."""
    global _keeper  # noqa: PLW0603 - one thread for a process, made when first needed
    if _keeper is None:
        _keeper = Keeper()
    return _keeper
