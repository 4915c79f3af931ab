"""Users' functions that raise, or return what they may not: one error with row and place."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from input_ways import FRAME, collect, place_pattern

import rxtemporal as rxt
from rxtemporal import Cti, IntervalEvent, PointEvent, agg
from rxtemporal.errors import (
    EventError,
    SchemaError,
)

Stream = rxt.Streamable
Compose = Callable[[Stream], Stream]

ROW = r"\{'x': 1, 's': 'a'\}"
LIFETIME = r"\[1, 2\)"
SNAPSHOT, TUMBLING = "snapshot_window().apply", "tumbling_window().apply"


def boom(*_: Any) -> Any:
    """Raise an error."""
    raise OverflowError("too much")


class Raising(agg.UserDefinedAggregate):
    """An aggregate whose compute raises."""

    compute = boom


class Wrong(agg.UserDefinedAggregate):
    """An aggregate that returns another type than it says."""

    def compute(self, values: list[int]) -> int:
        """Return a string."""
        return "none"  # type: ignore[return-value]


class TooLarge(agg.UserDefinedAggregate):
    """An aggregate that returns more than its type holds."""

    def compute(self, values: list[int]) -> int:
        """Return a large number."""
        return 2**70


class Running(agg.UserDefinedAggregate):
    """Incremental aggregate, one of whose functions raises or returns a wrong result."""

    def __init__(self, **functions: Any) -> None:
        super().__init__("x", dtype=int)
        self.__dict__.update(functions)

    def init(self) -> int:
        """Return nothing yet."""
        return 0

    def add(self, state: int, value: int) -> int:
        """Return one more."""
        return state + 1

    def remove(self, state: int, value: int) -> int:
        """Return one less."""
        return state - 1

    def result(self, state: int) -> int:
        """Return how many."""
        return state


class RaisingInTime(agg.TimeSensitiveAggregate):
    """A time-sensitive aggregate whose compute raises."""

    def compute(self, events: list[Any], window: Any) -> float:
        """Raise an error."""
        raise OverflowError("too much")


class WrongInTime(agg.TimeSensitiveAggregate):
    """A time-sensitive aggregate that returns another type than it says."""

    def compute(self, events: list[Any], window: Any) -> float:
        """Return a string."""
        return "none"  # type: ignore[return-value]


def applied(function: Callable[..., Any], **options: Any) -> Compose:
    """Return a user-defined operator over snapshots with a field y in its schema."""
    return lambda st: st.snapshot_window().apply(function, schema={"y": int}, **options)


def over_time(function: Callable[..., Any]) -> Compose:
    """Return the same over tumbling windows of 5, with lifetimes."""
    return lambda st: st.tumbling_window(5).apply(function, schema={"y": int}, time_sensitive=True)


def selected(function: Callable[[dict[str, Any]], Any]) -> Compose:
    """Return a select of a function with a field y in its schema."""
    return lambda st: st.select(function, schema={"y": int})


def scanned(result: Any) -> Compose:
    """Return a scan whose function returns this result for each row; its schema has a field y."""
    return lambda st: st.scan(0, lambda state, start, row: (state, result), schema={"y": int})


def aggregated(aggregate: agg.Aggregate) -> Compose:
    """Return an aggregate over snapshots."""
    return lambda st: st.snapshot_window().aggregate(n=aggregate)


RAISING: dict[str, tuple[Compose, str]] = {
    "where": (lambda st: st.where(boom), "where"),
    "select": (selected(boom), "select"),
    "scan": (lambda st: st.scan(0, boom, schema={"y": int}), "scan"),
    "alter start": (lambda st: st.alter_event_start_time(boom), "alter_event_start_time"),
    "alter duration": (lambda st: st.alter_event_duration(boom), "alter_event_duration"),
    "apply": (applied(boom), SNAPSHOT),
    "apply in time": (over_time(boom), TUMBLING),
    "apply to sessions": (
        lambda st: st.session_window(5).apply(boom, schema={"y": int}),
        "session_window().apply",
    ),
    "compute": (aggregated(Raising("x", dtype=int)), "snapshot_window().aggregate"),
    "compute of sessions": (
        lambda st: st.session_window(5).aggregate(n=Raising("x", dtype=int)),
        "session_window().aggregate",
    ),
    "compute in time": (aggregated(RaisingInTime()), "snapshot_window().aggregate"),
} | {
    name: (aggregated(Running(**{name: boom})), "snapshot_window().aggregate")
    for name in ("init", "add", "remove", "result")
}


@pytest.mark.parametrize(("compose", "operator"), RAISING.values(), ids=RAISING)
def test_an_exception_of_a_users_function_names_the_place(compose: Compose, operator: str) -> None:
    """The exception itself goes to on_error, with a note of the operator and its line."""
    for stream in (rxt.from_polars(FRAME, start="t"), listed()):
        _, errors = collect(compose(stream))
        assert [repr(error) for error in errors] == ["OverflowError('too much')"]
        [note] = errors[0].__notes__
        assert re.fullmatch(
            rf"in {re.escape(operator)}, composed at {re.escape(__file__)}:\d+", note
        )


def listed() -> Stream:
    """Return a stream of two rows whose fields are known from its first event."""
    return rxt.from_events(
        [PointEvent(1, {"x": 1, "s": "a"}), Cti(2), PointEvent(3, {"x": 1, "s": "a"})]
    )


# what is composed, the operator that is blamed, what the message says
WRONG: dict[str, tuple[Compose, str, str]] = {
    "where: an int": (
        lambda st: st.where(lambda row: row["x"]),
        "where",
        f"a predicate returns True, False or None, got 1 for {ROW}",
    ),
    "select: nothing": (selected(lambda row: None), "select", f"returned None for {ROW}"),
    "select: another type": (
        selected(lambda row: {"y": "no"}),
        "select",
        rf"returned \{{'y': 'no'\}} for {ROW}: field 'y' is Int64 and cannot hold 'no' \(str\)",
    ),
    "select: a field less": (
        selected(lambda row: {}),
        "select",
        f"for {ROW}: field 'y' is missing in {{}}",
    ),
    "select: a field more": (
        selected(lambda row: {"y": 1, "z": 2}),
        "select",
        f"for {ROW}: field 'z' appears",
    ),
    "select: several rows": (
        selected(lambda row: [{"y": 1}]),
        "select",
        rf"returned \[\{{'y': 1\}}\] for {ROW}",
    ),
    "select: too large": (
        selected(lambda row: {"y": 2**70}),
        "select",
        f"for {ROW}: field 'y' is Int64 and cannot hold 1180591620717411303424",
    ),
    "scan: no pair": (
        lambda st: st.scan(0, lambda state, start, row: 5, schema={"y": int}),
        "scan",
        r"returns a pair \(state, result\), got 5. Hint: .*return \(state, None\)",
    ),
    "scan: another field": (
        scanned({"z": 1}),
        "scan",
        rf"returned \{{'z': 1\}} for {ROW}: field 'z' appears",
    ),
    "scan: another type": (scanned([{"y": "no"}]), "scan", f"for {ROW}: field 'y' is Int64 and"),
    "scan: a bare value": (scanned(7), "scan", f"scan's function returned 7 for {ROW}"),
    "scan: a key": (
        lambda st: scanned({"s": "b", "y": 1})(st.group_by("s")),
        "scan",
        "returns 's', which is a group key.*Hint: leave it out",
    ),
    "apply: nothing": (applied(lambda rows: None), SNAPSHOT, "iterable of payloads, got None"),
    "apply: a payload": (
        applied(lambda rows: {"y": 1}),
        SNAPSHOT,
        r"returns an iterable of payloads, got \{'y': 1\}",
    ),
    "apply: another field": (
        applied(lambda rows: [{"z": 1}]),
        SNAPSHOT,
        r"returned \{'z': 1\}; its schema= has the fields \['y'\]",
    ),
    "apply: another type": (
        applied(lambda rows: [{"y": "no"}]),
        SNAPSHOT,
        r"'y' is Int64, and its function returned 'no' \(str\). Hint: schema=",
    ),
    "apply: too large": (
        applied(lambda rows: [{"y": 1}, {"y": 2**70}]),
        SNAPSHOT,
        "'y' is Int64, and its function returned 1180591620717411303424, which does not fit",
    ),
    "apply in time: outside of the window": (
        over_time(lambda events, window: [IntervalEvent(window.start - 1, window.end, {"y": 1})]),
        TUMBLING,
        r"IntervalEvent\(-1, 5, \{'y': 1\}\) does not lie in its window \[0, 5\)",
    ),
    "apply in time: no payload": (
        over_time(lambda events, window: [5]),
        TUMBLING,
        r"returned 5; its schema= has the fields \['y'\]",
    ),
    "compute: another type": (
        aggregated(Wrong("x")),
        "snapshot_window().aggregate",
        r"'n' is Int64, and its function returned 'none' \(str\). Hint: name the type with dtype=",
    ),
    "compute: too large": (
        aggregated(TooLarge("x")),
        "snapshot_window().aggregate",
        "'n' is Int64, and its function returned 1180591620717411303424, which does not fit",
    ),
    "result: another type": (
        aggregated(Running(result=str)),
        "snapshot_window().aggregate",
        r"'n' is Int64, and its function returned '1' \(str\)",
    ),
    "compute in time: another type": (
        aggregated(WrongInTime()),
        "snapshot_window().aggregate",
        r"'n' is Float64, and its function returned 'none' \(str\)",
    ),
    "alter start: a string": (
        lambda st: st.alter_event_start_time(str),
        "alter_event_start_time",
        r"returns an int of ticks or an aware datetime, got '1' \(str\) for the time 1",
    ),
    "alter start: a naive datetime": (
        lambda st: st.alter_event_start_time(lambda t: datetime(2026, 1, 1)),
        "alter_event_start_time",
        r"or an aware datetime, got datetime.datetime\(2026, 1, 1, 0, 0\)",
    ),
    "alter duration: a string": (
        lambda st: st.alter_event_duration(lambda row: "1h"),
        "alter_event_duration",
        rf"a timedelta or an int of ticks, got '1h' \(str\) for IntervalEvent\(1, 2, {ROW}\)",
    ),
    "alter duration: negative": (
        lambda st: st.alter_event_duration(lambda row: -1),
        "alter_event_duration",
        f"has to be positive, got -1 ticks for {LIFETIME} {ROW}. Hint: to drop a row use where",
    ),
    "alter duration: an expression gives zero": (
        lambda st: st.alter_event_duration(pl.col("x") - 1),
        "alter_event_duration",
        f"has to be positive, got 0 ticks for {LIFETIME} {ROW}",
    ),
    "alter duration: an expression gives null": (
        lambda st: st.alter_event_duration(pl.when(pl.col("x") > 5).then(1)),
        "alter_event_duration",
        f"has to be positive, got none for {LIFETIME} {ROW}",
    ),
}


@pytest.mark.parametrize(("compose", "operator", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_result_of_a_users_function_names_row_and_place(
    compose: Compose, operator: str, message: str
) -> None:
    """The error shows the result, its row, and the line that composed the operator."""
    for stream in (rxt.from_polars(FRAME, start="t"), listed()):
        out, errors = collect(compose(stream))
        assert out == []
        [error] = errors
        assert isinstance(error, SchemaError | EventError)
        assert re.search(rf"(?s){message}.*{place_pattern(operator, __file__)}", str(error))


def test_an_error_of_a_polars_expression_names_the_place() -> None:
    """An error of polars over rows is a SchemaError with its text, the operator and the line."""
    number = pl.col("s").cast(pl.Int64)
    for compose in (
        lambda st: st.where(number > 1),
        lambda st: st.with_columns(n=number),
        lambda st: st.join(st, on="x", suffix="_r", where=number > 1),
        lambda st: st.snapshot_window().aggregate(n=agg.expr(number.sum())),
    ):
        out, [error] = collect(compose(rxt.from_polars(FRAME, start="t")))
        assert out == []
        assert isinstance(error, SchemaError)
        assert isinstance(error.__cause__, pl.exceptions.PolarsError)
        assert "conversion from `str` to `i64` failed" in str(error)
        assert "Hint: cast(…, strict=False)" in str(error)
        assert f"composed at {__file__}:" in str(error)


def test_types_that_do_not_fit_are_refused_when_composed() -> None:
    """polars finds some wrong types only when it computes; the line that composes them raises."""
    stream = rxt.from_polars(FRAME, start="t")
    for compose in (
        lambda: stream.where(pl.col("s") > 3),
        lambda: stream.with_columns(n=pl.col("x").str.to_uppercase()),
        lambda: stream.snapshot_window().aggregate(n=agg.sum(pl.col("x").str.len_chars())),
        lambda: stream.snapshot_window().aggregate(n=agg.expr(pl.col("x").dt.hour().sum())),
        lambda: stream.join(stream, on="x", suffix="_r", where=pl.col("s") > 3),
    ):
        with pytest.raises(SchemaError, match="there are ") as error:
            compose()
        assert f"composed at {__file__}:" in str(error.value)


def test_a_sum_that_overflows_names_the_place() -> None:
    """An integer sum never wraps."""
    rows = [PointEvent(1, {"x": 2**62}), PointEvent(1, {"x": 2**62})]
    out, [error] = collect(rxt.from_events(rows).snapshot_window().aggregate(n=agg.sum("x")))
    assert out == []
    assert isinstance(error, SchemaError)
    where = place_pattern("snapshot_window().aggregate", __file__)
    assert re.search(rf"the sum 'n' is larger than an Int64.*Hint: cast.*{where}", str(error))
