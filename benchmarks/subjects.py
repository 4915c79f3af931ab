"""Rates of single events through the subjects, and through the document's round 1 in reactivex.

There are eight sources; each sends a CTI after every ten events. The subject has a delay and drops
late events. Events (and the tuples for plain reactivex) are made before the clock starts.
"""

from __future__ import annotations

import argparse
import resource
import threading
from collections.abc import Callable, Iterator
from typing import Any

import measure
import numpy as np
import polars as pl
import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

import rxtemporal as rxt

DELAY = 500_000
LAGS = np.array([0, 50, 100, 150, 200, 300, 400, 0]) * 1_000


def stream(count: int, seed: int = 7) -> Iterator[tuple[bool, int, float]]:
    """Yield (is a CTI, time, value) of eight interleaved sources."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 8, count)
    late = LAGS[source] + rng.exponential(60_000, count).astype(np.int64)
    times = np.arange(count, dtype=np.int64) * 1_000 + 1_000_000 - late
    sent, highest = [0] * 8, [0] * 8
    for s, time, value in zip(source.tolist(), times.tolist(), rng.random(count), strict=True):
        yield False, time, float(value)
        sent[s] += 1
        highest[s] = max(highest[s], time)
        if sent[s] % 10 == 0:
            yield True, highest[s], 0.0


def expected(items: list[tuple[bool, int, float]]) -> tuple[int, float]:
    """Return the number of events that pass and the sum of their values, by a plain loop."""
    high, count, total = -1, 0, 0.0
    for cti, time, value in items:
        if cti:
            high = max(high, time - DELAY)
        elif time >= high:
            count, total = count + 1, total + value
    return count, total


def synchronize() -> Callable[[rx.Observable[Any]], rx.Observable[Any]]:
    """Return a direct port of Rx.NET's Synchronize, for plain reactivex."""

    def operator(source: rx.Observable[Any]) -> rx.Observable[Any]:
        def subscribe(observer: Any, scheduler: Any = None) -> Any:
            lock, push = threading.RLock(), observer.on_next

            def on_next(item: Any) -> None:
                with lock:
                    push(item)

            return source.subscribe(on_next, observer.on_error, observer.on_completed)

        return rx.Observable(subscribe)

    return operator


def plain_round_1() -> tuple[Callable[[Any], None], rx.Observable[Any]]:
    """Return the document's round 1, written directly in reactivex: on_next and the output."""
    into: Subject[Any] = Subject()
    output = into.pipe(
        ops.map(lambda e: (e[0], e[1] - DELAY, e[2]) if e[0] else e),
        synchronize(),
        ops.scan(lambda acc, e: (max(acc[0], e[1]) if e[0] else acc[0], e), (-1, None)),
        ops.filter(lambda s: s[0] <= s[1][1]),
        ops.map(lambda s: s[1]),
        ops.publish(),
    )
    output.connect()
    return into.on_next, output


class Sink:
    """Observer that counts the output."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def tuples(self, item: tuple[bool, int, float]) -> None:
        """Count the tuples of plain reactivex."""
        if not item[0]:
            self.count += 1
            self.total += item[2]

    def batches(self, item: Any) -> None:
        """Count the rows of batches."""
        if type(item) is rxt.EventBatch:
            self.count += len(item)
            self.total += float(item.columns["payload"].sum())

    def events(self, event: Any) -> None:
        """Count events."""
        if type(event) is not rxt.Cti:
            self.count += 1
            self.total += event.payload


def make_batches(items: list[tuple[bool, int, float]], rows: int = 1_024) -> list[rxt.EventBatch]:
    """Return the items as batches; each has the highest CTI that has come with its rows."""
    events = np.array([time for cti, time, _ in items if not cti])
    values = np.array([value for cti, _, value in items if not cti])
    highest, ctis = rxt.MIN_TIME, []
    for cti, time, _ in items:
        highest = max(highest, time) if cti else highest
        if not cti:
            ctis.append(highest)
    return [
        rxt.EventBatch.of_rows(
            events[n : n + rows],
            events[n : n + rows] + 1,
            pl.DataFrame({"payload": values[n : n + rows]}),
            ctis[min(n + rows, len(events)) - 1],
        )
        for n in range(0, len(events), rows)
    ]


def in_batches(batches: list[rxt.EventBatch]) -> Iterator[tuple[bool, int, float]]:
    """Yield the rows and the CTIs of batches in their order."""
    for batch in batches:
        values = batch.payload["payload"].to_list()
        for time, value in zip(batch.start.tolist(), values, strict=True):
            yield False, time, value
        yield True, batch.cti, 0.0


def compare(count: int, times: int) -> None:
    """Print the rates of both subjects and of plain reactivex, and of batches of 1,024 rows."""
    items = list(stream(count))
    answer = expected(items)
    events = [rxt.Cti(t) if cti else rxt.PointEvent(t, v) for cti, t, v in items]

    batches = make_batches(items)
    answer_of_batches = expected(list(in_batches(batches)))

    def checked(
        push: Any, output: Any, take: str, feed: list[Any], wanted: tuple[int, float] = answer
    ) -> None:
        sink = Sink()
        output.subscribe(getattr(sink, take))
        for item in feed:
            push(item)
        assert sink.count == wanted[0]
        assert abs(sink.total - wanted[1]) < 1e-6 * wanted[1]

    def subject(kind: Any) -> Callable[[], None]:
        def run() -> None:
            made = kind.create_point(DELAY)
            checked(made.on_next, made, "events", events)

        return run

    def subject_of_batches(kind: Any) -> Callable[[], None]:
        def run() -> None:
            made = kind.create_point(DELAY)
            checked(made.on_next, made, "batches", batches, answer_of_batches)

        return run

    peer = "round 1 in plain reactivex"
    contenders = {
        peer: lambda: checked(*plain_round_1(), "tuples", items),
        "CtiSynchronizingSubject": subject(rxt.CtiSynchronizingSubject),
        "CtiSynchronizingSubjectAlternate": subject(rxt.CtiSynchronizingSubjectAlternate),
        "CtiSynchronizingSubject, batches": subject_of_batches(rxt.CtiSynchronizingSubject),
        "CtiSynchronizingSubjectAlternate, batches": subject_of_batches(
            rxt.CtiSynchronizingSubjectAlternate
        ),
    }
    for run in contenders.values():
        run()
    seconds = measure.rounds(contenders, times)
    measure.report(seconds, len(items), peer, "CtiSynchronizingSubjectAlternate")


def memory(count: int) -> None:
    """Print the peak memory after each tenth of a long run; events are made as they go."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(DELAY)
    sink = Sink()
    subject.subscribe(sink.events)
    done = 0
    for part in range(10):
        for cti, time, value in stream(count // 10, seed=part):
            moved = time + part * count * 100
            subject.on_next(rxt.Cti(moved) if cti else rxt.PointEvent(moved, value))
            done += 1
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{done:>12,} items in, {sink.count:>12,} events out, peak memory {peak:7.1f} MiB")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--memory", action="store_true", help="peak memory over 10 million events")
    options = parser.parse_args()
    if options.memory:
        memory(10_000_000)
    else:
        compare(options.events, options.rounds)


if __name__ == "__main__":
    main()
