"""A live run, recorded and then replayed: as fast as possible, and at a multiple of real time.

Readings of two rooms come out of order and are joined with the floors of the rooms. The live run
drops readings that are too late. The replay gives the same rows and has the same late readings. The
second replay advances ten minutes per second, on a virtual clock, so that nobody has to wait.

    python samples/replay.py
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta

import polars as pl
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import agg

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(frequency=1, delay=timedelta(minutes=5)),
    policy=rxt.AdvanceTimePolicy.DROP,
)
FOLLOW = rxt.AdvanceTimeSettings(
    imports=rxt.AdvanceTimeImportSettings("readings"), policy=rxt.AdvanceTimePolicy.ADJUST
)


def warmest(readings: rxt.Streamable, rooms: rxt.Streamable) -> rxt.Streamable:
    """Compute the highest temperature of each floor, from live or replayed streams."""
    placed = readings.join(rooms, on="room").group_by("floor")
    return placed.tumbling_window(timedelta(minutes=30)).aggregate(
        n=agg.count(), warmest=agg.max("temp")
    )


def live(folder: str) -> tuple[rxt.Collect, rxt.Process]:
    """Run the query over two sources that push, and record their events."""
    sources = {"readings": Subject(), "rooms": Subject()}
    app = rxt.Application("house")
    readings = app.define_stream(
        "readings", rxt.from_observable(sources["readings"], advance_time=WAIT)
    )
    rooms = app.define_stream("rooms", rxt.from_observable(sources["rooms"], advance_time=FOLLOW))
    app.query("warmest", warmest(readings, rooms))
    results = rxt.Collect()
    process = app.run("warmest", results, record=folder)
    for room, floor in ("lab", 1), ("attic", 4):
        sources["rooms"].on_next(rxt.EdgeEvent.create_start(NOON, {"room": room, "floor": floor}))
    for n in range(90):
        late = timedelta(minutes=20) if n % 30 == 29 else timedelta(minutes=n % 4)
        room = "lab" if n % 3 else "attic"
        event = rxt.PointEvent(
            NOON + timedelta(minutes=n) - late, {"room": room, "temp": 18.0 + n % 7}
        )
        sources["readings"].on_next(event)
    for source in sources.values():
        source.on_completed()
    process.wait()
    return results, process


def show_counts(name: str, results: rxt.Collect, process: rxt.Process) -> None:
    late = process.diagnostics().late
    print(f"{name}: {len(results.batch)} rows, {sum(late.values())} events too late")


def sort_rows(results: rxt.Collect) -> pl.DataFrame:
    """Return the rows in order: rows that become final at the same time come in any order."""
    return results.to_polars().sort("start_time", "floor")


def compare(one: rxt.Collect, other: rxt.Collect) -> str:
    return "the same" if sort_rows(one).equals(sort_rows(other)) else "not the same"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, process = live(folder)
        show_counts("live", first, process)
        for start, _, floor, n, temp in sort_rows(first).iter_rows():
            print(f"  {start:%H:%M}  floor {floor}  {n:2} readings, up to {temp} degrees")

        streams = rxt.replay(folder)
        query, again = warmest(**streams), rxt.Collect()
        with query.run(again) as process:
            process.wait()
        show_counts("replay", again, process)
        print(f"  {compare(first, again)}")

        clock, paced = TestScheduler(), rxt.Collect()
        with rxt.at_speed(query, 600, clock=clock).run(paced) as process:
            process.wait()
        show_counts("at ten minutes a second", paced, process)
        print(f"  {compare(first, paced)}, in {clock.clock:.1f} s")


if __name__ == "__main__":
    main()
