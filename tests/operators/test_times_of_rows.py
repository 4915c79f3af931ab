"""Times of rows as values, and keys by expression, by example."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
STAYS = [rxt.IntervalEvent(t, t + 7, {"x": t % 5, "k": "ab"[t % 2]}) for t in range(0, 60, 3)]
WINDOWS: dict[str, Any] = {
    "tumbling": lambda s: s.tumbling_window(10),
    "hopping": lambda s: s.hopping_window(10, 4),
    "snapshot": lambda s: s.snapshot_window(),
    "session": lambda s: s.session_window(5),
    "count": lambda s: s.count_window(3),
}


def stays() -> rxt.Streamable:
    """Return a stream of intervals."""
    return rxt.from_events(STAYS, name="stays")


def test_starts_in_every_place() -> None:
    """They are the starts of the rows, in the form of the stream."""
    assert stays().where(rxt.start() >= 50).to_events() == [e for e in STAYS if e.start >= 50]
    chosen = stays().select("x", rxt.start(), since=rxt.start() // 10).to_polars()
    assert chosen["start"].to_list() == [each.start for each in STAYS]
    assert chosen["since"].to_list() == [each.start // 10 for each in STAYS]
    assert chosen.columns == ["start_time", "end_time", "x", "start", "since"]
    added = stays().with_columns(at=rxt.start()).to_polars()
    assert added.columns == ["start_time", "end_time", "x", "k", "at"]
    assert (added["at"] == added["start_time"]).all()


@pytest.mark.parametrize("kind", WINDOWS)
def test_starts_in_aggregates(kind: str) -> None:
    """They are the rows' own, not those of pieces or windows; users' code does not see them."""

    class Fields(agg.UserDefinedAggregate):
        def compute(self, values: list[dict[str, Any]]) -> str:
            return ",".join(values[0])

    times = {
        "first": agg.min(rxt.start()),
        "last": agg.expr(rxt.start().max()),
        "even": agg.count(where=rxt.start() % 2 == 0),
        "mean": agg.time_mean(rxt.start()),
        "fields": Fields(),
    }
    held = stays().with_columns(at=rxt.start())
    found = WINDOWS[kind](stays()).aggregate(**times).to_polars()
    at = pl.col("at")
    expected = (
        WINDOWS[kind](held)
        .aggregate(
            first=agg.min("at"),
            last=agg.max("at"),
            even=agg.count(where=at % 2 == 0),
            mean=agg.time_mean("at"),
        )
        .to_polars()
    )
    assert found.drop("fields").equals(expected)
    assert found["fields"].unique().to_list() == ["x,k"]


def test_datetimes() -> None:
    """Of a stream of real times, also where nobody knows that before a row comes."""
    events = [rxt.PointEvent(NOON + timedelta(hours=n), {"x": n}) for n in range(30)]
    for given in (rxt.from_events(events), rxt.from_events(iter(events), schema={"x": int})):
        days = given.group_by(day=rxt.start().dt.truncate("1d")).tumbling_window("7d")
        result = days.aggregate(n=agg.count()).to_polars().sort("day")
        assert result["n"].to_list() == [12, 18]
        assert result.schema["day"] == pl.Datetime("us", "UTC")


@pytest.mark.parametrize("schema", [None, {"x": int}])
def test_ticks_where_nobody_knows(schema: Any) -> None:
    """They are taken for datetimes, and the error says what to write; spans say it, too."""
    events = [rxt.PointEvent(5, {"x": 1})]
    ticks = rxt.from_events(iter(events), schema=schema)
    said = r"reads the times as datetimes. Hint: unit='ticks' leaves it a number of ticks"
    with pytest.raises(rxt.EventError, match=said):
        ticks.with_columns(at=rxt.start()).to_polars()
    other = rxt.from_events(iter(events), schema=schema)
    with pytest.raises(rxt.EventError, match=rf"previous, composed at .* {said}"):
        other.group_by("x").previous().to_polars()
    sure = rxt.from_events(iter(events), schema=schema, unit="ticks")
    assert sure.with_columns(at=rxt.start()).to_polars()["at"].to_list() == [5]
    windows = rxt.from_events(iter(events), schema=schema).tumbling_window(10)
    assert windows.aggregate(at=agg.max(rxt.start())).to_polars()["at"].to_list() == [5]


def test_each_device_with_its_own_time() -> None:
    """Starts are there in lanes, too."""
    source = rxt.PushSource("s", schema={"d": str}, delay=0, clock="d")
    query = source.stream.group_by("d").tumbling_window(10).aggregate(at=agg.max(rxt.start()))
    with query.run(sink := rxt.Collect()):
        for time, device in ((1, "a"), (50, "b"), (7, "a"), (11, "a")):
            source.push({"time": time, "d": device})
        source.close()
    assert sorted(sink.to_polars().rows()) == [
        (0, 10, "a", 7), (10, 20, "a", 11), (50, 60, "b", 50)
    ]  # fmt: skip


def test_ends_where_they_are_known() -> None:
    """Behind points and windows, as long as lifetimes stay as they are."""
    ends = stays().point_at_end().where(pl.col("x") > 1).select(until=rxt.end()).to_polars()
    assert (ends["until"] == ends["end_time"]).all()
    counts = stays().tumbling_window(10).aggregate(n=agg.count())
    assert counts.where(rxt.end() > 30).to_polars()["end_time"].min() == 40
    for early in (
        stays(),
        counts.extend_lifetime(5),
        stays().snapshot_window().aggregate(x=agg.max("x")),
    ):
        with pytest.raises(rxt.ArgumentError, match=r"not be known yet .* Hint: .* rxt.start\(\)"):
            early.where(rxt.end() > 30)


def test_keys_that_are_computed() -> None:
    """By group_by as a field of their own; by joins they are gone afterwards."""
    tens = stays().group_by("k", ten=pl.col("x") // 2).tumbling_window(100)
    result = tens.aggregate(n=agg.count()).to_polars()
    assert result.columns == ["start_time", "end_time", "k", "ten", "n"]
    assert result["n"].sum() == len(STAYS)
    names = rxt.from_events([rxt.IntervalEvent(0, 99, {"of": n, "name": f"n{n}"}) for n in (0, 1)])
    pairs = [(pl.col("x") % 2, "of")]
    joined = stays().join(names, on=pairs).to_polars()
    assert joined.columns == ["start_time", "end_time", "x", "k", "of", "name"]
    assert (joined["x"] % 2 == joined["of"]).all()
    assert stays().join(names, on={"x": pl.col("of") * 3}).to_polars()["x"].unique().to_list() == [
        0,
        3,
    ]
    both = stays().left_outer_join(names, on=[(pl.col("x") % 4, pl.col("of") + 1)]).to_polars()
    assert both.height == len(STAYS)
    assert both["name"].null_count() == sum(each.payload["x"] % 4 not in (1, 2) for each in STAYS)
    lonely = stays().left_anti_join(names, on=pairs)
    assert lonely.schema == stays().schema
    by_start = stays().join(names, on=[(rxt.start() % 2, "of")]).to_polars()
    assert (by_start["start_time"] % 2 == by_start["of"]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.group_by(pl.col("x") % 3), r"has a name: group_by\(ten=pl.col\('x'\) // 10\)"),
        (lambda s: s.group_by(key="x"), "key= is an expression, got 'x'"),
        (lambda s: s.group_by(key=pl.col("x").sum()), "looks at other rows"),
        (lambda s: s.join(s, on=[("x", "x", "x")]), "on is a field's name, names, or a mapping"),
        (lambda s: s.join(s, on=[(pl.col("x").cum_sum(), "x")]), "looks at other rows"),
        (lambda s: s.to_signal(pl.col("x")), "on is a field's name"),
    ],
)
def test_wrong_keys(make: Any, message: str) -> None:
    """Each is refused when the query is composed."""
    with pytest.raises(rxt.ArgumentError, match=message):
        make(stays())


def test_ranks_by_a_constant_are_equal() -> None:
    """All rows share the first one; with ties in order of start and payload."""
    windows = stays().tumbling_window(100)
    assert windows.top_k(1, pl.lit(1)).to_polars()["rank"].to_list() == [1] * len(STAYS)
    assert windows.top_k(2, [pl.lit(1), "x"], ties="first").to_polars().height == 2
    with pytest.raises(rxt.ArgumentError, match="a list with one for each of by=, which are 2"):
        windows.top_k(2, ["x", "k"], descending=[False])
