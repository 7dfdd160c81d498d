"""What a session is asked for, and what its compiler prepares: without torch, whose import may run beside it."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from kforge.building import build
from kforge.errors import MissingError
from kforge.interfaces import Compiler, WorkerSetup
from kforge.manager import Manager, load
from kforge.records import Limits, Precision, Target


@frozen
class Options:
    """What a session is asked for."""

    target: Target
    precision: Precision | None = field(default=None, kw_only=True)
    allow_library: bool = field(default=False, kw_only=True)
    limits: Limits = field(factory=Limits, kw_only=True)
    compiled: bool = field(default=True, kw_only=True)
    """Whether torch.compile is a baseline; without it a session starts in seconds, and times say less."""
    pairs: int = field(default=3, kw_only=True)
    """Pairs of processes that a candidate is timed in."""
    thorough: bool = field(default=True, kw_only=True)
    """Whether up to twice as many pairs are timed while an interval is wide."""
    scratch: Path = field(kw_only=True)
    cache: Path = field(kw_only=True)


@frozen
class Prepared:
    """A compiler whose tools are ready, and what it asks of workers."""

    plugins: Manager
    compiler: Compiler
    setup: WorkerSetup


def prepare(options: Options) -> Prepared:
    """Find the target's compiler and let it prepare; raises `KforgeError`. The first time this may run a compiler."""
    target, plugins = options.target, load()
    provided = plugins.compiler(target)
    compiler = build(provided.record, provided.source)
    here = compiler.available(target.device)
    if not here.ok:
        raise MissingError(f"{target} cannot be built here: {here.reason}", hint=here.hint)
    return Prepared(plugins, compiler, compiler.prepare(options.cache / target.language))
