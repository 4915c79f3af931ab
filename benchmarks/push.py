"""Pushes per second into a ``PushSource``, beside what the disk can do.

Each way of pushing runs for a while, with ``resume=`` in a new folder unless it says otherwise:

* one thread pushes a dict at a time,
* 64 tasks of an event loop do so with ``push_async``,
* 16 threads push lists of 100 dicts,
* one thread pushes frames of 10,000 rows,
* without durability, one thread pushes a dict at a time; beside it, events made beforehand are
  pushed into subjects in front of the same query, with and without CTIs made by the stream.

The reference appends the bytes of one row to a file and syncs it. All ways take turns, so that
they meet the same disk. Rows are made outside the timed part, but for those of single dicts. After
each run the rows that the sink has got are compared with those that the verdicts accepted.

``--waits`` measures instead how long a push of 10,000 rows takes while checkpoints of 1,000,
100,000 and 1,000,000 keys are saved: the median and the longest, beside those without checkpoints.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal.run import checkpoint

SCHEMA = {"room": str, "temp": float}
TASKS, THREADS, LIST, FRAME = 64, 16, 100, 10_000
# the CTI follows each row, and so many rows go through the query together
DELAY, BATCH_ROWS = 1_000_000, 1_024
# how many milliseconds the longest push may take, by the number of keys
WAITS = {1_000: 50, 100_000: 50, 1_000_000: 200}
DISK = os.environ.get("RXTEMPORAL_DISK")

Pushes = Callable[[rxt.PushSource, float], int]


class Rows(rxt.Sink):
    """Sink that counts rows."""

    shape = rxt.EventShape.POINT

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Count the rows."""
        self.rows += len(batch)


def row(number: int) -> dict[str, Any]:
    """Return a row."""
    return {"t": number, "room": "hall", "temp": 0.5}


def append(seconds: float) -> float:
    """Return how many times per second a file can be appended to and synced."""
    with tempfile.NamedTemporaryFile(dir=DISK) as file:
        begun, done = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            os.write(file.fileno(), bytes(700))
            os.fsync(file.fileno())
            done += 1
        return done / (time.perf_counter() - begun)


def push_dicts(source: rxt.PushSource, until: float) -> int:
    """Push a dict at a time; return the number of accepted rows."""
    accepted = 0
    for number in count():
        accepted += source.push({"t": number, "room": "hall", "temp": 0.5}).accepted
        if time.perf_counter() >= until:
            break
    return accepted


def push_async(source: rxt.PushSource, until: float) -> int:
    """Push from many tasks of an event loop, a dict at a time."""

    async def push(name: str) -> int:
        accepted = 0
        for number in count():
            accepted += (await source.push_async(row(number), input=name)).accepted
            if time.perf_counter() >= until:
                break
        return accepted

    async def push_all() -> int:
        return sum(await asyncio.gather(*(push(f"task {n}") for n in range(TASKS))))

    return asyncio.run(push_all())


def push_lists(source: rxt.PushSource, until: float) -> int:
    """Push lists of dicts from many threads."""
    accepted = []

    def push() -> None:
        own = 0
        for begin in count(0, LIST // 2):
            own += source.push([row(begin + number) for number in range(LIST)]).accepted
            if time.perf_counter() >= until:
                break
        accepted.append(own)

    threads = [threading.Thread(target=push) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(accepted)


def push_frames(source: rxt.PushSource, until: float) -> int:
    """Push frames."""
    frame = pl.DataFrame([row(number) for number in range(FRAME)])
    accepted = source.push(frame).accepted
    while time.perf_counter() < until:
        accepted += source.push(frame).accepted
    return accepted


def into_source(pushes: Pushes, seconds: float, *, durable: bool) -> float:
    """Return accepted rows per second of a way of pushing; check what has come out."""
    source = rxt.PushSource("rows", schema=SCHEMA, start="t", delay=DELAY, batch_rows=BATCH_ROWS)
    sink = Rows()
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        place: Any = {"resume": Path(folder) / "run"} if durable else {}
        process = source.stream.run(sink, **place)
        begun = time.perf_counter()
        accepted = pushes(source, begun + seconds)
        took = time.perf_counter() - begun
        source.close()
        process.wait()
    if sink.rows != accepted:
        raise SystemExit(f"{accepted:,} rows were accepted, and {sink.rows:,} came out")
    return accepted / took


def into_subject(make: Callable[[], Any], seconds: float, *, makes_ctis: bool) -> float:
    """Return events per second of ``on_next`` of a subject in front of the same query."""
    generation = rxt.AdvanceTimeGenerationSettings(1, DELAY)
    settings = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    subject, sink = make(), Rows()
    stream = rxt.from_observable(
        subject,
        schema=SCHEMA,
        advance_time=settings if makes_ctis else None,
        batch_rows=BATCH_ROWS,
    )
    process = stream.run(sink)
    done, took, on_next = 0, 0.0, subject.on_next
    while took < seconds:
        events = [rxt.PointEvent(done + n, {"room": "hall", "temp": 0.5}) for n in range(1_000)]
        begun = time.perf_counter()
        for event in events:
            on_next(event)
        took += time.perf_counter() - begun
        done += len(events)
    subject.on_completed()
    process.wait()
    if sink.rows != done:
        raise SystemExit(f"{done:,} events were pushed, and {sink.rows:,} came out")
    return done / took


def make_subject() -> Any:
    """Return a CTI synchronizing subject that lets all events pass."""
    return rxt.CtiSynchronizingSubjectAlternate.create_point(delay=DELAY)


def measure_waits(keys: int, seconds: float, every: float) -> tuple[list[float], int]:
    """Return how long each push of a frame took, and the number of checkpoints meanwhile.

    The state has a count and an average for each key. It is saved after so many seconds; less often
    if saving takes more than a tenth of them.
    """
    checkpoint.SECONDS = every
    source = rxt.PushSource("rows", schema={"device": int, "temp": float}, start="t")
    averages = source.stream.group_by("device").tumbling_window(10**12)
    query = averages.aggregate(n=rxt.agg.count(), temp=rxt.agg.avg("temp"))
    took: list[float] = []
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        process = query.run(Rows(), resume=Path(folder) / "run")
        begun, number = time.perf_counter(), 0
        while time.perf_counter() < begun + seconds or number * FRAME < keys:
            rows = pl.int_range(number * FRAME, (number + 1) * FRAME, eager=True)
            frame = pl.DataFrame({"t": rows, "device": rows % keys, "temp": rows / 7})
            before = time.perf_counter()
            source.push(frame)
            took.append(time.perf_counter() - before)
            number += 1
        storage = process.diagnostics().storage
        process.stop()
    assert storage is not None
    return took, storage.checkpoints or 0


def report_waits(seconds: float) -> None:
    """Print the median and the longest wait for each number of keys, and the bound."""
    measure_waits(1_000, 1, 0.1)  # warm
    for keys, most in WAITS.items():
        for every, bound in ((1e9, ""), (2.0, f"   <= {most} ms")):
            took, checkpoints = measure_waits(keys, seconds, every)
            median, longest = statistics.median(took) * 1e3, max(took) * 1e3
            print(
                f"{keys:>9,} keys, {checkpoints:>2} checkpoints, {len(took):>6,} pushes"
                f"   median {median:>6.1f} ms   longest {longest:>7.1f} ms{bound}",
                flush=True,
            )


WAYS: dict[str, Callable[[float], float]] = {
    "append and sync": append,
    "a dict, durable": lambda s: into_source(push_dicts, s, durable=True),
    "64 async dicts, durable": lambda s: into_source(push_async, s, durable=True),
    "16 threads, lists of 100, durable": lambda s: into_source(push_lists, s, durable=True),
    "frames of 10,000, durable": lambda s: into_source(push_frames, s, durable=True),
    "a dict": lambda s: into_source(push_dicts, s, durable=False),
    "subject.on_next, no CTIs": lambda s: into_subject(make_subject, s, makes_ctis=False),
    "Subject.on_next, stream makes CTIs": lambda s: into_subject(Subject, s, makes_ctis=True),
}


def ratios(rate: dict[str, float]) -> list[tuple[str, float, str]]:
    """Return each goal: what it says, the figure measured, and the bound."""
    one = rate["a dict, durable"]
    return [
        ("time of a durable push / of a sync", rate["append and sync"] / one, "<= 1.5"),
        ("64 async / one thread", rate["64 async dicts, durable"] / one, ">= 20"),
        ("lists of 100 from 16 threads", rate["16 threads, lists of 100, durable"], ">= 100,000"),
        ("a dict / subject.on_next", rate["a dict"] / rate["subject.on_next, no CTIs"], ">= 0.5"),
        (
            "a dict / Subject.on_next that makes CTIs",
            rate["a dict"] / rate["Subject.on_next, stream makes CTIs"],
            ">= 0.5",
        ),
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2, help="how long to push each way")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--waits", action="store_true", help="the waits for checkpoints alone")
    options = parser.parse_args()
    if options.waits:
        report_waits(options.seconds * options.rounds)
        return
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for each in range(options.rounds):
        for name, way in WAYS.items():
            if not each:
                way(min(0.2, options.seconds))  # warm
            rates[name].append(way(options.seconds))
    for name, found in rates.items():
        low, high = min(found), max(found)
        print(f"{name:<36} {statistics.median(found):>12,.0f}/s   ({low:,.0f} to {high:,.0f})")
    print()
    for what, figure, bound in ratios({k: statistics.median(v) for k, v in rates.items()}):
        print(f"{what:<42} {figure:>12,.2f}   {bound}")


if __name__ == "__main__":
    main()
