"""Four devices push readings from their own threads, and one query runs over all of them.

Each device has its own input on one subject: it opens the input, reports every ten seconds for an
hour, and closes it. The subject's delay of an hour is longer than the devices can be apart, so the
counts do not depend on how the threads are scheduled. A fifth device reports a day late: all its
readings are late.

    python samples/devices.py
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = {"device": pl.String, "temp": pl.Float64}
READINGS = 360  # one every ten seconds, for an hour


def report(subject: rxt.CtiSynchronizingSubject, name: str, start: datetime) -> None:
    with subject.input(name) as into:
        for n in range(READINGS):
            time = start + timedelta(seconds=10 * n)
            into.on_next(rxt.PointEvent(time, {"device": name, "temp": 20.0 + n % 60 / 10}))
            if n % 10 == 9:  # this device sends no older reading after this
                into.on_next(rxt.Cti(time))


def main() -> None:
    subject = rxt.CtiSynchronizingSubject.create_point(delay=timedelta(hours=1))
    warm = (
        rxt.from_observable(subject, schema=SCHEMA)
        .where(pl.col("temp") >= 23)
        .group_by("device")
        .hopping_window2(timedelta(minutes=15), timedelta(minutes=15))
        .aggregate(n=agg.count(), warmest=agg.max("temp"))
    )
    windows: Counter[str] = Counter()
    readings: Counter[str] = Counter()

    def count(event: rxt.IntervalEvent) -> None:
        windows[event.payload["device"]] += 1
        readings[event.payload["device"]] += event.payload["n"]

    warm.subscribe(count, on_completed=lambda: print("completed"))

    names = ["attic", "cellar", "hall", "lab"]
    threads = [threading.Thread(target=report, args=(subject, name, NOON)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(subject, "shed", NOON - timedelta(days=1))
    subject.on_completed()

    for name, source in sorted(subject.stats().sources.items()):
        if source.events:
            line = f"{name:<7}{source.events} events, {source.late} late, "
            print(line + f"{windows[name]} windows with {readings[name]} warm readings")


if __name__ == "__main__":
    main()
