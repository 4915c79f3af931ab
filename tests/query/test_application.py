"""Applications: named streams and queries, several queries run as one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent, agg
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import ArgumentError, BindingError, CtiViolationError

EVENTS = [PointEvent(1, 1), PointEvent(3, 3), Cti(4), PointEvent(6, 6)]


class Counted:
    """Events that count how often they are iterated."""

    def __init__(self, events: list[Any] = EVENTS) -> None:
        self.times = 0
        self.events = events

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return iter(self.events)


def big_ones(numbers: rxt.Streamable, least: int) -> rxt.Streamable:
    """A query as a plain function with a parameter."""
    return numbers.where(pl.col("payload") >= least)


def application(source: Any) -> rxt.Application:
    """Two queries over one stream."""
    app = rxt.Application("numbers")
    numbers = app.define_stream("in", source)
    app.query("all", numbers)
    app.query("big", big_ones(app.stream("in"), 3))
    return app


# Running together -------------------------------------------------------------------------------


def test_queries_of_one_process_share_their_source() -> None:
    """The source is iterated once, and each sink gets its own query's rows under its name."""
    source = Counted()
    every, big = Log(), Log()
    with application(source).run("all", "big", sinks=[every, big]) as process:
        process.wait(SOON)
    assert source.times == 1
    assert (every.rows, big.rows) == ([1, 3, 6], [3, 6])
    assert [sink.calls[0][1][0] for sink in (every, big)] == ["all", "big"]
    assert [sink.ended_by for sink in (every, big)] == [None, None]


WAYS: dict[str, Callable[[rxt.Application, Log, Log], rxt.Process]] = {
    "a mapping": lambda app, one, two: app.run("all", "big", sinks={"big": two, "all": one}),
    "a mapping alone": lambda app, one, two: app.run(sinks={"all": one, "big": two}),
    "in order": lambda app, one, two: app.run("all", "big", sinks=[one, two]),
    "arguments": lambda app, one, two: app.run("all", "big", one, two),
    "the queries themselves": lambda app, one, two: app.run(
        app.stream("all"), app.stream("big"), sinks=(one, two)
    ),
}


@pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
def test_sinks_are_given_in_any_of_these_ways(run: Any) -> None:
    """A mapping, a sequence, or sinks after the queries: each query finds its sink."""
    one, two = Log(), Log()
    assert run(application(EVENTS), one, two).wait(SOON)
    assert (one.rows, two.rows) == ([1, 3, 6], [3, 6])


def test_one_query_may_have_its_sink_alone() -> None:
    """A single sink needs no list around it."""
    sink = Log()
    application(EVENTS).run("big", sinks=sink).wait(SOON)
    assert sink.rows == [3, 6]


def test_a_query_is_another_ones_named_input() -> None:
    """What two queries stand on is computed once, also where it is a result of its own."""
    called: list[int] = []
    app = rxt.Application("chain")
    numbers = app.define_stream("in", EVENTS, schema={"payload": int})
    app.query("kept", numbers.where(lambda row: not called.append(row["payload"])))
    app.query("counted", app.stream("kept").tumbling_window(10).aggregate(payload=agg.count()))
    kept, counted = Log(), Log()
    app.run("kept", "counted", kept, counted).wait(SOON)
    assert (kept.rows, counted.rows, called) == ([1, 3, 6], [3], [1, 3, 6])


def test_the_same_query_under_two_names_feeds_two_sinks() -> None:
    """A stream can be the output of several queries."""
    app = application(EVENTS)
    app.query("again", app.stream("big"))
    one, two = Log(), Log(rxt.EventShape.POINT)
    app.run("big", "again", one, two).wait(SOON)
    assert one.rows == two.rows == [3, 6]


def test_a_process_ends_when_its_last_query_does() -> None:
    """One source may complete before the other; sinks are closed together at the end."""
    slow: Subject[Any] = Subject()
    app = rxt.Application("uneven")
    app.query("early", app.define_stream("short", EVENTS))
    app.query("late", app.define_stream("long", rxt.from_observable(slow)))
    written = threading.Event()
    short, long = Log(during={"write": lambda: short.rows[-1] == 6 and written.set()}), Log()
    process = app.run("early", "late", short, long)
    assert written.wait(SOON)
    assert process.wait(0) is False
    assert "close" not in short.told
    slow.on_next(PointEvent(1, 1))
    slow.on_completed()
    assert process.wait(SOON)
    assert (long.rows, short.told[-1], long.told[-1]) == ([1], "close", "close")


def test_each_run_reads_anew() -> None:
    """An application can be run again, and a run has a state of its own."""
    source = Counted()
    app = application(source)
    for times in (1, 2):
        sink = Log()
        app.run("all", sink).wait(SOON)
        assert (source.times, sink.rows) == (times, [1, 3, 6])


def test_diagnostics_tell_of_each_stream_and_query() -> None:
    """Totals for the process; streams under the application's names; queries with their CTIs."""
    process = application(EVENTS).run("all", "big", Log(), Log(), name="night")
    process.wait(SOON)
    done = process.diagnostics()
    assert (done.name, done.running, done.events_in, done.rows_out) == ("night", False, 3, 5)
    assert [(each.name, each.events_in, each.cti) for each in done.streams] == [("in", 3, MAX_TIME)]
    assert [(each.name, each.rows_out, each.cti) for each in done.queries] == [
        ("all", 3, MAX_TIME),
        ("big", 2, MAX_TIME),
    ]


def test_errors_name_the_stream_as_the_application_does() -> None:
    """A late event is blamed on the stream's name here, not on the one it was made with."""
    app = rxt.Application("named")
    made = rxt.from_events([Cti(5), PointEvent(1, 1)], name="made")
    app.query("all", app.define_stream("readings", made))
    with pytest.raises(CtiViolationError, match="stream 'readings'"):
        app.run("all", Log()).wait(SOON)


# Failing and stopping as one --------------------------------------------------------------------


def test_the_error_of_one_query_ends_all() -> None:
    """Both sinks are told what happened, and nothing of the process goes on."""
    source: Subject[Any] = Subject()
    app = rxt.Application("failing")
    numbers = app.define_stream("in", rxt.from_observable(source, schema={"payload": int}))
    app.query("fine", numbers)
    app.query("bad", numbers.where(lambda row: 1 // (row["payload"] - 3) < 9))
    fine, bad = Log(), Log()
    process = app.run("fine", "bad", fine, bad)
    for event in [PointEvent(1, 1), Cti(2), PointEvent(3, 3), Cti(4)]:
        source.on_next(event)
    with pytest.raises(ZeroDivisionError):
        process.wait(SOON)
    assert not source.observers
    assert isinstance(fine.ended_by, ZeroDivisionError)
    assert isinstance(bad.ended_by, ZeroDivisionError)


@pytest.mark.parametrize("step", ["write", "close"])
def test_a_sink_that_fails_closes_the_others(step: str) -> None:
    """The first sink's error reaches wait, and the second is closed and told of it."""
    one, two = Log(raises=step), Log()
    schema = {"payload": int}
    process = application(rxt.from_events(EVENTS, schema=schema)).run("all", "big", one, two)
    with pytest.raises(OSError, match=f"the disk of {step} is full"):
        process.wait(SOON)
    assert two.told[-1] == "close"
    assert isinstance(two.ended_by, OSError)


def test_a_sink_that_cannot_be_opened_keeps_all_from_starting() -> None:
    """What was opened before it is closed, and no source is asked."""
    source = Counted()
    app = rxt.Application("shut")
    numbers = app.define_stream("in", source, schema={"payload": int})
    app.query("one", numbers)
    app.query("two", numbers)
    one, two = Log(), Log(raises="open")
    with pytest.raises(OSError, match="the disk of open is full"):
        app.run("one", "two", one, two)
    assert one.told == ["open", "close"]
    assert two.told == ["open"]


def test_stopping_stops_all() -> None:
    """dispose closes every sink once and lets go of every source."""
    sources = [Subject[Any](), Subject[Any]()]
    app = rxt.Application("stopped")
    sinks = [Log(), Log()]
    for name, source in zip("ab", sources, strict=True):
        app.query(name + "s", app.define_stream(name, rxt.from_observable(source)))
        app.stream(name)
    process = app.run("as", "bs", sinks=sinks)
    for source in sources:
        source.on_next(PointEvent(1, 1))
        source.on_next(Cti(2))
    process.dispose()
    assert process.wait(0)
    assert [sink.told for sink in sinks] == [["open", "write", "close"]] * 2
    assert not any(source.observers for source in sources)


# What is refused --------------------------------------------------------------------------------


def test_a_process_is_not_started_twice() -> None:
    """A process is one run."""
    process = application(EVENTS).run("all", Log())
    with pytest.raises(BindingError, match="process 'numbers' has been started before"):
        process.start()
    process.wait(SOON)


BAD: dict[str, tuple[Callable[[rxt.Application], object], type[Exception], str]] = {
    "two streams of one name": (
        lambda app: app.define_stream("in", EVENTS),
        BindingError,
        "'numbers' already has a stream 'in'. Hint: rename one",
    ),
    "a query named as a stream": (
        lambda app: app.query("in", app.stream("all")),
        BindingError,
        "'numbers' already has a stream 'in'",
    ),
    "a stream named as a query": (
        lambda app: app.define_stream("big", EVENTS),
        BindingError,
        "'numbers' already has a query 'big'",
    ),
    "one stream under two names": (
        lambda app: app.define_stream("other", app.stream("in")),
        BindingError,
        "stream 'other' already has the name 'in'",
    ),
    "a computed input": (
        lambda app: app.define_stream("other", app.stream("big")),
        BindingError,
        r"stream 'other' is computed from others.*Hint: name .* with query\('other', …\)",
    ),
    "options of a stream that is made": (
        lambda app: app.define_stream("other", rxt.from_events([]), schema={"x": int}),
        ArgumentError,
        "define_stream takes schema only with an iterable of events",
    ),
    "a source that is none": (
        lambda app: app.define_stream("other", 5),
        ArgumentError,
        "takes a stream or an iterable of events, got 5",
    ),
    "a name that is none": (
        lambda app: app.define_stream("", EVENTS),
        ArgumentError,
        "the name of a stream must be a non-empty string, got ''",
    ),
    "an application without a name": (
        lambda app: rxt.Application(None),  # type: ignore[arg-type]
        ArgumentError,
        "the name of an application must be a non-empty string",
    ),
    "a function as query": (
        lambda app: app.query("other", big_ones),  # type: ignore[arg-type]
        ArgumentError,
        "query takes a stream, got <function.*Hint: call a query that is a function",
    ),
    "a stream that is not there": (
        lambda app: app.stream("out"),
        BindingError,
        "there is no stream 'out' in 'numbers'; there are 'in', 'all', 'big'",
    ),
    "a query that is not there": (
        lambda app: app.run("small", Log()),
        BindingError,
        "run takes queries of 'numbers' and sinks, got 'small'; there are 'all', 'big'",
    ),
    "no query": (lambda app: app.run(), BindingError, "run got no query"),
    "a query twice": (
        lambda app: app.run("all", "all", Log(), Log()),
        BindingError,
        "run got the same query twice: all, all",
    ),
    "too few sinks": (
        lambda app: app.run("all", "big", Log()),
        BindingError,
        "run got 2 queries and 1 sinks. Hint: pass one sink for each query",
    ),
    "a sink for another": (
        lambda app: app.run("all", sinks={"big": Log()}),
        BindingError,
        "run got the queries all, but sinks for big",
    ),
    "what is not a sink": (
        lambda app: app.run("all", sinks=[object()]),
        ArgumentError,
        "results go into a sink or a function of batches, got <object.*Hint: derive",
    ),
    "a sink twice": (
        lambda app: app.run("all", "big", sinks=[sink := Log(), sink]),
        BindingError,
        "two queries share a sink. Hint: give each a sink of its own",
    ),
}


@pytest.mark.parametrize(("do", "error", "message"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused_before_anything_runs(
    do: Any, error: type[Exception], message: str
) -> None:
    """Each mistake has a message that says what was given and what there is."""
    with pytest.raises(error, match=message):
        do(application(EVENTS))
