"""Measures the judge itself on a CPU: worker start, round trip, cost of a pair of processes, and A/A.

A/A: one kernel judged against itself, thirty times. Writes a JSON file beside this script; a part that is not asked for
keeps what an earlier run wrote.

    python docs/benchmarks/judge_cpu.py [--part starts --part small --part against_itself] [--repeats 30]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from _result import entry, write

from kforge.judge.client import cache_folder
from kforge.judge.options import Options
from kforge.judge.session import Session
from kforge.records import Candidate, Origin, Target

EXAMPLES = Path(__file__).parent.parent / "examples"


Entries = list[dict[str, Any]]


def starts(session: Session, count: int = 20) -> Entries:
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
    return [
        entry("worker start", start_ms, "ms"),
        entry("null round trip", trip_us, "us"),
        entry("stop confirmed", stop_us, "us"),
        entry("kill and reap", kill_ms, "ms"),
    ]


def against_itself(session: Session, candidate: Candidate, repeats: int) -> Entries:
    """Judge one kernel against itself."""
    rows = []
    for number in range(repeats):
        _, ratio = session._measurer.measure(candidate, candidate, lambda _program: None, screen=False)
        assert ratio is not None
        rows.append((ratio.speedup, ratio.interval.low, ratio.interval.high))
        print(f"{number + 1}: {ratio.speedup:.3f} [{ratio.interval.low:.3f}, {ratio.interval.high:.3f}]", flush=True)
    ratios = entry("A/A, gelu_tanh: ratio", [row[0] for row in rows], "ratio")
    inside = sum(low <= 1 <= high for _, low, high in rows)
    return [
        {**ratios, "intervals_that_hold_1": inside, "all": rows, "baseline": "the same kernel"},
        entry("A/A, gelu_tanh: half-width", [(row[2] - row[1]) / (row[2] + row[1]) for row in rows], "share"),
        entry("A/A, gelu_tanh: cost of a pair of processes", session._measurer.overheads_s, "s"),
    ]


def small(session: Session, candidate: Candidate) -> Entries:
    """Give what pairs of processes cost beyond builds and timed windows, for inputs of 1 MB."""
    judged = []
    for _ in range(4):
        started = time.perf_counter()
        assert session.judge(candidate).correct
        judged.append(time.perf_counter() - started)
    return [
        entry("1 MB of inputs: cost of a pair of processes", session._measurer.overheads_s, "s"),
        entry("1 MB of inputs: a whole judgement", judged, "s"),
    ]


SMALL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2


def get_inputs():
    return [torch.rand(64, 4096)]
"""


def measure(part: str, repeats: int) -> Entries:
    """Measure one part in a session of its own."""
    example = part == "against_itself"
    target = Target.parse("sycl@cpu" if example else "null@cpu")
    with tempfile.TemporaryDirectory(prefix="kforge-") as folder:
        scratch = Path(folder)
        problem = EXAMPLES / "gelu_tanh.py" if example else scratch / "small.py"
        source = SMALL.replace("Model(", "ModelNew(")
        if example:
            source = (EXAMPLES / "candidates" / "gelu_tanh_good.py").read_text(encoding="utf-8")
        else:
            problem.write_text(SMALL, encoding="utf-8")
        candidate = Candidate(source, target=target, origin=Origin("benchmark"))
        options = Options(target, compiled=example, scratch=scratch, cache=cache_folder())
        session = Session(options, lambda _stage, _message: None)
        try:
            session.open(problem)
            if part == "starts":
                return starts(session)
            if part == "small":
                return small(session, candidate)
            first = session.judge(candidate)
            assert first.correct, first.verdict
            return against_itself(session, candidate, repeats)
        finally:
            session.close()


PARTS = ("starts", "small", "against_itself")


def main() -> None:
    """Run and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    for part in options.part or PARTS:
        results = measure(part, options.repeats)
        write(options.output, "python docs/benchmarks/judge_cpu.py", results)
        for result in results:
            print({key: value for key, value in result.items() if key != "all"})


if __name__ == "__main__":
    main()
