"""The end of a run, as those who push see it: told at once, to everybody, and never twice."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex import operators as rx
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent, ProcessEndedError
from rxtemporal.errors import BindingError, CheckpointError, SchemaError, SpoolError
from rxtemporal.run.run_end import RunEnd

SCHEMA = {"x": int}
SUBJECT = rxt.CtiSynchronizingSubjectAlternate
TRIALS = 50
DURABLE = pytest.mark.parametrize("durable", ["log", "resume"])


def good(at: int) -> PointEvent:
    """An event that fits."""
    return PointEvent(at, {"x": at})


def bad(at: int) -> PointEvent:
    """An event that does not."""
    return PointEvent(at, {"x": "not a number"})


def starts(sink: Log) -> list[int]:
    """The starts of the rows that a sink has."""
    return [int(each) for batch in sink.batches for each in batch.start]


def started(
    tmp_path: Path, durable: str | None, sink: Any = None, **options: Any
) -> tuple[Subject[Any], rxt.Process]:
    """A run of one subject, with a log, a checkpoint, or neither."""
    subject: Subject[Any] = Subject()
    where = {} if durable is None else {durable: tmp_path}
    stream = rxt.from_observable(subject, schema=SCHEMA, name="readings", **options)
    return subject, stream.run(sink or Log(), **where)


def push_for_ever(subject: Subject[Any]) -> None:
    """Push events and CTIs until one is refused."""
    for at in itertools.count(1):
        subject.on_next(good(at))
        subject.on_next(Cti(at + 1))


def test_the_first_error_stays_and_the_end_is_final() -> None:
    """What comes later neither replaces the error nor takes the end back."""
    end, first = RunEnd(), OSError("first")
    assert (end.accepts, end.ended, end.error) == (True, False, None)
    end.close(first)
    assert (end.accepts, end.ended, end.error) == (False, False, first)
    end.end(OSError("second"))
    end.close(OSError("third"))
    assert (end.accepts, end.ended, end.error) == (False, True, first)
    refused = end.refuse("readings")
    assert refused.__cause__ is first
    assert isinstance(refused, BindingError)


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
@pytest.mark.parametrize("durable", ["log", "resume"])
def test_a_bad_payload_refuses_all_that_is_pushed_after_it(
    tmp_path: Path, durable: str, hand_off: Any
) -> None:
    """Its push raises, the next good one raises too, and wait(0) gives the error at once."""
    for trial in range(TRIALS):
        subject, process = started(tmp_path / str(trial), durable, hand_off=hand_off)
        subject.on_next(good(1))
        with pytest.raises((SchemaError, SpoolError, ProcessEndedError)):
            subject.on_next(bad(2))
        for at in (3, 4, 5):
            with pytest.raises(ProcessEndedError, match="'readings' has not accepted") as refused:
                subject.on_next(good(at))
            assert isinstance(refused.value.__cause__, SchemaError)
        assert not process.running
        assert isinstance(process.error, SchemaError)
        with pytest.raises(SchemaError):
            process.wait(0)
        with pytest.raises(SchemaError):
            process.wait(SOON)


@pytest.mark.parametrize("round_", [rxt.CtiSynchronizingSubject, SUBJECT], ids=["one", "two"])
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
@pytest.mark.parametrize("by_input", [False, True], ids=["subject", "input"])
@DURABLE
def test_a_synchronizing_subject_passes_the_refusal_on(
    tmp_path: Path, round_: Any, hand_off: Any, by_input: bool, durable: str
) -> None:
    """Its other subscribers get each event all the same, and the producer is told of the end."""
    for trial in range(10):
        subject = round_.create_point(0)
        others: list[Any] = []
        subject.subscribe(others.append)
        stream = rxt.from_observable(subject, schema=SCHEMA, name="readings", hand_off=hand_off)
        process = stream.run(Log(), **{durable: tmp_path / str(trial)})
        push = subject.input("a").on_next if by_input else subject.on_next
        push(good(1))
        with pytest.raises((SchemaError, SpoolError, ProcessEndedError)):
            push(bad(2))
        for at in (3, 4):
            with pytest.raises(ProcessEndedError, match="'readings' has not accepted"):
                push(good(at))
        assert [each.start for each in others] == [1, 2, 3, 4]
        with pytest.raises(SchemaError):
            process.wait(0)


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
def test_without_a_log_a_bad_payload_is_told_by_the_process(tmp_path: Path, hand_off: Any) -> None:
    """A subject with ordinary subscribers goes on; the process says at once that it has failed."""
    for _ in range(TRIALS):
        told: list[rxt.Process] = []
        subject, process = started(tmp_path, None, hand_off=hand_off)
        process.add_done_callback(told.append)
        subject.on_next(bad(2))
        subject.on_next(Cti(3))
        with pytest.raises(SchemaError):
            process.wait(0)
        assert not process.running
        with pytest.raises(SchemaError):
            process.wait(SOON)
        subject.on_next(good(4))
        while not told:  # called after the waiting threads have been released
            threading.Event().wait(0.001)
        assert told == [process]


@DURABLE
def test_what_was_not_accepted_is_accepted_by_the_next_run(tmp_path: Path, durable: str) -> None:
    """Another run over the same subject takes the pushes again; each accepted row is there once."""
    subject, process = started(tmp_path, durable)
    subject.on_next(good(1))
    with pytest.raises((SchemaError, SpoolError, ProcessEndedError)):
        subject.on_next(bad(2))
    with pytest.raises(ProcessEndedError):
        subject.on_next(good(3))
    with pytest.raises(SchemaError):
        process.wait(SOON)
    sink = Log()
    stream = rxt.from_observable(subject, schema=SCHEMA, name="readings")
    again = stream.run(sink, **{durable: tmp_path})
    subject.on_next(good(4))
    subject.on_next(Cti(9))
    again.stop()
    assert starts(sink) == [1, 4]
    with pytest.raises(ProcessEndedError, match="stopped"):
        subject.on_next(good(5))


@DURABLE
def test_of_several_producers_none_is_told_that_its_row_was_taken(
    tmp_path: Path, durable: str
) -> None:
    """While one pushes what ends the run, the rows of the others are in the log or refused."""
    for trial in range(20):
        folder = tmp_path / str(trial)
        subject, process = started(folder, durable)
        start = threading.Barrier(4)
        acknowledged: list[int] = []

        def produce(number: int) -> None:
            start.wait(SOON)  # noqa: B023
            for n in range(10):
                at = 1 + n * 10 + number
                try:
                    subject.on_next(bad(at) if (number, n) == (0, 4) else good(at))  # noqa: B023
                except Exception:
                    return
                acknowledged.append(at)  # noqa: B023

        threads = [threading.Thread(target=produce, args=(each,)) for each in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON)
        with pytest.raises(SchemaError):
            process.wait(SOON)
        sink = Log()
        again: Subject[Any] = Subject()
        stream = rxt.from_observable(again, schema=SCHEMA, name="readings")
        process = stream.run(sink, **{durable: folder})
        again.on_next(Cti(1_000))
        process.stop()
        assert sorted(starts(sink)) == sorted(set(starts(sink)))
        assert set(acknowledged) <= set(starts(sink))


@DURABLE
def test_a_stopped_run_refuses_what_is_pushed(tmp_path: Path, durable: str) -> None:
    """After stop() a push raises: nobody would have it."""
    subject, process = started(tmp_path, durable)
    subject.on_next(good(1))
    process.stop()
    for _ in range(3):
        with pytest.raises(ProcessEndedError, match="run the query again") as refused:
            subject.on_next(good(2))
        assert refused.value.__cause__ is None
    assert len(subject.observers) == 1


def test_a_producer_that_waits_for_room_gets_the_runs_error(tmp_path: Path) -> None:
    """A full hand-off releases its producer with ProcessEndedError when the run fails."""
    entered, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        entered.set()
        go_on.wait(SOON)
        raise OSError("the disk is full")

    sink = Log(during={"write": fail})
    subject, process = started(tmp_path, None, sink, hand_off=rxt.HandOff(2))
    raised: list[Exception] = []

    def produce() -> None:
        try:
            for at in range(20):
                subject.on_next(good(at))
                subject.on_next(Cti(at + 1))
        except Exception as error:
            raised.append(error)

    producer = threading.Thread(target=produce)
    producer.start()
    assert entered.wait(SOON)
    (stream,) = process.diagnostics().streams
    while stream.hand_off and not stream.hand_off.times_blocked:
        (stream,) = process.diagnostics().streams
    go_on.set()
    producer.join(SOON)
    with pytest.raises(OSError, match="the disk is full"):
        process.wait(SOON)
    (error,) = raised
    assert isinstance(error, ProcessEndedError)
    assert isinstance(error.__cause__, OSError)


def test_an_observable_of_another_kind_is_released(tmp_path: Path) -> None:
    """Only what users push into stays subscribed: a mapped subject is disposed at the end."""
    subject: Subject[Any] = Subject()
    mapped = subject.pipe(rx.map(lambda each: each))
    process = rxt.from_observable(mapped, schema=SCHEMA, name="readings").run(
        Log(), resume=tmp_path
    )
    process.stop()
    assert not subject.observers


@pytest.mark.parametrize("how", ["running", "error"])
def test_the_end_is_visible_before_a_later_push_returns(tmp_path: Path, how: str) -> None:
    """A sink fails on the hand-off's thread while pushes come in: a later one finds the error."""
    asked: dict[str, Callable[[rxt.Process], bool]] = {
        "running": lambda process: not process.running,
        "error": lambda process: isinstance(process.error, OSError),
    }
    for trial in range(20):
        sink = Log(raises="write")
        subject, process = started(tmp_path / str(trial), "log", sink, hand_off=rxt.HandOff(1_000))
        with pytest.raises(ProcessEndedError):
            push_for_ever(subject)
        assert asked[how](process)
        with pytest.raises(OSError, match="write"):
            process.wait(0)


# Completed --------------------------------------------------------------------------------------


def test_on_completed_at_shutdown_is_refused_at_the_next_start(tmp_path: Path) -> None:
    """A service that ends its stream in place of its process is told so, before a push is lost."""
    subject, process = started(tmp_path, "resume")
    subject.on_next(good(1))
    subject.on_completed()
    process.wait(SOON)
    with pytest.raises(CheckpointError, match=r"completed .* new folder") as refused:
        started(tmp_path, "resume")
    assert "process.stop()" in str(refused.value)
    subject, process = started(tmp_path / "new", "resume")
    subject.on_next(good(1))
    process.stop()
    subject, process = started(tmp_path / "new", "resume")
    subject.on_next(good(2))
    process.stop()
    assert process.diagnostics().events_in == 2


def test_bounded_sources_of_a_completed_run_are_resumed(tmp_path: Path) -> None:
    """A list and a frame that have been read whole give nothing more, and no error."""
    events, frame = [good(1), Cti(2)], pl.DataFrame({"t": [1, 2], "x": [1, 2]})
    for stream in (
        rxt.from_events(events, schema=SCHEMA),
        rxt.from_polars(frame, start="t"),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        assert stream.run(Log(), resume=folder).wait(SOON)
        sink = Log()
        assert stream.run(sink, resume=folder).wait(SOON)
        assert not starts(sink)


@DURABLE
def test_one_of_two_streams_that_has_completed_refuses(tmp_path: Path, durable: str) -> None:
    """The run goes on with the other stream; what is pushed into the completed one raises."""

    def begin() -> tuple[Subject[Any], Subject[Any], rxt.Process]:
        one, two = Subject[Any](), Subject[Any]()
        streams = [
            rxt.from_observable(each, schema=SCHEMA, name=name)
            for each, name in ((one, "one"), (two, "two"))
        ]
        return one, two, streams[0].union(streams[1]).run(Log(), **{durable: tmp_path})

    one, two, process = begin()
    one.on_next(good(1))
    one.on_completed()
    two.on_next(good(1))
    process.stop()
    one, two, process = begin()
    for _ in range(2):
        with pytest.raises(ProcessEndedError, match=r"'one' .* has completed"):
            one.on_next(good(2))
    two.on_next(good(2))
    assert process.running
    process.stop()


def test_a_completed_log_is_computed_again_and_refuses_pushes(tmp_path: Path) -> None:
    """log= computes all results again; what is pushed into a stream that had completed raises."""
    subject, process = started(tmp_path, "log")
    subject.on_next(good(1))
    subject.on_completed()
    process.wait(SOON)
    sink = Log()
    subject, process = started(tmp_path, "log", sink)
    assert process.wait(SOON)
    assert starts(sink) == [1]
    with pytest.raises(ProcessEndedError, match="has completed"):
        subject.on_next(good(2))


# Sources that give verdicts ---------------------------------------------------------------------


def rows(at: int) -> dict[str, int]:
    """A row of a source."""
    return {"time": at, "x": at}


@pytest.mark.parametrize("durable", [None, "log", "resume"])
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
def test_a_source_whose_run_has_failed_refuses(
    tmp_path: Path, durable: str | None, hand_off: Any
) -> None:
    """A sink that fails ends the run, and each push from then on raises, with the cause."""
    source = rxt.PushSource("readings", schema=SCHEMA, hand_off=hand_off)
    where = {} if durable is None else {durable: tmp_path}
    process = source.stream.run(Log(raises="write"), **where)
    with pytest.raises(ProcessEndedError) as refused:
        push_rows_for_ever(source, [])
    assert isinstance(refused.value.__cause__, OSError)
    assert not process.running
    with pytest.raises(OSError, match="write"):
        process.wait(0)
    with pytest.raises(ProcessEndedError):
        source.push(rows(9_999_999))


def push_rows_for_ever(source: rxt.PushSource, accepted: list[int]) -> None:
    """Push rows until one is refused; note those that were accepted."""
    for at in itertools.count(1):
        if source.push(rows(at)).accepted:
            accepted.append(at)


def test_a_closed_source_is_refused_at_the_next_start(tmp_path: Path) -> None:
    """close() ends it for good: a run over it is refused; stop() ends only this run."""

    def begin(folder: str) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("readings", schema=SCHEMA)
        return source, source.stream.run(Log(), resume=tmp_path / folder)

    source, process = begin("stopped")
    assert source.push(rows(1)).accepted == 1
    process.stop()
    with pytest.raises(ProcessEndedError, match="stopped"):
        source.push(rows(2))
    source, process = begin("stopped")
    assert source.push(rows(2)).accepted == 1
    source.close()
    process.wait(SOON)
    with pytest.raises(CheckpointError, match="has completed"):
        begin("stopped")


@DURABLE
def test_a_source_closed_in_an_earlier_run_refuses_beside_another(
    tmp_path: Path, durable: str
) -> None:
    """Of two sources one may end for good; its pushes raise in each later run."""

    def begin() -> tuple[rxt.PushSource, rxt.PushSource, rxt.Process]:
        one, two = (rxt.PushSource(name, schema=SCHEMA) for name in ("one", "two"))
        return one, two, one.stream.union(two.stream).run(Log(), **{durable: tmp_path})

    one, two, process = begin()
    one.push(rows(1))
    two.push(rows(1))
    one.close()
    process.stop()
    one, two, process = begin()
    with pytest.raises(ProcessEndedError, match=r"'one' .* has completed"):
        one.push(rows(2))
    assert two.push(rows(2)).accepted == 1
    process.stop()


@pytest.mark.parametrize("durable", [None, "log", "resume"])
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
def test_a_process_failed_from_a_thread_of_its_sink(
    tmp_path: Path, durable: str | None, hand_off: Any
) -> None:
    """A sink that fails beside its writes ends the process while pushes come in: none is lost."""
    source = rxt.PushSource("readings", schema=SCHEMA, hand_off=hand_off)
    where = {} if durable is None else {durable: tmp_path}
    sink = Log()
    process = source.stream.run(sink, **where)
    broken = OSError("the line is dead")
    threading.Timer(0.05, lambda: process.stop(broken)).start()
    accepted: list[int] = []
    with pytest.raises(ProcessEndedError) as refused:
        push_rows_for_ever(source, accepted)
    assert refused.value.__cause__ is broken
    assert (process.running, process.error) == (False, broken)
    with pytest.raises(OSError, match="dead"):
        process.wait(0)
    with pytest.raises(OSError, match="dead"):
        process.wait(SOON)
    assert sink.ended_by is broken
    if durable is not None:  # each accepted row is in the next run's log or state
        again = rxt.PushSource("readings", schema=SCHEMA, hand_off=hand_off)
        process = again.stream.run(Log(), **where)
        # the row that was refused last may be in the log, too
        assert 0 <= process.diagnostics().events_in - len(accepted) <= 1
        process.stop()
