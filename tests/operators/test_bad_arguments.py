"""Arguments that no operator can work with: refused by the call that was given them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from input_ways import FRAME, place_pattern
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import EventBatch, agg
from rxtemporal import operators as ops
from rxtemporal.errors import ArgumentError, EventError, SchemaError

Stream = rxt.Streamable
Compose = Callable[[Stream], Any]

x, s, z = pl.col("x"), pl.col("s"), pl.col("z")


class Half(agg.UserDefinedAggregate):
    """Some of the functions of an incremental aggregate."""

    def init(self) -> int:
        """Return a state."""
        return 0

    def add(self, state: int, value: int) -> int:
        """Return the state with a value more."""
        return state + value


class Neither(agg.UserDefinedAggregate):
    """No functions."""


class Timeless(agg.TimeSensitiveAggregate):
    """No compute."""


class Untyped(agg.UserDefinedAggregate):
    """A compute that does not tell what it returns."""

    def compute(self, values):
        """Return something."""
        return values[0]


LATER = rxt.MAX_TIME + 1
NOT_POSITIVE = "must be positive, got"
NO_OUTPUT = "output is rxt.WindowOutput.WINDOW or POINT_AT_END, got"
NO_STREAM = "takes another stream, got .*Hint: make one with from_events"
NO_ON = "on is a field's name, names, or a mapping left -> right, got"

BAD_ARGUMENTS: dict[str, tuple[Compose, str]] = {
    "where: nothing": (lambda st: st.where(), "where takes at least one predicate"),
    "where: a name": (lambda st: st.where("x"), "expressions or functions of the row, got 'x'"),
    "where: a bool": (lambda st: st.where(True), "expressions or functions of the row, got True"),
    "where: other rows": (
        lambda st: st.where(x > x.mean()),
        r"looks at other rows \(Agg\). Hint: over many rows compute with a window",
    ),
    "select: nothing": (lambda st: st.select(), "select takes at least one field"),
    "select: a number": (lambda st: st.select(5), "select takes polars expressions, got 5"),
    "select: a function without schema": (
        lambda st: st.select(lambda row: row),
        "cannot see what a function returns. Hint: name the fields",
    ),
    "select: two functions": (
        lambda st: st.select(dict, dict, schema={"y": int}),
        r"select takes one function and schema=",
    ),
    "with_columns: nothing": (lambda st: st.with_columns(), "with_columns takes at least one"),
    "drop: nothing": (lambda st: st.drop(), "drop takes at least one field"),
    "explode: an expression": (lambda st: st.explode(x), "takes the name of a field, got"),
    "distinct: an expression": (lambda st: st.distinct(x), "takes names of fields, got"),
    "distinct: one twice": (lambda st: st.distinct("x", "x"), r"a field twice: \['x', 'x'\]"),
    "group_by: nothing": (lambda st: st.group_by(), "group_by takes at least one field"),
    "group_by: an expression": (
        lambda st: st.group_by(s),
        r"takes names of fields.*a key that is computed has a name: group_by\(",
    ),
    "group_by: one twice": (lambda st: st.group_by("s", "s"), r"a field twice: \['s', 's'\]"),
    "apply: no groups": (lambda st: st.apply(lambda group: group), "Hint: group_by"),
    "multicast: no function": (lambda st: st.multicast(5), "from a stream to a stream, got 5"),
    "multicast: no stream": (
        lambda st: st.multicast(lambda stream: None),
        "the branch of multicast has to return a stream, got None",
    ),
    "union: no stream": (lambda st: st.union(5), f"union {NO_STREAM}"),
    "join: no stream": (lambda st: st.join(None, on="x"), f"join {NO_STREAM}"),
    "cross_join: no stream": (lambda st: st.cross_join("x"), f"cross_join {NO_STREAM}"),
    "left_anti_join: no stream": (lambda st: st.left_anti_join([]), f"anti_join {NO_STREAM}"),
    "left_outer_join: no stream": (lambda st: st.left_outer_join({}), f"outer_join {NO_STREAM}"),
    "full_outer_join: no stream": (lambda st: st.full_outer_join(1), f"outer_join {NO_STREAM}"),
    "clip: no stream": (lambda st: st.clip_event_duration(1.5), f"duration {NO_STREAM}"),
    "join: on a number": (lambda st: st.join(st, on=5), f"join: {NO_ON} 5"),
    "join: on nothing": (lambda st: st.join(st, on=[]), rf"join: {NO_ON} \[\]. Hint: a predicate"),
    "join: on an expression": (lambda st: st.join(st, on=x), f"join: {NO_ON} <Expr"),
    "join: on a set": (lambda st: st.join(st, on={"x"}), f"join: {NO_ON} {{'x'}}"),
    "join: on one twice": (
        lambda st: st.join(st, on=["x", "x"]),
        "join: on names a pair of fields",
    ),
    "left_anti_join: on a number": (lambda st: st.left_anti_join(st, on=[5]), NO_ON),
    "join: where a function": (
        lambda st: st.join(st, on="x", where=lambda row: True),
        "join takes polars expressions, got <function",
    ),
    "join: where other rows": (
        lambda st: st.join(st, on="x", where=x.sum() > 1),
        "join computes row by row, and .* looks at other rows",
    ),
    "join: no suffix": (lambda st: st.join(st, suffix=""), "suffix is a non-empty str, got ''"),
    "to_signal: a number": (lambda st: st.to_signal(5), f"to_signal: {NO_ON} 5"),
    "to_signal: no gap": (lambda st: st.to_signal(max_gap=0), f"max_gap {NOT_POSITIVE} 0"),
    "to_signal: a negative gap": (
        lambda st: st.to_signal(max_gap="-5s"),
        f"max_gap {NOT_POSITIVE} -5s",
    ),
    "to_signal: a mapping": (
        lambda st: st.to_signal({"x": "s"}),
        "to_signal takes a field's name or names in on=, got {'x': 's'}",
    ),
    "clip: a limit of zero": (lambda st: st.clip_event_duration(0), f"limit {NOT_POSITIVE} 0"),
    "clip: a limit and on": (
        lambda st: st.clip_event_duration(5, on="x"),
        "takes on= only with another stream",
    ),
    "shift: a text": (lambda st: st.shift_event_time("1 hour"), "d='1 hour' is not a span of time"),
    "extend: nothing": (
        lambda st: st.extend_lifetime(None),
        "d is a timedelta, a text such as '5m', or an int",
    ),
    "previous: no name": (lambda st: st.previous(5), "takes names of fields, got 5"),
    "previous: twice": (lambda st: st.previous("x", "x"), "names a field twice"),
    "previous: zero": (lambda st: st.previous(n=0), "from 1 on, got 0"),
    "previous: no gap": (lambda st: st.previous(max_gap=0), "max_gap must be positive"),
    "deadband: no number": (lambda st: st.deadband("x", "5"), "by is the difference up to which"),
    "deadband: negative": (lambda st: st.deadband("x", -1), "not negative, got -1"),
    "deadband: no field": (lambda st: st.deadband(5, 1), "takes the name of a field, got 5"),
    "sample: no time": (lambda st: st.sample(0), f"every {NOT_POSITIVE} 0"),
    "sample: a negative time": (lambda st: st.sample("-1h"), f"every {NOT_POSITIVE} -1h"),
    "chop: period": (lambda st: st.chop(0), f"period {NOT_POSITIVE} 0"),
    "alter: nothing": (lambda st: st.alter_event_lifetime(), "takes start=, duration= or both"),
    "alter: a fixed start": (
        lambda st: st.alter_event_start_time(5),
        "takes a function of time.*got 5. Hint: use shift_event",
    ),
    "alter: start of payload": (
        lambda st: st.alter_event_start_time(x),
        "may depend on 'start' alone, since CTIs.*reads 'x'",
    ),
    "alter: duration of zero": (lambda st: st.alter_event_duration(0), f"n {NOT_POSITIVE} 0"),
    "alter: duration of other rows": (
        lambda st: st.alter_event_duration(x.sum()),
        "alter_event_duration computes row by row",
    ),
    "snap: period": (lambda st: st.snap_to_window_intervals(1, 0), f"period {NOT_POSITIVE} 0"),
    "hopping: duration": (lambda st: st.hopping_window(0, 1), f"duration {NOT_POSITIVE} 0"),
    "hopping: period": (lambda st: st.hopping_window(1, -1), f"period {NOT_POSITIVE} -1"),
    "hopping: a float": (
        lambda st: st.hopping_window(1.5, 1),
        "duration is a timedelta, a text such as '5m', or an int of ticks, got 1.5",
    ),
    "hopping: output": (lambda st: st.hopping_window(1, 1, output="point"), f"{NO_OUTPUT} 'point'"),
    "tumbling: duration": (
        lambda st: st.tumbling_window(timedelta(0)),
        f"duration {NOT_POSITIVE} 0:00:00",
    ),
    "hopping2: duration": (lambda st: st.hopping_window2(0, 1), f"duration {NOT_POSITIVE} 0"),
    "hopping2: period": (lambda st: st.hopping_window2(1, -1), f"period {NOT_POSITIVE} -1"),
    "session: timeout": (lambda st: st.session_window(0), f"timeout {NOT_POSITIVE} 0"),
    "session: cap": (lambda st: st.session_window(1, 0), f"max_duration {NOT_POSITIVE} 0"),
    "session: output": (lambda st: st.session_window(1, output=None), f"{NO_OUTPUT} None"),
    "session_lifetimes: timeout": (
        lambda st: st.session_lifetimes(-1),
        f"timeout {NOT_POSITIVE} -1",
    ),
    "count: zero": (lambda st: st.count_window(0), "a number of starts, at least 1, got 0"),
    "count: a float": (lambda st: st.count_window(1.5), "at least 1, got 1.5"),
    "count: output": (lambda st: st.count_window(1, output=1), f"{NO_OUTPUT} 1"),
    "scan: no function": (
        lambda st: st.scan(0, 5, schema={"y": int}),
        r"scan takes a seed and a function fn\(state, start, payload\), got 5. Hint",
    ),
    "aggregate: nothing": (lambda st: st.snapshot_window().aggregate(), "at least one name=aggre"),
    "aggregate: a number": (
        lambda st: st.snapshot_window().aggregate(n=5),
        "'n' is 5; it has to come from rxtemporal.agg",
    ),
    "aggregate: not called": (
        lambda st: st.tumbling_window(2).aggregate(n=agg.count),
        "'n' is <function count.*has to come from rxtemporal.agg, such as agg.count()",
    ),
    "aggregate: half a class": (
        lambda st: st.tumbling_window(2).aggregate(n=Half("x")),
        r"Half needs either compute, or all of init.*\(missing: remove, result\)",
    ),
    "aggregate: an empty class": (
        lambda st: st.session_window(2).aggregate(n=Neither("x")),
        "Neither needs either compute, or all of init, add, remove and result",
    ),
    "aggregate: no compute": (
        lambda st: st.snapshot_window().aggregate(n=Timeless()),
        r"Timeless needs compute\(events, window\)",
    ),
    "agg.sum: a number": (lambda st: agg.sum(5), "agg.sum takes a field's name or a polars expr"),
    "agg.quantile: above one": (lambda st: agg.quantile("x", 1.5), "between 0 and 1, got 1.5"),
    "agg.quantile: NaN": (lambda st: agg.quantile("x", float("nan")), "between 0 and 1, got nan"),
    "agg.quantile: interpolation": (
        lambda st: agg.quantile("x", 0.5, "best"),
        "by one of nearest, higher, lower, midpoint, linear, equiprobable, got 'best'",
    ),
    "agg.expr: a name": (lambda st: agg.expr("x"), "takes a polars expression, got 'x'"),
    "a class's field": (lambda st: Untyped(5), "agg.Untyped takes a field's name or a polars"),
    "top_k: zero": (lambda st: st.snapshot_window().top_k(0, "x"), "at least 1, got 0"),
    "top_k: a float": (lambda st: st.snapshot_window().top_k(1.5, "x"), "at least 1, got 1.5"),
    "top_k: by a number": (
        lambda st: st.snapshot_window().top_k(1, 5),
        "takes a field's name or a polars expression to rank by, got 5",
    ),
    "top_k: by other rows": (
        lambda st: st.snapshot_window().top_k(1, x.sum()),
        "top_k computes row by row",
    ),
    "apply: no function": (
        lambda st: st.snapshot_window().apply(5, schema={"y": int}),
        "apply takes a function of a window's rows, got 5",
    ),
}


@pytest.mark.parametrize(("compose", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_a_wrong_argument_is_an_error_where_it_is_given(compose: Compose, message: str) -> None:
    """The call with the wrong argument raises at once, whether fields are known or not."""
    for stream in (rxt.from_polars(FRAME, start="t"), rxt.from_events([])):
        with pytest.raises(ArgumentError, match=message):
            compose(stream)


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda st: st.scan(0, print, schema=5), "schema= is a mapping .* got 5"),
        (lambda st: st.select(dict, schema={"y": dict}), "'y' has type <class 'dict'>; a field is"),
        (lambda st: st.snapshot_window().apply(list), r"Hint: give schema=\{"),
        (lambda st: st.snapshot_window().apply(list, schema={"y": list[int]}), r"'y' has type Lis"),
        (
            lambda st: st.tumbling_window(5).aggregate(n=Untyped("x")),
            r"type of Untyped\(.*\) is not known. Hint: give dtype=float",
        ),
        (
            lambda st: st.tumbling_window(5).aggregate(n=Untyped("x", dtype=list)),
            "has type <class 'list'>; a field is bool, int",
        ),
        (
            lambda st: st.alter_event_start_time(pl.col("start").cast(pl.String)),
            "gives String; a new start is an aware Datetime or an integer of ticks. Hint: cast",
        ),
    ],
)
def test_a_wrong_type_of_result_is_an_error_where_it_is_named(
    compose: Compose, message: str
) -> None:
    """A function's result needs a name, and a type that a payload or a time can have."""
    for stream in (rxt.from_polars(FRAME, start="t"), rxt.from_events([])):
        with pytest.raises(SchemaError, match=message):
            compose(stream)


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (datetime(2026, 1, 1), "naive datetime 2026-01-01"),
        (LATER, "outside of time"),
        (rxt.MIN_TIME - 1, "outside of time"),
        (
            timedelta(days=1),
            "a time is an aware datetime, an ISO 8601 text with an offset, or an int of ticks",
        ),
        ("monday", "'monday' is not a valid time. Hint: write it in ISO 8601"),
    ],
)
def test_an_alignment_is_a_time(alignment: Any, message: str) -> None:
    """An alignment is an instant within time."""
    stream = rxt.from_polars(FRAME, start="t")
    for window in (stream.hopping_window, stream.hopping_window2, stream.snap_to_window_intervals):
        with pytest.raises(EventError, match=message):
            window(2, 1, alignment)
    with pytest.raises(EventError, match=message):
        stream.tumbling_window(2, alignment)


@pytest.mark.parametrize("other", [5, rxt.from_polars(FRAME, start="t")], ids=["int", "Streamable"])
def test_a_pipe_is_joined_with_an_observable(other: Any) -> None:
    """In a pipe the other stream is an observable of batches, not a Streamable."""
    with pytest.raises(ArgumentError, match=r"join in a pipe takes another observable .*Hint"):
        Subject[EventBatch]().pipe(ops.join(other, on="x"))


def test_a_pipes_operators_name_their_line_too() -> None:
    """An operator in a pipe is checked at the first batch; the error names its line."""
    batches: Subject[EventBatch] = Subject()
    errors: list[Exception] = []
    batches.pipe(ops.where(z > 1)).subscribe(on_error=errors.append)
    batches.on_next(EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=5))
    [error] = errors
    assert re.search(rf'column "z".*{place_pattern("where", __file__)}', str(error))
