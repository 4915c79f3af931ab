"""Four devices push readings from their own threads, and one query runs over all of them.

Each device has its own input of one push source: it opens the input, reports every ten seconds for
an hour, and closes it. The source's delay of an hour is longer than the devices can be apart, so
the counts do not depend on how the threads are scheduled. A fifth device reports a day late: all
its readings are late.

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


def report(source: rxt.PushSource, name: str, start: datetime) -> None:
    with source.input(name) as device:
        for n in range(READINGS):
            time = start + timedelta(seconds=10 * n)
            device.push({"time": time, "device": name, "temp": 20.0 + n % 60 / 10})


def main() -> None:
    source = rxt.PushSource("readings", schema=SCHEMA, delay=timedelta(hours=1))
    warm = (
        source.stream.where(pl.col("temp") >= 23)
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
    threads = [threading.Thread(target=report, args=(source, name, NOON)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(source, "shed", NOON - timedelta(days=1))
    source.close()

    for name, stats in sorted(source.stats().inputs.items()):
        if stats.events:
            line = f"{name:<7}{stats.events} events, {stats.late} late, "
            print(line + f"{windows[name]} windows with {readings[name]} warm readings")


if __name__ == "__main__":
    main()
