"""Devices with times of their own inside Spark: in buckets they give what they give here."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import polars as pl
import pytest
from bucket_store import Bucket, ShakyBucket
from hypothesis import given, settings
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.operators.plan import Node

pa = pytest.importorskip("pyarrow")

from rxtemporal.engine.codec import dump_frame  # noqa: E402
from rxtemporal.run.stepper import Stepwise  # noqa: E402
from rxtemporal.spark.query.bounded_bucket import BoundedDoor, BucketRun  # noqa: E402
from rxtemporal.spark.query.columns import BUCKET, CTI, ENDS, INPUT, STARTS, field  # noqa: E402
from rxtemporal.spark.query.inputs import DataFrameInput  # noqa: E402
from rxtemporal.spark.query.job import compose_plan, separate_synchronized  # noqa: E402
from rxtemporal.spark.query.packing import unpack  # noqa: E402
from rxtemporal.spark.query.reader import InputReader  # noqa: E402
from rxtemporal.spark.query.stream_door import DoorWork  # noqa: E402
from rxtemporal.spark.query.streaming import BucketWork, QueryFingerprint  # noqa: E402

SCHEMA = pl.Schema({"k": pl.String(), "x": pl.Int64()})
MIN = rxt.MIN_TIME
# a time after all others
LATER = 10_000
Query = Callable[[Any], rxt.Streamable]
Row = tuple[str, int, int]


def count_and_sum(windows: Any) -> rxt.Streamable:
    """Return the count and the sum over windows."""
    return windows.aggregate(n=agg.count(), x=agg.sum("x"))


# an example is several runs, in many buckets
few = settings(max_examples=max(5, settings().max_examples // 3))
QUERIES: dict[str, Query] = {
    "rows": lambda rows: rows.where(pl.col("x") > 0),
    "tumbling": lambda rows: count_and_sum(rows.group_by("k").tumbling_window(7)),
    "session": lambda rows: count_and_sum(rows.group_by("k").session_window(5)),
    "snapshot": lambda rows: count_and_sum(rows.extend_lifetime(4).group_by("k").snapshot_window()),
    "pairs": lambda rows: rows.extend_lifetime(3).join(
        rows.shift_event_time(2), on="k", suffix="_r"
    ),
    "fleet": lambda rows: count_and_sum(rows.synchronize(9).tumbling_window(7)),
    "fleet of windows": lambda rows: count_and_sum(
        count_and_sum(rows.group_by("k").tumbling_window(5)).synchronize(9).tumbling_window(20)
    ),
}


def draw_rows(random: Random) -> list[Row]:
    """Return rows of devices, in order of arrival: device, start, and a number."""
    places = {f"d{n}": random.randrange(60) for n in range(random.randint(1, 6))}
    rows = []
    for _ in range(random.randint(0, 40)):
        device = random.choice([*places])
        places[device] = max(0, places[device] + random.randint(-4, 9))
        rows.append((device, places[device], random.randrange(5)))
    return rows


def make_settings(*, ends: bool) -> rxt.AdvanceTimeSettings:
    """Return settings with a delay; time may end with the rows."""
    generation = rxt.AdvanceTimeGenerationSettings(1, 3, advance_to_infinity_on_shutdown=ends)
    return rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)


def compute_here(query: Query, rows: list[Row], silent: int | None, *, ends: bool) -> list[Any]:
    """Return what is final in this process."""
    stream = rxt.from_events(
        [rxt.PointEvent(start, {"k": device, "x": x}) for device, start, x in rows],
        schema=dict(SCHEMA), advance_time=make_settings(ends=ends), clock="k",
        silent_after=silent, spread=0,
    )  # fmt: skip
    return sorted(query(stream).to_polars(time="ticks").rows())


class Buckets:
    """The tasks of Spark for a query, which has one input."""

    def __init__(self, query: Query, count: int, silent: int | None, *, ends: bool) -> None:
        clock = ClockSettings(("k",), None, silent, None, 0)
        self.advance_time = make_settings(ends=ends)
        frame: Any = None
        given = DataFrameInput(frame, "start", None, self.advance_time, ("o",), clock=clock)
        plan = compose_plan(lambda rows: query(rows), {"rows": SCHEMA}, {"rows": clock})
        self.plan, self.inputs = separate_synchronized(plan, {"rows": given})
        self.count = count if self.plan.clock is not None else 1
        fields = {f"f{i}": dtype for i, dtype in enumerate((self.plan.schema or {}).values())}
        empty = pl.DataFrame(schema={"s": pl.Int64, "e": pl.Int64, **fields})
        self.written = empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        self.kept = QueryFingerprint(Stepwise(self.plan).fingerprints, {}, self.count)
        self.readers = [self.make_reader(node) for node in self.plan.list_nodes() if node.source]

    @staticmethod
    def make_reader(node: Node) -> InputReader:
        """Return the reader of an input."""
        assert node.source is not None
        clock = node.source.clock
        return InputReader(node.source.name, 0, SCHEMA, () if clock is None else clock.fields)

    def make_frame(self, rows: list[Row], first: int) -> pl.DataFrame:
        """Return rows in any order, with the columns of all inputs."""
        return pl.DataFrame(
            {
                BUCKET: [zlib.crc32(device.encode()) % self.count for device, _, _ in rows],
                STARTS: [start for _, start, _ in rows],
                ENDS: [start + 1 for _, start, _ in rows],
                field(0, 0): [device for device, _, _ in rows],
                field(0, 1): [x for _, _, x in rows],
                "o0": [*range(first, first + len(rows))],
            },
            schema={
                BUCKET: pl.Int32, STARTS: pl.Int64, ENDS: pl.Int64, field(0, 0): pl.String,
                field(0, 1): pl.Int64, "o0": pl.Int64,
            },
        ).sample(fraction=1, shuffle=True, seed=first)  # fmt: skip

    def stream(self, rows: list[Row], random: Random) -> list[Any]:
        """Return the results of micro-batches of any size."""
        (reader,) = self.readers
        given = self.inputs[reader.name]
        door = DoorWork(
            reader, self.advance_time, ("o0",), self.count, given.clock, given.synchronized
        )
        work = BucketWork(self.plan, (reader,), self.written, self.kept)
        judge = ShakyBucket(door, random)
        buckets = [ShakyBucket(work, random) for _ in range(self.count)]
        made: list[bytes] = []
        while rows:
            size = random.choice((1, 3, 10))
            frame = self.make_frame(rows[:size], 1_000 - len(rows))
            rows = rows[size:]
            packed = judge.take([(0, MIN, dump_frame(frame))])
            for number, bucket in enumerate(buckets):
                made += bucket.take([(0, packed["cti"][number], packed["data"][number])])["data"]
        batch = pa.record_batch([pa.array(made, pa.binary())], ["data"])
        return sorted(tuple(row.values()) for b in unpack(iter([batch])) for row in b.to_pylist())

    def run(self, rows: list[Row]) -> list[Any]:
        """Return the results of bounded rows."""
        (reader,) = self.readers
        given = self.inputs[reader.name]
        frame = self.make_frame(rows, 0).sort("o0").drop("o0")
        number = pl.lit(0, pl.Int32).alias(INPUT)
        frame = frame.with_columns(number, pl.lit(None, pl.Int64).alias(CTI))
        written = frame.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        door = BoundedDoor(
            reader, self.advance_time, self.count, written, given.clock, given.synchronized
        )
        admitted: Any = pl.from_arrow(pa.Table.from_batches([*door(to_batches(frame))], written))
        with_ctis = frozenset() if given.ends else frozenset([0])
        steady = self.plan.clock is None
        work = BucketRun(self.plan, (reader,), self.written, steady, with_ctis)
        found: list[Any] = []
        for bucket in range(self.count):
            mine = admitted.filter(pl.col(BUCKET) == bucket).sort(STARTS)
            for batch in work(to_batches(mine)):
                found += [tuple(row.values()) for row in batch.to_pylist()]
        return sorted(found)


def to_batches(frame: pl.DataFrame) -> Iterator[Any]:
    """Yield rows as Spark does."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    yield from table.to_batches(max_chunksize=7)


@pytest.mark.parametrize("name", QUERIES)
@few
@given(number=st.integers(0, 2**30))
def test_buckets_give_what_this_process_gives(name: str, number: int) -> None:
    """With fewer and with more buckets than devices, bounded and in micro-batches."""
    random = Random(number)
    rows, silent = draw_rows(random), random.choice((None, None, 8))
    count = random.choice((1, 2, 9))
    bounded = Buckets(QUERIES[name], count, silent, ends=True)
    assert bounded.run(rows) == compute_here(QUERIES[name], rows, silent, ends=True)
    # all devices come back, so that what was before is final for all
    # (of one device alone there is no fleet)
    devices = {"d0", "d1"} | {device for device, _, _ in rows}
    rows += [(device, time, 0) for time in (LATER, 2 * LATER) for device in sorted(devices)]
    streaming = Buckets(QUERIES[name], count, silent, ends=False)
    found = [row for row in streaming.stream(rows, random) if row[0] < LATER / 2]
    here = compute_here(QUERIES[name], rows, silent, ends=True)
    assert found == [row for row in here if row[0] < LATER / 2]


@pytest.mark.parametrize("name", ["rows", "tumbling", "fleet", "fleet of windows"])
@few
@given(number=st.integers(0, 2**30))
def test_what_is_final_for_a_device_leaves_its_bucket(name: str, number: int) -> None:
    """Although the time of the stream does not end; the same as in this process."""
    random = Random(number)
    rows, silent = draw_rows(random), random.choice((None, None, 8))
    count = random.choice((1, 2, 9))
    here = compute_here(QUERIES[name], rows, silent, ends=False)
    bounded = Buckets(QUERIES[name], count, silent, ends=False)
    assert bounded.run(rows) == here
    streaming = Buckets(QUERIES[name], count, silent, ends=False)
    assert streaming.stream(rows, random) == here


def count_late(name: str, silent: int | None, rows: list[Row]) -> list[tuple[int, int]]:
    """Return how many rows have come and been dropped after each micro-batch of one row.

    Before each one the door is loaded from its state.
    """
    there = Buckets(QUERIES[name], 1, silent, ends=False)
    (reader,) = there.readers
    given = there.inputs[reader.name]
    door = Bucket(DoorWork(reader, there.advance_time, ("o0",), 1, given.clock, given.synchronized))
    counts = []
    for number, row in enumerate(rows):
        door.kept.clear()
        packed = door.take([(0, MIN, dump_frame(there.make_frame([row], number)))])
        counts.append((packed["events"][0], packed["dropped"][0]))
    return counts


def test_a_row_of_a_device_that_was_silent_counts_as_dropped() -> None:
    """It is in time by the clock of its device, but the others have lifted that."""
    rows = [("a", 1, 0), ("b", 1, 0), ("c", 1, 0), ("a", 90, 0), ("b", 90, 0), ("c", 2, 0)]
    assert count_late("rows", 8, rows)[-2:] == [(5, 0), (6, 1)]


def test_rows_that_are_late_for_the_fleet_stay_counted() -> None:
    """Although the door goes on from its state, as another executor does."""
    rows = [("a", 1, 0), ("b", 1, 0), ("a", 90, 0), ("b", 90, 0), ("c", 2, 0), ("c", 3, 0)]
    assert count_late("fleet", None, rows)[-3:] == [(4, 0), (5, 1), (6, 2)]


def test_a_changed_clock_does_not_continue_the_state_of_a_door() -> None:
    """The error names both settings, and says how to go on."""
    there = Buckets(QUERIES["rows"], 1, 8, ends=False)
    (reader,) = there.readers
    received = [(0, MIN, dump_frame(there.make_frame([("a", 1, 1)], 0)))]

    def make_door(silent: int) -> DoorWork:
        clock = ClockSettings(("k",), None, silent, None, 0)
        return DoorWork(reader, there.advance_time, ("o0",), 1, clock)

    bucket = Bucket(make_door(8))
    bucket.take(received)
    bucket.take(received)
    bucket.kept.clear()
    bucket.work = make_door(9)
    with pytest.raises(rxt.CheckpointError, match=r"clock=.* of 'rows' has changed .* Hint: "):
        bucket.take(received)
    more = dataclasses.replace(reader, schema=pl.Schema({**reader.schema, "z": pl.Int64()}))
    bucket.work = dataclasses.replace(make_door(8), reader=more)
    with pytest.raises(rxt.CheckpointError, match=r"or a field of 'rows' has changed .*z Int64"):
        bucket.take(received)
