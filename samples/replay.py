"""A live query recorded, and its recording replayed: at once, and at the speed of its times.

Readings of two rooms come out of order, and the rooms' floors change now and then. The live run
answers as it goes and drops what is too late; the replay gives the same answers to the row, with
the same readings late, as often as one likes. The last replay goes at ten minutes a second by a
clock of virtual time, so that nobody has to wait for it.

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
    """The query: it knows nothing of where its streams come from."""
    placed = readings.join(rooms, on="room").group_by("floor")
    return placed.tumbling_window(timedelta(minutes=30)).aggregate(
        n=agg.count(), warmest=agg.max("temp")
    )


class Table:
    """A sink that keeps the rows."""

    shape = rxt.EventShape.INTERVAL

    def open(self, name: str, schema: pl.Schema) -> None:
        """Begin with an empty table."""
        self.rows: list[tuple[str, int, int, float]] = []

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the rows of a batch."""
        for row in batch.to_dicts(time="datetime"):
            self.rows.append((f"{row['start_time']:%H:%M}", row["floor"], row["n"], row["warmest"]))

    def close(self, error: BaseException | None) -> None:
        """There is nothing to let go of."""


def live(folder: str) -> tuple[Table, rxt.Process]:
    """Run the query over two sources that push, and record what they bring."""
    sources = {"readings": Subject(), "rooms": Subject()}
    app = rxt.Application("house")
    readings = app.define_stream(
        "readings", rxt.from_observable(sources["readings"], advance_time=WAIT)
    )
    rooms = app.define_stream("rooms", rxt.from_observable(sources["rooms"], advance_time=FOLLOW))
    app.query("warmest", warmest(readings, rooms))
    table = Table()
    process = app.run("warmest", table, record=folder)
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
    return table, process


def told(name: str, table: Table, process: rxt.Process) -> None:
    late = process.diagnostics().late
    print(f"{name}: {len(table.rows)} rows, {sum(late.values())} events too late")


def compared(one: Table, other: Table) -> str:
    """Rows that are final at the same time come in any order."""
    return "the same" if sorted(one.rows) == sorted(other.rows) else "not the same"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first, process = live(folder)
        told("live", first, process)
        for start, floor, n, temp in sorted(first.rows):
            print(f"  {start}  floor {floor}  {n:2} readings, up to {temp} degrees")

        streams = rxt.replay(folder)
        again, table = warmest(**streams), Table()
        with again.run(table) as process:
            process.wait()
        told("replay", table, process)
        print(f"  {compared(first, table)}")

        clock, table = TestScheduler(), Table()
        with rxt.at_speed(again, 600, clock=clock).run(table) as process:
            process.wait()
        told("at ten minutes a second", table, process)
        print(f"  {compared(first, table)}, in {clock.clock:.1f} s")


if __name__ == "__main__":
    main()
