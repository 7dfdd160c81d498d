"""What the scripts of this folder share: the form of a result file, which README.md beside this file describes."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kforge.device import generic_facts

PACKAGES = ("kforge-core", "kforge-xpu", "torch", "numpy", "intel-sycl-rt", "intel-opencl-rt")


def entry(name: str, values: Sequence[float], unit: str) -> dict[str, Any]:
    """Sum up values: count, median, and the range from the 10th to the 90th percentile."""
    ordered = sorted(values)
    tenth = len(ordered) // 10
    return {
        "name": name, f"median_{unit}": statistics.median(ordered), "count": len(ordered), "interval": 0.8,
        "low": ordered[tenth], "high": ordered[-1 - tenth],
    }  # fmt: skip


def write(path: Path, command: str, results: Sequence[dict[str, Any]], remarks: str = "") -> None:
    """Write a result file; entries of other names that it held stay, each with its own date."""
    held = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    names = {one["name"] for one in results}
    facts = generic_facts("cpu")
    result = {
        "date": today,
        "versions": _versions(),
        "device": {
            "name": facts.name, "cores": facts.cores, "last_level_cache_bytes": facts.last_level_cache_bytes,
            "memory_bytes": facts.memory_bytes, "system": f"{platform.system()} {platform.release()}",
        },
        "command": command,
        "remarks": remarks,
        "results": [one for one in held if one["name"] not in names] + [{"date": today, **one} for one in results],
    }  # fmt: skip
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    found["commit"] = commit.stdout.strip() or "no checkout"
    return found
