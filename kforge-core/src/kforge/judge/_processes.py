"""Facts about processes from /proc, and the end of a whole tree of them."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROUNDS: Final = 50
"""A process that forks faster than it is killed is given up after so many rounds."""


def descendants(pid: int) -> list[int]:
    """Give all processes below one, dead ones that nobody has reaped included."""
    found: list[int] = []
    pending = [pid]
    while pending:
        parent = pending.pop()
        try:
            tasks = os.listdir(f"/proc/{parent}/task")  # noqa: PTH208 - names only, and this one is timed
        except OSError:
            continue
        for task in tasks:
            with suppress(OSError):
                text = Path(f"/proc/{parent}/task/{task}/children").read_text(encoding="ascii")
                new = [int(child) for child in text.split()]
                found += new
                pending += new
    return found


def _state(pid: int) -> str:
    """Give the letter of a process's state; X when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"


def stopped(pid: int) -> bool:
    """Say whether a process is stopped."""
    return _state(pid) == "T"


def living(pids: Iterable[int]) -> list[int]:
    """Leave out those that have ended and only wait to be reaped."""
    return [pid for pid in pids if _state(pid) not in "ZX"]


def held_bytes(pid: int, arena: os.stat_result) -> int:
    """Give the memory that a process and those below it hold, bytes: private, shared, and in files without a name.

    The arena is not counted, but for pages of it that were written. Memory that several of them share counts for each.
    """
    total = 0
    unnamed: dict[tuple[int, int], int] = {}
    for process in [pid, *descendants(pid)]:
        with suppress(OSError, ValueError):
            lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
            sizes = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
            private, shared = (1024 * int(sizes.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem"))
            total += private + max(0, shared - arena.st_size)
        with suppress(OSError):
            for name in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208 - names only
                with suppress(OSError):
                    found = os.stat(f"/proc/{process}/fd/{name}")  # noqa: PTH116 - one call, ten times a second
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink and not os.path.samestat(found, arena):
                        unnamed[found.st_dev, found.st_ino] = found.st_blocks * 512
    return total + sum(unnamed.values())


def _marks(pid: int | str) -> tuple[str, ...]:
    """Give what a process can neither lose nor hide: no_new_privs and its number of filters."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line for line in lines if line.startswith(("NoNewPrivs:", "Seccomp_filters:")))


def adopted(known: Container[int]) -> list[int]:
    """Give the children of this process that came from workers: confined ones that are not ``known``."""
    strays = []
    own = _marks("self")
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - names only
        with suppress(OSError):
            text = Path(f"/proc/self/task/{task}/children").read_text(encoding="ascii")
            for child in map(int, text.split()):
                with suppress(OSError):
                    if child not in known and _marks(child) != own:
                        strays.append(child)
    return strays


def kill_tree(pid: int, descriptor: int) -> None:
    """Kill a process and all below it; a PID namespace does that by itself, but not every machine has one."""
    for _ in range(_ROUNDS):
        # Stopped, it cannot fork while its children are killed, and its orphans stay its own.
        _send(descriptor, signal.SIGSTOP)
        below = living(descendants(pid))
        if not below:
            break
        for child in below:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
    _send(descriptor, signal.SIGKILL)


def kill_below(pid: int) -> None:
    """Kill all that lives below a process, and what is forked or adopted meanwhile."""
    for _ in range(_ROUNDS):
        below = living(descendants(pid))
        if not below:
            return
        for child in below:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def kill_all(pids: Iterable[int]) -> None:
    """Kill and reap adopted children, and those below them."""
    for pid in pids:
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                kill_tree(pid, descriptor)
                os.waitpid(pid, 0)
            finally:
                os.close(descriptor)


def _send(descriptor: int, number: int) -> None:
    with suppress(OSError):
        signal.pidfd_send_signal(descriptor, number)
