"""why: the events on which a row of a result stands, from a recording or a bounded query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.demo import feeds, query
from rxtemporal.query.replay import merge_by_time

READINGS = [
    rxt.PointEvent(1, {"k": "a", "v": 20}),
    rxt.PointEvent(4, {"k": "b", "v": 24}),
    rxt.PointEvent(9, {"k": "a", "v": 22}),
    rxt.PointEvent(3, {"k": "a", "v": 99}),
    rxt.PointEvent(12, {"k": "a", "v": 30}),
    rxt.PointEvent(14, {"k": "a", "v": 31}),
]

BUSY = datetime(2013, 1, 24, 13, 30, tzinfo=UTC)


def readings() -> rxt.Streamable:
    """Readings of which the fourth is late."""
    return rxt.from_events(READINGS, name="readings", advance_time=rxt.INCREASING_START_TIME)


def warmest(readings: rxt.Streamable) -> rxt.Streamable:
    """The warmest reading of each key in ten ticks."""
    above = readings.where(pl.col("v") > 20)
    return above.group_by("k").tumbling_window(10).aggregate(warmest=agg.max("v"))


def record(stream: rxt.Streamable, folder: Path) -> Path:
    """Record a run of a query."""
    stream.run(rxt.Collect(), record=folder).wait()
    return folder


def test_the_causes_are_the_rows_that_the_result_is_made_of() -> None:
    """A stream's causes are a frame of its rows, in the form of its times."""
    why = rxt.why(warmest(readings()), {"start_time": 10})
    assert why.row == {"start_time": 10, "end_time": 20, "k": "a", "warmest": 31}
    assert why.causes["readings"].rows() == [(12, 13, "a", 30), (14, 15, "a", 31)]
    assert why.arrivals["readings"]["position"].to_list() == [4, 5]


@pytest.mark.parametrize(
    "named", [0, -3, {"warmest": 22}, rxt.IntervalEvent(0, 10, {"k": "a", "warmest": 22})]
)
def test_a_row_is_named_by_its_number_its_fields_or_as_an_event(named: object) -> None:
    """All of them name one row of the result."""
    found = warmest(readings())
    why = rxt.why(found.where(pl.col("k") == "a").union(found), named)  # type: ignore[arg-type]
    assert why.causes["readings"].rows()[-1] == (9, 10, "a", 22)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"k": "a"}, r"has 2 rows with k='a': \[0, 10\) k='a' warmest=22; \[10, 20\)"),
        ({"k": "z"}, "has no row with k='z'. Hint: why_not"),
        ({"q": 1}, "has no field 'q'; it has start_time, end_time, k, warmest"),
        ({"warmest": "hot"}, "'warmest' is Int64, and 'hot' is not"),
        (7, "has 3 rows, and no row 7"),
        ("a", "takes a row of the result"),
    ],
)
def test_a_row_that_is_not_named_is_an_error(named: object, message: str) -> None:
    """The error lists what there is."""
    with pytest.raises(rxt.ArgumentError, match=message):
        rxt.why(warmest(readings()), named)  # type: ignore[arg-type]


def test_a_query_over_a_recording_by_name(tmp_path: Path) -> None:
    """A query, or a function of streams, runs over the recorded streams of the same names."""
    folder = record(warmest(readings()), tmp_path / "run")
    live = rxt.from_observable(Subject(), schema={"k": str, "v": int}, name="readings")
    for asked in (warmest(live), warmest):
        why = rxt.why(asked, {"warmest": 31}, recording=folder)
        assert why.causes["readings"].rows() == [(12, 13, "a", 30), (14, 15, "a", 31)]
        assert why.arrivals["readings"]["position"].to_list() == [4, 5]


def test_a_late_event_of_a_recording_is_late_again(tmp_path: Path) -> None:
    """The row of a stream of late events stands on the event that was late."""
    stream = readings()
    folder = record(stream.late_events(), tmp_path / "run")
    why = rxt.why(stream.late_events(), 0, recording=folder)
    (late,) = why.arrivals["late events of readings"].to_dicts()
    assert (late["position"], late["verdict"], late["late_by"]) == (3, "late", 6)


def test_the_tree_shows_each_operator_and_the_role_of_rows() -> None:
    """Rows that only bound the result say so, and operators that only pass rows have no list."""
    signal = readings().where(pl.col("k") == "a").to_signal()
    text = str(rxt.why(signal, {"v": 22}))
    assert [line.split(" (test")[0] for line in text.split("\n")] == [
        "to_signal",
        "│  [9, 12) k='a' v=22",
        "└─ where",
        "   └─ readings: 2 rows",
        "         9 k='a' v=22",
        "         12 k='a' v=30 (boundary)",
    ]
    why = rxt.why(signal, {"v": 22})
    assert why.causes["readings"].rows() == [(9, 10, "a", 22)]
    assert why.bounds["readings"].rows() == [(12, 13, "a", 30)]
    assert "<script" not in why._repr_html_()


def test_a_sample_stands_on_the_reading_that_was_valid() -> None:
    """One that is never read says between which times it was valid."""
    signal = readings().where(pl.col("k") == "a").to_signal(max_gap=2)
    sampled = signal.sample(5)
    why = rxt.why(sampled, 0)
    assert why.causes["readings"].height == 1
    told = str(rxt.why_not(signal.sample(100), {"v": 22}))
    assert "gives no row in sample" in told
    assert "it lives between 0 and 100" in told


def test_an_edge_is_explained_by_both_of_its_events() -> None:
    """A row that two edges brought has two arrivals."""
    start = rxt.EdgeEvent.create_start(2, "a")
    edges = [start, rxt.PointEvent(3, "b"), rxt.EdgeEvent.create_end(2, 7, "a")]
    why = rxt.why(rxt.from_events(edges, name="edges"), rxt.IntervalEvent(2, 7, "a"))
    assert why.arrivals["edges"]["kind"].to_list() == ["edge start", "edge end"]
    assert why.arrivals["edges"]["cause"].to_list() == [0, 0]


def test_times_are_those_of_the_source() -> None:
    """Datetimes stay datetimes, and a row is named by an ISO text."""
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    stream = rxt.from_events([rxt.PointEvent(at, {"v": 1})], name="readings")
    why = rxt.why(stream, {"start_time": "2026-01-05T12:00:00Z"})
    assert why.causes["readings"]["start_time"].to_list() == [at]


def test_a_row_that_came_before_an_error_is_explained() -> None:
    """A query that fails has results before its error."""

    def broken(row: dict[str, int]) -> bool:
        if row["v"] == 30:
            raise ValueError("broken")
        return True

    why = rxt.why(readings().where(broken), {"v": 22})
    assert why.causes["readings"].rows() == [(9, 10, "a", 22)]


def test_endless_streams_are_refused() -> None:
    """A source that pushes has to be recorded, and a function needs streams."""
    with pytest.raises(rxt.BindingError, match=r"pushes its events.*record=folder"):
        rxt.why(rxt.from_observable(Subject(), schema={"v": int}), 0)
    with pytest.raises(rxt.BindingError, match="function of streams"):
        rxt.why(warmest, 0)


def test_why_departures_were_late_on_average() -> None:
    """The mean of a window of the demonstration's flights is that of its causes alone."""
    flights = feeds.flights().filter(pl.col("departure").is_not_null()).head(2_000)
    fields = flights.select("departure", *feeds.DEPARTURE_SCHEMA)
    departures = rxt.from_polars(fields, start="departure", name="departures")
    found = query.departures_by_airport(departures)
    row = found.to_polars().filter(departures=20).row(0, named=True)
    causes = rxt.why(found, row).causes["departures"]
    assert (causes.height, causes["origin"].unique().to_list()) == (20, [row["origin"]])
    assert causes["dep_delay"].mean() == pytest.approx(row["mean_delay"])


@pytest.mark.full
def test_why_a_busy_hour_was_late(tmp_path: Path) -> None:
    """From the recording of three feeds, with its late events: 36 departures, 14.2 minutes late."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(delay=timedelta(hours=4))
    merged = rxt.from_observable(
        subject, schema=feeds.DEPARTURE_SCHEMA, unit="us", name="departures"
    )
    hourly = (
        merged.group_by("origin")
        .hopping_window2(timedelta(hours=1), timedelta(minutes=15))
        .aggregate(departures=agg.count(), mean_delay=agg.mean("dep_delay"))
    )
    inputs = {airport: subject.input(airport) for airport in feeds.AIRPORTS}
    flights = feeds.flights()
    events = {airport: feeds.departures(flights, airport) for airport in feeds.AIRPORTS}
    with hourly.run(rxt.Collect(), record=tmp_path / "recording"):
        for airport, event in merge_by_time(events):
            inputs[airport].on_next(event)
            inputs[airport].on_next(rxt.Cti(event.start))
        subject.on_completed()
    row = {"origin": "EWR", "start_time": "2013-01-24T14:30:00Z"}
    why = rxt.why(hourly, row, recording=tmp_path / "recording")
    causes = why.causes["departures"]
    assert (causes.height, round(causes["dep_delay"].mean(), 1)) == (36, 14.2)
    hour = pl.col("start_time").is_between(*map(rxt.ticks, (BUSY, BUSY + timedelta(hours=1))))
    assert causes.filter(hour, origin="EWR").height == 36


def test_a_stream_on_which_the_row_does_not_stand_has_no_causes() -> None:
    """Each stream of the query has a frame."""
    other = rxt.from_events([rxt.PointEvent(50, {"k": "a", "v": 1})], name="other")
    why = rxt.why(readings().union(other), {"v": 22})
    assert {name: frame.height for name, frame in why.causes.items()} == {"readings": 1, "other": 0}
    assert why.arrivals["other"].height == 0


def test_hostile_values_are_only_shown() -> None:
    """Markup and control characters of a payload neither run nor break the tree."""
    hostile = "</pre><script>alert(1)</script>\x1b[31m\u202eabc"
    stream = rxt.from_events([rxt.PointEvent(1, {"v": hostile})], name="<b>")
    why = rxt.why(stream.where(pl.col("v") != ""), 0)
    page = why._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert not {"\x1b", "\u202e"} & {*page, *str(why)}


@pytest.mark.parametrize("value", [2.7, Decimal("2.5")])
def test_a_value_between_those_of_a_field_names_no_row(value: Any) -> None:
    """A value is not rounded to one that the field can hold."""
    rows = rxt.from_events([rxt.PointEvent(1, {"a": 2})])
    with pytest.raises(rxt.ArgumentError, match="no row with a="):
        rxt.why(rows, {"a": value})


@pytest.mark.parametrize(("held", "value"), [(2, "2"), ("2", 2), ("2", b"2")])
def test_a_value_of_another_type_names_no_row(held: Any, value: Any) -> None:
    """A text is not taken for a number, nor a number for a text."""
    rows = rxt.from_events([rxt.PointEvent(1, {"a": held})])
    with pytest.raises(rxt.ArgumentError, match="field 'a' is"):
        rxt.why(rows, {"a": value})


def test_a_missing_row_has_a_time_or_begins_then() -> None:
    """A window has times at which it does not begin."""
    rows = [rxt.PointEvent(time, {"x": time}) for time in (1, 12)]
    counts = rxt.from_events(rows, name="rows").tumbling_window(10).aggregate(n=agg.count())
    assert rxt.why_not(counts, at=13).exists
    assert rxt.why_not(counts, start=10).exists
    absence = rxt.why_not(counts, start=13)
    assert not absence.exists
    assert "the result has no row that begins at 13" in str(absence)
    assert absence.candidates["rows"][0].fate.message.endswith("which does not begin at 13")
    with pytest.raises(rxt.ArgumentError, match="not both"):
        rxt.why_not(counts, at=1, start=1)
