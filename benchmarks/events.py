"""Rates of Python objects into a query and out of it, and the latency of one event.

Events are made before the clock starts. The limit for the input is columns by comprehension,
without a door or checks.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import measure
import numpy as np
import polars as pl
from algebra import IN_ORDER, columns, tumbling
from reactivex.subject import Subject
from workloads import SECOND, points

import rxtemporal as rxt

FIELDS = {"key": pl.Int64, "value": pl.Float64}
CTI_EVERY = 10
LIMIT = "columns by comprehension"


def make_events(count: int) -> list[rxt.PointEvent]:
    """Return point events with a payload of two fields."""
    return [
        rxt.PointEvent(start, {"key": key, "value": value})
        for start, key, value in points(count).iter_rows()
    ]


def with_ctis(events: Sequence[rxt.PointEvent]) -> list[Any]:
    """Return the events, with a CTI after every ten."""
    items: list[Any] = []
    for number, event in enumerate(events, 1):
        items.append(event)
        if number % CTI_EVERY == 0:
            items.append(rxt.Cti(event.start))
    return items


def by_comprehension(events: Sequence[rxt.PointEvent]) -> pl.DataFrame:
    """Return times and payloads as a frame."""
    payloads = [event.payload for event in events]
    start = np.array([event.start for event in events], np.int64)
    fields = {name: [payload[name] for payload in payloads] for name in FIELDS}
    return pl.DataFrame({"start": start, **fields})


def batches(stream: rxt.Streamable) -> list[rxt.EventBatch]:
    """Return the results as batches."""
    return list(stream.to_batches())


def push(items: Sequence[Any]) -> list[rxt.EventBatch]:
    """Push the events one by one into a query, and return its results."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=FIELDS, batch_rows=1_024)
    sink = rxt.Collect(rxt.EventShape.EDGE)
    with stream.run(sink):
        for item in items:
            subject.on_next(item)
        subject.on_completed()
    return sink.batches


def push_rows(rows: Sequence[Any]) -> list[rxt.EventBatch]:
    """Push rows, or lists of them, into a query, and return its results."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=FIELDS, start="ts", batch_rows=1_024)
    sink = rxt.Collect(rxt.EventShape.EDGE)
    with stream.run(sink):
        for row in rows:
            subject.on_next(row)
        subject.on_completed()
    return sink.batches


def read_bytes(rows: Any) -> list[rxt.EventBatch]:
    """Return the bytes of rows as a batch."""
    batch, rejected = rxt.make_batch(rows, schema=FIELDS, start="ts")
    assert not rejected
    return [batch]


def contenders(count: int) -> tuple[dict[str, Callable[[], Any]], Callable[[Any], None]]:
    """Return the inputs, the output and their limit, and the check of what they give."""
    events = make_events(count)
    items = with_ctis(events)
    frame = points(count)
    rows = [{"ts": event.start, **event.payload} for event in events]
    lists = [rows[n : n + 1_000] for n in range(0, count, 1_000)]
    lines = "\n".join(map(json.dumps, rows)).encode()
    file = io.BytesIO()
    pl.DataFrame(rows).write_ipc_stream(file)
    total = frame["value"].sum()

    def check(result: Any) -> None:
        rows, value = _summary(result)
        assert rows == count, f"{rows:,} rows, expected {count:,}"
        assert abs(value - total) <= 1e-9 * total

    def stream(given: Sequence[Any], **options: Any) -> rxt.Streamable:
        return rxt.from_events(given, schema=FIELDS, **options)

    running: dict[str, Callable[[], Any]] = {
        LIMIT: lambda: by_comprehension(events),
        "in: from_events, a CTI made of each event": lambda: batches(
            stream(events, advance_time=IN_ORDER)
        ),
        "in: from_events, a CTI after every ten": lambda: batches(stream(items)),
        "in: from_observable, a CTI after every ten": lambda: push(items),
        "in: from_observable, rows one by one": lambda: push_rows(rows),
        "in: from_observable, lists of 1,000 rows": lambda: push_rows(lists),
        "in: make_batch of JSON lines": lambda: read_bytes(rxt.JsonLines(lines)),
        "in: make_batch of Arrow IPC": lambda: read_bytes(rxt.ArrowIpc(file.getvalue())),
        "in, tumbling windows by key": lambda: batches(tumbling(stream(items), SECOND)),
        "out: to_events of a frame": lambda: rxt.from_polars(frame, start="start").to_events(),
    }
    return running, check


def rate(count: int, times: int) -> None:
    """Print the rates of inputs and outputs."""
    running, check = contenders(count)
    measure.warm(running, check)
    measure.report(measure.rounds(running, times, check), count, LIMIT)


def _summary(result: Any) -> tuple[int, float]:
    """Return the number of points in a result, and the sum of their values."""
    if isinstance(result, list) and isinstance(result[0], rxt.PointEvent | rxt.IntervalEvent):
        return len(result), sum(event.payload["value"] for event in result)
    found = columns(result)
    if "n" in found:
        return found["n"].sum(), (found["n"] * found["avg"]).sum()
    return len(found["value"]), found["value"].sum()


class Arrival:
    """Observer that notes when a result comes."""

    def __init__(self) -> None:
        self.at = 0
        self.last: Any = None

    def __call__(self, event: Any) -> None:
        self.at = time.perf_counter_ns()
        self.last = event


def latency(count: int) -> None:
    """Print the time from pushing one event with its CTI to the subscriber."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=FIELDS).where(pl.col("value") > 0.5)
    arrival = Arrival()
    tumbling(stream, SECOND).subscribe(arrival)
    taken = []
    for number in range(count):
        event = rxt.PointEvent(number * SECOND, {"key": number % 100, "value": 1.0 + number})
        cti = rxt.Cti((number + 1) * SECOND)
        begun = time.perf_counter_ns()
        subject.on_next(event)
        subject.on_next(cti)
        taken.append(arrival.at - begun)
        wanted = {"key": number % 100, "n": 1, "avg": 1.0 + number}
        assert arrival.last.payload == wanted, (arrival.last, wanted)
    _print_latency("event and CTI through where + tumbling window", taken)


def latency_of_a_subject(count: int) -> None:
    """Print the time of one event through a subject to its subscriber."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(SECOND)
    arrival = Arrival()
    subject.subscribe(arrival)
    taken = []
    for number in range(count):
        event = rxt.PointEvent(number, number)
        begun = time.perf_counter_ns()
        subject.on_next(event)
        taken.append(arrival.at - begun)
        assert arrival.last is event
    _print_latency("event through a subject", taken)


def _print_latency(what: str, taken: list[int]) -> None:
    # the first tenth compiles and fills the caches
    steady = [ns / 1_000 for ns in taken[len(taken) // 10 :]]
    cuts = statistics.quantiles(steady, n=100, method="inclusive")
    print(
        f"{what:<48} p50 {cuts[49]:8.1f} µs   p99 {cuts[98]:8.1f} µs   "
        f"most {max(steady):8.1f} µs   of {len(steady):,}"
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--latency", action="store_true", help="latency instead of rates")
    options = parser.parse_args()
    if options.latency:
        latency(min(options.events, 20_000))
        latency_of_a_subject(options.events)
    else:
        rate(options.events, options.rounds)


if __name__ == "__main__":
    main()
