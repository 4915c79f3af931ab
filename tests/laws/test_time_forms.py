"""Law of the ways in: the same instants in any form give the same history, in the source's form."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Subject

import rxtemporal as rxt
from rxtemporal import adapters, agg
from rxtemporal.core.time_forms import find_span_form

Form = Literal["ticks", "datetime", "s", "ms", "us", "ns"]
FORMS: tuple[Form, ...] = ("ticks", "datetime", "s", "ms", "us", "ns")
PER = {"ticks": 1, "s": 1_000_000, "ms": 1_000, "us": 1}
SECOND = 1_000_000
SPANS: dict[bool, tuple[Any, Any]] = {True: (10 * SECOND, 3 * SECOND), False: ("10s", "3s")}


def write(tick: int, form: Form) -> Any:
    """Return an instant in a form: a tick, a datetime or a Unix time."""
    if form == "datetime":
        return rxt.to_datetime(tick)
    return tick * 1_000 + 999 if form == "ns" else tick // PER[form]


def unit_of(form: Form) -> dict[str, Any]:
    """Return the argument that says the form, as users write it."""
    return {} if form in ("ticks", "datetime") else {"unit": form}


Rows = Sequence[tuple[Any, int]]


def _events(rows: Rows) -> list[rxt.PointEvent]:
    return [rxt.PointEvent(time, {"x": x}) for time, x in rows]


def _frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame({"t": [time for time, _ in rows], "x": [x for _, x in rows]})


def _dicts(rows: Rows) -> list[dict[str, Any]]:
    return [{"t": time, "x": x} for time, x in rows]


class _Items(rxt.Source):
    schema = {"x": int}  # noqa: RUF012

    def __init__(self, items: list[Any]) -> None:
        self.items, self.bounded = items, True

    def open(self, position: Any = None) -> rxt.Cursor:
        return rxt.Cursor(self.items[position or 0 :], position or 0, run_rows=2)


class _Pushed(Subject[Any]):
    def __init__(self, items: list[Any]) -> None:
        super().__init__()
        self.items = items

    def subscribe(self, *arguments: Any, **options: Any) -> Any:
        subscription = super().subscribe(*arguments, **options)
        for item in self.items:
            self.on_next(item)
        self.on_completed()
        return subscription


async def _arrive(items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _adapter(rows: Rows, **options: Any) -> rxt.Streamable:
    config = adapters.IterableConfig(events=_events(rows), schema={"x": int}, **options)
    application = rxt.Application("a")
    return application.create_stream(
        "s", adapters.IterableAdapter, config, rxt.EventShape.POINT, rxt.INCREASING_START_TIME
    )


def _defined(rows: Rows, **options: Any) -> rxt.Streamable:
    return rxt.Application("a").define_stream("s", _events(rows), **options)


def _file(kind: str, rows: Rows, **options: Any) -> rxt.Streamable:
    path = Path(tempfile.mkdtemp(dir=_FOLDER.name), f"rows.{kind}")
    frame = _frame(rows)
    if kind == "parquet":
        frame.write_parquet(path)
        return rxt.read_parquet(path, start="t", **options)
    numbers = {} if frame["t"].dtype.is_temporal() else {"unit": "ticks"}
    if kind == "csv":
        frame.write_csv(path)
        return rxt.read_csv(path, start="t", **{**numbers, **options})
    path.write_text(_lines(rows), "utf-8")
    return rxt.read_json(path, start="t", **{**numbers, **options})


def _lines(rows: Rows) -> str:
    return "\n".join(json.dumps(row, default=datetime.isoformat) for row in _dicts(rows))


_FOLDER = tempfile.TemporaryDirectory()
WAYS: dict[str, Callable[..., rxt.Streamable]] = {
    "from_events list": lambda rows, **o: rxt.from_events(_events(rows), **o),
    "from_events iterator": lambda rows, **o: rxt.from_events(iter(_events(rows)), **o),
    "from_async": lambda rows, **o: rxt.from_async(_arrive(_events(rows)), **o),
    "from_source": lambda rows, **o: rxt.from_source(_Items(_events(rows)), **o),
    "from_observable events": lambda rows, **o: rxt.from_observable(_Pushed(_events(rows)), **o),
    "from_observable rows": lambda rows, **o: rxt.from_observable(
        _Pushed([*_dicts(rows[:2]), _dicts(rows[2:])]), schema={"x": int}, start="t", **o
    ),
    "from_polars": lambda rows, **o: rxt.from_polars(_frame(rows), start="t", **o),
    "from_pandas": lambda rows, **o: rxt.from_pandas(_frame(rows).to_pandas(), start="t", **o),
    "from_arrow": lambda rows, **o: rxt.from_arrow(_frame(rows).to_arrow(), start="t", **o),
    "read_csv": lambda rows, **o: _file("csv", rows, **o),
    "read_json": lambda rows, **o: _file("json", rows, **o),
    "read_parquet": lambda rows, **o: _file("parquet", rows, **o),
    "adapter": _adapter,
    "define_stream": _defined,
}
PUSHES: dict[str, Callable[[Rows], list[Any]]] = {
    "rows one by one": lambda rows: list(_dicts(rows)),
    "rows in a list": lambda rows: [_dicts(rows)],
    "many rows": lambda rows: [_dicts([*rows, *[(rows[-1][0], 0)] * 40])],
    "a frame": lambda rows: [_frame(rows)],
    "events": lambda rows: list(_events(rows)),
    "JSON": lambda rows: [rxt.JsonLines(_lines(rows).encode())],
}


def ask(stream: rxt.Streamable, form: Form) -> rxt.Streamable:
    """Return a query with spans of the stream's form."""
    window, shift = SPANS[form == "ticks"]
    return stream.shift_event_time(shift).tumbling_window(window).aggregate(n=agg.sum("x"))


def expect(rows: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return what the query gives, in ticks."""
    sums: dict[int, int] = {}
    for tick, x in rows:
        moved = tick + 3 * SECOND
        begin = moved - moved % (10 * SECOND)
        sums[begin] = sums.get(begin, 0) + x
    return [(begin, begin + 10 * SECOND, n) for begin, n in sorted(sums.items())]


def check(results: rxt.Collect, rows: list[dict[str, Any]], answer: Any, form: Form) -> None:
    """Check a history, and that times leave in the form of the source by all ways out."""
    kind = int if form == "ticks" else datetime
    assert sorted(results.to_polars(time="ticks").rows()) == answer
    assert {type(each.start_time) for each in results.to_events()} == {kind}
    frames = [results.to_polars(), results.batch.to_polars(), pl.DataFrame(rows)]
    assert {type(frame["end_time"][0]) for frame in frames} == {kind}
    for row in (*results.to_dicts(), *results.batch.to_dicts(), *rows):
        assert (type(row["start_time"]), type(row["end_time"])) == (kind, kind)
    written = sorted(
        (row["start_time"] if kind is int else rxt.ticks(row["start_time"]), row["n"])
        for row in rows
    )
    assert written == [(begin, n) for begin, _, n in answer]


class Both(rxt.Sink):
    """Sink that keeps batches, and their rows as a function that writes them sees them."""

    def __init__(self) -> None:
        self.results, self.rows = rxt.Collect(), list[dict[str, Any]]()

    def set_time_form(self, form: Any) -> None:
        """Pass the form on."""
        self.results.set_time_form(form)

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the batch and its rows."""
        self.results.write(batch)
        self.rows.extend(batch.to_dicts())


# from 1970 to 1977: an event carries a number inside of time, also one of nanoseconds
INSTANTS = st.lists(
    st.tuples(st.integers(1, 220_000_000).map(lambda s: s * SECOND), st.integers(1, 9)),
    min_size=1,
    max_size=6,
).map(sorted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
@given(rows=INSTANTS)
def test_each_form_in_gives_one_history(way: str, form: Form, rows: Any) -> None:
    """The history is that of the instants, and times leave as datetimes, or as ticks."""
    given = [(write(tick, form), x) for tick, x in rows]
    sink = Both()
    with ask(WAYS[way](given, **unit_of(form)), form).run(sink):
        pass
    check(sink.results, sink.rows, expect(rows), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", PUSHES)
@given(rows=INSTANTS)
def test_each_form_that_is_pushed_gives_one_history(way: str, form: Form, rows: Any) -> None:
    """As for sources that are read; the CTI has the form of the stream as well."""
    source = rxt.PushSource("s", schema={"x": int}, start="t", **unit_of(form))
    sink = Both()
    process = ask(source.stream, form).run(sink)
    for item in PUSHES[way]([(write(tick, form), x) for tick, x in rows]):
        assert not source.push(item).rejected
    assert type(source.cti) is (int if form == "ticks" else datetime)
    source.close()
    assert process.wait(60)
    check(sink.results, sink.rows, expect(rows), form)


# What is refused -------------------------------------------------------------------------------

NOON = 1_795_457_564
EACH_UNIT = (
    rf"unit='s' makes {NOON} the time 2026-11-23T18:12:44Z, unit='ms' 1970-01-21T18:44:17.564.*"
)
DATES = [rxt.PointEvent("2026-01-01T00:00:00Z", {"x": 1})]
SECONDS = [rxt.PointEvent(NOON + n, {"x": 1}) for n in range(3_600)]
TICKS = rxt.from_events([rxt.PointEvent(5, {"x": 1})], name="ticks")
DATETIMES = rxt.from_events(DATES, name="dates")


def count(stream: rxt.Streamable, window: Any) -> rxt.Streamable:
    """Return counts in windows."""
    return stream.tumbling_window(window).aggregate(n=agg.count())


SPANNED: dict[str, Callable[[rxt.Streamable, Any], Any]] = {
    "tumbling_window": count,
    "hopping_window": lambda s, d: s.hopping_window(d, d).aggregate(n=agg.count()),
    "hopping_window2": lambda s, d: s.hopping_window2(d, d).aggregate(n=agg.count()),
    "snap": lambda s, d: s.snap_to_window_intervals(d, d),
    "session_window": lambda s, d: s.session_window(d).aggregate(n=agg.count()),
    "session_window, limited": lambda s, d: s.session_window(d, d).aggregate(n=agg.count()),
    "session_lifetimes": lambda s, d: s.session_lifetimes(d),
    "shift_event_time": lambda s, d: s.shift_event_time(d),
    "extend_lifetime": lambda s, d: s.extend_lifetime(d),
    "clip_event_duration": lambda s, d: s.clip_event_duration(d),
    "chop": lambda s, d: s.chop(d),
    "alter_event_duration": lambda s, d: s.alter_event_duration(d),
    "alter_event_lifetime": lambda s, d: s.alter_event_lifetime(duration=d),
    "advance_time": lambda s, d: rxt.from_events(
        [rxt.PointEvent(5 if s is TICKS else "2026-01-01T00:00:00Z", 1)], advance_time=d
    ),
    "delay of settings": lambda s, d: rxt.from_events(
        [rxt.PointEvent(5 if s is TICKS else "2026-01-01T00:00:00Z", 1)],
        advance_time=rxt.AdvanceTimeSettings(
            rxt.AdvanceTimeGenerationSettings(1, d), policy=rxt.AdvanceTimePolicy.DROP
        ),
    ),
    "delay of a source": lambda s, d: count(
        rxt.PushSource("p", schema={"x": int}, delay=d).stream, 5 if s is TICKS else "5s"
    ),
}


@pytest.mark.parametrize("name", SPANNED)
def test_a_span_of_the_other_form_is_refused_when_composed(name: str) -> None:
    """With a unit over ticks, as a text or a timedelta, and as a number over datetimes."""
    compose = SPANNED[name]
    for stream, wrong in ((TICKS, "5m"), (TICKS, timedelta(minutes=5)), (DATETIMES, 5)):
        with pytest.raises(rxt.ArgumentError, match=r"Hint: .*(unit=|has a unit)"):
            compose(stream, wrong)
    compose(TICKS, 5)
    compose(DATETIMES, "5m")
    compose(DATETIMES, timedelta(minutes=5))


def test_zero_belongs_to_both_forms() -> None:
    """A span or an alignment of 0, a time of 0 and the ends of time fit every stream."""
    assert find_span_form(0, timedelta(0), None) is None
    for stream in (TICKS, DATETIMES):
        stream.shift_event_time(0).shift_event_time(timedelta(0)).to_polars()
    count(DATETIMES, "1d").to_polars()
    for form, time in (("datetime", "2026-01-01T00:00:00Z"), ("ticks", 5)):
        events = [rxt.PointEvent(0, 1), rxt.Cti(rxt.MIN_TIME), rxt.PointEvent(time, 2)]
        for items in (events, iter(events)):
            first, _ = rxt.from_events(items).to_events()
            assert isinstance(first.start_time, datetime) == (form == "datetime")
    for settings in (rxt.INCREASING_START_TIME, rxt.STRICTLY_INCREASING_START_TIME):
        for start in (5, "2026-01-01T00:00:00Z"):
            rxt.from_events([rxt.PointEvent(start, 1)], advance_time=settings).to_polars()


@pytest.mark.parametrize("meet", [
    lambda one, other: one.union(other),
    lambda one, other: one.join(other, on="x"),
    lambda one, other: one.left_anti_join(other, on="x"),
    lambda one, other: one.clip_event_duration(other, on="x"),
    lambda one, other: one.left_outer_join(other, on="x", suffix="_r"),
])  # fmt: skip
def test_streams_of_both_forms_do_not_meet(meet: Callable[..., rxt.Streamable]) -> None:
    """Refused when composed; at the first row where a form is known only then."""
    with pytest.raises(rxt.ArgumentError, match=r"stream 'ticks' are numbers.*'dates' are datetim"):
        meet(TICKS, DATETIMES)
    unknown = rxt.from_events(iter([rxt.PointEvent(5, {"x": 1})]), schema={"x": int})
    with pytest.raises(rxt.EventError, match="a number without a unit, and the times of stream"):
        meet(unknown, DATETIMES).to_polars()
    sides = [rxt.from_events(iter(each), schema={"x": int}) for each in (DATES, SECONDS[:1])]
    with pytest.raises(rxt.EventError, match=r"has times in ticks and datetimes.*an earlier row"):
        meet(*sides).to_polars()


def test_ctis_are_imported_from_streams_of_the_same_form() -> None:
    """The forms of the two are compared when they run together."""
    application = rxt.Application("a")
    application.define_stream("clock", [rxt.PointEvent(5, {"x": 1})])
    follows = application.define_stream("data", DATES, advance_time=rxt.AdvanceTimeSettings(
        imports=rxt.AdvanceTimeImportSettings("clock"), policy=rxt.AdvanceTimePolicy.DROP
    ))  # fmt: skip
    application.query("q", follows)
    with pytest.raises(rxt.ArgumentError, match="streams in ticks and streams of datetimes do not"):
        application.run(sinks={"q": rxt.Collect()})


def test_an_hour_of_unix_seconds_is_never_nothing() -> None:
    """Windows of a minute over bare numbers are refused, with what they are in each unit."""
    for events in (SECONDS, iter(SECONDS)):
        with pytest.raises((rxt.ArgumentError, rxt.EventError), match="unit="):
            count(rxt.from_events(events), "1m").to_polars()
    rows = [{"t": NOON + n, "x": 1} for n in range(3_600)]
    for items in (rows, [rows], [rows[:40]], [pl.DataFrame(rows)], SECONDS):
        source = rxt.PushSource("s", schema={"x": int}, start="t")
        process = count(source.stream, "1m").run(rxt.Collect())
        verdict = source.push(items[0])
        assert not verdict.accepted
        assert re.search(EACH_UNIT, verdict.rejected[0].reason)
        source.close()
        assert process.wait(60)
    seconds = rxt.PushSource("s", schema={"x": int}, start="t", unit="s")
    results = rxt.Collect()
    process = count(seconds.stream, "1m").run(results)
    assert seconds.push(rows).accepted == 3_600
    seconds.close()
    assert process.wait(60)
    assert (len(results.batch), sum(row["n"] for row in results.to_dicts())) == (61, 3_600)


def test_a_source_takes_times_of_one_form() -> None:
    """The first row decides where nothing else does; a row that is rejected does not."""
    good = {"t": 5, "x": 1}
    date = {"t": "2026-01-01T00:00:00Z", "x": 1}
    for first, other in ((good, date), (date, good)):
        source = rxt.PushSource("s", schema={"x": int}, start="t")
        process = source.stream.run(rxt.Collect())
        assert source.push({**other, "x": "no"}).rejected
        assert source.push(first).accepted
        for many in ([other], [other] * 40, [first, other]):
            assert len(source.push(many).rejected) == many.count(other)
        assert source.push({"t": 0, "x": 1}).accepted or source.cti
        source.close()
        assert process.wait(60)


def test_a_datetime_in_the_schema_says_the_form() -> None:
    """Then numbers need a unit, and have one only if it is said."""
    schema = {"t": datetime, "x": int}
    source = rxt.PushSource("s", schema=schema, start="t")
    process = source.stream.run(rxt.Collect())
    (rejected,) = source.push({"t": NOON, "x": 1}).rejected
    assert re.search(rf"the times of stream 's' are datetimes\. Hint: {EACH_UNIT}", rejected.reason)
    source.close()
    assert process.wait(60)
    with pytest.raises(rxt.ArgumentError, match="the times of stream 's' are datetimes"):
        count(rxt.PushSource("s", schema=schema, start="t").stream, 60)


def test_fractions_are_rounded_and_nanoseconds_floored() -> None:
    """To the tick, for rows one by one and many, and texts are floored; NaN and bools are no times.

    A float is the nearest to what was meant: 1.000001 is less than a million and one ticks.
    """
    cases: list[tuple[Any, Any, str]] = [
        ("s", 1.5, "1970-01-01T00:00:01.500000"), ("ms", 1.5, "1970-01-01T00:00:00.001500"),
        ("ns", 1_999, "1970-01-01T00:00:00.000001"), ("ns", -1, "1969-12-31T23:59:59.999999"),
        ("us", -1, "1969-12-31T23:59:59.999999"), ("us", 1.6, "1970-01-01T00:00:00.000002"),
        ("s", 1777636800.1234567, "2026-05-01T12:00:00.123457"),
        ("ns", -1_600.0, "1969-12-31T23:59:59.999998"),
        ("s", "1970-01-01T00:00:00.0000019Z", "1970-01-01T00:00:00.000001"),
        ("s", "1969-12-31T23:59:59.999998999Z", "1969-12-31T23:59:59.999998"),
    ]  # fmt: skip
    for unit, number, time in cases:
        for rows in ([{"t": number}], [{"t": number}] * 40):
            batch, _ = rxt.make_batch(rows, schema={}, start="t", unit=unit)
            assert batch.to_dicts()[0]["start_time"].isoformat() == f"{time}+00:00"
    for wrong in (float("nan"), float("inf"), True, 10**30, None, {}):
        _, rejected = rxt.make_batch([{"t": wrong}], schema={}, start="t", unit="s")
        assert len(rejected) == 1
    with pytest.raises(rxt.ArgumentError, match="unit is one of s, ms, us, ns, ticks, got 'min'"):
        rxt.PushSource("s", schema={}, unit="min")  # type: ignore[arg-type]
