"""A target without room or right: the producer is told, nothing is lost, and it goes on later."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from disks import small_disk
from segment_batches import SegmentBatch, make_spool
from sink_input import SCHEMA, batches, expected_rows, read_table, wait_until, write

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import SpoolError
from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java
PATIENCE = 300


def opened(table: Path, path: Path, **options: Any) -> SparkSink:
    """A sink that is open, and has a micro-batch in the table."""
    sink = SparkSink(
        ParquetTable(table), path=path, trigger="0 seconds", when_full="block", **options
    )
    sink.open("q", SCHEMA)
    sink.write(batches(9)[0])
    wait_until(lambda: sink.stats().micro_batches > 0, PATIENCE)
    return sink


@pytest.mark.full
def test_a_full_target_is_waited_for(tmp_path: Path) -> None:
    """Rows are accepted into the spool meanwhile, ``stats`` says why, and then they are delivered.

    Spark writes the files in a process of its own, out of reach of a function that raises: hence a
    disk that is really full. One that really cannot be written there is none of for the user root,
    and a file system with a lock on it is not made read-only; for that see below.
    """
    with small_disk(tmp_path / "disk") as disk:
        table = disk.path / "table"
        sink = opened(table, tmp_path / "sink")
        with disk.full():
            write(sink, batches(9)[1:])
            wait_until(lambda: sink.stats().last_error is not None, PATIENCE)
            assert SegmentFolder(tmp_path / "sink" / "spool").bounds()[1] == 10
        sink.close(None)
        assert sink.stats().restarts > 0
        assert read_table(table) == expected_rows(9)


@pytest.mark.full
def test_one_full_disk_for_all_is_waited_for(tmp_path: Path) -> None:
    """Spool, checkpoint and table have no room: the producer waits, and all go on when there is."""
    with small_disk(tmp_path / "disk") as disk:
        table = disk.path / "table"
        sink = opened(table, disk.path / "sink")
        writing = threading.Thread(target=write, args=(sink, batches(9)[1:]), daemon=True)
        with disk.full():
            writing.start()
            writing.join(1)
            assert writing.is_alive()
        writing.join(PATIENCE)
        assert not writing.is_alive()
        sink.close(None)
        assert read_table(table) == expected_rows(9)


@pytest.mark.full
def test_a_target_that_stays_full_is_told_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of the stream the error is raised; what was accepted is in the spool."""
    monkeypatch.setattr("rxtemporal.spark.sink.supervisor.ATTEMPTS", 1)
    with small_disk(tmp_path / "disk") as disk:
        table = disk.path / "table"
        sink = opened(table, tmp_path / "sink")
        with disk.full():
            write(sink, batches(9)[1:])
            with pytest.raises(Exception, match=r"No space left|cannot") as told:
                sink.close(None)
            assert "rows written before are safe" in str(told.value) + str(told.value.__notes__)
        again = SparkSink(ParquetTable(table), path=tmp_path / "sink", trigger="0 seconds")
        again.open("q", SCHEMA)
        write(again, batches(9))
        again.close(None)
        assert again.stats().rows == 0
        assert read_table(table) == expected_rows(9)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_publication_without_room_or_right_can_be_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    """It says what to do; what was moved by then is there once after the second try.

    Here Python publishes, in this process; the error is injected, for a right that is missing is
    none to the user root, who may run the tests.
    """
    rows = [{"start_time": n, "end_time": n + 1, "k": f"k{n}", "v": n} for n in range(6)]
    segment = EventBatch.from_dicts(rows, schema=SCHEMA, cti=9)
    batch = SegmentBatch(1, make_spool(tmp_path / "spool", SCHEMA, [segment]), spark)
    table = ParquetTable(tmp_path / "table", partition_by="k")
    writer = table.open(Origin("q", "id", SCHEMA, 0))
    real, calls = getattr(os, step), 0

    def denied(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(code, os.strerror(code))
        return real(*given)

    with monkeypatch.context() as disk:
        disk.setattr(os, step, denied)
        with pytest.raises(SpoolError, match=rf"cannot publish .*{os.strerror(code)}.* Hint: "):
            writer.write(batch)
    writer.close()
    again = table.open(Origin("q", "id", SCHEMA, 0))
    assert list((tmp_path / "table").rglob("*.parquet")) == [], "what was moved is undone"
    again.write(batch)
    again.close()
    assert [row[3] for row in read_table(tmp_path / "table")] == list(range(6))
