"""Deliberate mistakes of a newcomer: each message says what to write instead."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
import reactivex

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, EventError, SchemaError
from rxtemporal.query.method import HINTS

S = rxt.from_events([rxt.PointEvent(1, {"k": "a", "x": 2})], schema={"k": str, "x": int})
W = S.tumbling_window("1m")
FRAME = pl.DataFrame({"t": [datetime(2026, 1, 1, tzinfo=UTC)], "x": [1]})
TEXTS = pl.DataFrame({"t": ["2026-01-01"], "d": [date(2026, 1, 1)]})
NOON, FAR = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclasses.dataclass
class Record:
    """A record with its time."""

    time: datetime
    x: int


async def agen() -> AsyncIterator[Any]:
    """Yield an event."""
    yield rxt.PointEvent(1, 2)


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "events: dicts": (lambda: rxt.from_events([{"x": 2}]).to_polars(), EventError,
                      r"got \{'x': 2\}\. Hint: rxt\.PointEvent\(time, \{…\}\)"),
    "events: tuples": (lambda: rxt.from_events([(1, 2)]).to_polars(), EventError,
                       r"Hint: rxt\.PointEvent\(time, payload\)"),
    "events: numbers": (lambda: rxt.from_observable(reactivex.of(1)).to_polars(), EventError,
                        r"got 1\. Hint: rxt\.PointEvent"),
    "events: one": (lambda: rxt.from_events(rxt.PointEvent(1, 2)), ArgumentError,
                    r"Hint: a list of one event: \[event\]"),
    "events: a function": (lambda: rxt.from_events(lambda: [1]), ArgumentError, "Hint: call it"),
    "events: a path": (lambda: rxt.from_events("a.csv"), ArgumentError, r"rxt\.read_csv\(path"),
    "events: a stream": (lambda: rxt.from_events(S), ArgumentError, "it is a stream already"),
    "async: a stream": (lambda: rxt.from_async(S), ArgumentError, "it is a stream already"),
    "observable: a list": (lambda: rxt.from_observable([]), ArgumentError, r"rxt\.from_events t"),
    "stream: events": (lambda: rxt.Streamable([]), ArgumentError, r"Hint: rxt\.from_events"),
    "payload: nested": (lambda: rxt.from_events([rxt.PointEvent(1, {"x": {}})]).to_polars(),
                        SchemaError, "Hint: make a field of each part"),
    "payload: a new field": (
        lambda: rxt.from_events([rxt.PointEvent(1, {"x": 1}), rxt.PointEvent(2, {"y": 1})])
        .to_polars(), SchemaError, "mid-stream.*Hint: name it in schema="),
    "payload: a pattern as a name": (
        lambda: rxt.from_events([rxt.PointEvent(1, {"^y$": 1, "y": 2})]).to_polars(), SchemaError,
        r"a field cannot be called '\^y\$': polars takes"),
    "frame: a pattern as a name": (
        lambda: rxt.from_polars(FRAME.rename({"x": "^y$"}), start="t").to_polars(), SchemaError,
        r"a field cannot be called '\^y\$'"),
    "select: no return": (
        lambda: S.select(lambda row: None, schema={"x": int}).to_polars(), SchemaError,
        r"returned None for \{'k': 'a', 'x': 2\}\. Hint: it returns a dict"),
    "schema: a list": (lambda: rxt.from_events([], schema=["x"]), SchemaError,
                       r"Hint: schema=\{'room': str"),
    "schema: a text": (lambda: rxt.from_events([], schema={"x": "int"}), SchemaError,
                       "write the type itself, int, without quotes"),
    "time: a span": (lambda: rxt.IntervalEvent(1, timedelta(1), 2), EventError, "the start plus"),
    "time: a date": (lambda: rxt.PointEvent(date(2026, 1, 1), 2), EventError, r"tzinfo=UTC\)"),
    "time: a float": (lambda: rxt.PointEvent(1.5, 2), EventError, r"datetime\.fromtimestamp\("),
    "time: numpy": (lambda: rxt.PointEvent(np.datetime64("2026-01-01"), 2), EventError,
                    r"value\.item\(\)\.replace"),
    "time: swapped": (lambda: rxt.PointEvent({"x": 1}, 1), EventError, "has the time first"),
    "time: two forms": (
        lambda: rxt.from_events([rxt.PointEvent("2026-01-01T00:00:00Z", 1), rxt.PointEvent(5, 2)])
        .to_polars(), EventError, r"PointEvent\(5, 2\) .*Hint: unit='s' makes 5 the time"),
    "frame: texts": (lambda: rxt.from_polars(TEXTS, start="t"), EventError, r"str\.to_datetime"),
    "frame: dates": (lambda: rxt.from_polars(TEXTS, start="d"), EventError, r"cast\(pl\.Datetime"),
    "frame: a dict": (lambda: rxt.from_polars({}, start="t"), ArgumentError, r"pl\.DataFrame\(…"),
    "file: a folder": (lambda: rxt.read_csv(".", start="t"), rxt.SourceError, "is a folder"),
    "where: a text beside a number": (lambda: S.where(pl.col("k") > 3), SchemaError,
        "cannot compare string with numeric.* there are k: String.*in where, composed at"),
    "select: a list": (lambda: S.select(["k", "x"]), ArgumentError, r"select\(\*names\)"),
    "show: a text": (lambda: S.show("x"), ArgumentError, r"got 'x'\. Hint: select"),
    "join: how": (lambda: S.join(S, on="k", how="left"), TypeError,
                  r"does not take how=\. Its signature is join\(other, .*left_outer_join"),
    "window: size and slide": (lambda: S.hopping_window(size=10, slide=5), TypeError,
        r"not take size=, slide=.*\(duration, period, alignment=0, \*, output=WindowOutput\.WINDOW"
        r", time_zone=None\)\. Hint: size= is duration= here; slide= is period= here"),
    "window: no period": (lambda: S.hopping_window(10), TypeError,
                          r"'period'.*Hint: .* tumbling_window\(duration\)"),
    "window: every": (lambda: S.tumbling_window(every=5), TypeError, "every= is duration= here"),
    "session: gap": (lambda: S.session_window(gap=5), TypeError, "gap= is timeout= here"),
    "join: keys": (lambda: S.join(S, keys="k"), TypeError, "keys= is on= here"),
    "query: why_not": (lambda: S.why_not(at=1), AttributeError, r"rxt\.why_not\(query"),
    "why_not: a time": (lambda: rxt.why_not(S, 3), ArgumentError, r"got 3\. Hint: at="),
    "event: an item": (lambda: rxt.PointEvent(1, {"room": 2})["room"], TypeError,
                       r"Hint: .* event\.payload\['room'\]"),
    "event: a field": (lambda: rxt.IntervalEvent(1, 2, {"room": 2}).room, AttributeError,
                       r"Hint: .* event\.payload\['room'\]"),
    "event: of an object": (lambda: rxt.PointEvent(1, object()).room, AttributeError,
                            r"what the event carries is event\.payload"),
    "event: its time": (lambda: rxt.PointEvent(1, 2).timestamp, AttributeError,
                        r"Hint: its time is event\.start_time"),
    "event: a CTI's time": (lambda: rxt.Cti(3).time, AttributeError, r"event\.start_time"),
    "push: an operator": (lambda: rxt.PushSource("a", schema={"x": int}).where(pl.col("x") > 1),
                          AttributeError, r"Hint: .* source\.stream\.where\(…\)"),
    "where: a text": (lambda: S.where("x > 1"), ArgumentError, r"where\(pl\.col\('x'\) > 1\)"),
    "where: no return": (lambda: S.where(lambda row: None), ArgumentError, "None for every row"),
    "where: no expression": (lambda: S.where(lambda row: pl.col("x") > 1).to_polars(), SchemaError,
                             "where takes the expression itself"),
    "where: an attribute": (lambda: S.where(lambda row: row.x > 1).to_polars(), AttributeError,
                            r"Hint: row\['x'\]; or pl\.col\('x'\) instead of a function"),
    "select: an attribute": (
        lambda: S.select(lambda row: {"y": row.x}, schema={"y": int}).to_polars(),
        AttributeError, r"given to select .* Hint: row\['x'\]"),
    "select: a function by name": (lambda: S.select(y=lambda row: 1), ArgumentError,
                                   r"y= takes an expression.*select\(function, schema="),
    "where: a lifetime": (lambda: S.where(pl.col("start_time") > 1), SchemaError,
                          "lifetimes are not fields"),
    "where: a typo": (lambda: S.select("xx"), SchemaError, "did you mean 'x'"),
    "with_columns: a text": (lambda: S.with_columns(y="abc"), SchemaError, r"pl\.lit\('abc'\)"),
    "group_by: a list": (lambda: S.group_by(["k", "x"]), ArgumentError, "without the brackets"),
    "group_by: an expression": (lambda: S.group_by(pl.col("k")), ArgumentError, "group_by.'field"),
    "group_by: twice": (lambda: S.group_by("k").group_by("x"), SchemaError, "all keys at once"),
    "windows: their output": (lambda: S.tumbling_window("1m", output="point"), ArgumentError,
                              r"WindowOutput\.WINDOW or POINT_AT_END"),
    "aggregate: not called": (lambda: W.aggregate(n=agg.count), ArgumentError, r"agg\.count\(\)$"),
    "aggregate: a text": (lambda: W.aggregate(n="mean"), ArgumentError, r"agg\.mean\('field'\)"),
    "aggregate: Python's": (lambda: W.aggregate(n=sum), ArgumentError, r"agg\.sum\('field'\)"),
    "aggregate: an expression": (lambda: W.aggregate(n=pl.col("x").sum()), ArgumentError,
                                 r"agg\.expr\(…\)"),
    "aggregate: unknown": (lambda: agg.median("x"), AttributeError, r"agg\.quantile\(field, 0\.5"),
    "aggregate: a typo": (lambda: agg.cuont(), AttributeError, "did you mean 'count'"),
    "join: a frame": (lambda: S.join(FRAME, on="x"), ArgumentError, "got DataFrame. Hint: make"),
    "join: an expression": (lambda: S.join(S, pl.col("k") == 1), ArgumentError, "goes into where="),
    "subscribe: a number": (lambda: S.subscribe(5), ArgumentError, "on_next is a function"),
    "run: a class": (lambda: S.run(rxt.Collect), ArgumentError, r"an instance: Collect\("),
    "run: a path": (lambda: S.run("out.csv"), ArgumentError, r"rxt\.File\('out\.csv'\)"),
    "shape: a text": (lambda: S.to_events("point"), ArgumentError, r"rxt\.EventShape\.POINT"),
    "time: a form": (lambda: S.to_polars(time="iso"), ArgumentError, "'ticks' or 'datetime'"),
    "a stream in a loop": (lambda: list(S), TypeError, r"to_events\(\) returns the results"),
    "a stream's length": (lambda: len(S), TypeError, r"Hint: len\(stream\.to_polars\(\)\)"),
    "a stream as a truth": (lambda: bool(S), TypeError, "neither true nor false"),
    "a field by brackets": (lambda: S["x"], TypeError, r"select\('x'\) has one field"),
    "late_events: no settings": (lambda: S.late_events(), rxt.AdvanceTimeError, "advance_time='5m"),
    "a name of another library": (lambda: rxt.from_csv("a"), AttributeError, r"rxt\.read_csv"),
    "where: a field by keyword": (lambda: S.where(k="a"), TypeError,
                                  r"does not take k=.*Hint: where\(pl\.col\('k'\) == 'a'\)\."),
    "where: a number": (lambda: S.where(pl.col("x")), SchemaError,
                        r"of type Int64\. Hint: compare it with a value"),
    "where: a text and a number": (lambda: S.where(pl.col("k") > 3), SchemaError,
                                   r"Hint: .*pl\.col\('x'\)\.cast\(pl\.Float64\)\. \(in where"),
    "select: a name twice": (lambda: S.select("k", k=pl.col("x")), SchemaError,
                             r"select: two fields are named 'k'; .*Hint: give one another name"),
    "group_by: a typo": (lambda: S.group_by("xx"), SchemaError, r"Hint: did you mean 'x'\?"),
    "group_by: nothing": (lambda: S.group_by(), ArgumentError, r"Hint: group_by\('field'\)\."),
    "join: a typo": (lambda: S.join(S, on="kk"), SchemaError, r"Hint: did you mean 'k'\?"),
    "count_window: a span": (lambda: S.count_window("1m"), ArgumentError, r"tumbling_window\(dura"),
    "events: an async generator": (lambda: rxt.from_events(agen()), ArgumentError, "from_async"),
    "observable: an async generator": (lambda: rxt.from_observable(agen()), ArgumentError,
                                       r"rxt\.from_async an async generator"),
    "events: a frame": (lambda: rxt.from_events(FRAME), ArgumentError,
                        r"got DataFrame\. Hint: rxt\.from_polars"),
    "events: none": (lambda: rxt.from_events(), TypeError, r"Hint: from_events\(\[rxt\.PointEv"),
    "events: records": (lambda: rxt.from_events([Record(NOON, 1)]).to_polars(), EventError,
                        r"Hint: rxt\.PointEvent\(time, record\) makes"),
    "frame: no start": (lambda: rxt.from_polars(FRAME), TypeError,
                        r"'start'\. Hint: from_polars\(frame, start='time'\)"),
    "frame: a wrong start": (lambda: rxt.from_polars(FRAME, start="time"), SchemaError,
                             r"it has t, x\. Hint: start= and end= name the columns"),
    "file: no start": (lambda: rxt.read_csv("a.csv"), TypeError, r"Hint: read_csv\('readings\.cs"),
    "file: missing": (lambda: rxt.read_csv("none.csv", start="t"), rxt.SourceError,
                      r"^there is no file none\.csv\. Hint: check the path\.$"),
    "run: no sink": (lambda: S.run(), TypeError, r"Hint: run\(rxt\.Collect\(\)\)"),
    "query: no name": (lambda: rxt.Application("a").query(S), TypeError, r"Hint: query\('warm', "),
    "application: no query": (lambda: rxt.Application("a").run(), rxt.BindingError,
                              r"Hint: app\.query\(name, stream\)"),
    "settings: no policy": (lambda: rxt.AdvanceTimeSettings(), TypeError,
                            r"'policy'\. Hint: .*policy=AdvanceTimePolicy\.DROP"),
    "settings: a policy by name": (lambda: rxt.AdvanceTimeSettings(policy="drop"),
                                   rxt.AdvanceTimeError, r"Hint: policy=rxt\.AdvanceTimePolicy"),
    "push: no schema": (lambda: rxt.PushSource("a"), TypeError, r"Hint: PushSource\('readings', "),
    "push: settings of another": (lambda: rxt.PushSource("a", schema={"x": int}, advance_time="5m"),
                                  TypeError, r"PushSource\(\) got .*Hint: .*delay='5m'\)\."),
    "push: on_next": (lambda: rxt.PushSource("a", schema={"x": int}).on_next(1), AttributeError,
                      r"Hint: source\.push\(row\)"),
    "mqtt: a host alone": (lambda: rxt.from_mqtt("localhost"), TypeError,
                           r"Hint: from_mqtt\('mqtt://localhost', 'sensors/#', schema="),
    "kafka: a host alone": (lambda: rxt.from_kafka("localhost"), TypeError,
                            r"Hint: from_kafka\('localhost:9092', 'readings', schema="),
    "CTI: far ahead": (lambda: rxt.from_events([rxt.Cti(FAR), rxt.PointEvent(NOON, 1)]).to_events(),
                       rxt.CtiViolationError, r"by \d+ h\. Hint: a CTI at a time makes all"),
    "CTI: the end of time": (
        lambda: rxt.from_events([rxt.Cti(datetime.max.replace(tzinfo=UTC)),
                                 rxt.PointEvent(NOON, 1)]).to_events(),
        rxt.CtiViolationError, "comes after a CTI at the end of time, which ends the stream"),
    "a name with a typo": (lambda: rxt.from_event([]), AttributeError, "mean 'from_events'"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    """The first error that somebody sees is a sentence with a mend."""
    with pytest.raises(error, match=message):
        make()


def test_a_run_that_fails_names_the_operator_to_whoever_pushes() -> None:
    """The operator, its line and the hint are in what the push raises, not in the run alone."""
    source = rxt.PushSource("readings", schema={"t": str})
    source.stream.select(x=pl.col("t").cast(pl.Int64)).run(rxt.Collect())
    with pytest.raises(
        rxt.ProcessEndedError,
        match=r"failed with SchemaError: conversion .* \["
        r'"a"\]\. Hint: cast\(.*\(in select, composed at .*mistakes\.py:\d+\)',
    ):
        source.push([{"time": 1, "t": "a"}, {"time": 2, "t": "a"}])


def test_a_run_that_fails_in_a_function_names_its_place_to_whoever_pushes() -> None:
    """An error of the user's own code has the place as a note, which a message has to show."""
    source = rxt.PushSource("readings", schema={"x": int})
    source.stream.where(lambda row: 1 / row["x"] > 0).run(rxt.Collect())
    with pytest.raises(rxt.ProcessEndedError, match=r"ZeroDivisionError: .*mistakes\.py:\d+"):
        source.push([{"time": 1, "x": 0}, {"time": 2, "x": 0}])


def test_a_hint_follows_the_end_of_a_sentence() -> None:
    """Python itself may ask "Did you mean …?", which ends a sentence, too."""
    with pytest.raises(TypeError) as raised:
        rxt.PushSource("readings", schem={"temp": float})  # type: ignore[call-arg]
    text = str(raised.value)
    assert "'schem'" in text
    assert text.count(". Hint: ") + text.count("? Hint: ") == 1
    assert "?." not in text


def test_no_hint_is_given_for_a_method_that_exists() -> None:
    """A new operator's name is no wrong call any more."""
    assert not HINTS.keys() & {*dir(rxt.Streamable)}
