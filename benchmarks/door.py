"""Rates of whole batches through the door: rows in order, rows of which some are late, and edges.

The limit is the running maximum of the starts: in a stream in order it is the CTI before each row.
Batches are made before the clock starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import measure
import numpy as np
import polars as pl
from workloads import SEED

import rxtemporal as rxt
from rxtemporal.ingress.door import Door

LIMIT = "running maximum"
BATCH_ROWS = 65_536
EACH = rxt.AdvanceTimeGenerationSettings(frequency=1, delay=0)
WAITING = rxt.AdvanceTimeGenerationSettings(frequency=10, delay=100)
DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST


def batches(starts: Any, ends: Any, edges: Any) -> list[rxt.EventBatch]:
    """Return rows as batches with a payload of one field."""
    value = np.arange(len(starts), dtype=np.float64)
    made = []
    for begin in range(0, len(starts), BATCH_ROWS):
        cut = slice(begin, begin + BATCH_ROWS)
        payload = pl.DataFrame({"value": value[cut]})
        columns = starts[cut], ends[cut], edges[cut]
        made.append(rxt.EventBatch(*columns, payload, rxt.MIN_TIME))
    return made


def in_order(count: int) -> list[rxt.EventBatch]:
    """Return intervals in order of start."""
    starts = np.arange(count)
    return batches(starts, starts + 50, np.zeros(count, np.int64))


def disordered(count: int) -> list[rxt.EventBatch]:
    """Return intervals that are up to some hundreds of ticks late."""
    rng = np.random.default_rng(SEED)
    starts = np.arange(count) - rng.exponential(50, count).astype(np.int64)
    return batches(starts, starts + 50, np.zeros(count, np.int64))


def edges(count: int) -> list[rxt.EventBatch]:
    """Return rows as pairs of edges, a thousand of them open at a time."""
    rows = np.arange(count // 2)
    opened, closed = 2 * rows, 2 * rows + 2_001
    order = np.argsort(np.concatenate([opened, closed]), kind="stable")
    starts = np.concatenate([opened, opened])[order]
    ends = np.concatenate([np.full(len(rows), rxt.MAX_TIME), closed])[order]
    return batches(starts, ends, np.concatenate([rows, rows])[order] + 1)


def through(made: list[rxt.EventBatch], generation: Any, policy: Any) -> tuple[int, int]:
    """Return the numbers of accepted and of late rows."""
    settings = rxt.AdvanceTimeSettings(generation, policy=policy)
    door = Door(settings, "bench")
    kept = sum(len(door.accept_batch(batch)[0]) for batch in made)
    return kept, door.late.total()


def running_maximum(made: list[rxt.EventBatch]) -> tuple[int, int]:
    """Return the same numbers for a stream in order, in which no row is late."""
    highest, late = rxt.MIN_TIME, 0
    for batch in made:
        reached = np.maximum(np.maximum.accumulate(batch.start), highest)
        late += int((batch.start < reached).sum())
        highest = int(reached[-1])
    return sum(map(len, made)) - late, late


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    count = options.events
    ordered, late, paired = in_order(count), disordered(count), edges(count)
    contenders: dict[str, Callable[[], tuple[int, int]]] = {
        LIMIT: lambda: running_maximum(ordered),
        "in order, a CTI of each": lambda: through(ordered, EACH, DROP),
        "out of order, some dropped": lambda: through(late, WAITING, DROP),
        "out of order, some adjusted": lambda: through(late, WAITING, ADJUST),
        "edges, a thousand open": lambda: through(paired, EACH, DROP),
    }

    def check(result: tuple[int, int]) -> None:
        kept, told = result
        assert kept == count or 0 < count - kept <= told, (kept, told)

    measure.warm(contenders, check)
    measure.report(measure.rounds(contenders, options.rounds, check), count, LIMIT)


if __name__ == "__main__":
    main()
