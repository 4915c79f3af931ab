"""The rows of ``live.py`` that push: events one by one, from threads, and in batches."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import subjects
from algebra import project, tumbling
from events import FIELDS, Arrival
from measure import Timed
from peer import Peer
from reactivex.subject import Subject
from workloads import SECOND, Columns, Workload

import rxtemporal as rxt

KEYS = 100
THREADS = 8
BATCH = 1_024


class Kept(rxt.Sink):
    """Sink that keeps its batches."""

    shape = rxt.EventShape.POINT

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[rxt.EventBatch] = []

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the batch."""
        self.batches.append(batch)

    @property
    def columns(self) -> Columns:
        """The payload of all batches."""
        frame = pl.concat([batch.payload for batch in self.batches])
        return {name: frame[name].to_numpy() for name in frame.columns}


# Pushes behind a hand-off -------------------------------------------------------------------------


def make_events(load: Workload) -> list[rxt.PointEvent]:
    """Return the events of W5, key and value in a dict."""
    columns = (load.rows[name].to_list() for name in ("start", "key", "value"))
    return [rxt.PointEvent(t, {"key": k, "value": v}) for t, k, v in zip(*columns, strict=True)]


def with_ctis(events: Sequence[rxt.PointEvent], every: int) -> list[Any]:
    """Return the events, with a CTI after so many."""
    items: list[Any] = []
    for number, event in enumerate(events, 1):
        items.append(event)
        if number % every == 0:
            items.append(rxt.Cti(event.start))
    return items


def push(items: Sequence[Any], threads: int = 1, *, inputs: bool = False) -> Timed:
    """Push into a subject in front of where + select, until a sink behind a hand-off has it all.

    ``inputs``: each thread pushes through an input of its own, so that its events are counted.
    """
    delay = 0 if threads == 1 else rxt.MAX_TIME // 4  # threads are apart, and nothing is late
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(delay)
    stream = rxt.from_observable(subject, schema=FIELDS, hand_off=rxt.HandOff())
    sink = Kept()
    with project(stream).run(sink) as process:
        begun = time.perf_counter()
        if threads == 1:
            _push_all(subject.on_next, items)
        else:
            # each thread has a part in one piece, as events that were made one after the other
            each = -(-len(items) // threads)
            parts = [items[n * each : (n + 1) * each] for n in range(threads)]
            names = [f"source {n}" if inputs else None for n in range(threads)]
            _push_from_threads(subject, parts, names)
        subject.on_completed()
        process.wait()
        seconds = time.perf_counter() - begun
    return Timed(seconds, sink.columns)


def _push_all(on_next: Callable[[Any], None], items: Sequence[Any]) -> None:
    for item in items:
        on_next(item)


def _push_from_threads(
    subject: Any, shares: Sequence[Sequence[Any]], names: Sequence[str | None]
) -> None:
    ways = [subject if name is None else subject.input(name) for name in names]
    threads = [
        threading.Thread(target=_push_all, args=(way.on_next, share))
        for way, share in zip(ways, shares, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def push_to(peer: Peer, load: Workload) -> Callable[[], Timed]:
    """Return the same in a peer, which has no CTIs."""
    data = peer.give("push", **{name: load.rows[name].to_numpy() for name in ("key", "value")})
    return lambda: Timed(*peer.ask("push", data=data))


def run_in(peer: Peer, load: Workload) -> Callable[[], Timed]:
    """Return a workload in a peer, event by event."""
    given = {name: load.rows[name].to_numpy() for name in load.rows.columns}
    if load.validity is not None:
        valid = {name: load.validity[name].to_numpy() for name in load.validity.columns}
        valid = {"attr" if name == "attr" else f"valid_{name}": valid[name] for name in valid}
        given |= valid
    data = peer.give(load.name, **given, keys=load.keys, window=load.window)
    return lambda: Timed(*peer.ask(load.name, data=data))


# One event ----------------------------------------------------------------------------------------


def pass_on(subject: Subject[Any]) -> rxt.Streamable:
    """Return the stream of a subject, without any operator."""
    return rxt.from_observable(subject, schema=FIELDS)


def count_by_key(subject: Subject[Any]) -> rxt.Streamable:
    """Return where + tumbling window by key."""
    return tumbling(pass_on(subject).where(pl.col("value") > 0.5), SECOND)


def join_keys(subject: Subject[Any]) -> rxt.Streamable:
    """Return the join with a row of each key that never ends."""
    rows = [rxt.IntervalEvent(0, rxt.MAX_TIME, {"key": key, "n": 1}) for key in range(KEYS)]
    return pass_on(subject).join(rxt.from_events(rows), on="key")


LATENCIES: dict[str, tuple[Callable[[Subject[Any]], rxt.Streamable], dict[str, Any], float]] = {
    "nothing": (pass_on, {}, 15),
    "where + tumbling window by key": (count_by_key, {"n": 1}, 60),
    "join": (join_keys, {"n": 1}, 120),
}


def latency(
    query: Callable[[Subject[Any]], rxt.Streamable], wanted: Any, count: int
) -> list[float]:
    """Return the microseconds from pushing each event with its CTI until its result is here."""
    subject: Subject[Any] = Subject()
    arrival = Arrival()
    subscription = query(subject).subscribe(arrival)
    taken = []
    for number in range(count):
        key, value = number % KEYS, 1.0 + number
        event = rxt.PointEvent(number * SECOND, {"key": key, "value": value})
        cti = rxt.Cti((number + 1) * SECOND)
        begun = time.perf_counter_ns()
        subject.on_next(event)
        subject.on_next(cti)
        taken.append((arrival.at - begun) / 1_000)
        got = arrival.last.payload
        mean = got.get("avg", got.get("value"))
        assert (got["key"], mean) == (key, value), got
        assert got.items() >= wanted.items(), got
    subscription.dispose()  # or the run waits on, and says so in the log
    # the first tenth compiles and fills the caches
    return taken[count // 10 :]


def quantiles(taken: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p99."""
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return cuts[49], cuts[98]


# W1 -----------------------------------------------------------------------------------------------


class Batches:
    """W1 in batches with a CTI after each, the same rows and CTIs one by one, and the answer."""

    def __init__(self, count: int) -> None:
        self.batches: list[rxt.EventBatch] = []
        self.events: list[rxt.PointEvent | rxt.Cti] = []
        rows = [(time, value) for cti, time, value in subjects.stream(count) if not cti]
        told = []
        for part in (rows[at : at + BATCH] for at in range(0, count, BATCH)):
            cti = max(time for time, _ in part)
            frame = pl.DataFrame(part, ["time", "value"], orient="row")
            batch = rxt.EventBatch.from_polars(frame, start="time", end=None, cti=cti)
            self.batches.append(batch)
            self.events += [rxt.PointEvent(time, value) for time, value in part]
            self.events.append(rxt.Cti(cti))
            told += [(False, *row) for row in part]
            told.append((True, cti, 0.0))
        self.answer = subjects.expected(told)

    def run(self, items: Sequence[Any]) -> list[Any]:
        """Push batches or events through a subject, and return what a subscriber has got."""
        subject = rxt.CtiSynchronizingSubjectAlternate.create_point(subjects.DELAY)
        got: list[Any] = []
        subject.subscribe(got.append)
        _push_all(subject.on_next, items)
        return got

    def check(self, got: Sequence[Any]) -> None:
        """Raise unless count and sum are those of the plain loop."""
        if type(got[0]) is rxt.EventBatch:
            values = np.concatenate([batch.payload["value"].to_numpy() for batch in got])
        else:
            values = np.array([item.payload for item in got if type(item) is not rxt.Cti])
        assert len(values) == self.answer[0], f"{len(values):,}, expected {self.answer[0]:,}"
        assert abs(values.sum() - self.answer[1]) < 1e-6 * self.answer[1]
