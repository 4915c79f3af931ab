"""Many threads, many sources that come and go: every event is accounted for, none twice."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, EventShape, IntervalEvent

THREADS, SOURCES = 32, 1_000
PER_VISIT = 50
SEED = 7


def visit(subject: Any, number: int) -> None:
    """One source comes, sends intervals with CTIs among them, and goes."""
    rng = np.random.default_rng([SEED, number])
    source = number % SOURCES
    base = 100 * (number // THREADS)
    starts = (base + rng.integers(0, 2_000, PER_VISIT)).tolist()
    with subject.input(f"source {source}") as handle:
        for n, start in enumerate(starts):
            name = number * PER_VISIT + n
            handle.on_next(IntervalEvent(start, start + 300, {"n": name}))
            if n % 10 == 9:
                handle.on_next(Cti(base + 200))


def visited(subject: Any, visits: int) -> None:
    """All visits, dealt out to the threads."""

    def work(first: int) -> None:
        for number in range(first, visits, THREADS):
            visit(subject, number)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)


def in_batches(entering: Subject[Any], lock: Any, first: int, count: int, size: int) -> None:
    """One producer's share of many events, in batches, each late by chance."""
    rng = np.random.default_rng([SEED, first])
    for begin in range(0, count, size):
        numbers = first * count + begin + np.arange(size)
        starts = begin + rng.integers(-500, 500, size)
        batch = EventBatch.of_rows(
            starts, starts + 300, pl.DataFrame({"n": numbers}), int(begin - 200)
        )
        with lock:
            entering.on_next(batch)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (rxt.CtiSynchronizingSubjectAlternate, 4),
        # a million events
        pytest.param(rxt.CtiSynchronizingSubjectAlternate, 20, marks=pytest.mark.full),
        # built of Rx operators, it does the same more slowly
        (rxt.CtiSynchronizingSubject, 2),
    ],
)
def test_sources_that_come_and_go_lose_nothing(kind: Any, times: int) -> None:
    """32 threads, 1,000 sources that come ``times`` times: each event is out, late or held.

    What is held comes out at the end, and no event is there twice.
    """
    subject = kind.create_interval(300)
    late: list[int] = []
    subject.late.subscribe(lambda each: late.append(each.event.payload["n"]))
    stream = rxt.from_observable(subject, schema={"n": int}, batch_rows=1_024)
    sink = Log(EventShape.INTERVAL)
    process = stream.run(sink)
    visited(subject, times * SOURCES)
    sent = times * SOURCES * PER_VISIT
    out = sum(map(len, sink.batches))
    accepted = process.diagnostics().streams[0].events_in
    held = accepted - out
    assert held >= 0
    assert late
    assert accepted + len(late) == subject.stats().events == sent
    subject.on_completed()
    process.wait(SOON)
    numbers = np.concatenate([batch.payload["n"].to_numpy() for batch in sink.batches])
    assert len(numbers) == out + held
    assert np.array_equal(np.sort(np.append(numbers, late)), np.arange(sent))
    stats = subject.stats()
    assert stats.late == len(late)
    assert len(stats.sources) == SOURCES + 1
    each = [source for name, source in stats.sources.items() if name != "subject"]
    assert {source.events for source in each} == {times * PER_VISIT}
    assert not any(source.open for source in each)


def test_batches_are_all_accounted_for() -> None:
    """32 producers send half a million rows to a door that drops: in the result, or late."""
    sent, size = 512_000, 500
    entering: Subject[Any] = Subject()
    made = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1_000, 100), policy=rxt.AdvanceTimePolicy.DROP
    )
    stream = rxt.from_observable(entering, schema={"n": int}, advance_time=made)
    app = rxt.Application("stress")
    points = app.define_stream("points", stream)
    app.query("in time", points)
    app.query("late", points.late_events())
    sinks = {"in time": Log(EventShape.INTERVAL), "late": Log(EventShape.INTERVAL)}
    process = app.run(sinks=sinks)
    lock = threading.Lock()
    share = sent // THREADS
    threads = [
        threading.Thread(target=in_batches, args=(entering, lock, first, share, size))
        for first in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    entering.on_completed()
    process.wait(SOON)
    told = process.diagnostics()
    numbers = {
        name: np.concatenate([batch.payload["n"].to_numpy() for batch in sink.batches])
        for name, sink in sinks.items()
    }
    assert told.events_in == sent
    assert sum(told.late.values()) == len(numbers["late"]) > 0
    assert len(numbers["in time"]) > 0
    assert np.array_equal(np.sort(np.concatenate(list(numbers.values()))), np.arange(sent))
