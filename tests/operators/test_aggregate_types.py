"""Aggregates that are updated, beside polars on the rows of each window: all types of values."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from math import inf
from random import Random
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.testing import Stepper

SCHEMA = pl.Schema({
    "k": pl.Int64(), "flag": pl.Boolean(), "i": pl.Int64(), "u": pl.UInt16(), "f": pl.Float64(),
    "s": pl.String(), "b": pl.Binary(), "bool": pl.Boolean(), "t": pl.Datetime("us", "UTC"),
    "day": pl.Date(), "span": pl.Duration("ms"), "dec": pl.Decimal(20, 3), "none": pl.Null(),
})  # fmt: skip
NUMBERS = ("i", "u", "f", "bool", "dec")
# the fields that are aggregated with a predicate, too
FILTERED = ("i", "f", "s", "dec")
DAY = datetime(2026, 5, 1)
WHERE = pl.col("flag")
WINDOWS: dict[str, Any] = {
    "tumbling": lambda s: s.tumbling_window(12),
    "tumbling, whole": lambda s: s.tumbling_window(500),
    "hopping": lambda s: s.hopping_window(12, 4),
    "hopping, of many": lambda s: s.hopping_window(40, 2),
    "gaps": lambda s: s.hopping_window(3, 10),
    "snapshot": lambda s: s.snapshot_window(),
    "session": lambda s: s.session_window(4),
    "count": lambda s: s.count_window(3, partial=True),
    "whole": lambda s: s.whole_window(),
}


def draw_value(random: Random, name: str) -> Any:
    """Return a value of a field; a few are equal, and some are null."""
    n = random.randrange(6)
    if n == 5 or name == "none":
        return None
    return {
        "k": n % 2, "flag": n > 1, "i": n - 2, "u": n, "f": [0.5, -1.0, float("nan"), 0.0, 2.5][n],
        "s": ["", "a", "ab", "ä", "zz"][n], "b": bytes([n]), "bool": n > 2,
        "t": DAY + timedelta(hours=n), "day": date(2026, 5, 1 + n), "span": timedelta(n),
        "dec": Decimal(n * 37 - 50) / 100,
    }[name]  # fmt: skip


def draw_rows(seed: int, points: bool) -> pl.DataFrame:
    """Return rows in order of time."""
    random = Random(seed)
    starts = sorted(random.randrange(60) for _ in range(random.randrange(5, 60)))
    columns = [
        pl.Series(name, [draw_value(random, name) for _ in starts], dtype=dtype)
        for name, dtype in SCHEMA.items()
    ]
    ends = [start + (1 if points else random.randrange(1, 15)) for start in starts]
    times = {"start": starts, "end": ends}
    return pl.DataFrame(times).hstack(columns).with_columns(pl.col("k").fill_null(0))


def list_aggregates() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return aggregates that are updated, and the expressions of polars that say the same."""
    ours, theirs = dict[str, Any](), dict[str, Any]()
    for name in (each for each in SCHEMA if each not in ("k", "flag")):
        field = pl.col(name)
        for where, rows in ((None, field), (WHERE, field.filter(WHERE))):
            if where is not None and name not in FILTERED:
                continue
            suffix = name if where is None else f"{name}, where"
            ours |= {
                f"n {suffix}": agg.count(name, where=where),
                f"distinct {suffix}": agg.count_distinct(name, where=where),
                f"min {suffix}": agg.min(name, where=where),
                f"max {suffix}": agg.max(name, where=where),
            }
            theirs |= {
                f"n {suffix}": rows.count(),
                f"distinct {suffix}": rows.drop_nulls().n_unique(),
                f"min {suffix}": rows.min(),
                f"max {suffix}": rows.max(),
            }
            if name in NUMBERS:
                ours |= {
                    f"sum {suffix}": agg.sum(name, where=where),
                    f"mean {suffix}": agg.mean(name, where=where),
                }
                # polars adds up bools and small integers in other types
                wide = rows if name in ("f", "dec") else rows.cast(pl.Int64)
                theirs |= {f"sum {suffix}": wide.sum(), f"mean {suffix}": wide.mean()}
    return ours, {name: agg.expr(expression) for name, expression in theirs.items()}


OURS, THEIRS = list_aggregates()


def run(query: rxt.Streamable, rows: pl.DataFrame, cuts: int, *, saves: bool) -> pl.DataFrame:
    """Return the results over batches; with ``saves`` each batch meets a state that was saved."""
    stepper, found = Stepper(query), list[rxt.EventBatch]()
    size = max(1, len(rows) // cuts)
    for part in rows.iter_slices(size):
        cti = int(part["start"][-1])
        payload = part.select(SCHEMA.names())
        batch = rxt.EventBatch.of_rows(
            part["start"].to_numpy(), part["end"].to_numpy(), payload, cti
        )
        found += stepper.push("rows", batch)
        if saves:
            fresh = Stepper(query)
            fresh.load(stepper.save())
            stepper = fresh
    found += stepper.push("rows", rxt.EventBatch.empty(SCHEMA, rxt.MAX_TIME))
    whole = rxt.EventBatch.concat([each for each in found if len(each)])
    closed = whole.take(~((whole.edge != 0) & (whole.end != rxt.MAX_TIME)))
    return closed.to_polars("ticks").drop("end_time")


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("points", [False, True])
def test_values_of_all_types(kind: str, points: bool) -> None:
    """Counts, distinct counts, extremes, sums and means, of all rows and of some."""
    stream = rxt.from_events([], schema=SCHEMA, name="rows", unit="ticks").group_by("k")
    ours, theirs = (WINDOWS[kind](stream).aggregate(**each) for each in (OURS, THEIRS))
    for seed in (0,) if points else (1, 2):
        rows = draw_rows(seed, points)
        expected = run(theirs, rows, 1, saves=False).sort(
            "start_time", "k", "n i", maintain_order=True
        )
        for cuts, saves in ((1, False), (2, True)):
            found = run(ours, rows, cuts, saves=saves)
            found = found.sort("start_time", "k", "n i", maintain_order=True)
            assert_frame_equal(found, expected, check_dtypes=False, rel_tol=1e-12)


def test_expressions_that_differ_in_the_sign_of_zero_are_computed_apart() -> None:
    """Aggregates share what they read of each row only if it is the same."""
    rows = rxt.from_events([rxt.PointEvent(time, {"x": time + 1.0}) for time in range(3)])
    up, down = pl.col("x") / pl.lit(0.0), pl.col("x") / pl.lit(-0.0)
    found = rows.tumbling_window(10).aggregate(
        up=agg.max(up),
        down=agg.max(down),
        above=agg.count(where=up > 0),
        below=agg.count(where=down > 0),
        values=agg.count_distinct(pl.col("x") + up),
        others=agg.count_distinct(pl.col("x") + down, where=down > 0),
    )
    assert found.to_polars().rows() == [(0, 10, inf, -inf, 3, 0, 1, 0)]
