"""Times the README's first command after its install: `kforge run docs/examples/gelu_tanh.py` with empty caches.

Writes a JSON file beside this script.

    python docs/benchmarks/first_run.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _result import entry, write

PROBLEM = Path(__file__).parent.parent / "examples" / "gelu_tanh.py"


def once() -> dict[str, Any]:
    """Run it with a home, a cache and a temporary folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"KFORGE_HOME": f"{folder}/home", "KFORGE_CACHE": f"{folder}/cache"}
        started = time.perf_counter()
        command = [str(Path(sys.executable).with_name("kforge")), "run", str(PROBLEM), "--json"]
        done = subprocess.run(command, env={**os.environ, **places}, stdout=subprocess.PIPE, check=True)
        seconds = time.perf_counter() - started
    answer = json.loads(done.stdout)
    return {"seconds": seconds, "outcome": answer["outcome"], "measurement": answer["best"]["measurement"]}


def main() -> None:
    """Run and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    runs = [once() for _ in range(options.repeats)]
    entries = [entry("kforge run gelu_tanh.py, empty caches", [run["seconds"] for run in runs], "s")]
    for baseline in ("eager", "torch.compile"):
        ratios = [run["measurement"]["baselines_s"][baseline] / run["measurement"]["candidate_s"] for run in runs]
        name = f"gelu_tanh.py: best kernel against {baseline}"
        entries.append(
            {**entry(name, ratios, "ratio"), "baseline": baseline, "outcomes": [run["outcome"] for run in runs]}
        )
    write(options.output, "python docs/benchmarks/first_run.py", entries)
    for run in runs:
        print(f"{run['seconds']:.1f} s, {run['outcome']}, {run['measurement']['speedup']:.2f}x")


if __name__ == "__main__":
    main()
