"""Measures the judge itself on a CPU: worker start, round trip, cost of a pair of processes, and A/A.

A/A: one kernel judged against itself, thirty times. Writes a JSON file beside this script.

    python docs/benchmarks/judge_cpu.py [--repeats 30] [--output docs/benchmarks/judge_cpu.json]
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kforge.device import generic_facts
from kforge.judge.client import cache_folder
from kforge.judge.session import Options, Session
from kforge.records import Candidate, Origin, Target

EXAMPLES = Path(__file__).parent.parent / "examples"


def spread(values: list[float], unit: str) -> dict[str, Any]:
    """Sum up with count, median and the 10th and 90th percentile."""
    ordered = sorted(values)
    tenth = len(ordered) // 10
    return {
        "unit": unit,
        "count": len(ordered),
        "median": statistics.median(ordered),
        "p10": ordered[tenth],
        "p90": ordered[-1 - tenth],
    }


def starts(session: Session, count: int = 20) -> dict[str, Any]:
    """Time a confined worker's start, its null round trips, and stopping it."""
    workshop = session._open()
    start_ms, trip_us, stop_us, kill_ms = [], [], [], []
    for _ in range(count):
        begun = time.perf_counter()
        program = workshop.spawn("candidate", {}, warm=0)
        program.wait_ready()
        start_ms.append(1e3 * (time.perf_counter() - begun))
        for _ in range(200):
            begun = time.perf_counter()
            program.ask("ping", 10.0)
            trip_us.append(1e6 * (time.perf_counter() - begun))
        for _ in range(50):
            begun = time.perf_counter()
            program.freeze()
            stop_us.append(1e6 * (time.perf_counter() - begun))
            program.thaw()
        begun = time.perf_counter()
        program.__exit__()
        kill_ms.append(1e3 * (time.perf_counter() - begun))
    return {
        "worker_start": spread(start_ms, "ms"),
        "null_round_trip": spread(trip_us, "us"),
        "stop_confirmed": spread(stop_us, "us"),
        "kill_and_reap": spread(kill_ms, "ms"),
    }


def against_itself(session: Session, candidate: Candidate, repeats: int) -> dict[str, Any]:
    """Judge one kernel against itself."""
    rows = []
    for number in range(repeats):
        _, ratio = session._measurer.measure(candidate, candidate, lambda _program: None, screen=False)
        assert ratio is not None
        rows.append((ratio.speedup, ratio.interval.low, ratio.interval.high))
        print(f"{number + 1}: {ratio.speedup:.3f} [{ratio.interval.low:.3f}, {ratio.interval.high:.3f}]", flush=True)
    return {
        "ratios": spread([row[0] for row in rows], "1"),
        "half_widths": spread([(row[2] - row[1]) / (row[2] + row[1]) for row in rows], "share"),
        "one_inside": sum(low <= 1 <= high for _, low, high in rows),
        "repeats": repeats,
        "all": rows,
    }


def versions() -> dict[str, str]:
    """Give the versions that the figures depend on."""
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in ("kforge-core", "kforge-xpu", "torch", "numpy", "intel-sycl-rt", "intel-opencl-rt"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def measure(name: str, target: Target, repeats: int) -> dict[str, Any]:
    """Measure on one example and its good candidate."""
    source = (EXAMPLES / "candidates" / f"{name}_good.py").read_text(encoding="utf-8")
    candidate = Candidate(source, target=target, origin=Origin("benchmark"))
    with tempfile.TemporaryDirectory(prefix="kforge-") as scratch:
        options = Options(target, scratch=Path(scratch), cache=cache_folder())
        session = Session(options, lambda _stage, _message: None)
        try:
            session.open(EXAMPLES / f"{name}.py")
            first = session.judge(candidate)
            assert first.correct, first.verdict
            result = {
                "starts": starts(session),
                "against_itself": against_itself(session, candidate, repeats),
            }
            result["pair_overhead"] = spread(session._measurer.overheads_s, "s")
            return result
        finally:
            session.close()


def main() -> None:
    """Run and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--example", default="gelu_tanh")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    facts = generic_facts("cpu")
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": {"name": facts.name, "cores": facts.cores, "last_level_cache_bytes": facts.last_level_cache_bytes},
        "versions": versions(),
        "example": options.example,
        **measure(options.example, Target.parse("sycl@cpu"), options.repeats),
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "against_itself"}, indent=2))
    print({key: value for key, value in result["against_itself"].items() if key != "all"})


if __name__ == "__main__":
    main()
