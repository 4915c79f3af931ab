"""Direct mode, and targets that only print: the same functions, nothing durable."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import reactivex.subject
from sink_input import SCHEMA, batches, expected_rows, feed, read_table, wait_until, write

import rxtemporal as rxt
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark import Console, ParquetTable, SparkSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.java


def direct(target: Any, path: Path, spark: SparkSession) -> SparkSink:
    """A sink in direct mode."""
    return SparkSink(target, path=path / "sink", mode="direct", session=spark)


def given_to(path: Path, spark: SparkSession, mode: Any) -> tuple[dict[str, str], list[Any], int]:
    """Return what a function sees in a mode: types, rows, and the last CTI."""
    types: dict[str, str] = {}
    got: list[Any] = []
    ctis: list[int] = []

    def take(frame: DataFrame, number: int) -> None:
        types.update(frame.dtypes)
        rows = frame.collect()
        got.extend(tuple(row)[:4] for row in rows)
        assert all(row["_segment"] >= 1 for row in rows)
        ctis.append(it.cti(number))

    it = SparkSink(take, path=path, mode=mode, session=spark)
    feed(it, batches(4))
    assert it.stats().rows == 12
    return types, sorted(got, key=repr), ctis[-1]


def test_a_function_gets_what_it_would_get_from_the_spool(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Columns, types, ``_segment`` and the CTI are the same in both modes; no file is written."""
    spooled = given_to(tmp_path / "spooled", spark, "spooled")
    assert given_to(tmp_path / "direct", spark, "direct") == spooled
    assert spooled[2] == MAX_TIME
    assert not (tmp_path / "direct").exists()


def test_what_waits_is_one_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    """While the target works batches gather, and come together next."""
    sizes: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def take(frame: DataFrame, number: int) -> None:
        begun.set()
        assert go_on.wait(60)
        sizes.append(frame.count())

    it = direct(take, tmp_path, spark)
    it.open("q", SCHEMA)
    write(it, batches(6)[:1])
    assert begun.wait(60)
    write(it, batches(6)[1:])
    go_on.set()
    it.close(None)
    assert sizes == [3, 15]


def test_runs_into_a_table_follow_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """A second run adds its rows after the first one's; nothing is overwritten or left out."""
    table = ParquetTable(tmp_path / "table")
    for _ in range(2):
        feed(direct(table, tmp_path, spark), batches(3))
    assert read_table(tmp_path / "table") == sorted(
        expected_rows(3) * 2, key=lambda row: (row[0], row[2])
    )


def test_an_error_of_the_target_ends_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is tried again: the error comes back as itself and says that its batch is lost."""

    def fails(frame: DataFrame, number: int) -> None:
        raise LookupError("no such customer")

    it = direct(fails, tmp_path, spark)
    it.open("q", SCHEMA)
    it.write(batches(1)[0])
    with pytest.raises(LookupError) as refused:
        it.close(None)
    assert "which is lost" in refused.value.__notes__[0]


@pytest.mark.parametrize("mode", ["spooled", "direct"])
def test_a_function_may_stop_its_process(spark: SparkSession, tmp_path: Path, mode: Any) -> None:
    """``dispose`` inside the function returns, and the process ends."""
    subject: reactivex.subject.Subject[EventBatch] = reactivex.subject.Subject()
    there, returned = threading.Event(), threading.Event()

    def take(frame: DataFrame, number: int) -> None:
        assert there.wait(60)
        process.dispose()
        returned.set()

    it = SparkSink(take, path=tmp_path / mode, mode=mode, session=spark, trigger="0 seconds")
    process = rxt.from_observable(subject, schema=dict(SCHEMA)).run(it, name="q")
    there.set()
    subject.on_next(batches(1)[0])
    assert returned.wait(60)
    assert process.wait(60)


def test_a_console_prints_each_row_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is taken up prints what the one before has not."""
    first = SparkSink(Console(), path=tmp_path, session=spark, trigger="0 seconds")
    first.open("q", SCHEMA)
    write(first, batches(3)[:1])
    wait_until(lambda: first.stats().micro_batches > 0 and first.stats().rows == 3)
    wait_until(lambda: (tmp_path / "console.json").exists())
    first.close(KeyboardInterrupt())
    before = capsys.readouterr().out
    assert [before.count(f" k{j} ") for j in range(3)] == [1, 1, 1]
    feed(SparkSink(Console(), path=tmp_path, session=spark), batches(3))
    after = capsys.readouterr().out
    assert [after.count(f" k{j} ") for j in range(3)] == [2, 2, 2]
