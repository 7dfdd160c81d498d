"""What this machine and this installation offer; ``kforge doctor`` shows it. Imports no torch."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from attrs import field, frozen

import kforge
from kforge import device
from kforge.building import build
from kforge.disk import CACHE
from kforge.errors import KforgeError
from kforge.interfaces import CompilerPlugin
from kforge.judge.client import cache_folder
from kforge.manager import Manager, Provided
from kforge.records import Availability, DeviceFacts, Isolation, Version
from kforge.store import HOME, Store

_CPU = "cpu"


@frozen
class Check:
    """One thing that may be here."""

    name: str
    detail: str = field(kw_only=True)
    """What was found, or what is wrong."""
    available: Availability = field(kw_only=True)


@frozen
class Health:
    """All that was looked at."""

    checks: tuple[Check, ...]
    targets: tuple[Check, ...] = field(kw_only=True)
    """Each language on each of its devices."""
    device: DeviceFacts = field(kw_only=True)
    isolation: Isolation | None = field(kw_only=True)

    @property
    def can_judge(self) -> bool:
        """Whether some target can be judged here."""
        needed = all(one.available.ok for one in self.checks if one.name in {"Linux", "Python", "torch"})
        return needed and any(one.available.ok for one in self.targets)


def examine(plugins: Manager) -> Health:
    """Look at everything; what fails is recorded, nothing is raised."""
    facts = device.facts(_CPU, plugins)
    checks = (_system(), _python(), _torch(), _cpp(), _store(), _cache(), _cpu(facts), *_plugins(plugins))
    offered = [one for one in plugins.offered() if isinstance(one.record, CompilerPlugin)]
    targets = tuple(_target(one, kind) for one in offered for kind in one.record.devices)
    return Health(checks, targets=targets, device=facts, isolation=_isolation())


def _system() -> Check:
    ok = sys.platform == "linux"
    available = Availability(ok=ok, hint=None if ok else "run KForge on Linux; candidates cannot be isolated elsewhere")
    return Check("Linux", detail=f"{platform.system()} {platform.release()}", available=available)


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    available = Availability(ok=ok, hint=None if ok else "install Python 3.11 or newer")
    return Check("Python", detail=f"{platform.python_version()} at {sys.executable}", available=available)


def _torch() -> Check:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        hint = 'pip install "torch>=2.8"'
        return Check("torch", detail="not installed", available=Availability(ok=False, hint=hint))
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    ok = numbers >= (2, 8)
    available = Availability(ok=ok, hint=None if ok else 'pip install --upgrade "torch>=2.8"')
    return Check("torch", detail=version, available=available)


def _cpp() -> Check:
    named = os.environ.get("CXX", "").split()
    found = next((path for name in (*named[:1], "c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if found is None:
        hint = "install one, such as: apt install g++ (torch.compile on a CPU and some languages need it)"
        return Check("C++ compiler", detail="none on PATH", available=Availability(ok=False, hint=hint))
    return Check("C++ compiler", detail=found, available=Availability(ok=True))


def _store() -> Check:
    store = Store()
    found = _folder("store", store.home, HOME)
    if not found.available.ok:
        return found
    try:
        store.runs()
    except KforgeError as error:
        return Check("store", detail=error.message, available=Availability(ok=False, hint=error.hint))
    return found


def _cache() -> Check:
    return _folder("cache", cache_folder(), CACHE)


def _folder(name: str, path: Path, variable: str) -> Check:
    """Check that files can be made there, and make none that stays."""
    folder = path
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        hint = f"make it writable, or use another folder: {variable}=FOLDER"
        detail = f"{path} cannot be written: {error.strerror}"
        return Check(name, detail=detail, available=Availability(ok=False, hint=hint))
    return Check(name, detail=str(path), available=Availability(ok=True))


def _cpu(facts: DeviceFacts) -> Check:
    parts = [facts.name, f"{facts.cores} cores"]
    if facts.memory_bytes:
        parts.append(f"{facts.memory_bytes / 2**30:.1f} GiB")
    if facts.last_level_cache_bytes:
        parts.append(f"last-level cache {facts.last_level_cache_bytes / 2**20:.0f} MiB")
    return Check("device cpu", detail=", ".join(parts), available=Availability(ok=True))


def _plugins(plugins: Manager) -> list[Check]:
    found = [
        Check(f"plugin {source.entry_point}", detail=str(source), available=Availability(ok=True))
        for source in plugins.sources
    ]
    for broken in plugins.broken:
        available = Availability(ok=False, reason=broken.reason, hint=broken.remedy)
        name = f"plugin {broken.source.entry_point}"
        found.append(Check(name, detail=f"{broken.source}: {broken.reason}", available=available))
    for conflict in plugins.conflicts:
        available = Availability(ok=False, reason=conflict.message, hint=conflict.remedy)
        found.append(Check(f"{conflict.kind} {conflict.name}", detail=conflict.message, available=available))
    return found


def _target(provided: Provided[CompilerPlugin], kind: str) -> Check:
    name = f"{provided.record.language}@{kind}"
    try:
        # Any device includes the CPU, the one that can be asked for without importing torch.
        available = build(provided.record, provided.source).available(_CPU if kind == "*" else kind)
    except KforgeError as error:
        available = Availability(ok=False, reason=error.message, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - a plugin's bug must not hide what the others can do
        reason = f"{provided.source} raised {type(error).__name__}: {error}"
        available = Availability(ok=False, reason=reason, hint=f"pip install --upgrade {provided.source.distribution}")
    said = ", ".join(f"{one.name} {one.version}" for one in available.versions) or provided.record.summary
    return Check(name, detail=said if available.ok else available.reason or "not available", available=available)


def _isolation() -> Isolation | None:
    try:
        from kforge.judge.isolation import probe
    except ImportError:
        return None
    return probe()


def versions(plugins: Manager) -> tuple[Version, ...]:
    """Give the versions that a run's result depends on: KForge, Python, torch, and the plugins."""
    found = {"kforge": kforge.__version__, "python": platform.python_version()}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["torch"] = importlib.metadata.version("torch")
    found |= {source.distribution: source.version for source in plugins.sources}
    return tuple(Version(name, version=version) for name, version in found.items())
