"""Compaction and manifest: whatever is killed, and whoever reads, each row is there once."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from child_process import HERE, environment
from kill_points import list_points
from products import draw_cases
from segment_batches import SegmentBatch
from table_job import FOLDERS, ROWS, SCHEMA, STEPS, expected, make_segments, write_table

from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.spark import ParquetTable, list_files, read
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentFolder

SEGMENTS = 6
# as often as an undisturbed run passes each step
PASSES = {
    "rows are written": 12,
    "files are merged": 6,
    "a file gets a name": 26,
    "a file is deleted": 8,
}
CASES = [
    (point, nth)
    for point in list_points(STEPS)
    for nth in range(1, PASSES[point.partition(": ")[2]] + 1)
]
# by default one after each step, in the middle of the run
DRAWN = [(f"after: {step}", passes // 2) for step, passes in PASSES.items()]


def job(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the process that writes the table."""
    return subprocess.run(
        [sys.executable, str(HERE / "table_job.py"), str(path), str(SEGMENTS), *arguments],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a table, sorted."""
    return sorted(frame.select("k", "x").rows())


class Reader(threading.Thread):
    """Reads a table again and again, and notes what was wrong."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._ended = path, threading.Event()
        self.wrong: list[Any] = []
        self.seen: set[int] = set()

    def run(self) -> None:
        """Read until the end; a table that is not there yet is waited for."""
        while not self._ended.is_set():
            try:
                found = read(self._path / "table").collect()
            except SpoolError as error:
                if "there is no ParquetTable" not in str(error) or self.seen:
                    self.wrong.append(error)
                continue
            except Exception as error:
                self.wrong.append(error)
                continue
            count = len(found) // (ROWS * len(FOLDERS))
            self.seen.add(count)
            if rows(found) != expected(count):
                self.wrong.append(Counter(found["x"].to_list()))

    def end(self) -> None:
        """End, and raise if something was wrong."""
        self._ended.set()
        self.join()
        assert {*map(str, self.wrong)} == set()


def test_an_undisturbed_run_passes_each_step_so_often(tmp_path: Path) -> None:
    """The kills below are at every one of them."""
    make_segments(tmp_path, SEGMENTS)
    done = job(tmp_path)
    assert json.loads(done.stdout) == PASSES, done.stderr
    assert rows(pl.read_parquet(tmp_path / "table")) == expected(SEGMENTS)
    kinds = Counter("-c" in path.name for path in (tmp_path / "table").rglob("*.parquet"))
    assert kinds == {True: 4, False: 4}, "two compactions, and two segments after them"


@pytest.mark.parametrize(("point", "nth"), draw_cases(CASES, DRAWN))
def test_after_a_kill_at_any_step_each_row_is_there_once(
    tmp_path: Path, point: str, nth: int
) -> None:
    """Readers see whole micro-batches before and after, and nothing is left of the killed run."""
    make_segments(tmp_path, SEGMENTS)
    reader = Reader(tmp_path)
    reader.start()
    killed = job(tmp_path, "--kill", point, "--nth", str(nth))
    assert killed.returncode == -9, killed.stderr
    aside = tmp_path / ".table.rxtemporal"
    if (aside / "_table.json").exists():
        found = rows(read(tmp_path / "table").collect())
        assert found == expected(len(found) // (ROWS * len(FOLDERS)))
    done = job(tmp_path)
    reader.end()
    assert done.returncode == 0, done.stderr
    assert rows(read(tmp_path / "table").collect()) == expected(SEGMENTS)
    assert rows(pl.read_parquet(tmp_path / "table")) == expected(SEGMENTS)
    left = {path.name for path in aside.iterdir()}
    assert left == {"_table.json", "q.json", "q.lock", "q.columns.parquet"}


def test_a_reader_sees_whole_micro_batches(tmp_path: Path) -> None:
    """While many are written and merged, each reading has a number of whole ones, each once."""
    count = 60
    make_segments(tmp_path, count)
    reader = Reader(tmp_path)
    reader.start()
    write_table(tmp_path, count)
    reader.end()
    assert len(reader.seen) > 2
    assert rows(pl.read_parquet(tmp_path / "table")) == expected(count)


def opened(path: Path, compact: Any = 1) -> Any:
    """A writer of the table."""
    table = ParquetTable(path / "table", partition_by="k", compact=compact)
    return table.open(Origin("q", "id", SCHEMA, 0, path))


def write(writer: Any, path: Path, *segments: int) -> None:
    """Write micro-batches up to these segments, and wait for what is merged after each."""
    for last in segments:
        writer.write(SegmentBatch(last, SegmentFolder(path / "spool")))
        if writer._compaction is not None and writer._compaction._thread is not None:
            writer._compaction._thread.join()


def names(path: Path) -> list[str]:
    """Return the ends of the names of the files in a folder of the table."""
    return sorted(each.name.removeprefix("q-") for each in (path / "table" / "k=a").iterdir())


def test_files_are_merged_when_the_oldest_is_old_enough(tmp_path: Path) -> None:
    """The period is one of the wall clock; the next run goes on with files of the one before."""
    make_segments(tmp_path, 5)
    writer = opened(tmp_path, "1h")
    write(writer, tmp_path, 1, 2, 3)
    assert len(names(tmp_path)) == 3
    writer.close()
    for path in (tmp_path / "table").rglob("*.parquet"):
        os.utime(path, (0, 0))
    writer = opened(tmp_path, "1h")
    write(writer, tmp_path, 4, 5)
    assert names(tmp_path) == [
        "000000000001-000000000004-c0.parquet",
        "000000000005-000000000005-0.parquet",
    ]
    writer.close()
    assert rows(read(tmp_path / "table").collect()) == expected(5)


def test_without_compact_nothing_is_merged(tmp_path: Path) -> None:
    """By default each micro-batch keeps its files."""
    make_segments(tmp_path, 4)
    writer = opened(tmp_path, None)
    write(writer, tmp_path, 1, 2, 3, 4)
    writer.close()
    assert len(names(tmp_path)) == 4
    with pytest.raises(ArgumentError, match="compact must be positive"):
        ParquetTable("t", compact="0s")


def test_large_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are merged up to a size; one that is larger gets another name and is not written."""
    monkeypatch.setattr("rxtemporal.spark.targets.compaction.FILE_BYTES", 1)
    make_segments(tmp_path, 3)
    writer = opened(tmp_path)
    write(writer, tmp_path, 1, 2)
    nodes = {each.stat().st_ino for each in (tmp_path / "table" / "k=a").iterdir()}
    write(writer, tmp_path, 3)
    writer.close()
    merged = [each for each in (tmp_path / "table" / "k=a").iterdir() if "-c" in each.name]
    assert {each.stat().st_ino for each in merged} == nodes
    assert rows(read(tmp_path / "table").collect()) == expected(3)


def test_a_folder_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    """Whoever deletes old rows while they are merged has deleted them; the rest is merged later."""
    make_segments(tmp_path, 5)
    writer = opened(tmp_path)
    write(writer, tmp_path, 1, 2)
    shutil.rmtree(tmp_path / "table" / "k=b")
    write(writer, tmp_path, 3, 4, 5)
    writer.close()
    found = rows(read(tmp_path / "table").collect())
    assert [row for row in found if row[0] == "a"] == [row for row in expected(5) if row[0] == "a"]
    assert {x for k, x in found if k == "b"} == {3, 4, 5}
    assert any("-c" in each for each in names(tmp_path))


def test_a_compaction_that_fails_is_told_and_the_query_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Small files stay; the next period tries again."""
    make_segments(tmp_path, 5)
    writer = opened(tmp_path)
    write(writer, tmp_path, 1)
    damaged = next((tmp_path / "table" / "k=a").iterdir())
    content = damaged.read_bytes()
    damaged.write_bytes(b"damaged")
    write(writer, tmp_path, 2, 3)
    assert "spark_table.compaction_failed" in caplog.text
    damaged.write_bytes(content)
    write(writer, tmp_path, 4, 5)
    writer.close()
    assert any("-c" in each for each in names(tmp_path))
    assert rows(read(tmp_path / "table").collect()) == expected(5)


def test_a_reader_that_began_before_a_compaction_is_served(tmp_path: Path) -> None:
    """The files are looked up in each ``collect``; filters and columns are pushed into them."""
    make_segments(tmp_path, 3)
    writer = opened(tmp_path)
    write(writer, tmp_path, 1, 2)
    lazy: Any = read(tmp_path / "table")
    before = list_files(tmp_path / "table")
    write(writer, tmp_path, 3)
    writer.close()
    assert not any(path.exists() for path in before)
    assert rows(lazy.collect()) == expected(3)
    assert lazy.filter(pl.col("x") > 2, k="a").select("x").collect()["x"].to_list() == [3] * ROWS
    assert lazy.head(2).collect().height == 2


def test_files_that_do_not_count_are_not_read(tmp_path: Path) -> None:
    """Those of an unfinished micro-batch, and those of another program."""
    make_segments(tmp_path, 2)
    writer = opened(tmp_path, None)
    write(writer, tmp_path, 1)
    ledger = tmp_path / ".table.rxtemporal" / "q.json"
    before = ledger.read_bytes()
    write(writer, tmp_path, 2)
    writer.close()
    ledger.write_bytes(before)
    pl.DataFrame({"x": [7]}).write_parquet(tmp_path / "table" / "k=a" / "mine.parquet")
    assert rows(read(tmp_path / "table").collect()) == expected(1)
    assert len(list_files(tmp_path / "table")) == len(FOLDERS)


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    """A reader may be there before the first micro-batch; without a table it is told."""
    for find in (lambda path: read(path).collect(), list_files):
        with pytest.raises(SpoolError, match=r"there is no ParquetTable at .*table"):
            find(tmp_path / "table")
    opened(tmp_path).close()
    found: Any = read(str(tmp_path / "table"))
    assert found.collect().is_empty()
    assert {"k": pl.String, "x": pl.Int64}.items() <= dict(found.collect_schema()).items()
    assert list_files(tmp_path / "table") == []


def test_folders_above_a_table_are_no_columns(tmp_path: Path) -> None:
    """Though their names look like those of partitions."""
    above = tmp_path / "year=2024"
    make_segments(above, 1)
    write_table(above, 1)
    found: Any = read(above / "table")
    assert found.collect_schema().names() == ["start_time", "end_time", "x", "k"]
    clash = tmp_path / "x=7"
    make_segments(clash, 1)
    write_table(clash, 1)
    with pytest.raises(ArgumentError, match=r"the name of its column 'x'.* Hint: "):
        found = read(clash / "table").collect()


def test_queries_of_one_table_are_merged_apart(tmp_path: Path) -> None:
    """Each has a ledger of its own."""
    make_segments(tmp_path, 4)
    table = ParquetTable(tmp_path / "table", compact=1)
    writers = [table.open(Origin(query, "id", SCHEMA, 0)) for query in ("q", "q-1")]
    for last, writer in itertools.product(range(1, 5), writers):
        write(writer, tmp_path, last)
    for writer in writers:
        writer.close()
    assert rows(read(tmp_path / "table").collect()) == sorted(expected(4) * 2)
    assert {path.name.partition("-0")[0] for path in list_files(tmp_path / "table")} == {"q", "q-1"}


def test_a_table_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its ledger knows no compaction, and its folder is private; its files are merged as others."""
    make_segments(tmp_path, 4)
    aside, folder = tmp_path / ".table.rxtemporal", tmp_path / "table" / "k=a"
    aside.mkdir(0o700)
    folder.mkdir(parents=True)
    (aside / "_table.json").write_text('{"partition_by": "k"}', encoding="utf-8")
    entry = '{"query": "q", "spool": "id", "segment": 1}'
    (aside / "q.json").write_text(entry, encoding="utf-8")
    old = pl.DataFrame({"start_time": [1], "end_time": [2], "x": [1]}).with_columns(
        pl.col("start_time", "end_time").cast(pl.Datetime("us", "UTC"))
    )
    for name in ("q-000000000001-000000000001-0", "q-000000000002-000000000002-0"):
        old.write_parquet(folder / f"{name}.parquet")
    assert rows(read(tmp_path / "table").collect()) == [("a", 1)]
    writer = opened(tmp_path)
    write(writer, tmp_path, 2, 3, 4)
    writer.close()
    later = [row for row in expected(4) if row[1] > 1]
    assert rows(read(tmp_path / "table").collect()) == sorted([("a", 1), *later])
    assert aside.stat().st_mode == (tmp_path / "table").stat().st_mode
