"""A streaming DataFrame as a stream on the Rx side: micro-batches, restarts, what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from child_process import environment
from hourly_readings import READINGS, SETTINGS, hourly
from micro_batches import counted, readings, run, stream_files, without_sparks_sink
from no_spark import table
from processes import descendants
from resumed_runs import SOON, Table
from runs import Log

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.errors import AdvanceTimeError, ArgumentError, CheckpointError, SourceError
from rxtemporal.run import checkpoint as resuming
from rxtemporal.spark import SparkSink, from_dataframe
from rxtemporal.spark.dataframes import streaming as microbatches
from rxtemporal.testing import assert_same_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

CUTS = (0, 13, 25, 40, 60)
PARTS = [READINGS[first:last] for first, last in pairwise(CUTS)]
HERE = Path(__file__).parents[1] / "support"
WHOLE = rxt.from_polars(READINGS.drop("received"), start="time", advance_time=SETTINGS)


def test_without_a_folder_each_run_begins_at_the_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The rows of a micro-batch come in order; late or not is as in the DataFrame as a whole."""
    read = hourly(readings(spark, stream_files(tmp_path / "in", PARTS)))
    expected = hourly(WHOLE).to_polars()
    for _ in range(2):
        found = read.to_polars()
        assert found.sort(found.columns).equals(expected.sort(found.columns))


@pytest.mark.parametrize(
    "shape",
    [
        EventShape.EDGE,
        *(pytest.param(each, marks=pytest.mark.full) for each in EventShape if each.name != "EDGE"),
    ],
)
def test_a_run_goes_on_with_the_next_micro_batch(
    spark: SparkSession, tmp_path: Path, shape: EventShape
) -> None:
    """Three runs over a folder that grows make one, in every shape."""
    files, got = stream_files(tmp_path / "in", PARTS[:1]), list[rxt.EventBatch]()
    for parts in (PARTS[1:3], PARTS[3:], []):
        sink = Table(shape, got, 10**6, "")
        assert hourly(readings(spark, files)).run(sink, resume=tmp_path / "kept").wait(SOON)
        for part in parts:
            files.add(part)
    whole = Log(shape)
    hourly(WHOLE).run(whole).wait(SOON)
    assert_same_history(whole.batches, got, tolerance=0)


# Broken off ---------------------------------------------------------------------------------------


@pytest.fixture
def undisturbed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the rows that an undisturbed run leaves in the sink's spool."""
    without_sparks_sink(monkeypatch.setattr)
    sink = SparkSink(print, path=tmp_path / "whole" / "sink", shape=EventShape.EDGE)
    counted(WHOLE).run(sink).wait(SOON)
    return table(tmp_path / "whole", EventShape.EDGE)


@pytest.mark.full
def test_a_run_that_is_killed(spark: SparkSession, tmp_path: Path, undisturbed: list[Any]) -> None:
    """Between what has left and the state, its Java process still there: each row is there once."""
    point = "left"
    files = stream_files(tmp_path / "in", PARTS)
    job = subprocess.Popen(
        [sys.executable, str(HERE / "resumable_job.py"), str(tmp_path), point, "3"],
        env=environment(),
        cwd=tmp_path,
    )
    try:
        deadline = time.monotonic() + 300
        while not (tmp_path / point).exists():
            assert job.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        left = descendants(job.pid)
        job.kill()
        job.wait()
    assert left  # its Java process follows by itself, and is waited for
    before = table(tmp_path, EventShape.EDGE)
    assert before
    assert before != undisturbed
    assert run(spark, files, tmp_path).wait(SOON)
    assert table(tmp_path, EventShape.EDGE) == undisturbed


def test_a_run_that_breaks_anywhere(
    spark: SparkSession, tmp_path: Path, undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, while and after a micro-batch is saved: it ends the run, and the next goes on."""
    files = stream_files(tmp_path / "in", PARTS)
    points = [(resuming.Checkpointer, "_save", False), (resuming.Checkpointer, "_save", True),
              (microbatches._Query, "_on_batch", True)]  # fmt: skip
    for owner, name, after in points:
        inner: Any = getattr(owner, name)

        def breaking(self: Any, *given: Any, inner: Any = inner, after: bool = after) -> None:
            if after:
                inner(self, *given)
            raise OSError("the power is gone")

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, breaking)
            with pytest.raises((OSError, SourceError), match="the power is gone"):
                run(spark, files, tmp_path).wait(SOON)
    assert run(spark, files, tmp_path).wait(SOON)
    assert table(tmp_path, EventShape.EDGE) == undisturbed


# Refused ------------------------------------------------------------------------------------------


def test_what_does_not_belong_together_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A lost state, a lost checkpoint of Spark's, a changed query: it is said what and why."""
    files, kept = stream_files(tmp_path / "in", PARTS[:2]), tmp_path / "kept"
    taken: list[rxt.EventBatch] = []

    def again(query: Callable[[rxt.Streamable], rxt.Streamable]) -> None:
        sink = Table(EventShape.EDGE, taken, 10**6, "")
        assert query(readings(spark, files)).run(sink, resume=kept).wait(SOON)

    again(hourly)
    with pytest.raises(CheckpointError, match=r"has changed since .*kept was begun. Saved: "):
        again(counted)
    state = [each.rename(tmp_path / each.name) for each in kept.glob("run.sqlite*")]
    with pytest.raises(
        CheckpointError, match=r"micro-batch 2 of .*checkpoint, .* has none: .*Hint"
    ):
        again(hourly)
    for each in state:
        each.rename(kept / each.name)
    checkpoint = kept / "sources" / "readings" / "checkpoint"
    checkpoint.rename(tmp_path / "checkpoint")
    with pytest.raises(
        CheckpointError, match=r"micro-batches up to 1, .* only those up to -1.*Hint"
    ):
        again(hourly)
    (tmp_path / "checkpoint").rename(checkpoint)
    again(hourly)


def test_what_cannot_be_followed_is_refused(spark: SparkSession) -> None:
    """No settings, so nothing would ever be final; a bad trigger; a trigger of a bounded frame."""
    endless = spark.readStream.format("rate").load()
    with pytest.raises(AdvanceTimeError, match=r"time does not advance on .*Hint"):
        from_dataframe(endless, start="timestamp")
    made: dict[str, Any] = {"start": "timestamp", "advance_time": SETTINGS}
    with pytest.raises(ArgumentError, match="trigger is an interval such as '1 second', or"):
        from_dataframe(endless, **made, trigger=" ")
    with pytest.raises(ArgumentError, match="this one is bounded"):
        from_dataframe(spark.range(3), start="id", trigger="1 second")


# Several, and the end -----------------------------------------------------------------------------


def test_two_of_them_joined_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Each has a Spark query of its own; one state has the places of both, whoever saved last."""
    app_of = {
        name: stream_files(tmp_path / name, parts)
        for name, parts in (("one/1", PARTS[:2]), ("two", PARTS[1:3]))
    }

    def joined(one: rxt.Streamable, two: rxt.Streamable) -> rxt.Streamable:
        return hourly(one).join(hourly(two), on="room", suffix="_two")

    def bounded(parts: list[pl.DataFrame]) -> rxt.Streamable:
        rows = pl.concat(parts).drop("received")
        return rxt.from_polars(rows, start="time", advance_time=SETTINGS)

    got: list[rxt.EventBatch] = []
    for more in (PARTS[2:3], []):
        app = rxt.Application("both")
        given = {
            name: app.define_stream(name, readings(spark, each)) for name, each in app_of.items()
        }
        app.query("joined", joined(*given.values()))
        sink = Table(EventShape.EDGE, got, 10**6, "")
        assert app.run("joined", sinks=sink, resume=tmp_path / "kept").wait(SOON)
        for part in more:
            app_of["one/1"].add(part)
            app_of["two"].add(PARTS[3])
    whole = Log(EventShape.EDGE)
    joined(bounded(PARTS[:3]), bounded(PARTS[1:])).run(whole).wait(SOON)
    assert sum(map(len, whole.batches)) > len(PARTS)
    assert_same_history(whole.batches, got, tolerance=0)


class Waiting(Table):
    """A sink that says when it has got something, and may stop its run then."""

    stops: Callable[[], object] = staticmethod(lambda: None)

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the batch."""
        super().write(batch)
        self.reached.set()
        self.stops()


@pytest.mark.parametrize("inside", [False, True])
def test_a_run_that_is_stopped(spark: SparkSession, tmp_path: Path, inside: bool) -> None:
    """From another thread or from inside its sink: Spark's query ends, and the next run goes on."""
    files, got = stream_files(tmp_path / "in", PARTS[:2]), list[rxt.EventBatch]()
    sink, ready = Waiting(EventShape.EDGE, got, 10**6, ""), threading.Event()
    live = hourly(readings(spark, files, trigger="0 seconds"))
    if inside:
        sink.stops = lambda: ready.wait(SOON) and process.dispose()
    process = live.run(sink, resume=tmp_path / "kept")
    ready.set()
    assert sink.reached.wait(SOON)
    if not inside:
        process.dispose()
    assert process.wait(SOON)
    for part in PARTS[2:]:
        files.add(part)
    again = Table(EventShape.EDGE, got, 10**6, "")
    assert hourly(readings(spark, files)).run(again, resume=tmp_path / "kept").wait(SOON)
    assert not [query for query in spark.streams.active if query.isActive]
    whole = Log(EventShape.EDGE)
    hourly(WHOLE).run(whole).wait(SOON)
    assert_same_history(whole.batches, got, tolerance=0)


def test_a_query_that_spark_ends_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """An error in the files or in a micro-batch ends the run and names its cause."""
    files = stream_files(tmp_path / "in", PARTS[:1])
    (tmp_path / "in" / "9.parquet").write_bytes(b"no rows")
    with pytest.raises(SourceError, match="Spark ended the query of stream 'readings'"):
        readings(spark, files).to_polars()
    shutil.rmtree(tmp_path / "in")
    broken = stream_files(tmp_path / "in", PARTS[:1])
    with pytest.raises(OSError, match="the line is dead"):
        readings(spark, broken).run(Table(EventShape.EDGE, [], 0, "breaks")).wait(SOON)
