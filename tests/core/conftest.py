"""Workers that run text which a test sends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge.judge.isolation import Confinement
from kforge.judge.process import WorkerProcess
from kforge.judge.zygote import Zygote
from tests.core.workers import SERVE, Spawn


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote.start(imports=[], serve=SERVE, path=[*sys.path, str(Path.cwd())]) as started:
        yield started


@pytest.fixture
def spawn_as_asked(zygote: Zygote, tmp_path: Path) -> Iterator[Spawn]:
    """Start workers in whatever isolation ``layers`` gives; their code must be harmless without any."""
    arena = os.memfd_create("arena")
    os.ftruncate(arena, 4096)
    workers: list[WorkerProcess] = []

    def start(code: str, *, memory: int = 2**30, arena_fd: int = arena, **limits: Any) -> WorkerProcess:
        scratch = tmp_path / f"scratch{len(workers)}"
        scratch.mkdir()
        confinement = Confinement(str(scratch), scratch_bytes=2**24, data_bytes=2**32, **limits)
        worker = zygote.spawn({"code": code}, confinement, arena_fd, memory_bytes=memory)
        worker.sock.settimeout(20)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.kill()
    os.close(arena)


@pytest.fixture
def spawn(whole_isolation: None, spawn_as_asked: Spawn) -> Spawn:
    return spawn_as_asked
