"""What tests of hostile workers share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kforge.judge.process import WorkerProcess

Spawn = Callable[..., WorkerProcess]
SERVE = "tests.core.hostile:serve"
SLEEP = "say(1)\nimport time\ntime.sleep(60)"


def hear(worker: WorkerProcess) -> Any:
    """Give the next value that the worker says."""
    with worker.sock.makefile("rb") as stream:
        return json.loads(stream.readline())


def alive(pid: int | str) -> bool:
    """Say whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def still_alive(pids: Iterable[int | str], seconds: float = 10) -> list[int | str]:
    """Give those that live after so many seconds."""
    deadline = time.monotonic() + seconds
    left = [pid for pid in pids if alive(pid)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [pid for pid in left if alive(pid)]
    return left
