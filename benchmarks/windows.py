"""Windows over event batches, beside one-shot polars and a one-shot numba sweep.

500,000 intervals, 100 keys, about 50 alive for each: the count and sum at each snapshot, a million
results. The one-shot contenders have all data at once and need no CTI.
"""

from __future__ import annotations

import argparse
from typing import Any

import measure
import numba
import numpy as np
import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

SPAN = 1_000_000_000
KEYS = 100


def intervals(count: int) -> pl.DataFrame:
    """Return intervals in order of start."""
    rng = np.random.default_rng(7)
    start = np.sort(rng.integers(0, SPAN, count))
    length = np.maximum(rng.exponential(SPAN / 100, count).astype(np.int64), 1)
    return pl.DataFrame(
        {
            "start": start,
            "end": start + length,
            "key": rng.integers(0, KEYS, count),
            "value": rng.random(count),
        }
    )


def streaming(frame: pl.DataFrame, batch_rows: int) -> tuple[int, int, float]:
    """Return rows, counts and sums of all snapshots, by the engine, results taken as batches."""
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    stream = rxt.from_polars(
        frame, start="start", end="end", advance_time=settings, batch_rows=batch_rows
    )
    query = stream.group_by("key").snapshot_window().aggregate(n=agg.count(), s=agg.sum("value"))
    rows, count, total = 0, 0, 0.0
    for batch in query.to_batches():
        ended = batch.payload.filter(pl.Series(batch.end != rxt.MAX_TIME))
        rows += ended.height
        count += ended["n"].sum()
        total += ended["s"].sum()
    return rows, count, total


def polars_once(frame: pl.DataFrame) -> tuple[int, int, float]:
    """Return the same by one polars query over all changes."""
    begins = frame.select("key", time="start", dn=pl.lit(1), dv="value")
    ends = frame.select("key", time="end", dn=pl.lit(-1), dv=-pl.col("value"))
    alive = (
        pl.concat([begins, ends])
        .group_by("key", "time")
        .agg(pl.col("dn").sum(), pl.col("dv").sum())
        .sort("key", "time")
        .with_columns(n=pl.col("dn").cum_sum(), s=pl.col("dv").cum_sum())
        .filter(pl.col("n") > 0)
    )
    return alive.height, alive["n"].sum(), alive["s"].sum()


@numba.njit(cache=True)
def _sweep(start: Any, end: Any, order: Any, key: Any, value: Any, keys: int) -> Any:
    n = len(start)
    count = np.zeros(keys, np.int64)
    total = np.zeros(keys)
    last = np.full(keys, -1, np.int64)
    rows, counts, sums = 0, 0, 0.0
    i = j = 0
    while j < n:
        begins = i < n and start[i] <= end[order[j]]
        row = i if begins else order[j]
        time = start[i] if begins else end[row]
        k = key[row]
        if count[k] > 0 and last[k] < time:
            rows += 1
            counts += count[k]
            sums += total[k]
        last[k] = time
        count[k] += 1 if begins else -1
        total[k] += value[row] if begins else -value[row]
        if begins:
            i += 1
        else:
            j += 1
    return rows, counts, sums


def numba_once(frame: pl.DataFrame) -> tuple[int, int, float]:
    """Return the same by one compiled sweep, its sort of the ends included."""
    start, end, key, value = (frame[name].to_numpy() for name in ("start", "end", "key", "value"))
    result = _sweep(start, end, np.argsort(end, kind="stable"), key, value, KEYS)
    return int(result[0]), int(result[1]), float(result[2])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    frame = intervals(options.intervals)
    answer = polars_once(frame)

    def checked(run: Any, *arguments: Any) -> None:
        rows, count, total = run(frame, *arguments)
        assert (rows, count) == answer[:2], (rows, count, answer)
        assert abs(total - answer[2]) < 1e-6 * answer[2]

    contenders = {
        "one-shot polars": lambda: checked(polars_once),
        "one-shot numba sweep": lambda: checked(numba_once),
        "snapshots, batches of 65,536": lambda: checked(streaming, 65_536),
        "snapshots, batches of 1,024": lambda: checked(streaming, 1_024),
    }
    for run in contenders.values():
        run()  # compiled and warm
    seconds = measure.rounds(contenders, options.rounds)
    measure.report(seconds, options.intervals, "one-shot numba sweep")


if __name__ == "__main__":
    main()
