"""Numbered results: in every life of a run a number stands for the same rows, each row once."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import pattern as pt
from rxtemporal.run import checkpoint

FIELDS = {"device": str, "n": int}
LENGTH = 5
Query = Callable[[rxt.Streamable], rxt.Streamable]


class LostConnectionError(Exception):
    """The other side has gone."""


class Receiver(rxt.Sink):
    """Sink that notes all that it gets, and fails when it has got so many batches."""

    by_position = True

    def __init__(self, got: dict[int, list[Any]], left: int) -> None:
        self.got, self.left = got, left

    def write(self, batch: rxt.EventBatch) -> None:
        """Note a batch; one that has come before has to be the same."""
        assert batch.number is not None
        rows = batch.to_dicts()
        assert self.got.setdefault(batch.number, rows) == rows
        self.left -= 1
        if self.left < 0:
            raise LostConnectionError


def count(stream: rxt.Streamable) -> rxt.Streamable:
    """Return counts by device."""
    windows = stream.group_by("device").tumbling_window(LENGTH)
    return windows.aggregate(n=agg.count(), s=agg.sum("n"))


def find_sessions(stream: rxt.Streamable) -> rxt.Streamable:
    """Return sessions by device: those of one leave while an older one of another is open."""
    windows = stream.group_by("device").session_window(4)
    return windows.aggregate(n=agg.count(), s=agg.sum("n"))


def find_rises(stream: rxt.Streamable) -> rxt.Streamable:
    """Return rises by device; those of one that look alike leave, and the next one is open."""
    rises = stream.group_by("device").detect(
        "A Up+", Up=pl.col("n") > pt.prev("n"), within=20, measures={"n": pt.count("Up")}
    )
    return rises.ungroup().with_columns(s=pl.lit(0))


QUERIES = (count, find_sessions, find_rises)


def make_source(random: Random) -> rxt.PushSource:
    """Return a source that knows which rows it has."""
    return rxt.PushSource(
        "rows", schema=FIELDS, clock="device", delay=2, seq="n",
        spread=random.choice((None, 0, 100)), hand_off=random.choice((None, rxt.HandOff())),
    )  # fmt: skip


def make_rows(random: Random) -> list[dict[str, Any]]:
    """Return rows of devices that are at places of their own."""
    places = {f"d{n}": random.randrange(200) for n in range(random.randint(1, 5))}
    rows = []
    for n in range(random.randint(1, 60)):
        device = random.choice([*places])
        places[device] += random.randrange(6)
        rows.append({"time": places[device] - random.randrange(3), "device": device, "n": n})
    return rows


def compute(query: Query, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the results of all rows, which come in the order of each device."""
    events = [rxt.PointEvent(row["time"], {"device": row["device"], "n": row["n"]}) for row in rows]
    stream = rxt.from_events(events, schema=FIELDS, advance_time=2, clock="device")
    return sorted(query(stream).to_polars(time="ticks").rows())


@settings(max_examples=3 * settings().max_examples)
@given(number=st.integers(0, 2**30))
def test_each_result_has_one_number_in_all_lives(number: int) -> None:
    """Over failures of the sink and stops, with checkpoints at any time."""
    random = Random(number)
    rows, got, query = make_rows(random), dict[int, list[Any]](), random.choice(QUERIES)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "SECONDS", random.choice((0, 10)))
        patch.setattr(checkpoint, "SHARE", 1e9)
        for life in range(6):
            sink = Receiver(got, random.randrange(8) if life < 5 else 10**6)
            if push_all(query, rows, sink, Path(folder), random, stops=life < 5):
                break
    found = [tuple(each.values()) for batch in got.values() for each in batch]
    assert sorted(found) == compute(query, rows)
    assert sorted(got) == [*range(len(got))]


def push_all(
    query: Query,
    rows: list[dict[str, Any]],
    sink: rxt.Sink,
    folder: Path,
    random: Random,
    *,
    stops: bool,
) -> bool:
    """Push all rows into a run; return True if it has completed."""
    source = make_source(random)
    end = random.randrange(len(rows) + 1) if stops and random.random() < 0.3 else len(rows)
    left = rows[:end]
    try:
        process = query(source.stream).run(sink, resume=folder)
    except LostConnectionError:  # in what has left before
        return False
    except rxt.errors.CheckpointError as error:
        if "has completed since" not in str(error):
            raise
        return True  # all has left before
    # a stream that was closed in an earlier life takes no more rows
    with suppress(rxt.errors.ProcessEndedError):
        while left:
            size = random.choice((1, 3, 20))
            source.push(left[:size])
            left = left[size:]
        if end < len(rows):
            process.stop()
            return False
        source.close()
    with suppress(LostConnectionError):
        process.wait()
    assert process.error is None or isinstance(process.error, LostConnectionError)
    return process.error is None


def test_a_table_has_each_result_of_each_device_once(tmp_path: Path) -> None:
    """Also of those whose time is behind that of what it has."""
    rows = make_rows(Random(5))
    for part in (rows[:20], rows):
        table = rxt.SqliteTable(tmp_path / "db", "t")
        source = make_source(Random(1))
        process = count(source.stream).run(table, resume=tmp_path / "run")
        source.push(part)
        if part is rows:
            source.close()
            process.wait()
        else:
            process.stop()
    with sqlite3.connect(tmp_path / "db") as connection:
        found = connection.execute("SELECT start_time, end_time, device, n, s FROM t").fetchall()
    assert sorted(found) == compute(count, rows)


def test_a_result_that_left_before_an_older_one_of_another_device_comes_once(
    tmp_path: Path,
) -> None:
    """It leaves with a CTI below its start, which the open session of the other device holds."""
    first = [("b", 3), ("a", 5), ("b", 5), ("b", 7), ("b", 9), ("b", 11), ("b", 13), ("a", 14)]
    got: dict[int, list[Any]] = {}
    for rows, left in ((first, 0), ([*first, ("b", 15), ("a", 30), ("b", 30)], 100)):
        source = rxt.PushSource("rows", schema={"k": str}, clock="k", delay=4, spread=100, seq="n")
        sessions = source.stream.group_by("k").session_window(3).aggregate(n=agg.count())
        process = sessions.run(Receiver(got, left), resume=tmp_path)
        with suppress(rxt.errors.ProcessEndedError):
            for number, (key, time) in enumerate(rows):
                source.push({"time": time, "k": key, "n": number})
            source.close()
        with suppress(LostConnectionError):
            process.wait()
    found = [(row["start_time"], row["k"], row["n"]) for rows in got.values() for row in rows]
    assert sorted(found) == [(3, "b", 7), (5, "a", 1), (14, "a", 1), (30, "a", 1), (30, "b", 1)]
