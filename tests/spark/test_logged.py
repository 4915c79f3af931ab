"""Pushed events into Spark: logged or kept, a killed run loses nothing and doubles nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from child_process import environment
from reactivex.subject import Subject
from sink_input import wait_until

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint as resuming
from rxtemporal.spark import ParquetTable, SparkSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
EVENTS, TAKEN = 120, 90


def begun(path: Path, how: str, **options: Any) -> tuple[Subject[Any], rxt.Process]:
    """Return where readings are pushed, and the run that counts them into a table."""
    subject: Subject[Any] = Subject()
    behind = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 3 * SECOND), policy=rxt.AdvanceTimePolicy.DROP
    )
    stream = rxt.from_observable(
        subject, schema={"x": pl.Int64}, advance_time=behind, name="readings"
    )
    counted = stream.tumbling_window(10 * SECOND).aggregate(n=agg.count(), total=agg.sum("x"))
    sink = SparkSink(
        ParquetTable(path / "table"), path=path / "sink", trigger="0 seconds", **options
    )
    place: Any = {how: path / how}
    return subject, counted.run(sink, name="counted", **place)


def reading(number: int) -> rxt.PointEvent:
    """The events: nearly in order, and every seventh is too late."""
    back = 9 if number % 7 == 6 else number % 3
    return rxt.PointEvent((number - back) * SECOND, {"x": number})


def main(path: Path, how: str) -> None:
    """Push most of them and say so; then wait to be killed."""
    resuming.SECONDS = 0.2
    subject, process = begun(path, how)
    for number in range(TAKEN):
        subject.on_next(reading(number))
    print("taken", flush=True)
    process.wait(600)


@pytest.mark.java
@pytest.mark.parametrize(
    ("how", "least"),
    [
        ("resume", 0),
        pytest.param("resume", 1, marks=pytest.mark.full),
        pytest.param("log", 1, marks=pytest.mark.full),
    ],
)
def test_what_was_acknowledged_is_in_the_table_once(
    spark: SparkSession, tmp_path: Path, how: str, least: int
) -> None:
    """After SIGKILL the next run with the same folder makes the table of an undisturbed run.

    It is killed at once, while Spark starts, or when the table has files.
    """
    command = [sys.executable, __file__, str(tmp_path), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "taken\n"
        wait_until(lambda: len(list((tmp_path / "table").glob("*.parquet"))) >= least)
        running.kill()
    subject, process = begun(tmp_path, how, session=spark)
    assert process.diagnostics().streams[0].events_in == TAKEN
    for number in range(TAKEN, EVENTS):
        subject.on_next(reading(number))
    subject.on_completed()
    process.wait()
    assert table(tmp_path) == undisturbed()


def table(path: Path) -> list[tuple[int, int, int]]:
    """The rows of the table: the window's start in seconds, its count and sum."""
    rows = pl.read_parquet(path / "table" / "*.parquet").sort("start_time")
    start = rows["start_time"].dt.epoch("s").to_list()
    return list(zip(start, rows["n"].to_list(), rows["total"].to_list(), strict=True))


def undisturbed() -> list[tuple[int, int, int]]:
    """The same, counted by hand: an event is dropped if it starts before all less three seconds."""
    windows: dict[int, tuple[int, int]] = {}
    reached = -(10**9)
    for number in range(EVENTS):
        start = reading(number).start // SECOND
        if start >= reached:
            count, total = windows.get(start // 10 * 10, (0, 0))
            windows[start // 10 * 10] = count + 1, total + number
        reached = max(reached, start - 3)
    return [(start, *windows[start]) for start in sorted(windows)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
