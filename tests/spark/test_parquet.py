"""Parquet tables: each segment once, whatever comes twice, is half done or grouped anew."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from segment_batches import LocalSpark, SegmentBatch, make_spool
from sink_input import wait_until

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks
from rxtemporal.errors import ArgumentError, SchemaError, SpoolError
from rxtemporal.spark import ParquetTable, read
from rxtemporal.spark.schema import spool_schema
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentFolder, Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pl.Schema({"x": pl.Int64()})
FEBRUARY = ticks(datetime(1960, 2, 29, 23, 59, tzinfo=UTC))
DAY = 86_400_000_000
NEW_YEAR = ticks(datetime(2024, 1, 1, tzinfo=UTC))


def origin(query: str = "q", spool: str = "id", committed: int = 0) -> Origin:
    """Return an origin of rows."""
    return Origin(query, spool, SCHEMA, committed)


def micro_batch(path: Path, last: int, spark: Any = None) -> SegmentBatch:
    """Return the segments up to a number, each with two rows."""
    with Spool.open(path / "spool", "q", SCHEMA) as spool:
        for number in range(spool.last + 1, last + 1):
            start = NEW_YEAR + number % 2 * DAY
            rows = [{"start_time": start, "end_time": None, "x": 10 * number + j} for j in range(2)]
            spool.append(EventBatch.from_dicts(rows, schema=SCHEMA, cti=MAX_TIME))
    return SegmentBatch(last, SegmentFolder(path / "spool"), spark or LocalSpark())


def values(path: Path) -> list[int]:
    """The field x of all rows."""
    return sorted(pl.read_parquet(path)["x"].to_list())


def of_segments(*numbers: int) -> list[int]:
    """Return the rows that ``values`` gives for these segments."""
    return [10 * number + j for number in numbers for j in range(2)]


def test_a_batch_that_comes_again_is_not_written(tmp_path: Path) -> None:
    """Only segments above the ledger are written, however they are grouped the second time."""
    table = ParquetTable(tmp_path / "t")
    writer = table.open(origin())
    for _ in range(2):
        writer.write(micro_batch(tmp_path, 2))
    writer.close()
    for _ in range(2):
        again = table.open(origin())
        again.write(micro_batch(tmp_path, 3))
        again.close()
        assert values(tmp_path / "t") == of_segments(1, 2, 3)
    assert pl.read_parquet(tmp_path / "t").columns == ["start_time", "end_time", "x"]
    assert {path.suffix for path in tmp_path.glob("t/*")} == {".parquet"}


def test_what_was_half_published_is_undone(tmp_path: Path) -> None:
    """Files that were moved in before the ledger are deleted on opening; other queries' are not."""
    table = ParquetTable(tmp_path / "t", partition_by="start_time")
    writer = table.open(origin())
    writer.write(micro_batch(tmp_path, 2))
    table.open(origin("q-2")).write(micro_batch(tmp_path, 3))
    ledger = tmp_path / ".t.rxtemporal" / "q.json"
    before = ledger.read_bytes()
    writer.write(micro_batch(tmp_path, 4))
    writer.close()
    ledger.write_bytes(before)
    writer = table.open(origin())
    assert values(tmp_path / "t") == sorted(of_segments(1, 2, 1, 2, 3))
    writer.write(micro_batch(tmp_path, 4))
    assert values(tmp_path / "t") == sorted(of_segments(1, 2, 3, 4, 1, 2, 3))


@pytest.mark.java
@pytest.mark.parametrize("query", ["late flights/Köln", "_hidden", ".", "[a]*", "50%"])
def test_any_name_of_a_query_will_do(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """A query's name never hides its files from readers."""
    writer = ParquetTable(tmp_path / "t").open(origin(query))
    writer.write(micro_batch(tmp_path, 1, spark))
    assert values(tmp_path / "t") == of_segments(1) == sorted(read(tmp_path / "t").collect()["x"])
    assert spark.read.parquet(str(tmp_path / "t")).count() == 2


@pytest.mark.java
@pytest.mark.parametrize(
    ("partition_by", "column", "folders"),
    [
        ("start_time", "start_time_day", {"1969-12-31", "2023-12-31", "0001-01-01"}),
        ("end_time", "end_time_day", {"1970-01-01", "2024-01-01", "__HIVE_DEFAULT_PARTITION__"}),
        ("at", "at_day", {"9999-12-31", "1960-02-29", "__HIVE_DEFAULT_PARTITION__"}),
        ("local", "local_day", {"1969-12-31", "1970-01-01", "__HIVE_DEFAULT_PARTITION__"}),
        ("day", "day", {"1970-01-01", "1970-01-02", "__HIVE_DEFAULT_PARTITION__"}),
        ("name", "name", {"a", "b%3A%2F", "__HIVE_DEFAULT_PARTITION__"}),
        ("number", "number", {"1.0", "-Infinity", "__HIVE_DEFAULT_PARTITION__"}),
    ],
)
def test_days_are_in_utc(
    spark: SparkSession, tmp_path: Path, partition_by: str, column: str, folders: set[str]
) -> None:
    """A column of time makes folders of UTC days, at the ends of time too, in any session."""
    payload = pl.DataFrame(
        {
            "at": pl.Series([MAX_TIME, FEBRUARY, None]).cast(pl.Datetime("us", "Asia/Tokyo")),
            "local": pl.Series([0, -1, None]).cast(pl.Datetime("us")),
            "day": [date(1970, 1, 1), date(1970, 1, 2), None],
            "name": ["a", "b:/", None],
            "number": [1.0, -math.inf, None],
        }
    )
    starts = pl.Series([-1, NEW_YEAR - 1, MIN_TIME]).to_numpy()
    ends = pl.Series([1, NEW_YEAR, MAX_TIME]).to_numpy()
    given = EventBatch.of_rows(starts, ends, payload, MAX_TIME)
    folder = make_spool(tmp_path / "s", payload.schema, [given])
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        table = ParquetTable(tmp_path / "t", partition_by)
        table.open(Origin("q", "id", payload.schema, 0)).write(SegmentBatch(1, folder, spark))
        read_by_spark: Any = read(tmp_path / "t", session=spark)
        assert read_by_spark.where("unix_micros(start_time) = -1").count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {path.name for path in (tmp_path / "t").iterdir()} == {f"{column}={f}" for f in folders}
    got = pl.read_parquet(tmp_path / "t").sort("start_time")
    assert got["start_time"].to_physical().to_list() == sorted(starts.tolist())
    assert sorted(got["end_time"].is_null().to_list()) == [False, False, True]
    assert_frame_equal(read(tmp_path / "t").collect(), got, check_row_order=False)


@pytest.mark.java
@pytest.mark.parametrize("names", [["007", "7"], ["true", "false"], ["2026-05-04", None]])
def test_texts_that_name_folders_stay_texts(
    spark: SparkSession, tmp_path: Path, names: list[str | None]
) -> None:
    """Though readers of folders take them for numbers, of which 007 and 7 are the same."""
    payload = pl.DataFrame({"name": names})
    times = pl.Series([1, 2]).to_numpy()
    given = EventBatch.of_rows(times, times + 2, payload, MAX_TIME)
    folder = make_spool(tmp_path / "s", payload.schema, [given])
    path = tmp_path / "above=1" / "t"
    path.parent.mkdir()
    table = ParquetTable(path, "name")
    table.open(Origin("q", "id", payload.schema, 0)).write(SegmentBatch(1, folder, spark))
    assert read(path).sort("start_time").collect()["name"].to_list() == names
    found: Any = read(path, session=spark)
    assert [row["name"] for row in found.sort("start_time").collect()] == names


def test_bytes_name_no_folders(tmp_path: Path) -> None:
    """They would be texts, and those that are none would all be the same."""
    schema = pl.Schema({"raw": pl.Binary})
    with pytest.raises(SchemaError, match="values name no folders"):
        ParquetTable(tmp_path / "t", "raw").open(Origin("q", "id", schema, 0))


def test_a_ledger_of_another_spool_is_refused(tmp_path: Path) -> None:
    """A table that holds another run's rows of the same query says so instead of mixing them."""
    aside = tmp_path / ".t.rxtemporal"
    aside.mkdir()
    (aside / "q.json").write_text('{"query": "q", "spool": "a", "segment": 3}', encoding="utf-8")
    (tmp_path / "t").mkdir()
    ParquetTable(tmp_path / "t").open(origin(spool="a", committed=3)).close()
    with pytest.raises(SpoolError, match="another spool"):
        ParquetTable(tmp_path / "t").open(origin(spool="b"))


def test_a_ledger_behind_spark_is_refused(tmp_path: Path) -> None:
    """A table that has lost what Spark committed is found when it is opened."""
    with pytest.raises(SpoolError, match="has lost rows"):
        ParquetTable(tmp_path / "t").open(origin(committed=4))


def test_a_table_that_is_gone_is_refused(tmp_path: Path) -> None:
    """A table that was deleted while its ledger stayed would never get its first rows again."""
    aside = tmp_path / ".t.rxtemporal"
    aside.mkdir()
    (aside / "q.json").write_text('{"query": "q", "spool": "id", "segment": 3}', encoding="utf-8")
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"t is missing, and its ledger .* segment 3"):
            ParquetTable(tmp_path / "t").open(origin(committed=3))


def test_a_query_of_one_name_writes_a_table_once_at_a_time(tmp_path: Path) -> None:
    """Two spools whose first segments meet in one table are told apart before any ledger."""
    table = ParquetTable(tmp_path / "t")
    first = table.open(origin(spool="a"))
    table.open(origin("other", spool="b")).close()
    with pytest.raises(SpoolError, match="is being written by"):
        table.open(origin(spool="b"))
    first.close()
    with pytest.raises(SpoolError, match="has lost rows"):
        table.open(origin(committed=4))
    table.open(origin(spool="b")).close()


def test_undoing_is_on_disk_before_it_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that a power cut brought back would be taken for published ones later."""
    synced: list[Path] = []
    monkeypatch.setattr("rxtemporal.spark.targets.parquet.sync_folder", synced.append)
    for folder, number in (("day=a", 3), ("day=b", 4)):
        (tmp_path / "t" / folder).mkdir(parents=True)
        left = tmp_path / "t" / folder / f"q-{number:012d}-{number:012d}-0.parquet"
        left.write_bytes(b"")
    (tmp_path / ".t.rxtemporal").mkdir()
    entry = '{"query": "q", "spool": "id", "segment": 3}'
    (tmp_path / ".t.rxtemporal" / "q.json").write_text(entry, encoding="utf-8")
    ParquetTable(tmp_path / "t").open(origin()).close()
    assert [path.parent.name for path in (tmp_path / "t").rglob("*.parquet")] == ["day=a"]
    assert synced[-1] == tmp_path / "t" / "day=b"


@pytest.mark.java
@pytest.mark.parametrize("name", ["a b%20", "ä#?", "x[1]", "y{a,b}*"])
def test_any_name_of_a_folder_will_do(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Though Spark and polars take some characters for patterns."""
    writer = ParquetTable(tmp_path / name / "t", "x").open(origin())
    writer.write(micro_batch(tmp_path, 1, spark))
    frame: Any = read(tmp_path / name / "t", session=spark)
    assert sorted(row["x"] for row in frame.collect()) == of_segments(1)
    assert sorted(read(tmp_path / name / "t").collect()["x"]) == of_segments(1)


def test_what_lies_in_the_stage_is_not_published(tmp_path: Path) -> None:
    """Files of a task that ended too late, or was repeated, are not published."""
    writer = ParquetTable(tmp_path / "t", partition_by="x").open(origin())
    late = tmp_path / ".t.rxtemporal" / "q.stage" / "late.parquet"
    late.parent.mkdir(parents=True)
    pl.DataFrame({"start_time": [1]}).write_parquet(late)
    writer.write(micro_batch(tmp_path, 2))
    assert values(tmp_path / "t") == of_segments(1, 2)


def test_another_partition_by_is_refused(tmp_path: Path) -> None:
    """A table keeps its folders' kind from run to run, and for every query that writes it."""
    ParquetTable(tmp_path / "t", partition_by="start_time").open(origin()).close()
    ParquetTable(tmp_path / "t", partition_by="start_time").open(origin("other")).close()
    for query, partition_by in [("q", "x"), ("other", None), ("third", "end_time")]:
        with pytest.raises(ArgumentError, match="begun with partition_by='start_time'"):
            ParquetTable(tmp_path / "t", partition_by).open(origin(query))
    (tmp_path / ".t.rxtemporal" / "_table.json").write_bytes(b"{")
    with pytest.raises(SpoolError, match=r"_table\.json is damaged"):
        ParquetTable(tmp_path / "t", partition_by="start_time").open(origin())


def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    """A ledger that cannot be read is not a reason to begin anew."""
    (tmp_path / ".t.rxtemporal").mkdir()
    (tmp_path / ".t.rxtemporal" / "q.json").write_text('{"query": "q"', encoding="utf-8")
    with pytest.raises(SpoolError, match="damaged"):
        ParquetTable(tmp_path / "t").open(origin())


def test_a_table_names_columns_that_exist(tmp_path: Path) -> None:
    """``partition_by`` with a wrong name is refused with the right ones."""
    with pytest.raises(SchemaError, match="'start_time', 'end_time', 'x'"):
        ParquetTable(tmp_path / "t", partition_by="y").open(origin())
    for name in ("start_time_day", "Start_Time_Day"):  # Spark ignores case
        clash = Origin("q", "id", pl.Schema({name: pl.Date()}), 0)
        with pytest.raises(SchemaError, match="start_time_day"):
            ParquetTable(tmp_path / "t", partition_by="start_time").open(clash)


def test_a_table_is_a_local_folder(tmp_path: Path) -> None:
    """An object store is refused with another way to go, a path below a file by its name."""
    with pytest.raises(ArgumentError, match="atomic rename"):
        ParquetTable("s3://bucket/table")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match="is a file"):
        ParquetTable(tmp_path / "file" / "t").open(origin())


@pytest.mark.java
def test_a_source_is_read_in_order_and_in_limits(tmp_path: Path) -> None:
    """Offsets are segment numbers; limits, runs and commits follow them."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

    from rxtemporal.spark.sink import spool_source as source

    with Spool.open(tmp_path, "q", SCHEMA) as spool:
        for number in range(5):
            row = {"start_time": number, "x": number}
            spool.append(EventBatch.from_dicts([row], schema=SCHEMA, cti=number + 1))
        options = {"path": str(tmp_path), "max_segments": "2", "tasks": "2"}
        reader = source.SpoolReader(options, spool_schema(SCHEMA))
        assert reader.initialOffset() == {"segment": 0}
        assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
        assert reader.latestOffset({"segment": 1}, ReadMaxFiles(2)) == {"segment": 3}
        assert reader.latestOffset({"segment": 1}, ReadAllAvailable()) == {"segment": 5}
        reader.prepareForTriggerAvailableNow()
        spool.append(EventBatch.empty(SCHEMA, 9))
        assert reader.latestOffset({"segment": 1}, ReadAllAvailable()) == {"segment": 5}
        with pytest.raises(SpoolError, match="do not belong together"):
            reader.latestOffset({"segment": 7}, ReadAllAvailable())
        assert reader.partitions({"segment": 2}, {"segment": 2}) == []
        (run,) = reader.partitions({"segment": 0}, {"segment": 5})
        assert (run.first, run.last) == (1, 5)
        (batch,) = reader.read(source.SegmentRange(2, 2))
        assert batch.to_pylist() == [{"start_time": 1, "end_time": 2, "x": 1, "_segment": 2}]
        reader.commit({"segment": 3})
        wait_until(lambda: SegmentFolder(tmp_path).bounds() == (3, 6))
        assert pickle.loads(pickle.dumps(reader)).initialOffset() == {"segment": 3}, "tasks get it"
        assert reader.initialOffset() == {"segment": 3}


@pytest.mark.java
def test_what_cannot_be_deleted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Discarding goes on in the background; the next commit raises what failed in it."""
    from rxtemporal.spark.sink import spool_source as source

    def denied(*_: Any) -> None:
        raise SpoolError("cannot discard")

    monkeypatch.setattr(SegmentFolder, "discard", denied)
    options = {"path": str(tmp_path), "max_segments": "2", "tasks": "2"}
    reader = source.SpoolReader(options, spool_schema(SCHEMA))
    reader.commit({"segment": 1})
    with pytest.raises(SpoolError, match="cannot discard"):
        reader.commit({"segment": 2})


@pytest.mark.java
def test_many_rows_are_read_by_all_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task reads one contiguous run; there are no more tasks than the rows are worth."""
    from rxtemporal.spark.sink import spool_source as source

    monkeypatch.setattr(source, "ROWS_PER_TASK", 1)
    with Spool.open(tmp_path, "q", SCHEMA) as spool:
        for number in range(5):
            row = {"start_time": number, "x": number}
            spool.append(EventBatch.from_dicts([row], schema=SCHEMA, cti=number + 1))
    options = {"path": str(tmp_path), "max_segments": "9", "tasks": "2"}
    reader = source.SpoolReader(options, spool_schema(SCHEMA))
    runs = reader.partitions({"segment": 0}, {"segment": 5})
    assert [(run.first, run.last) for run in runs] == [(1, 2), (3, 5)]
