"""What is known of a device without any plugin: the CPU from the system's files, others from torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kforge.building import build
from kforge.errors import MissingError
from kforge.manager import Manager
from kforge.records import Availability, DeviceFacts, Target

_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}
# Widths of vector registers in bytes, the widest first.
_VECTORS = (("avx512f", 64), ("avx2", 32), ("avx", 32), ("sse2", 16), ("asimd", 16))


def generic_facts(kind: str, *, index: int | None = None) -> DeviceFacts:
    """Give what the system says about a device of torch's type ``kind``.

    Imports torch unless ``kind`` is ``cpu``; raises `MissingError` when there is no such device.
    """
    return _cpu_facts() if kind == "cpu" else _accelerator_facts(kind, index or 0)


def facts(kind: str, plugins: Manager, *, index: int | None = None) -> DeviceFacts:
    """Give the generic facts, enriched by each device plugin that says its device is here."""
    known = generic_facts(kind, index=index)
    for provided in plugins.devices(kind):
        device = build(provided.record, provided.source)
        if device.available().ok:
            known = device.enrich(known)
    return known


def is_here(kind: str, *, index: int | None = None) -> Availability:
    """Say whether torch sees a device of type ``kind``; imports torch unless it is ``cpu``."""
    if kind == "cpu":
        if index:
            return Availability(ok=False, reason=f"there is one device cpu, not cpu:{index}", hint="write it as cpu")
        return Availability(ok=True)
    import torch

    hint = "`kforge doctor` lists what is here; each kind of device needs its driver and a torch built for it"
    present = torch.accelerator.current_accelerator(check_available=True)
    if present is None or present.type != kind:
        here = "cpu" if present is None else f"cpu and {present.type}"
        return Availability(ok=False, reason=f"torch sees no device {kind!r} here; it sees {here}", hint=hint)
    count = torch.accelerator.device_count()
    if (index or 0) >= count:
        return Availability(ok=False, reason=f"there is no {kind}:{index}; {kind} has {count} device(s)", hint=hint)
    return Availability(ok=True)


def require(target: Target) -> None:
    """Raise `MissingError` when the target's device is not here."""
    found = is_here(target.device, index=target.index)
    if not found.ok:
        raise MissingError(found.reason or f"there is no device {target.device!r}", hint=found.hint)


def _accelerator_facts(kind: str, index: int) -> DeviceFacts:
    import torch

    found = is_here(kind, index=index)
    if not found.ok:
        raise MissingError(found.reason or f"there is no device {kind!r}", hint=found.hint)
    properties = torch.get_device_module(kind).get_device_properties(index)
    return DeviceFacts(
        str(getattr(properties, "name", kind)),
        kind=kind,
        cores=getattr(properties, "multi_processor_count", None),
        memory_bytes=getattr(properties, "total_memory", None),
        last_level_cache_bytes=getattr(properties, "L2_cache_size", None),
        max_group_size=getattr(properties, "max_threads_per_block", None),
    )


def _cpu_facts() -> DeviceFacts:
    about = _read(_CPUINFO)
    name = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", about, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", about, re.MULTILINE)
    words = set(flags[1].split()) if flags else set()
    memory = re.search(r"^MemTotal:\s*([0-9]+) kB$", _read(_MEMINFO), re.MULTILINE)
    return DeviceFacts(
        name[1].strip() if name else "CPU",
        kind="cpu",
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=int(memory[1]) * 1024 if memory else None,
        last_level_cache_bytes=_last_level_cache(),
        vector_bytes=next((width for flag, width in _VECTORS if flag in words), None),
    )


def _last_level_cache() -> int | None:
    """Give the size in bytes of the cache of the highest level that holds data."""
    found: list[tuple[int, int]] = []
    for folder in _CACHES.glob("index*"):
        level, size = _read(folder / "level").strip(), _read(folder / "size").strip()
        match = re.fullmatch(r"([0-9]+)([KMG]?)", size)
        if level.isdigit() and match and _read(folder / "type").strip() != "Instruction":
            found.append((int(level), int(match[1]) * _UNITS.get(match[2], 1)))
    return max(found)[1] if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
