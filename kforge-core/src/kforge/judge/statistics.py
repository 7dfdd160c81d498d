"""From rounds of paired times to a speed-up with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kforge.records import Interval, Ratio, Times

RESAMPLES: Final = 2000
UNSTABLE: Final = 0.05
"""Half-width of an interval, as a share, from which a result calls itself unstable."""


def ratio(opponent: str, processes: Sequence[Sequence[float]]) -> Ratio:
    """Give the median of paired ratios with a 95 % bootstrap interval.

    ``processes`` holds, for each pair of processes, the ratios of its rounds. Processes are drawn with replacement,
    then rounds within each: the luck of a process is larger than the luck of a batch.
    """
    everything = np.concatenate([np.asarray(rounds) for rounds in processes])
    lengths = np.array([len(rounds) for rounds in processes])
    table = np.full((len(processes), lengths.max()), np.nan)
    for row, rounds in zip(table, processes, strict=True):
        row[: len(rounds)] = rounds
    generator = np.random.default_rng(0)
    chosen = generator.integers(len(processes), size=(RESAMPLES, len(processes)))
    which = (generator.random((*chosen.shape, table.shape[1])) * lengths[chosen][..., None]).astype(np.intp)
    drawn = table[chosen[..., None], which]
    drawn[np.arange(table.shape[1]) >= lengths[chosen][..., None]] = np.nan  # no more draws than rounds
    median = np.nanmedian if lengths.min() < lengths.max() else np.median
    low, high = np.percentile(median(drawn.reshape(RESAMPLES, -1), axis=1), [2.5, 97.5])
    return Ratio(
        opponent,
        speedup=float(np.median(everything)),
        interval=Interval(float(low), float(high)),
        pairs=int(everything.size),
        processes=len(processes),
    )


def times(name: str, batches: Sequence[float], calls: int, processes: int) -> Times:
    """Sum up one program's seconds a call."""
    low, median, high = np.percentile(np.asarray(batches), [5, 50, 95])
    return Times(
        name,
        median_s=float(median),
        low_s=float(low),
        high_s=float(high),
        batches=len(batches),
        calls_per_batch=calls,
        processes=processes,
    )
