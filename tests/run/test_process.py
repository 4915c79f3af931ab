"""A query that runs into a sink: order, errors from every side, stopping, and one close."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EventShape, IntervalEvent, LateReason, PointEvent
from rxtemporal.core.events import Event
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import ArgumentError, CtiViolationError, RxTemporalError

EVENTS: list[Event] = [PointEvent(1, 1), PointEvent(3, 3), Cti(4), PointEvent(6, 6)]
SCHEMA = {"payload": pl.Int64}


def pulled(events: Any, schema: Any = None) -> Callable[[Log], rxt.Process]:
    """How to run events from an iterable into a sink."""
    return lambda sink: rxt.from_events(events, schema=schema).run(sink)


def pushed(
    events: Any, schema: Any = None, error: Exception | None = None
) -> Callable[[Log], rxt.Process]:
    """How to run events that are pushed into a sink."""

    def run(sink: Log) -> rxt.Process:
        subject: Subject[Any] = Subject()
        process = rxt.from_observable(subject, schema=schema).run(sink)
        for event in events:
            subject.on_next(event)
        subject.on_completed() if error is None else subject.on_error(error)
        return process

    return run


def failing(events: list[Event], error: BaseException) -> Iterator[Event]:
    """Events, then an exception."""
    yield from events
    raise error


both_ways = pytest.mark.parametrize("way", [pulled, pushed])
fields_known = pytest.mark.parametrize("schema", [SCHEMA, None], ids=["schema", "no schema"])


@both_ways
@fields_known
def test_a_sink_is_opened_written_in_order_and_closed(way: Any, schema: Any) -> None:
    """open with name and fields, batches in order until CTI MAX_TIME, one close without error."""
    sink = Log()
    assert way(iter(EVENTS), schema)(sink).wait(SOON)
    assert sink.calls == [
        ("open", ("query", SCHEMA)),
        ("write", ([1, 3], 4)),
        ("write", ([6], MAX_TIME)),
        ("close", None),
    ]


@pytest.mark.parametrize(
    ("shape", "edges"),
    [(EventShape.INTERVAL, [0]), (EventShape.EDGE, [1]), (EventShape.POINT, [0])],
)
def test_a_sink_gets_the_shape_it_asks_for(shape: EventShape, edges: list[int]) -> None:
    """Rows come to the sink as they would come to a subscriber in its shape."""
    sink = Log(shape)
    pulled([rxt.EdgeEvent.create_start(1, 1)])(sink).wait(SOON)
    [batch] = [each for each in sink.batches if len(each)]
    assert batch.edge.tolist() == edges
    assert batch.end.tolist() == [2 if shape is EventShape.POINT else MAX_TIME]


def test_after_each_batch_just_the_rows_before_its_cti_have_been_written() -> None:
    """In interval shape a sink knows from the CTI what it has."""
    sink = Log()
    events = [PointEvent(9, 9), PointEvent(1, 1), Cti(4), IntervalEvent(4, 5, 4), Cti(7)]
    pulled(iter(events))(sink).wait(SOON)
    written: list[int] = []
    for batch in sink.batches:
        written += batch.start.tolist()
        assert sorted(written) == sorted(t for t in (9, 1, 4) if t < batch.cti)


@both_ways
def test_a_query_without_events_still_opens_and_closes(way: Any) -> None:
    """A stream that ends at once gives the sink the end of time, its fields known or not."""
    for schema in (SCHEMA, None):
        sink = Log()
        way([], schema)(sink).wait(SOON)
        assert sink.calls[1:] == [("write", ([], MAX_TIME)), ("close", None)]


# Errors -----------------------------------------------------------------------------------------


def test_an_error_of_the_source_is_raised_by_wait() -> None:
    """What the source raised ends the process; what came before it was written."""
    boom = ConnectionError("the line is dead")
    for run in (pulled(failing(EVENTS, boom)), pushed(EVENTS, error=boom)):
        sink = Log()
        process = run(sink)
        with pytest.raises(ConnectionError, match="the line is dead"):
            process.wait(SOON)
        assert sink.rows == [1, 3]
        assert sink.ended_by is boom
        assert sink.told.count("close") == 1


@both_ways
def test_an_error_of_the_query_is_raised_by_wait(way: Any) -> None:
    """A violation without a policy ends the process after what was accepted before it."""
    sink = Log()
    process = way([*EVENTS, PointEvent(2, 2)])(sink)
    with pytest.raises(CtiViolationError, match="breaks CTI"):
        process.wait(SOON)
    assert sink.rows == [1, 3]
    assert isinstance(sink.ended_by, CtiViolationError)


def test_an_error_of_a_users_function_names_the_line_that_composed_it() -> None:
    """A predicate that raises ends the process with its own exception, and a note of the place."""

    def bad(row: Any) -> bool:
        raise ZeroDivisionError(row)

    sink = Log()
    process = rxt.from_events(EVENTS, schema=SCHEMA).where(bad).run(sink)
    with pytest.raises(ZeroDivisionError) as raised:
        process.wait(SOON)
    assert any(f"{__file__}:" in note for note in raised.value.__notes__)
    assert sink.told == ["open", "close"]
    assert sink.ended_by is raised.value


def test_what_open_raises_keeps_the_query_from_starting() -> None:
    """With fields known run itself raises; the source is not touched and close is not called."""
    read: list[Event] = []
    sink = Log(raises="open")
    with pytest.raises(OSError, match="the disk of open is full"):
        pulled((read.append(e) or e for e in EVENTS), SCHEMA)(sink)  # type: ignore[func-returns-value]
    assert (sink.told, read) == (["open"], [])


@both_ways
def test_what_open_raises_later_ends_the_process(way: Any) -> None:
    """Where fields are known with the first event only, wait raises; close is not called either."""
    sink = Log(raises="open")
    process = way(iter(EVENTS))(sink)
    with pytest.raises(OSError, match="the disk of open is full"):
        process.wait(SOON)
    assert sink.told == ["open"]


@both_ways
@fields_known
def test_what_write_raises_ends_the_process(way: Any, schema: Any) -> None:
    """Nothing is written after a write that failed, and close is told why."""
    sink = Log(raises="write")
    process = way(iter(EVENTS), schema)(sink)
    with pytest.raises(OSError, match="the disk of write is full"):
        process.wait(SOON)
    assert sink.told == ["open", "write", "close"]
    assert isinstance(sink.ended_by, OSError)


@both_ways
def test_what_close_raises_is_raised_by_wait(way: Any) -> None:
    """A close that fails is not a success; after another error, that one is told."""
    sink = Log(raises="close")
    process = way(EVENTS)(sink)
    for _ in range(2):
        with pytest.raises(OSError, match="the disk of close is full"):
            process.wait(SOON)
    assert sink.told.count("close") == 1
    process = way([*EVENTS, PointEvent(2, 2)])(Log(raises="close"))
    with pytest.raises(CtiViolationError):
        process.wait(SOON)


def test_a_sinks_error_does_not_reach_the_producer() -> None:
    """Who pushes is not told that a sink failed, and may go on pushing."""
    subject: Subject[Any] = Subject()
    process = rxt.from_observable(subject).run(Log(raises="write"))
    for event in EVENTS:
        subject.on_next(event)
    with pytest.raises(OSError, match="write"):
        process.wait(SOON)
    subject.on_next(Cti(100))
    subject.on_completed()


@pytest.mark.parametrize("sink", [None, 7, object(), Log])
def test_what_is_no_sink_is_refused(sink: Any) -> None:
    """An error names what is neither a sink nor a function before anything runs."""
    with pytest.raises(ArgumentError, match="results go into a sink or a function of batches"):
        rxt.from_events(EVENTS).run(sink)


# Waiting and stopping ---------------------------------------------------------------------------


def test_wait_can_be_asked_whether_it_is_over() -> None:
    """A process that still runs gives False after the time-out, one that has ended True."""
    subject: Subject[Any] = Subject()
    process = rxt.from_observable(subject).run(Log())
    assert process.wait(0) is False
    assert process.diagnostics().running
    subject.on_completed()
    assert process.wait(SOON) is True
    assert process.wait() is True
    assert not process.diagnostics().running


def test_leaving_the_context_waits_for_the_end() -> None:
    """After the block everything has been written and the sink is closed."""
    sink = Log()
    with pulled(EVENTS)(sink) as process:
        assert process.name == "query"
    assert sink.rows == [1, 3, 6]
    assert sink.told[-1] == "close"


def test_leaving_the_context_raises_what_ended_the_process() -> None:
    """An error of the query is raised where the block ends."""
    with pytest.raises(CtiViolationError), pulled([*EVENTS, PointEvent(2, 2)])(Log()):
        pass


def test_a_block_that_raises_stops_the_process() -> None:
    """The block's exception goes on, and close is told of it."""
    subject: Subject[Any] = Subject()
    sink = Log()
    with pytest.raises(KeyError), rxt.from_observable(subject, schema=SCHEMA).run(sink):
        raise KeyError("in the block")
    assert isinstance(sink.ended_by, KeyError)
    assert not subject.observers


def test_an_interrupt_while_leaving_the_context_stops_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person who presses Ctrl-C while the block waits gets the sink closed."""
    waiting, go_on = threading.Event(), threading.Event()

    def interrupted() -> Iterator[Event]:
        yield from EVENTS
        waiting.wait(SOON)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go_on.wait(SOON)

    sink = Log()
    process = pulled(interrupted(), SCHEMA)(sink)
    wait = process.wait
    monkeypatch.setattr(process, "wait", lambda: waiting.set() or wait())
    with pytest.raises(KeyboardInterrupt), process:
        pass
    go_on.set()
    assert sink.told.count("close") == 1
    assert isinstance(sink.ended_by, KeyboardInterrupt)


def test_dispose_stops_and_closes_once() -> None:
    """Stopping is not an error, can be done twice, and what comes afterwards is not written."""
    subject: Subject[Any] = Subject()
    sink = Log()
    process = rxt.from_observable(subject).run(sink)
    for event in EVENTS:
        subject.on_next(event)
    process.dispose()
    process.dispose()
    assert process.wait(0) is True
    assert not subject.observers
    subject.on_next(Cti(100))
    assert sink.told == ["open", "write", "close"]
    assert isinstance(sink.ended_by, RxTemporalError)


def test_dispose_does_not_wait_for_an_iterator_that_waits() -> None:
    """A source that is blocked in its next event does not keep the process from being stopped."""
    entered, go_on = threading.Event(), threading.Event()

    def blocking() -> Iterator[Event]:
        yield from EVENTS
        entered.set()
        go_on.wait(SOON)
        yield Cti(100)

    sink = Log()
    process = pulled(blocking())(sink)
    assert entered.wait(SOON)
    process.dispose()
    assert process.wait(0)
    go_on.set()
    assert sink.told == ["open", "write", "close"]


@both_ways
def test_a_sink_may_stop_its_process_from_inside(way: Any) -> None:
    """dispose from inside write returns, and the sink is closed once."""
    sink = Log(during={"write": lambda: running[0].dispose()})
    running: list[rxt.Process] = []
    if way is pulled:
        started = threading.Event()

        def events() -> Iterator[Event]:
            started.wait(SOON)
            yield from EVENTS

        running.append(rxt.from_events(events()).run(sink))
        started.set()
    else:
        subject: Subject[Any] = Subject()
        running.append(rxt.from_observable(subject).run(sink))
        for event in EVENTS:
            subject.on_next(event)
    assert running[0].wait(SOON)
    assert sink.told == ["open", "write", "close"]


def test_a_sink_is_not_closed_in_the_midst_of_a_write() -> None:
    """A process stopped from another thread lets the write that is under way finish first."""
    subject: Subject[Any] = Subject()
    writing, stopping = threading.Event(), threading.Event()
    seen: list[str] = []

    def during() -> None:
        writing.set()
        stopping.wait(SOON)
        # the stopping thread has every chance to close now
        for _ in range(1_000):
            threading.Event().wait(0)
        seen.append(sink.told[-1])

    sink = Log(during={"write": during})
    process = rxt.from_observable(subject).run(sink)
    producer = threading.Thread(target=lambda: [subject.on_next(event) for event in EVENTS])
    producer.start()
    assert writing.wait(SOON)
    stopper = threading.Thread(target=process.dispose)
    stopper.start()
    while subject.observers:  # the first thing that stopping does
        threading.Event().wait(0)
    stopping.set()
    producer.join(SOON)
    stopper.join(SOON)
    assert seen == ["write"]
    assert sink.told == ["open", "write", "close"]


def test_a_producer_does_not_wait_for_the_close() -> None:
    """on_completed returns while the sink still carries things on."""
    go_on = threading.Event()
    sink = Log(during={"close": lambda: go_on.wait(SOON)})
    process = pushed(EVENTS)(sink)
    assert process.wait(0) is False
    go_on.set()
    assert process.wait(SOON)


# Diagnostics ------------------------------------------------------------------------------------


def test_diagnostics_count_what_has_been_done() -> None:
    """Events in, rows and batches out, the CTI, and late events by reason, for every source."""
    drop = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    frame = pl.DataFrame({"t": [1, 5, 2], "payload": [1, 5, 2]})
    events = [PointEvent(t, t) for t in (1, 5, 2)]
    for stream in (
        rxt.from_events(events, advance_time=drop),
        rxt.from_polars(frame, start="t", advance_time=drop),
    ):
        process = stream.run(Log(), name="counted")
        process.wait(SOON)
        done = process.diagnostics()
        assert (done.name, done.events_in, done.rows_out, done.cti) == ("counted", 3, 2, MAX_TIME)
        assert done.late == {LateReason.DROPPED: 1}
        assert done.largest_lateness == 3
        assert done.batches_out >= 1


def test_a_frame_without_settings_is_counted_too() -> None:
    """events_in counts the rows of a frame whose time is not made up."""
    process = rxt.from_polars(pl.DataFrame({"t": [1, 2, 3]}), start="t").run(Log())
    process.wait(SOON)
    assert process.diagnostics().events_in == 3
