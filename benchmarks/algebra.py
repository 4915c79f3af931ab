"""Rates of the temporal algebra over event batches, and of one-shot polars and one-shot numba.

The input is a frame in memory, cut into batches with a CTI after each. The results are batches, all
kept until they have been checked. The one-shot contenders have all data at once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import measure
import numpy as np
import polars as pl
from oneshot import NUMBA, POLARS
from workloads import OVERLAP, THRESHOLD, WORKLOADS, Columns, Workload

import rxtemporal as rxt
from rxtemporal import agg

IN_ORDER = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
)
LARGE, SMALL = 65_536, 1_024
POLARS_ONCE, NUMBA_ONCE = "one-shot polars", "one-shot numba"


def stream(frame: pl.DataFrame, batch_rows: int) -> rxt.Streamable:
    """Return the stream of a frame's rows: intervals where it has an end, points otherwise."""
    return rxt.from_polars(
        frame,
        start="start",
        end="end" if "end" in frame.columns else None,
        advance_time=IN_ORDER,
        batch_rows=batch_rows,
    )


def tumbling(points: rxt.Streamable, window: int) -> rxt.Streamable:
    """Return the query of W2."""
    windows = points.group_by("key").tumbling_window(window)
    return windows.aggregate(n=agg.count(), avg=agg.avg("value"))


def hopping(points: rxt.Streamable, period: int) -> rxt.Streamable:
    """Return the query of W3."""
    windows = points.group_by("key").hopping_window(OVERLAP * period, period)
    return windows.aggregate(avg=agg.avg("value"))


def join(points: rxt.Streamable, validity: rxt.Streamable) -> rxt.Streamable:
    """Return the query of W4."""
    return points.join(validity, on="key")


def project(points: rxt.Streamable) -> rxt.Streamable:
    """Return the query of W5."""
    return points.where(pl.col("value") > THRESHOLD).select("key", pl.col("value") * 2 + 1)


def snapshots(intervals: rxt.Streamable) -> rxt.Streamable:
    """Return the query of W6."""
    windows = intervals.group_by("key").snapshot_window()
    return windows.aggregate(n=agg.count(), s=agg.sum("value"))


def query(load: Workload, batch_rows: int) -> rxt.Streamable:
    """Return the workload's query over its data."""
    rows = stream(load.rows, batch_rows)
    if load.name in ("w2", "w3"):
        return {"w2": tumbling, "w3": hopping}[load.name](rows, load.window)
    if load.name == "w4":
        assert load.validity is not None
        return join(rows, stream(load.validity, batch_rows))
    return {"w5": project, "w6": snapshots}[load.name](rows)


def streaming(load: Workload, batch_rows: int) -> list[rxt.EventBatch]:
    """Return the results of the engine."""
    return list(query(load, batch_rows).to_batches())


def columns(result: Any) -> Columns:
    """Return the result of any contender as columns."""
    if isinstance(result, pl.DataFrame):
        return {name: result[name].to_numpy() for name in result.columns}
    if not isinstance(result, list):
        return result  # type: ignore[no-any-return]
    # a result that left as a start edge is whole with its end edge
    whole = [batch.take(batch.end != rxt.MAX_TIME) for batch in result]
    payload = pl.concat([batch.payload for batch in whole])
    start, end = (np.concatenate([getattr(b, name) for b in whole]) for name in ("start", "end"))
    return {**columns(payload), "start": start, "end": end}


def contenders(load: Workload, *batch_rows: int) -> dict[str, Callable[[], Any]]:
    """Return the one-shot contenders, and the engine with batches of these sizes."""
    engine = {
        f"{load.name}, batches of {rows:,}": partial(streaming, load, rows) for rows in batch_rows
    }
    return {
        POLARS_ONCE: partial(POLARS[load.name], load),
        NUMBA_ONCE: partial(NUMBA[load.name], load),
        **engine,
    }


def compare(load: Workload, count: int, clock: Callable[[], float]) -> None:
    """Print the rates for one workload."""

    def check(result: Any) -> None:
        load.check(columns(result))

    running = contenders(load, LARGE, SMALL)
    measure.warm(running, check)
    seconds = measure.rounds(running, count, check, clock)
    measure.report(seconds, load.rows.height, POLARS_ONCE, NUMBA_ONCE)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=[*WORKLOADS, "all"], default="all")
    parser.add_argument("--events", type=int, help="rows of the first input; default as in W2 … W6")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="CPU time of all threads, not wall time")
    options = parser.parse_args()
    measure.keep_memory()
    sizes = () if options.events is None else (options.events,)
    for name in WORKLOADS if options.workload == "all" else [options.workload]:
        print(WORKLOADS[name].__doc__.splitlines()[0].removeprefix("Return "))
        clock = time.process_time if options.cpu else time.perf_counter
        compare(WORKLOADS[name](*sizes), options.rounds, clock)


if __name__ == "__main__":
    main()
