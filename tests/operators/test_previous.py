"""previous by example: differences and slopes, keys, gaps, and the form of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from forgetting import forgetful
from tables import A, B, history_by_ctis

import rxtemporal as rxt

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def test_slopes_by_key() -> None:
    """The difference of two readings, by the time between them; null for the first of a key."""
    rows = [(0, "a", 10.0), (2, "b", 5.0), (5, "a", 20.0), (6, "b", 4.0)]
    readings = rxt.from_events(
        [
            rxt.PointEvent(BEGIN + timedelta(minutes=minute), {"k": k, "x": x, "t": BEGIN})
            for minute, k, x in rows
        ]
    )
    looked = readings.group_by("k").previous("x").ungroup()
    assert looked.schema["time_before"] == pl.Datetime("us", "UTC")
    found = looked.select("k", rise=pl.col("x") - pl.col("x_before"), at="time_before").to_polars()
    assert found["rise"].to_list() == [None, None, 10.0, -1.0]
    assert found["at"].to_list() == [None, None, BEGIN, BEGIN + timedelta(minutes=2)]


def test_all_fields_but_the_keys() -> None:
    """Null and other values are taken as they are, and the lifetime is that of the row."""
    rows = [
        rxt.IntervalEvent(1, 9, {"k": 1, "x": None, "y": "u"}),
        rxt.IntervalEvent(3, 5, {"k": 1, "x": 2, "y": None}),
        rxt.IntervalEvent(4, 6, {"k": 1, "x": 3, "y": "w"}),
    ]
    stream = rxt.from_events(rows, schema={"k": int, "x": int, "y": str}).group_by("k")
    assert stream.previous().ungroup().select("x_before", "y_before", "time_before").to_polars(
        time="ticks"
    ).rows() == [(1, 9, None, None, None), (3, 5, None, "u", 1), (4, 6, 2, None, 3)]  # fmt: skip


def test_the_second_row_before_and_a_gap() -> None:
    """What began too long ago does not count."""
    rows = [rxt.PointEvent(t, {"x": t}) for t in (1, 2, 4, 9, 10)]
    stream = rxt.from_events(rows)
    assert stream.previous("x", n=2).to_polars()["x_before"].to_list() == [None, None, 1, 2, 4]
    near = stream.previous("x", n=2, max_gap=6).to_polars()["x_before"]
    assert near.to_list() == [None, None, 1, None, 4]


def test_the_row_before_is_known_though_its_key_may_be_forgotten() -> None:
    """A key is held while a row at the CTI begins no more than ``max_gap`` after its last one."""
    items = [("point", 0, A), ("point", 1, B), ("cti", 4), ("point", 4, A), ("cti", 9)]
    with forgetful():
        found = history_by_ctis(
            lambda s: s.group_by("k").previous("x", max_gap=4).ungroup().select("x_before"), items
        )
    assert found == [
        (0, 1, {"x_before": None}),
        (1, 2, {"x_before": None}),
        (4, 5, {"x_before": 1}),
    ]


def test_why_a_row_has_its_values() -> None:
    """It stands on the row before, too."""
    rows = [rxt.PointEvent(t, {"k": k, "x": t}) for t, k in ((1, "a"), (2, "b"), (4, "a"))]
    query = rxt.from_events(rows, name="readings").group_by("k").previous("x").ungroup()
    causes = rxt.why(query, {"k": "a", "x": 4}).causes["readings"]
    assert sorted(causes["x"].to_list()) == [1, 4]


def test_a_field_named_time() -> None:
    """Its value before would have the name of the time before."""
    rows = rxt.from_events([rxt.PointEvent(t, {"time": t, "v": t}) for t in (1, 4)])
    for names in ((), ("time",)):
        with pytest.raises(rxt.SchemaError, match=r"'time'.*Hint: rename that first"):
            rows.previous(*names)
    assert rows.previous("v").to_polars()["v_before"].to_list() == [None, 1]
