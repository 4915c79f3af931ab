"""Sinks that write into tables of Delta and Iceberg, and Parquet files: each row once."""

from __future__ import annotations

import datetime
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_settings import save_at_once, save_never
from runs import SOON

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, ProcessEndedError, SchemaError, SpoolError
from rxtemporal.sinks.sink import SinkAwayError

deltalake = pytest.importorskip("deltalake", reason="Delta tables need the delta extra")
pyiceberg = pytest.importorskip("pyiceberg.catalog", reason="Iceberg needs the iceberg extra")
NoSuchTableError = pyiceberg.NoSuchTableError
DeltaError = deltalake.exceptions.DeltaError

ROWS = 300
FRAME = pl.DataFrame(
    {
        "t": [n // 3 for n in range(ROWS)],
        "room": [("hall", "lab", "attic")[n % 3] for n in range(ROWS)],
        "temp": [n * 31 % 17 for n in range(ROWS)],
    }
)


class Lake:
    """A table for tests: a sink into it, its rows, and how many commits have added some."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows, in order of start and room."""
        return self.read().sort("start_time", "room").rows()


class Delta(Lake):
    """A folder with a Delta table."""

    name = "delta"

    def make(self, **options: Any) -> rxt.DeltaTable:
        """Return a sink into the table."""
        return rxt.DeltaTable(self.folder / "results", **{"rows": 50, "every": "1h", **options})

    def read(self) -> pl.DataFrame:
        """Return the table."""
        return pl.read_delta(str(self.folder / "results"))

    def count_commits(self) -> int:
        """Return how many commits have added rows."""
        history = deltalake.DeltaTable(self.folder / "results").history()
        return sum(int(each["operationMetrics"]["num_added_rows"]) > 0 for each in history)

    def create(self, frame: pl.DataFrame) -> None:
        """Create a table with these rows."""
        deltalake.write_deltalake(self.folder / "results", frame)

    def drop(self) -> None:
        """Delete the table."""
        shutil.rmtree(self.folder / "results")


class Iceberg(Lake):
    """A catalogue in an SQLite file, with a namespace and a table."""

    name = "iceberg"

    @property
    def catalog(self) -> dict[str, str]:
        """The properties of the catalogue."""
        uri, warehouse = f"sqlite:///{self.folder}/catalog.db", f"file://{self.folder}/files"
        return {"type": "sql", "uri": uri, "warehouse": warehouse}

    def make(self, **options: Any) -> rxt.IcebergTable:
        """Return a sink into the table."""
        options = {"rows": 50, "every": "1h", **options}
        return rxt.IcebergTable("house.results", self.catalog, **options)

    def load(self) -> Any:
        """Return the catalogue."""
        return pyiceberg.load_catalog("default", **self.catalog)

    def read(self) -> pl.DataFrame:
        """Return the table."""
        found = pl.from_arrow(self.load().load_table("house.results").scan().to_arrow())
        assert isinstance(found, pl.DataFrame)
        return found

    def count_commits(self) -> int:
        """Return how many commits have added rows."""
        return len(self.load().load_table("house.results").snapshots())

    def create(self, frame: pl.DataFrame) -> None:
        """Create a table with these rows."""
        catalog = self.load()
        catalog.create_namespace("house")
        table = catalog.create_table("house.results", schema=frame.to_arrow().schema)
        table.append(frame.to_arrow())

    def drop(self) -> None:
        """Delete the table."""
        self.load().drop_table("house.results")


class ParquetFiles(Lake):
    """A folder of Parquet files."""

    name = "folder"

    def make(self, **options: Any) -> rxt.ParquetFolder:
        """Return a sink into the folder."""
        return rxt.ParquetFolder(self.folder / "results", **{"rows": 50, "every": "1h", **options})

    def read(self) -> pl.DataFrame:
        """Return the rows of all files."""
        files = sorted((self.folder / "results").glob("*.parquet"))
        if not files:
            raise FileNotFoundError(self.folder)
        return pl.read_parquet(files)

    def count_commits(self) -> int:
        """Return the number of files with rows."""
        files = (self.folder / "results").iterdir()
        return sum(pl.read_parquet(each).height > 0 for each in files)

    def create(self, frame: pl.DataFrame) -> None:
        """Create a folder with a file of these rows."""
        (self.folder / "results").mkdir()
        frame.write_parquet(self.folder / "results" / "rows.parquet")

    def drop(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder / "results")


@pytest.fixture(params=[Delta, Iceberg, ParquetFiles], ids=lambda lake: lake.name)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each of them."""
    return request.param(tmp_path / "lake")


def readings(**options: Any) -> rxt.Streamable:
    """Readings of three rooms, three at each time."""
    options = {"batch_rows": 7, "advance_time": 2, "name": "readings", **options}
    return rxt.from_polars(FRAME, start="t", **options)


def expect(query: rxt.Streamable) -> list[tuple[Any, ...]]:
    """Return the rows that a table has to have."""
    return query.to_polars().sort("start_time", "room").rows()


@pytest.mark.parametrize("kind", [Delta, ParquetFiles])
def test_a_full_disk_is_waited_for(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an outage, though the libraries that write report it as errors of their own."""
    left = [3]
    owner: Any = deltalake if kind is Delta else pl.DataFrame
    name = "write_deltalake" if kind is Delta else "write_parquet"
    write = getattr(owner, name)

    def fill(*arguments: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise pl.exceptions.ComputeError("IO error: No space left on device (os error 28)")
        return write(*arguments, **options)

    monkeypatch.setattr(owner, name, fill)
    lake = kind(tmp_path / "lake")
    sink = lake.make(patience=SOON)
    with readings().run(sink):
        pass
    assert (left, sink.restarts) == ([0], 3)
    assert lake.read().height == FRAME.height
    left[0] = 1000
    with pytest.raises(SinkAwayError, match="No space left on device"):
        readings().run(lake.make(patience=0.2)).wait(SOON)


@pytest.mark.parametrize("name", ["x[1]", "a*b", "{a,b}"])
def test_any_name_of_a_folder_of_files_will_do(tmp_path: Path, name: str) -> None:
    """Though polars takes some characters for patterns."""
    for _ in range(2):
        with readings().run(rxt.ParquetFolder(tmp_path / name)):
            pass
    rows = [pl.read_parquet(each.read_bytes()) for each in (tmp_path / name).glob("*.parquet")]
    assert sum(each.height for each in rows) == 2 * FRAME.height


@pytest.mark.parametrize("saves", [save_at_once, save_never])
def test_a_run_that_breaks_anywhere_writes_each_row_once(
    lake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: Any
) -> None:
    """Before a commit or after it, with a checkpoint since or without one."""
    saves(monkeypatch)
    made = readings().group_by("room").tumbling_window(9).aggregate(temp=agg.max("temp"))
    store = type(lake.make())._append
    breaks: list[tuple[int, str]] = []

    def break_off(sink: Any, frame: pl.DataFrame, position: int) -> None:
        left, when = breaks[-1] if breaks else (0, "")
        breaks[-1:] = [(left - 1, when)] if breaks else []
        if left == 1 and when == "before":
            raise KeyError("killed")
        store(sink, frame, position)
        if left == 1 and when == "after":
            raise KeyError("killed")

    monkeypatch.setattr(type(lake.make()), "_append", break_off)
    for each in [(1, "before"), (1, "after"), (2, "before"), (2, "after"), (1, "after")]:
        breaks = [each]
        with pytest.raises(KeyError, match="killed"):
            made.run(lake.make(rows=4), resume=tmp_path / "kept").wait(SOON)
    breaks = []
    made.run(lake.make(rows=4), resume=tmp_path / "kept").wait(SOON)
    assert lake.rows() == expect(made)
    made.run(lake.make(rows=4), resume=tmp_path / "kept").wait(SOON)
    assert lake.rows() == expect(made)


def test_runs_without_a_folder_add_their_rows(lake: Any) -> None:
    """Each run adds all of them, in commits of at least so many rows."""
    sink = lake.make()
    for _ in range(2):
        readings().run(sink).wait(SOON)
    assert lake.rows() == sorted(expect(readings()) * 2, key=lambda row: (row[0], row[2]))
    assert lake.count_commits() <= 2 * (ROWS // 50 + 1)


def test_rows_are_committed_after_a_while(lake: Any) -> None:
    """However few they are; the run goes on."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    with source.stream.run(lake.make(rows=1000, every="1ms")) as process:
        source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
        for _ in range(1000):
            with suppress(FileNotFoundError, NoSuchTableError, DeltaError):  # not yet
                if len(lake.rows()):
                    break
            threading.Event().wait(0.01)
        assert lake.rows() == [(1, 2, "hall", 2)]
        source.push([{"t": 6, "room": "hall", "temp": 3}, rxt.Cti(9)])
        process.stop()
    assert lake.rows() == [(1, 2, "hall", 2), (6, 7, "hall", 3)]


def test_rows_that_wait_are_in_the_checkpoint(lake: Any, tmp_path: Path) -> None:
    """A run that is stopped has committed them, and the next one adds none twice."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    for time in range(0, 30, 10):
        process = source.stream.run(lake.make(), resume=tmp_path / "kept")
        source.push([{"t": time + 1, "room": "hall", "temp": 2}, rxt.Cti(time + 5)])
        process.stop()
        process.wait(SOON)
    assert lake.rows() == [(t, t + 1, "hall", 2) for t in (1, 11, 21)]


def test_a_table_of_another_day_is_refused(lake: Any, tmp_path: Path) -> None:
    """A run does not go on behind rows that its checkpoint says are there."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    process = source.stream.run(lake.make(rows=1), resume=tmp_path / "kept")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    process.stop()
    lake.drop()
    with pytest.raises(SpoolError, match=r"lost the position of this run.*Hint"):
        source.stream.run(lake.make(), resume=tmp_path / "kept")


def test_a_query_without_results_has_an_empty_table(lake: Any) -> None:
    """The table is created at the end, with all columns."""
    readings().where(pl.col("temp") > 99).run(lake.make()).wait(SOON)
    assert lake.rows() == []
    assert lake.read().columns == ["start_time", "end_time", "room", "temp"]


NOON = datetime.datetime(2026, 5, 4, 12, 0, 0, 250, datetime.UTC)
SPAN = datetime.timedelta(hours=-3, microseconds=5)
VALUES: dict[str, Any] = {
    "flag": True,
    "number": -(2**62),
    "real": 0.1,
    "room": 'a "quoted", text\nof two lines',
    "raw": b"\x00\xff",
    "moment": NOON,
    "day": datetime.date(2026, 5, 4),
    "span": SPAN,
    "price": Decimal("12.50"),
    "small": -3,
}
SCHEMA = {name: type(value) for name, value in VALUES.items()} | {
    "price": pl.Decimal(10, 2),
    "small": pl.Int8,
}


@pytest.mark.parametrize("runs", [1, 2])
def test_a_run_is_refused_without_its_newest_file(tmp_path: Path, runs: int) -> None:
    """Also if a reader deletes it after the run has been stopped, which has written it then."""
    lake = ParquetFiles(tmp_path / "lake")

    def start() -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
        return source, source.stream.run(lake.make(), resume=tmp_path / "kept")

    for number in range(runs):
        source, process = start()
        source.push([{"t": 2 * number, "n": 1}, rxt.Cti(2 * number + 1)])
        process.stop()
    newest = max((lake.folder / "results").glob("*.parquet"))
    assert pl.read_parquet(newest).height == 1
    newest.unlink()
    with pytest.raises(SpoolError, match=r"lost the position of this run.*Hint"):
        start()


class Away(rxt.ParquetFolder):
    """A folder that does not answer."""

    def _append(self, frame: pl.DataFrame, position: int) -> None:
        raise TimeoutError("no answer")


def test_a_stop_waits_for_no_commit_that_goes_on_trying(tmp_path: Path) -> None:
    """Its rows are in the checkpoint, and come with the next run."""
    trying = threading.Event()

    class Trying(Away):
        def _append(self, frame: pl.DataFrame, position: int) -> None:
            trying.set()
            super()._append(frame, position)

    def start(sink: rxt.ParquetFolder) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
        return source, source.stream.run(sink, resume=tmp_path / "kept")

    place = tmp_path / "results"
    source, process = start(Trying(place, every="10ms", patience=100_000))
    source.push([{"t": 1, "n": 1}, rxt.Cti(2)])
    assert trying.wait(SOON)
    process.stop()
    source, process = start(rxt.ParquetFolder(place))
    process.stop()
    assert pl.read_parquet(place / "*.parquet")["n"].to_list() == [1]


def test_a_run_that_is_stopped_with_an_error_delivers_nothing_more(tmp_path: Path) -> None:
    """What was held is in the checkpoint before, or in the log."""
    lake = ParquetFiles(tmp_path / "lake")

    def start() -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
        return source, source.stream.run(lake.make(), resume=tmp_path / "kept")

    source, process = start()
    source.push([{"t": 1, "n": 1}, rxt.Cti(2)])
    process.stop(KeyError("enough"))
    assert [*(lake.folder / "results").glob("*.parquet")] == []
    start()[1].stop()
    assert lake.read()["n"].to_list() == [1]


@pytest.mark.parametrize("name", ["delta", "folder"])
def test_rows_whose_commit_at_a_stop_has_no_answer_are_there_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position is read again before they are written again."""
    lake = {"delta": Delta, "folder": ParquetFiles}[name](tmp_path / "lake")
    kind = type(lake.make())
    append = kind._append

    def lose(sink: Any, frame: pl.DataFrame, position: int) -> None:
        append(sink, frame, position)
        if frame.height:
            raise OSError("the answer was lost")

    for life in range(3):
        source = rxt.PushSource("s", schema={"n": int}, start="t", unit="ticks")
        process = source.stream.run(lake.make(), resume=tmp_path / "kept")
        source.push([{"t": 2 * life, "n": life}, rxt.Cti(2 * life + 1)])
        with monkeypatch.context() as patch, suppress(OSError):
            if life == 1:
                patch.setattr(kind, "_append", lose)
            process.stop()
            process.wait(SOON)
    assert sorted(lake.read()["n"].to_list()) == [0, 1, 2]


def test_files_of_a_folder_never_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was there before a crash is there after it, with the same bytes."""
    save_never(monkeypatch)
    lake = ParquetFiles(tmp_path / "lake")
    append, files = rxt.ParquetFolder._append, dict[str, bytes]()

    def break_off(sink: Any, frame: pl.DataFrame, position: int) -> None:
        append(sink, frame, position)
        now = {each.name: each.read_bytes() for each in sink.path.iterdir()}
        assert files.items() < now.items()
        files.update(now)
        raise KeyError("killed")

    monkeypatch.setattr(rxt.ParquetFolder, "_append", break_off)
    for _ in range(4):
        with pytest.raises(KeyError, match="killed"):
            readings().run(lake.make(rows=40), resume=tmp_path / "kept").wait(SOON)
    monkeypatch.undo()
    readings().run(lake.make(rows=60), resume=tmp_path / "kept").wait(SOON)
    assert lake.rows() == expect(readings())
    now = {each.name: each.read_bytes() for each in (lake.folder / "results").iterdir()}
    assert files.items() < now.items()


def test_values_of_all_types_are_stored(lake: Any) -> None:
    """Values, nulls, and the end of a row that never ends."""
    later = NOON + datetime.timedelta(seconds=1)
    events = [
        rxt.IntervalEvent(NOON, later, VALUES),
        rxt.IntervalEvent(later, rxt.MAX_TIME, dict.fromkeys(VALUES)),
    ]
    rxt.from_events(events, schema=SCHEMA).run(lake.make()).wait(SOON)
    first, second = lake.read().sort("start_time").to_dicts()
    assert [*second.values()][1:] == [None] * (1 + len(VALUES))
    span = -3 * 3_600_000_000 + 5
    assert first == {"start_time": NOON, "end_time": later, **VALUES, "span": span}


def test_a_table_that_is_there_has_to_fit(lake: Any) -> None:
    """The error names what is wrong; other columns of the table get nulls."""
    rows = pl.DataFrame({"start_time": [1], "end_time": [2], "temp": ["7"], "floor": [7]})
    lake.create(rows)
    with pytest.raises(SchemaError, match=r"it has no room \(String\); temp is String, not Int64"):
        readings().run(lake.make())
    lake.drop()
    if lake.name == "iceberg":
        lake.load().drop_namespace("house")
    lake.create(rows.with_columns(pl.col("temp").cast(pl.Int64), room=pl.lit("lab")))
    readings().run(lake.make()).wait(SOON)
    assert lake.read().sort("start_time", "room")["floor"].to_list().count(None) == ROWS


def test_queries_of_one_application_create_a_table_once(lake: Any) -> None:
    """One takes what the other has created meanwhile, if it has the columns."""
    fields: list[dict[str, Any]] = [{"room": str}, {"room": str}, {"room": int}]
    sources = [
        rxt.PushSource(f"s{n}", schema=each, start="t", unit="ticks")
        for n, each in enumerate(fields)
    ]
    first, second, third = (each.stream.run(lake.make(rows=1)) for each in sources)
    for source in sources[:2]:
        source.push([{"t": 1, "room": source.name}, rxt.Cti(5)])
    with suppress(ProcessEndedError, SchemaError):
        sources[2].push([{"t": 1, "room": 2}, rxt.Cti(5)])
    with pytest.raises(SchemaError, match="room is String, not Int64"):
        third.wait(SOON)
    first.stop()
    second.stop()
    assert sorted(lake.read()["room"]) == ["s0", "s1"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """Each says what is expected."""
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: rxt.DeltaTable(3), "path is the folder"),  # type: ignore[arg-type]
        (lambda: rxt.DeltaTable("a[1]%"), r"folder with '\[' in its path, got '.*a\[1\]%'"),
        (lambda: rxt.DeltaTable("a%20b"), "folder with '%20' in its path"),
        (lambda: rxt.ParquetFolder(""), "path is a folder"),
        (lambda: rxt.DeltaTable("a", rows=0), "rows is a positive number"),
        (lambda: rxt.DeltaTable("a", every="soon"), "every"),
        (lambda: rxt.IcebergTable("results"), "namespace.name"),
        (lambda: rxt.IcebergTable("a.b", 3), "catalog is the name"),  # type: ignore[arg-type]
    ]
    for make, says in wrong:
        with pytest.raises(ArgumentError, match=says):
            make()
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="file"):
        readings().run(rxt.DeltaTable(tmp_path / "file" / "x")).wait(SOON)


def test_a_catalogue_that_does_not_answer_keeps_the_run_from_starting() -> None:
    """The error names it."""
    sink = rxt.IcebergTable("house.results", {"type": "rest", "uri": "http://127.0.0.1:9"})
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        readings().run(sink)


def test_a_table_that_is_locked_is_waited_for(tmp_path: Path) -> None:
    """Then the rows are there; the query has waited, since as many were held as may be."""
    lake = Iceberg(tmp_path / "lake")
    lake.create(readings().to_polars().clear())
    catalog = {**lake.catalog, "uri": f"{lake.catalog['uri']}?timeout=0.05"}
    sink = rxt.IcebergTable("house.results", catalog, rows=1)
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    with source.stream.run(sink) as process:
        with closing(sqlite3.connect(lake.folder / "catalog.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            rows = [{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)]
            thread = threading.Thread(target=source.push, args=(rows,))
            thread.start()
            while not sink.restarts:
                threading.Event().wait(0.01)
            assert sink.away_since is not None
        thread.join(SOON)
        assert lake.rows() == [(1, 2, "hall", 2)]
        assert sink.away_since is None
        process.stop()
