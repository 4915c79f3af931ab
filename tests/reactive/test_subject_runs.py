"""A subject in front of a run with an event log: failures reach the producer, and state stays."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import shutil
import threading
import weakref
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import oracle
import physical
import polars as pl
import pytest
import strategies
import subject_batches
from hypothesis import given
from hypothesis import strategies as st
from input_ways import BOTH_SUBJECTS, both_subjects
from runs import SOON, Log
from sink_input import wait_until

import rxtemporal as rxt
from rxtemporal import (
    AdvanceTimePolicy,
    Cti,
    CtiSynchronizingSubject,
    EdgeEvent,
    EventBatch,
    EventShape,
    LateReason,
    PointEvent,
    ProcessEndedError,
)
from rxtemporal.errors import SchemaError

DURABLE = ("log", "resume")
durable_runs = pytest.mark.parametrize("durable", DURABLE)


def run(subject: Any, durable: str, place: Path, schema: Any = None, **options: Any) -> rxt.Process:
    """Run a query over a subject, with a log or a checkpoint."""
    stream = rxt.from_observable(subject, schema=schema or {"x": int}, name="readings", **options)
    return stream.run(Log(EventShape.EDGE), **{durable: place})


# Failures ---------------------------------------------------------------------------------------


@both_subjects
@durable_runs
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(100)], ids=["direct", "hand-off"])
def test_the_end_of_a_run_reaches_the_producer(
    kind: Any, durable: str, hand_off: Any, tmp_path: Path
) -> None:
    """The bad push raises and so does each later one; the other subscribers have all events."""
    subject = kind.create_point(0)
    before: list[Any] = []
    after: list[Any] = []
    subject.subscribe(before.append)
    process = run(subject, durable, tmp_path, hand_off=hand_off)
    subject.subscribe(after.append)
    good, bad = PointEvent(1, {"x": 1}), PointEvent(2, {"x": "no number"})
    subject.on_next(good)
    with pytest.raises((ProcessEndedError, SchemaError, rxt.SpoolError)):
        subject.input("a").on_next(bad)
    later = [PointEvent(3, {"x": 3}), Cti(4), points(5, 6, cti=7)]
    for item in later:
        with pytest.raises(ProcessEndedError, match="'readings' has not accepted") as refused:
            subject.input("a").on_next(item)
        assert isinstance(refused.value.__cause__, SchemaError)
    assert before[:3] == after[:3] == [good, bad, later[0]]
    assert len(before) == len(after) == 5
    assert subject.stats().subscriber_errors == 0
    assert not process.running


def points(*starts: int, cti: int = rxt.MIN_TIME) -> EventBatch:
    """A batch of points."""
    start = np.array(starts, np.int64)
    return EventBatch.of_rows(start, start + 1, pl.DataFrame({"x": start}), cti)


@both_subjects
def test_a_run_without_a_log_is_an_ordinary_subscriber(kind: Any) -> None:
    """Its failure is its own, and so is what an ordinary subscriber raises, whatever it is."""
    subject = kind.create_point(0)
    stream = rxt.from_observable(subject, schema={"x": int})
    process = stream.run(Log(EventShape.EDGE))

    def refuse(event: Any) -> None:
        raise ProcessEndedError("of another run")

    subject.subscribe(refuse)
    subject.on_next(PointEvent(1, {"x": "no number"}))
    subject.on_next(Cti(2))
    subject.on_next(PointEvent(3, {"x": 3}))
    with pytest.raises(SchemaError):
        process.wait(SOON)
    assert subject.stats().subscriber_errors == 3


@both_subjects
@pytest.mark.parametrize("durable", [None, "log"])
def test_a_run_ends_while_one_of_its_subjects_delivers(
    kind: Any, durable: str | None, tmp_path: Path
) -> None:
    """A slow subscriber of one subject does not hold up the end of a run that the other fails."""
    slow, fast = kind.create_point(0), kind.create_point(0)
    entered, leave_it = threading.Event(), threading.Event()
    slow.subscribe(lambda event: (entered.set(), leave_it.wait(SOON)))
    first, second = (
        rxt.from_observable(subject, schema={"x": int}, name=name)
        for subject, name in ((slow, "slow"), (fast, "fast"))
    )
    place = {} if durable is None else {durable: tmp_path}
    process = first.union(second).run(lambda batch: None, **place)

    def send(subject: Any, event: Any) -> None:
        with contextlib.suppress(SchemaError, rxt.SpoolError, ProcessEndedError):
            subject.on_next(event)
            subject.on_next(Cti(2))

    bad = PointEvent(1, {"x": "no number"})
    delivers = threading.Thread(target=send, args=(slow, Cti(1)), daemon=True)
    fails = threading.Thread(target=send, args=(fast, bad), daemon=True)
    delivers.start()
    assert entered.wait(SOON)
    fails.start()
    with pytest.raises((SchemaError, rxt.SpoolError)):
        process.wait(SOON)
    fails.join(SOON)
    assert not fails.is_alive()
    leave_it.set()
    delivers.join(SOON)
    assert not delivers.is_alive()


@both_subjects
@durable_runs
def test_a_stopped_run_refuses_until_it_runs_again(kind: Any, durable: str, tmp_path: Path) -> None:
    """What was refused can be pushed again into the next run."""
    subject = kind.create_point(5)
    run(subject, durable, tmp_path).stop()
    with pytest.raises(ProcessEndedError):
        subject.on_next(PointEvent(1, {"x": 1}))
    process = run(subject, durable, tmp_path)
    subject.on_next(PointEvent(1, {"x": 1}))
    subject.on_completed()
    assert process.wait(SOON)


@durable_runs
def test_a_subject_is_freed_with_the_run_that_it_fed(durable: str, tmp_path: Path) -> None:
    """What refuses its pushes behind the run does not keep it alive."""
    subject = CtiSynchronizingSubject.create_point(0)
    process = run(subject, durable, tmp_path / "state")
    subject.on_next(PointEvent(1, {"x": 1}))
    process.stop()
    with pytest.raises(ProcessEndedError):
        subject.on_next(PointEvent(2, {"x": 1}))
    freed = weakref.ref(subject)
    del subject, process

    def is_freed() -> bool:
        gc.collect()
        return freed() is None

    wait_until(is_freed)  # a thread of the run may be about to end


@both_subjects
@durable_runs
def test_a_subject_that_has_completed_refuses(kind: Any, durable: str, tmp_path: Path) -> None:
    """Nobody takes what comes after the end, and its producer is told."""
    subject = kind.create_point(0)
    process = run(subject, durable, tmp_path)
    subject.on_next(PointEvent(1, {"x": 1}))
    subject.on_completed()
    assert process.wait(SOON)
    for into in subject, subject.input("a"):
        with pytest.raises(ProcessEndedError, match="completed"):
            into.on_next(PointEvent(2, {"x": 2}))


@both_subjects
@durable_runs
def test_a_run_that_completed_in_an_earlier_life_refuses(
    kind: Any, durable: str, tmp_path: Path
) -> None:
    """Whether the next run begins or raises, what is pushed into its subject is refused."""
    first = kind.create_point(0)
    process = run(first, durable, tmp_path)
    first.on_completed()
    assert process.wait(SOON)
    again = kind.create_point(0)
    with contextlib.suppress(rxt.CheckpointError):
        run(again, durable, tmp_path)
    for _ in range(2):
        with pytest.raises(ProcessEndedError, match="completed"):
            again.on_next(PointEvent(1, {"x": 1}))


@both_subjects
def test_a_push_from_inside_a_subscriber_fails_the_outer_one(kind: Any, tmp_path: Path) -> None:
    """It is delivered when the outer push returns, and so is its error."""
    subject = kind.create_point(0)
    process = run(subject, "log", tmp_path)

    def echo(event: Any) -> None:
        if event == PointEvent(1, {"x": 1}):
            process.stop()
            subject.on_next(PointEvent(2, {"x": 2}))

    subject.subscribe(echo)
    with pytest.raises(ProcessEndedError):
        subject.on_next(PointEvent(1, {"x": 1}))


# State ------------------------------------------------------------------------------------------


def push(subject: Any, items: list[tuple[str | None, Any]]) -> None:
    """Push each item through its input."""
    for name, item in items:
        (subject if name is None else subject.input(name)).on_next(item)


def collected(subject: Any) -> tuple[list[Any], list[Any]]:
    """What comes out of a subject from now on, and what is late."""
    out: list[Any] = []
    late: list[Any] = []
    subject.subscribe(out.append)
    subject.late.subscribe(late.append)
    return out, late


@pytest.mark.parametrize("how", ["log", "resume", "crash"])
@given(data=st.data())
def test_a_restart_is_not_noticed(how: str, data: st.DataObject) -> None:
    """A subject in front of a run goes on as the same one: events, late events and counters.

    A new subject stands before the next run, wherever the first was stopped or killed.
    """
    kind = data.draw(st.sampled_from(BOTH_SUBJECTS))
    shape = data.draw(st.sampled_from(strategies.SHAPES))
    policy = data.draw(st.sampled_from(list(AdvanceTimePolicy)))
    delay = data.draw(st.integers(0, 8))
    items = data.draw(subject_batches.mix(data.draw(strategies.named_arrivals(shapes=[shape]))))
    cut = data.draw(st.integers(0, len(items)))
    saved = data.draw(st.integers(0, cut))

    def create() -> Any:
        return getattr(kind, f"create_{shape}")(delay, policy=policy)

    whole = create()
    push(whole, items[:cut])
    at_cut = subject_batches.counters(whole)
    expected = collected(whole)
    push(whole, items[cut:])
    with TemporaryDirectory() as folder:
        place = leave(create, Path(folder), how, items[:saved], items[saved:cut])
        second = create()
        process = run(second, "log" if how == "log" else "resume", place, physical.SCHEMA)
        try:
            if how == "resume":
                assert subject_batches.counters(second) == at_cut
            assert second.stats().cti == at_cut.cti
            assert second.stats().open_rows == at_cut.open_rows
            out, late = collected(second)
            push(second, items[cut:])
        finally:
            process.stop()
    flat = [subject_batches.flatten(each, shape, at_cut.cti) for each in (out, expected[0])]
    assert oracle.freeze(flat[0]) == oracle.freeze(flat[1])
    assert [describe(each) for each in late] == [describe(each) for each in expected[1]]


def describe(late: rxt.LateEvent) -> Any:
    """A late event as values."""
    event = oracle.freeze(physical.tuples([late.event]))
    return event, late.source, late.reason, late.cti, late.by


def leave(create: Any, folder: Path, how: str, first: list[Any], second: list[Any]) -> Path:
    """Let a run accept items and end it; return the folder that it leaves.

    A run that crashes has the first ones in its checkpoint and the others in its log.
    """
    place, subject = folder / "run", create()
    durable = "log" if how == "log" else "resume"
    process = run(subject, durable, place, physical.SCHEMA)
    push(subject, first)
    if how == "crash":
        process.stop()
        subject = create()
        process = run(subject, durable, place, physical.SCHEMA)
    push(subject, second)
    if how == "crash":
        place = Path(shutil.copytree(place, folder / "crashed", ignore=_without_lock))
    process.stop()
    return place


def _without_lock(folder: str, names: list[str]) -> list[str]:
    return ["lock"]


@both_subjects
@pytest.mark.parametrize("how", ["log", "resume", "crash"])
def test_a_row_that_was_adjusted_is_closed_after_a_restart(
    kind: Any, how: str, tmp_path: Path
) -> None:
    """Its end edge names the start that its source has named, not the adjusted one."""

    def create() -> Any:
        return kind.create_edge(0, policy=AdvanceTimePolicy.ADJUST)

    payload = {"k": "a", "x": 1, "y": 0.5}
    items = [("a", Cti(5)), ("a", EdgeEvent.create_start(3, payload))]
    second = create()
    process = run(second, "log" if how == "log" else "resume", leave(
        create, tmp_path, how, items[:1], items[1:]
    ), physical.SCHEMA)  # fmt: skip
    out, late = collected(second)
    second.input("b").on_next(EdgeEvent.create_end(3, 9, payload))
    second.input("a").on_next(EdgeEvent.create_end(3, 9, payload))
    process.stop()
    assert out == [EdgeEvent.create_end(5, 9, payload)]
    assert [(each.source, each.reason) for each in late] == [("b", LateReason.NO_OPEN_ROW)]


@dataclasses.dataclass
class Reading:
    """A payload that a log stores as its fields."""

    x: float


@both_subjects
def test_a_row_of_a_dataclass_is_closed_after_a_restart(kind: Any, tmp_path: Path) -> None:
    """Payloads are equal if what is saved of them is."""
    first = kind.create_edge(0)
    process = run(first, "resume", tmp_path, {"x": float})
    first.on_next(EdgeEvent.create_start(1, Reading(0.5)))
    process.stop()
    second = kind.create_edge(0)
    process = run(second, "resume", tmp_path, {"x": float})
    for end in 4, 5:
        second.on_next(EdgeEvent.create_start(3, Reading(1.5)))
        second.on_next(EdgeEvent.create_end(3, end, Reading(1.5)))
    second.on_next(EdgeEvent.create_end(1, 9, Reading(0.5)))
    process.stop()
    stats = second.stats()
    assert (stats.late, stats.open_rows, stats.events) == (0, 0, 6)


@both_subjects
def test_two_runs_and_the_one_that_is_ahead_counts(kind: Any, tmp_path: Path) -> None:
    """A subject in front of two runs has its time and its rows from the one that has had more."""
    places = [tmp_path / "ahead", tmp_path / "behind"]
    subject = kind.create_edge(0)
    events = [
        EdgeEvent.create_start(1, {"x": 1}),
        Cti(5),
        EdgeEvent.create_start(6, {"x": 2}),
    ]
    processes = [run(subject, "resume", place) for place in places]
    a = subject.input("a")
    a.on_next(events[0])
    processes[1].stop()
    for event in events[1:]:
        with pytest.raises(ProcessEndedError):
            a.on_next(event)
    processes[0].stop()
    for order in places, places[::-1]:
        again = kind.create_edge(0)
        for process in [run(again, "resume", place) for place in order]:
            process.stop()
        stats = again.stats()
        assert (stats.cti, stats.open_rows, stats.sources["a"].events) == (5, 2, 2)


@both_subjects
@durable_runs
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(20)], ids=["direct", "hand-off"])
@pytest.mark.parametrize("ends", ["stopped", "failed", "fails in its sink"])
def test_what_was_acknowledged_is_there_whenever_the_run_ends(
    kind: Any, durable: str, hand_off: Any, ends: str, tmp_path: Path
) -> None:
    """Threads push events and batches until they are refused; the next run has all before that."""
    subject = kind.create_point(1_000_000)
    acknowledged: list[int] = []
    written: list[int] = []

    def write(batch: EventBatch) -> None:
        if ends == "fails in its sink" and len(acknowledged) > 40:
            raise OSError("full")
        written.extend(batch.start.tolist())

    def send(first: int) -> None:
        into = subject.input(f"thread {first}")
        with contextlib.suppress(ProcessEndedError):
            for at in itertools.count(first, 6):
                into.on_next(PointEvent(at, {"x": at}))
                acknowledged.append(at)
                into.on_next(points(at + 3, cti=at))
                acknowledged.append(at + 3)

    stream = rxt.from_observable(subject, schema={"x": int}, name="readings", hand_off=hand_off)
    process = stream.run(write, **{durable: tmp_path})
    threads = [threading.Thread(target=send, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acknowledged) > 20)
    if ends == "stopped":
        process.stop()
    elif ends == "failed":
        with pytest.raises((ProcessEndedError, SchemaError, rxt.SpoolError)):
            subject.on_next(PointEvent(1, {"x": "no number"}))
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    with contextlib.suppress(SchemaError, OSError, rxt.SpoolError):
        process.wait(SOON)
    again = kind.create_point(1_000_000)
    if durable == "log":  # the next run computes all results again
        written.clear()
    ends = "in time"
    process = rxt.from_observable(again, schema={"x": int}, name="readings").run(
        write, **{durable: tmp_path}
    )
    again.on_completed()
    assert process.wait(SOON)
    assert set(acknowledged) <= set(written)
    if durable == "log":
        assert len(written) == len(set(written))
