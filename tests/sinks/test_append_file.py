"""Files that grow: each row once, whatever breaks, and every line whole at any time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from products import draw_product
from run_settings import save_at_once, save_never
from runs import SOON

import rxtemporal as rxt
from rxtemporal.engine.codec import dumps
from rxtemporal.errors import (
    ArgumentError,
    CheckpointError,
    ProcessEndedError,
    SchemaError,
    SpoolError,
)
from rxtemporal.sinks import append_file

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
FRAME = pl.DataFrame(
    {
        "t": [NOON + timedelta(hours=n // 2) for n in range(200)],
        "n": range(200),
        "text": [f'"{n}",\n' for n in range(200)],
    }
)
SAVES = [save_at_once, save_never]
ROLLS: list[Any] = [None, 17, "1kB", "1d", "5h"]


def readings(size: int = 7, frame: pl.DataFrame = FRAME) -> rxt.Streamable:
    """Readings, two at each hour."""
    return rxt.from_polars(frame, start="t", batch_rows=size, advance_time="1h", name="readings")


def read(folder: Path) -> pl.DataFrame:
    """Return the rows of all files, in order of their names."""
    ways = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    found = [ways[path.suffix](path) for path in sorted(folder.iterdir())]  # type: ignore[operator]
    return pl.concat(found)


def numbers(folder: Path) -> list[int]:
    """Return the numbers of all rows, in order of the files."""
    return read(folder)["n"].to_list()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder."""
    made = tmp_path / "files"
    made.mkdir()
    return made


def let_go(sink: rxt.AppendFile) -> None:
    """Close the files of a sink as the end of its process does."""
    for part in sink._list_parts():
        if part.file is not None:
            part.file.close()


class Killed(rxt.AppendFile):
    """Sink of a process that is killed at some batch, in the midst of a line."""

    left = 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Write a batch, unless this is where it ends."""
        super().write(batch)
        self.left -= 1
        if not self.left:
            for part in self._list_parts():
                if part.file is not None:
                    part.file.write(b"torn")
                    part.file.flush()
            raise KeyError("killed")

    def close(self, error: BaseException | None) -> None:
        """Do nothing: the process was killed."""


@pytest.mark.parametrize(
    ("saves", "roll", "suffix"),
    draw_product(SAVES, ROLLS, ["csv", "jsonl", "parquet"], together=2),
)
def test_a_run_that_breaks_anywhere_writes_each_row_once(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    roll: Any,
    saves: Any,
) -> None:
    """The files are those of a run that never broke."""
    saves(monkeypatch)
    draw = random.Random(f"{suffix} {roll}")

    for _ in range(5):
        sink = Killed(folder / f"rows.{suffix}", roll)
        sink.left = draw.randrange(1, 5)
        with pytest.raises(KeyError, match="killed"):
            readings(draw.randrange(3, 9)).run(sink, resume=tmp_path / "kept").wait(SOON)
        let_go(sink)
    path = folder / f"rows.{suffix}"
    readings().run(rxt.AppendFile(path, roll), resume=tmp_path / "kept").wait(SOON)
    assert numbers(folder) == list(range(200))
    whole = tmp_path / "whole"
    whole.mkdir()
    readings().run(rxt.AppendFile(whole / path.name, roll)).wait(SOON)
    assert read(whole).equals(read(folder))
    if roll != "1kB":  # whose limit is checked once for each batch
        assert [each.name for each in sorted(folder.iterdir())] == [
            each.name for each in sorted(whole.iterdir())
        ]


def read_partitions(folder: Path) -> dict[str, list[int]]:
    """Return the numbers of the rows of each folder, in order of the files."""
    return {each.name: numbers(each) for each in sorted(folder.iterdir())}


PARTITIONED = FRAME.with_columns(
    room=pl.Series(["hall", "a/b", None, "ä =%"] * 50), at=pl.col("t") + timedelta(days=1)
)


@pytest.mark.parametrize(
    ("saves", "by", "suffix"),
    draw_product(
        SAVES,
        ["start_time", "end_time", "at", "room", "n"],
        ["csv", "jsonl", "parquet"],
        together=2,
    ),
)
def test_a_run_that_breaks_anywhere_writes_each_row_of_each_partition_once(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    by: str,
    saves: Any,
) -> None:
    """The folders and their rows are those of a run that never broke, with few files open."""
    saves(monkeypatch)
    monkeypatch.setattr(append_file, "MOST_OPEN", 2)
    draw = random.Random(f"{suffix} {by} {saves.__name__}")
    roll: Any = draw.choice([None, 17, "5h"])
    frame = PARTITIONED[:40] if by == "n" else PARTITIONED
    path = folder / f"rows.{suffix}"
    for _ in range(3):
        sink = Killed(path, roll, partition_by=by)
        sink.left = draw.randrange(1, 5)
        with pytest.raises(KeyError, match="killed"):
            readings(draw.randrange(3, 9), frame).run(sink, resume=tmp_path / "kept").wait(SOON)
        let_go(sink)
    sink = rxt.AppendFile(path, roll, partition_by=by)
    readings(frame=frame).run(sink, resume=tmp_path / "kept").wait(SOON)
    whole = tmp_path / "whole"
    whole.mkdir()
    readings(frame=frame).run(rxt.AppendFile(whole / path.name, roll, partition_by=by)).wait(SOON)
    if by == "n":
        assert len([*folder.iterdir()]) == len([*folder.glob("*/*")]) == 40
        return
    assert read_partitions(folder) == read_partitions(whole)
    found = sorted(number for rows in read_partitions(folder).values() for number in rows)
    assert found == list(range(200))


def test_partitions_are_folders_of_values(folder: Path) -> None:
    """As Hive has them, so that others read the column; a null has a folder, too."""
    path = folder / "rows.parquet"
    readings(frame=PARTITIONED).run(rxt.AppendFile(path, partition_by="room")).wait(SOON)
    assert sorted(each.name for each in folder.iterdir()) == [
        "room=%C3%A4%20%3D%25",
        "room=__HIVE_DEFAULT_PARTITION__",
        "room=a%2Fb",
        "room=hall",
    ]
    again = pl.scan_parquet(folder / "*/*.parquet", hive_partitioning=True).collect().sort("n")
    assert again["room"].to_list() == PARTITIONED["room"].to_list()


def test_partitions_of_times_are_days(folder: Path) -> None:
    """In UTC; a row that never ends has the folder of nulls."""
    frame = PARTITIONED.with_columns(
        end=pl.when(pl.col("n") < 199).then(pl.col("t") + timedelta(hours=1))
    )
    stream = rxt.from_polars(frame, start="t", end="end", advance_time="1h")
    stream.run(rxt.AppendFile(folder / "rows.csv", partition_by="end_time")).wait(SOON)
    assert [each.name for each in sorted(folder.iterdir())] == [
        *(f"end_time_day=2026-05-0{day}" for day in range(4, 9)),
        "end_time_day=__HIVE_DEFAULT_PARTITION__",
    ]


@pytest.mark.parametrize("options", [{"roll": "1h"}, {}])
def test_a_part_is_there_when_the_cti_has_passed_it(folder: Path, options: Any) -> None:
    """No row has to come behind it: the Parquet files of a span, or of a day, appear then."""
    source = rxt.PushSource("s", schema={"room": str}, start="t")
    by = "room" if options else "start_time"
    sink = rxt.AppendFile(folder / "rows.parquet", **options, partition_by=by)
    with source.stream.run(sink):
        source.push([{"t": NOON, "room": room} for room in "ab"])
        last = NOON + timedelta(hours=1) if options else NOON.replace(hour=0) + timedelta(days=1)
        source.advance(last - timedelta(microseconds=1))
        assert not [*folder.glob("*/*.parquet")]
        source.advance(last)
        assert [each.parent.name for each in sorted(folder.glob("*/*.parquet"))] == (
            ["room=a", "room=b"] if options else ["start_time_day=2026-05-04"]
        )
        source.close()


def test_wrong_partitions_are_refused(folder: Path) -> None:
    """Each says what is allowed."""
    wrong: list[tuple[Any, Any, str]] = [
        ("rooms", FRAME, r"partition_by names 'rooms', .*they are .*'n'.*Hint"),
        ("x", FRAME.with_columns(x=1.5), r"'x' has the type Float64.*Hint"),
        ("x", FRAME.with_columns(x=timedelta(1)), r"'x' has the type Duration.*Hint"),
        (
            "start_time",
            FRAME.with_columns(start_time_day=1),
            r"adds a column 'start_time_day'.*Hint",
        ),
        ("start_time", FRAME.with_columns(t=pl.col("n")), "are ticks. Hint"),
    ]
    for by, frame, says in wrong:
        stream = rxt.from_polars(frame, start="t")
        with pytest.raises((ArgumentError, rxt.SchemaError), match=says):
            stream.run(rxt.AppendFile(folder / "rows.csv", partition_by=by)).wait(SOON)
    with pytest.raises(ArgumentError, match="partition_by is the name of a column"):
        rxt.AppendFile(folder / "rows.csv", partition_by="")


def test_a_run_that_is_stopped_goes_on(folder: Path, tmp_path: Path) -> None:
    """Rows that a Parquet file lacks are in the checkpoint."""
    for suffix in ("jsonl", "parquet"):
        for begin in (0, 3):
            source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
            sink = rxt.AppendFile(folder / f"rows.{suffix}", 4)
            process = source.stream.run(sink, resume=tmp_path / suffix)
            for n in range(begin, begin + 3):
                source.push([{"t": n, "n": n}, rxt.Cti(n + 1)])
            process.stop()
    assert pl.read_ndjson(folder / "rows-000001.jsonl")["n"].to_list() == [0, 1, 2, 3]
    assert pl.read_ndjson(folder / "rows-000002.jsonl")["n"].to_list() == [4, 5]
    assert [each.name for each in folder.glob("*.parquet")] == ["rows-000001.parquet"]
    assert pl.read_parquet(folder / "rows-000001.parquet")["n"].to_list() == [0, 1, 2, 3]


def test_a_sink_that_is_used_again_writes_all_rows(folder: Path, tmp_path: Path) -> None:
    """It remembers nothing of a run that another one does not resume."""
    sink = rxt.AppendFile(folder / "rows.parquet", 60)
    query = readings().where(lambda row: 1 / (row["n"] - 150) < 1)
    with pytest.raises(Exception, match="division by zero"):
        query.run(sink, resume=tmp_path / "kept").wait(SOON)
    for file in folder.iterdir():
        file.unlink()
    readings().run(sink).wait(SOON)
    assert numbers(folder) == list(range(200))


@pytest.mark.parametrize("roll", [None, "1d", 60])
def test_files_that_are_there_are_continued(folder: Path, roll: Any) -> None:
    """A CSV file has one heading; numbered files follow those that are there."""
    for half in FRAME[:100], FRAME[100:]:
        readings(frame=half).run(rxt.AppendFile(folder / "rows.csv", roll)).wait(SOON)
    assert numbers(folder) == list(range(200))
    names = [each.name for each in sorted(folder.iterdir())]
    if roll is None:
        assert names == ["rows.csv"]
    elif roll == 60:
        assert names == [f"rows-{n:06}.csv" for n in (1, 2, 3, 4)]
    else:
        assert names == [f"rows-2026-05-0{n}.csv" for n in (4, 5, 6, 7, 8)]


def test_files_are_named_by_ticks(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Those before 0 too; a run that is resumed knows them as its own."""
    save_never(monkeypatch)
    frame = pl.DataFrame({"t": [-15, -3, 4, 25], "n": [-15, -3, 4, 25]})
    stream = rxt.from_polars(frame, start="t", batch_rows=1, advance_time=1, name="readings")
    query = stream.where(lambda row: 1 / (row["n"] - 25) < 1)
    for _ in range(2):  # the second one removes what the first one has written
        with pytest.raises(Exception, match="division by zero"):
            query.run(rxt.AppendFile(folder / "rows.csv", "10us"), resume=tmp_path).wait(SOON)
        names = [each.name for each in sorted(folder.iterdir())]
        assert names == ["rows--000010.csv", "rows--000020.csv"]
        assert numbers(folder) == [-3, -15]


def test_a_line_that_was_torn_spoils_no_other(folder: Path) -> None:
    """Lines that are appended begin on a line of their own."""
    (folder / "rows.jsonl").write_text('{"n":0}\n{"n":', "utf-8")
    readings().run(rxt.AppendFile(folder / "rows.jsonl")).wait(SOON)
    lines = (folder / "rows.jsonl").read_text("utf-8").splitlines()
    assert lines[1] == '{"n":'
    assert [json.loads(line)["n"] for line in lines[2:]] == list(range(200))


HEADER = "start_time,end_time,x,y"


@pytest.mark.parametrize(
    "there", [f"{HEADER[:-1]}z\n", "start_time,end_time,y,x\n", f"{HEADER},z\n", "x,y"]
)
def test_a_csv_file_of_other_columns_is_refused(folder: Path, there: str) -> None:
    """Rows below other names would be read as other values; the file stays as it is."""
    path = folder / "rows.csv"
    path.write_text(there, "utf-8")
    rows = rxt.from_events([rxt.PointEvent(1, {"x": 1, "y": 2})])
    with pytest.raises(SchemaError, match=r"rows\.csv has the columns .*results have .*Hint: "):
        rows.run(rxt.AppendFile(path)).wait(SOON)
    assert path.read_text("utf-8") == there


@pytest.mark.parametrize("there", ["", HEADER, HEADER[:14], f"{HEADER}\r\n"])
def test_a_header_that_was_torn_is_written_again(folder: Path, there: str) -> None:
    """Nothing was lost with it; one of Windows is as good."""
    path = folder / "rows.csv"
    path.write_text(there, "utf-8", newline="")
    rows = rxt.from_events([rxt.PointEvent(1, {"x": 1, "y": 2})])
    rows.run(rxt.AppendFile(path)).wait(SOON)
    assert path.read_text("utf-8").splitlines() == [HEADER, "1,2,1,2"]


def test_a_header_of_several_lines_is_whole(folder: Path) -> None:
    """A name may have a line break; one of a spreadsheet is quoted, or has a byte order mark."""
    path = folder / "rows.csv"
    rows = rxt.from_events([rxt.PointEvent(1, {"a\nb": 1})])
    for _ in range(3):
        rows.run(rxt.AppendFile(path)).wait(SOON)
    assert path.read_text("utf-8") == 'start_time,end_time,"a\nb"\n' + 3 * "1,2,1\n"
    for header in (b"\xef\xbb\xbfstart_time,end_time,x\n", b'"start_time","end_time","x"\n'):
        path.write_bytes(header)
        rxt.from_events([rxt.PointEvent(1, {"x": 1})]).run(rxt.AppendFile(path)).wait(SOON)
        assert path.read_bytes() == header + b"1,2,1\n"


def test_a_changed_query_does_not_append_to_the_columns_of_the_one_before(
    folder: Path, tmp_path: Path
) -> None:
    """It is refused before anything is changed: the query as it was continues."""
    how: dict[str, Any] = {"resume": tmp_path / "kept", "evolve": True}

    def start(*fields: str) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("s", schema={"x": int, "y": int}, start="t", unit="ticks")
        return source, source.stream.select(*fields).run(rxt.AppendFile(folder / "rows.csv"), **how)

    for t in (1, 3):
        source, process = start("x", "y")
        source.push([{"t": t, "x": 1, "y": 2}, rxt.Cti(t + 1)])
        process.stop()
        with pytest.raises(SchemaError, match=r"has the columns"):
            start("y", "x")
    lines = (folder / "rows.csv").read_text("utf-8").splitlines()
    assert lines == [HEADER, "1,2,1,2", "3,4,1,2"]


def test_lines_are_whole_at_any_time(folder: Path) -> None:
    """Each batch is in the file when its push returns, and nothing lies beside it."""
    source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
    process = source.stream.run(rxt.AppendFile(folder / "rows.jsonl"))
    for n in range(5):
        source.push([{"t": n, "n": n}, rxt.Cti(n + 1)])
        lines = (folder / "rows.jsonl").read_bytes().splitlines(keepends=True)
        assert [json.loads(line)["n"] for line in lines] == list(range(n + 1))
        assert all(line.endswith(b"\n") for line in lines)
        assert [each.name for each in folder.iterdir()] == ["rows.jsonl"]
    process.stop()


def test_a_run_that_fails_keeps_its_rows(folder: Path) -> None:
    """Final rows stay, in Parquet, too."""
    query = readings().where(lambda row: 1 / (row["n"] - 150) < 1)
    with pytest.raises(Exception, match="division by zero"):
        query.run(rxt.AppendFile(folder / "rows.parquet")).wait(SOON)
    assert numbers(folder) == list(range(len(numbers(folder))))
    assert numbers(folder)


def test_other_files_are_left_alone(folder: Path, tmp_path: Path) -> None:
    """A run that is resumed removes files of its own alone."""
    others = ["rows-old.jsonl", "rows-000001.csv", "arrows-000001.jsonl"]
    sink = rxt.AppendFile(folder / "rows.jsonl", 50)
    readings().run(sink, resume=tmp_path / "kept").wait(SOON)
    for name in others:
        (folder / name).write_text("{}\n", "utf-8")
    sink = rxt.AppendFile(folder / "rows.jsonl", 50)
    readings().run(sink, resume=tmp_path / "kept").wait(SOON)
    assert all((folder / name).exists() for name in others)


def test_a_file_that_lost_rows_is_refused(folder: Path, tmp_path: Path) -> None:
    """A run does not go on behind a gap."""
    path, kept = folder / "rows.jsonl", tmp_path / "kept"
    source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
    process = source.stream.run(rxt.AppendFile(path), resume=kept)
    source.push([{"t": 1, "n": 1}, rxt.Cti(2)])
    process.stop()
    path.write_text("", "utf-8")
    with pytest.raises(CheckpointError, match=r"rows\.jsonl lacks rows.*Hint"):
        source.stream.run(rxt.AppendFile(path), resume=kept)


def start(sink: rxt.AppendFile, kept: Path | None = None) -> tuple[rxt.PushSource, rxt.Process]:
    """Start a run of numbers into a sink."""
    source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
    if kept is None:
        return source, source.stream.run(sink)
    return source, source.stream.run(sink, resume=kept)


def push_to(source: rxt.PushSource, *found: int) -> None:
    """Push numbers, which are final then."""
    for n in found:
        source.push([{"t": n % 100, "n": n}, rxt.Cti(n % 100 + 1)])


def push(sink: rxt.AppendFile, first: int, end: int, kept: Path | None = None) -> None:
    """Push these numbers through a sink, in a run that is stopped then."""
    source, process = start(sink, kept)
    try:
        push_to(source, *range(first, end))
    finally:
        process.stop()


@pytest.mark.parametrize("roll", [None, 2])
@pytest.mark.parametrize("name", ["rows.jsonl", "others.csv", "away/rows.csv", "rows-000001.csv"])
def test_a_run_goes_on_at_its_path_alone(
    folder: Path, tmp_path: Path, name: str, roll: int | None
) -> None:
    """It would leave a gap in one place, or write one format into a file of another."""
    (folder / "away").mkdir()
    push(rxt.AppendFile(folder / "rows.csv", roll), 0, 4, tmp_path / "kept")
    with pytest.raises(CheckpointError, match=r"has lost the position of this run.*rows\.csv\. Hi"):
        push(rxt.AppendFile(folder / name, roll), 4, 8, tmp_path / "kept")
    (folder / "away").rmdir()
    push(rxt.AppendFile(folder / "rows.csv", roll), 4, 8, tmp_path / "kept")
    assert numbers(folder) == list(range(8))


@pytest.mark.parametrize("roll", [None, 2, 3])
def test_files_may_be_moved(folder: Path, tmp_path: Path, roll: int | None) -> None:
    """A run that is resumed goes on where its files are now."""
    push(rxt.AppendFile(folder / "rows.csv", roll), 0, 4, tmp_path / "kept")
    moved = folder.rename(tmp_path / "moved")
    push(rxt.AppendFile(moved / "rows.csv", roll), 4, 8, tmp_path / "kept")
    assert numbers(moved) == list(range(8))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_two_runs_write_numbered_files_beside_each_other(
    folder: Path, tmp_path: Path, suffix: str, is_kept: bool
) -> None:
    """A number is taken once, whoever was first to begin a file or to complete it."""
    path = folder / f"rows.{suffix}"
    runs = [
        start(rxt.AppendFile(path, 2), tmp_path / name if is_kept else None) for name in ("a", "b")
    ]
    for n in range(7):
        for number, (source, _) in enumerate(runs):
            push_to(source, 100 * number + n)
    for _, process in runs:
        process.stop()
    held = [6, 106] if is_kept and suffix == "parquet" else []  # in the checkpoints
    assert sorted([*numbers(folder), *held]) == [*range(7), *range(100, 107)]


@pytest.mark.parametrize(
    ("suffix", "roll"), [("parquet", 2), ("parquet", "4us"), ("csv", 2), ("jsonl", 2)]
)
def test_runs_that_go_on_in_turn_keep_the_files_of_each_other(
    folder: Path, tmp_path: Path, suffix: str, roll: Any
) -> None:
    """A file that another run has written since the checkpoint is neither replaced nor removed."""
    path = folder / f"rows.{suffix}"
    for first in (0, 3, 6):
        for name, more in (("a", 0), ("b", 100)):
            push(rxt.AppendFile(path, roll), more + first, more + first + 3, tmp_path / name)
    for name in ("a", "b"):
        source, process = start(rxt.AppendFile(path, roll), tmp_path / name)
        source.close()
        process.wait(SOON)
    assert sorted(numbers(folder)) == [*range(9), *range(100, 109)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_run_that_broke_takes_back_its_own_files_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Those of another run stay, though its checkpoint does not know them either."""
    path = folder / f"rows.{suffix}"
    save_never(monkeypatch)
    sink = Killed(path, 2)
    sink.left = 9
    source, process = start(sink, tmp_path / "kept")
    push_to(source, *range(9))
    with pytest.raises(KeyError, match="killed"):
        process.wait(SOON)
    let_go(sink)
    push(rxt.AppendFile(path, 2), 100, 104)
    # what a process leaves that is killed while it writes a file
    (folder / f".rows-000009.{suffix}.{sink._run}.part").write_bytes(b"torn")
    source, process = start(rxt.AppendFile(path, 2), tmp_path / "kept")
    source.close()
    process.wait(SOON)
    assert sorted(numbers(folder)) == [*range(9), *range(100, 104)]


def test_a_name_is_taken_once_where_files_have_no_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On such a file system a name is taken by an empty file."""

    def refuse(*paths: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    runs = [start(rxt.AppendFile(folder / "rows.parquet", 2)) for _ in range(2)]
    for n in range(4):
        for number, (source, _) in enumerate(runs):
            push_to(source, 100 * number + n)
    for _, process in runs:
        process.stop()
    assert sorted(numbers(folder)) == [0, 1, 2, 3, 100, 101, 102, 103]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_file_has_one_writer_at_a_time(
    folder: Path, tmp_path: Path, suffix: str, is_kept: bool
) -> None:
    """A second one is refused before it writes; the first one goes on, and then another may."""
    path = folder / f"rows.{suffix}"
    source, process = start(rxt.AppendFile(path), tmp_path / "a" if is_kept else None)
    for n in range(2):
        with pytest.raises(SpoolError, match=rf"rows\.{suffix} is being written by .*Hint: "):
            start(rxt.AppendFile(path), tmp_path / "b" if is_kept else None)
        push_to(source, n)
    process.stop()
    push(rxt.AppendFile(path), 2, 4)
    assert numbers(folder) == [0, 1, 2, 3]


def test_two_queries_of_an_application_do_not_share_a_file(folder: Path, tmp_path: Path) -> None:
    """The application does not start, and nothing is left open."""
    source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
    app = rxt.Application("app")
    stream = app.define_stream("s", source.stream)
    sinks = {}
    for name in ("a", "b"):
        app.query(name, stream)
        sinks[name] = rxt.AppendFile(folder / "rows.csv")
    with pytest.raises(SpoolError, match=r"rows\.csv is being written"):
        app.run(sinks=sinks, resume=tmp_path / "kept")
    push(rxt.AppendFile(folder / "rows.csv"), 0, 2)
    assert numbers(folder) == [0, 1]


def test_two_writers_of_a_folder_are_kept_apart_by_file(folder: Path) -> None:
    """Each may have folders of its own; the second one in a folder is refused."""
    runs = []
    for _ in range(2):
        source = rxt.PushSource("s", schema={"room": str}, start="t", unit="ticks")
        sink = rxt.AppendFile(folder / "rows.csv", partition_by="room")
        runs.append((source, source.stream.run(sink)))
    for n, (source, _) in enumerate(runs):
        source.push([{"t": 1, "room": f"r{n}"}, rxt.Cti(2)])
    with pytest.raises(ProcessEndedError, match=r"room=r0/rows\.csv is being written"):
        runs[1][0].push([{"t": 3, "room": "r0"}, rxt.Cti(4)])
    with pytest.raises(SpoolError):
        runs[1][1].wait(SOON)
    runs[0][0].push([{"t": 3, "room": "r0"}, rxt.Cti(4)])
    runs[0][1].stop()
    assert {each.name: len(pl.read_csv(each / "rows.csv")) for each in folder.iterdir()} == {
        "room=r0": 2,
        "room=r1": 1,
    }


def test_a_file_that_was_closed_meanwhile_has_one_writer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another one has written it since, the run ends."""
    monkeypatch.setattr(append_file, "MOST_OPEN", 1)
    source = rxt.PushSource("s", schema={"room": str}, start="t", unit="ticks")
    process = source.stream.run(rxt.AppendFile(folder / "rows.csv", partition_by="room"))
    source.push([{"t": 1, "room": "a"}, {"t": 2, "room": "b"}, rxt.Cti(3)])
    with (folder / "room=a" / "rows.csv").open("a", encoding="utf-8") as file:
        file.write("9,9\n")
    with pytest.raises(ProcessEndedError, match=r"rows\.csv has 28 bytes, .*24.*Hint"):
        source.push([{"t": 3, "room": "a"}, rxt.Cti(4)])
    with pytest.raises(SpoolError):
        process.wait(SOON)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("other", ["kept", "new", "program"])
def test_bytes_of_others_behind_the_position_are_not_cut_off(
    folder: Path, tmp_path: Path, suffix: str, other: str
) -> None:
    """The run is refused, and the file is as it was; the hint says how it goes on."""
    path = folder / f"rows.{suffix}"
    push(rxt.AppendFile(path), 0, 4, tmp_path / "a")
    length = path.stat().st_size
    if other == "program":
        path.write_bytes(path.read_bytes() + path.read_bytes()[-8:])
    else:
        push(rxt.AppendFile(path), 100, 104, tmp_path / "b" if other == "kept" else None)
    there = path.read_bytes()
    for _ in range(2):
        with pytest.raises(CheckpointError, match=rf"bytes behind .*Hint.*'truncate -s {length} F"):
            push(rxt.AppendFile(path), 4, 8, tmp_path / "a")
        assert path.read_bytes() == there
    os.truncate(path, length)
    push(rxt.AppendFile(path), 4, 8, tmp_path / "a")
    assert numbers(folder) == list(range(8))


@pytest.mark.parametrize("saves", SAVES)
@pytest.mark.parametrize("options", [{"roll": "50us"}, {"partition_by": "room"}])
def test_a_file_that_was_there_before_the_run_has_each_row_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, saves: Any
) -> None:
    """What was written after the checkpoint is cut off, though the run has not made the file."""
    saves(monkeypatch)
    path, kept = folder / "rows.csv", tmp_path / "kept"

    def write(sink: rxt.AppendFile, first: int, end: int, **how: Any) -> rxt.Process:
        source = rxt.PushSource("s", schema={"n": int, "room": str}, start="t", unit="ticks")
        process = source.stream.run(sink, **how)
        for n in range(first, end):
            source.push([{"t": n, "n": n, "room": "a"}, rxt.Cti(n + 1)])
        return process

    write(rxt.AppendFile(path, **options), 0, 2).stop()
    sink = Killed(path, **options)
    sink.left = 3
    with pytest.raises(KeyError, match="killed"):
        write(sink, 2, 5, resume=kept).wait(SOON)
    let_go(sink)
    for first in (5, 8):
        write(rxt.AppendFile(path, **options), first, first + 3, resume=kept).stop()
    (found,) = [*folder.glob("*.csv"), *folder.glob("*/*.csv")]
    assert pl.read_csv(found)["n"].to_list() == list(range(11))


LIVING = """
import sys
import rxtemporal as rxt
from rxtemporal.run import checkpoint
checkpoint.SECONDS = 1e9
path, kept = sys.argv[1:]
source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
process = source.stream.run(rxt.AppendFile(path), resume=kept)
for n in range(4, 8):
    source.push([{"t": n, "n": n}, rxt.Cti(n + 1)])
print("written", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_process_that_is_killed_leaves_its_file_to_its_run(
    folder: Path, tmp_path: Path, is_followed: bool
) -> None:
    """Its bytes are cut off, unless another run has written behind them; it holds no lock."""
    path, kept = folder / "rows.csv", tmp_path / "kept"
    push(rxt.AppendFile(path), 0, 4, kept)
    command = [sys.executable, "-c", LIVING, str(path), str(kept)]
    living = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with living:
        assert living.stdout is not None
        assert living.stdout.readline() == b"written\n"
        with pytest.raises(SpoolError, match="is being written"):
            start(rxt.AppendFile(path))
        living.kill()
    assert numbers(folder) == list(range(8))
    if is_followed:
        push(rxt.AppendFile(path), 100, 102)
        with pytest.raises(CheckpointError, match="bytes behind the position"):
            start(rxt.AppendFile(path), kept)
        assert numbers(folder) == [*range(8), 100, 101]
        return
    push(rxt.AppendFile(path), 8, 10, kept)
    assert numbers(folder) == list(range(10))


def test_files_are_written_where_there_are_neither_locks_nor_marks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nobody else may write them, and a run that broke goes on as anywhere."""

    def refuse(*given: object) -> None:
        raise OSError(errno.ENOTSUP, "no such thing here")

    def refuse_there(handle: int, operation: int) -> None:
        if os.path.realpath(f"/proc/self/fd/{handle}").endswith(".csv"):
            refuse()
        flock(handle, operation)

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", refuse_there)
    for name in ("setxattr", "getxattr"):
        monkeypatch.setattr(os, name, refuse)
    save_never(monkeypatch)
    sink = Killed(folder / "rows.csv", 2)
    sink.left = 6
    with pytest.raises(KeyError, match="killed"):
        readings(4).run(sink, resume=tmp_path / "kept").wait(SOON)
    let_go(sink)
    readings(4).run(rxt.AppendFile(folder / "rows.csv", 2), resume=tmp_path / "kept").wait(SOON)
    assert numbers(folder) == list(range(200))


def test_a_state_of_an_earlier_version_is_loaded(folder: Path) -> None:
    """It has neither a path nor a run."""
    path = folder / "rows.csv"
    path.write_text("start_time,end_time,n\n0,1,0\n1,2,1\n", "utf-8")
    sink = rxt.AppendFile(path)
    sink.load(dumps("append file", [[("", "rows.csv", 0, 28, 1)], ["rows.csv"], [None]]))
    sink.open("q", pl.Schema({"n": pl.Int64}))
    assert numbers(folder) == [0]
    sink.close(None)


def test_a_state_of_an_earlier_version_is_loaded_again_after_a_crash(folder: Path) -> None:
    """What was written since is taken back, by the earlier version and by this one."""
    held = pl.DataFrame({"start_time": [2], "end_time": [3], "n": [2]})
    held.write_parquet(folder / "rows-000002.parquet")  # written by the earlier version
    state = dumps("append file", [[("", "rows-000001.parquet", 1, 0, 1)], [], [held]])
    for _ in range(2):
        sink = rxt.AppendFile(folder / "rows.parquet", 2)
        sink.load(state)
        sink.open("q", pl.Schema({"n": pl.Int64}))
        assert not [*folder.iterdir()]
        sink.set_time_form(lambda: "ticks")
        for n in (3, 4, 5):
            row = {"start_time": n, "end_time": n + 1, "n": n}
            sink.write(rxt.EventBatch.from_dicts([row], cti=n + 1))
    assert numbers(folder) == [2, 3, 4, 5]


def test_wrong_arguments_are_refused(folder: Path) -> None:
    """Each says what is allowed."""
    wrong: list[tuple[Any, Any, str]] = [
        ("rows.txt", None, r"ends in \.csv"),
        ("rows.csv", 0, "roll is a span such as '1d'"),
        ("rows.csv", True, "roll is a span such as '1d'"),
        ("rows.csv", "64 parsecs", "roll='64 parsecs' is not a span of time"),
        ("rows.csv", "-1d", "roll must be positive"),
    ]
    for name, roll, says in wrong:
        with pytest.raises(ArgumentError, match=says):
            rxt.AppendFile(folder / name, roll)
    with pytest.raises(FileNotFoundError, match="folder of the result file does not exist"):
        readings().run(rxt.AppendFile(folder / "away" / "rows.csv"))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_a_file_of_this_name_elsewhere_is_not_the_runs(
    folder: Path, tmp_path: Path, name: str
) -> None:
    """While the run's own file is where it was: the folder has not been moved."""
    other = tmp_path / "other"
    other.mkdir()
    (other / name).write_bytes(b"theirs")
    push(rxt.AppendFile(folder / name), 0, 3, tmp_path / "kept")
    push(rxt.AppendFile(folder / name), 3, 5, tmp_path / "kept")
    with pytest.raises(CheckpointError, match="lost the position of this run"):
        push(rxt.AppendFile(other / name), 5, 8, tmp_path / "kept")
    assert (other / name).read_bytes() == b"theirs"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_file_that_is_deleted_meanwhile_ends_the_run(
    folder: Path, tmp_path: Path, name: str
) -> None:
    """Its rows, and all that came later, would be in no file."""
    source, process = start(rxt.AppendFile(folder / name), tmp_path / "kept")
    push_to(source, 1, 2)
    (folder / name).unlink()
    with pytest.raises(ProcessEndedError):
        push_to(source, 3, 4, 5)
    with pytest.raises(SpoolError, match="has been deleted while this run was writing it"):
        process.wait(SOON)


def test_lines_that_another_program_adds_meanwhile_end_the_run(
    folder: Path, tmp_path: Path
) -> None:
    """Its position would be wrong from then on."""
    path = folder / "rows.jsonl"
    source, process = start(rxt.AppendFile(path), tmp_path / "kept")
    push_to(source, 1, 2)
    with path.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(ProcessEndedError):
        push_to(source, 3, 4, 5)
    with pytest.raises(SpoolError, match="another run or program has changed it"):
        process.wait(SOON)


def test_a_parquet_file_of_others_stays(folder: Path, tmp_path: Path) -> None:
    """Also one with a name that the run might give, and that no run has written."""
    push(rxt.AppendFile(folder / "rows.parquet", 2), 0, 5, tmp_path / "kept")
    theirs = folder / "rows-000007.parquet"
    pl.DataFrame({"n": [1]}).write_parquet(theirs)
    push(rxt.AppendFile(folder / "rows.parquet", 2), 5, 8, tmp_path / "kept")
    assert theirs.exists()


def test_a_run_that_ends_before_its_first_row_has_completed_a_torn_line(
    folder: Path, tmp_path: Path
) -> None:
    """What its first state says is in the file."""
    path = folder / "rows.jsonl"
    path.write_bytes(b'{"n":0}\n{"n"')
    sink = rxt.AppendFile(path)
    _, process = start(sink, tmp_path / "kept")
    shutil.copytree(tmp_path / "kept", tmp_path / "killed")
    size = path.stat().st_size
    process.stop()
    assert path.stat().st_size == size
    push(rxt.AppendFile(path), 1, 3, tmp_path / "killed")
    assert path.read_bytes().startswith(b'{"n":0}\n{"n"\n')


def test_a_file_that_is_refused_is_not_kept_open(folder: Path, tmp_path: Path) -> None:
    """The second attempt says what the first one did."""
    push(rxt.AppendFile(folder / "rows.csv"), 0, 3, tmp_path / "kept")
    push(rxt.AppendFile(folder / "rows.csv"), 50, 53)
    said = []
    for _ in range(2):
        with pytest.raises(CheckpointError) as raised:
            push(rxt.AppendFile(folder / "rows.csv"), 5, 6, tmp_path / "kept")
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_forked_process_does_not_keep_a_file_locked(folder: Path, tmp_path: Path) -> None:
    """It may outlive the run, whose files another one continues."""
    path = folder / "rows.csv"
    source, process = start(rxt.AppendFile(path), tmp_path / "kept")
    push_to(source, 1, 2)
    ends, go_on = os.pipe()
    child = os.fork()
    if not child:
        os.close(go_on)
        os.read(ends, 1)
        os._exit(0)
    os.close(ends)
    try:
        push_to(source, 3)
        process.stop()
        push(rxt.AppendFile(path), 4, 6, tmp_path / "kept")
    finally:
        os.close(go_on)
        os.waitpid(child, 0)
    assert numbers(folder) == [1, 2, 3, 4, 5]
