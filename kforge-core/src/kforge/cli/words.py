"""Results as JSON data, in the words of the command line's contract (docs/reference/json.md)."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from kforge.events import Run
from kforge.interfaces import CompilerPlugin, DevicePlugin
from kforge.manager import Provided, Source, name_of
from kforge.records import Attempt, Isolation, Judgement, Measurement, Times, Verdict, Version
from kforge.serialize import to_plain

Data = dict[str, Any]


def versions(found: Iterable[Version]) -> Data:
    """Give versions by name."""
    return {one.name: one.version for one in found}


def measurement(found: Measurement | None) -> Data | None:
    """Give times and speed-ups; all times in seconds a call."""
    if found is None:
        return None
    ratio = found.ratio
    return {
        "speedup": ratio.speedup,
        "speedup_interval": [ratio.interval.low, ratio.interval.high],
        "baseline": found.baseline,
        "candidate_s": found.candidate.median_s,
        "baselines_s": {one.name: one.median_s for one in found.baselines},
        "times": [_times(one) for one in (found.candidate, *found.baselines)],
        "ratios": to_plain(found.ratios),
        "stable": found.stable,
        "notes": list(found.notes),
        "device": to_plain(found.device),
        "versions": versions(found.versions),
        "precision": found.precision.value,
        "library_allowed": found.library_allowed,
    }


def _times(found: Times) -> Data:
    plain: Data = to_plain(found)
    return plain


def isolation(found: Isolation | None) -> Data | None:
    """Give the layers in use and those that are missing, each with the reason."""
    if found is None:
        return None
    return {"used": list(found.used), "missing": [{"name": one.name, "reason": one.reason} for one in found.missing]}


def verdict(found: Verdict) -> Data:
    """Give verdict, findings, and the reason where there is no verdict."""
    return {
        "verdict": None if found.status is None else found.status.value,
        "reason": found.reason,
        "findings": to_plain(found.findings),
    }


def judgement(found: Judgement) -> Data:
    """Give all that was found out about a candidate."""
    return {
        **verdict(found.verdict),
        "candidate": found.candidate,
        "build": to_plain(found.build),
        "measurement": measurement(found.measurement),
        "isolation": isolation(found.isolation),
        "seconds": found.seconds,
    }


def attempt(found: Attempt) -> Data:
    """Give one pass."""
    origin = found.candidate.origin
    return {
        "number": found.number,
        "kind": None if origin.pass_kind is None else origin.pass_kind.value,
        "note": found.note,
        "kept": found.kept,
        "parameters": dict(origin.parameters),
        "against_best": to_plain(found.judgement.against_best),
        **judgement(found.judgement),
    }


def run(found: Run) -> Data:
    """Give a run; ``outcome`` is null while it runs, or when it was killed."""
    best = found.best
    path = None if found.finished is None else found.finished.path
    return {
        "run": found.id,
        "started": moment(found.started_at),
        "seconds": found.last_at - found.started_at,
        "problem": found.started.problem,
        "target": str(found.started.target),
        "agent": found.started.agent,
        "options": dict(found.started.options),
        "versions": versions(found.started.versions),
        "outcome": None if found.outcome is None else found.outcome.value,
        "reason": (found.finished.reason if found.finished else None) or found.stopped,
        "best": None if best is None else {"number": best.number, "path": path, **judgement(best.judgement)},
        "attempts": [attempt(one) for one in found.attempts],
    }


def moment(at: float) -> str:
    """Write a time (seconds since 1970) as ISO 8601 in UTC."""
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).isoformat(timespec="seconds")


def source(found: Source) -> Data:
    """Say where a plugin comes from."""
    return {"distribution": found.distribution, "version": found.version, "entry_point": found.entry_point}


def provided(found: Provided[Any]) -> Data:
    """Give one record of a plugin."""
    record = found.record
    kind = type(record).__name__.removesuffix("Plugin").lower()
    devices: tuple[str, ...] = ()
    if isinstance(record, CompilerPlugin):
        devices = record.devices
    elif isinstance(record, DevicePlugin):
        devices = (record.kind,)
    return {"kind": kind, "name": name_of(record), "summary": record.summary, "devices": list(devices)}
