"""Sinks that write into tables of SQLite and PostgreSQL: each row once, whatever breaks."""

from __future__ import annotations

import datetime
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from postgres import needed_server
from reactivex.subject import Subject
from run_settings import save_at_once, save_never
from runs import SOON

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import (
    ArgumentError,
    ProcessEndedError,
    RxTemporalError,
    SchemaError,
    SpoolError,
)
from rxtemporal.sinks.table import TableSink

ROWS = 300
FRAME = pl.DataFrame(
    {
        "t": [n // 3 for n in range(ROWS)],
        "room": [("hall", "lab", "attic")[n % 3] for n in range(ROWS)],
        "temp": [n * 31 % 17 for n in range(ROWS)],
    }
)


class Database:
    """A database for tests: a sink into a table of it, and what the table has."""

    def __init__(self, make: Callable[..., TableSink], connect: Callable[[], Any]) -> None:
        self.make, self.connect = make, connect

    def rows(self, columns: str = "start_time, end_time, room, temp") -> list[tuple[Any, ...]]:
        """Return the rows of the table, in order."""
        return self.run(f"SELECT {columns} FROM results ORDER BY start_time, room")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        connection = self.connect()
        try:
            cursor = connection.execute(statement)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(found)
        finally:
            connection.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Address of a PostgreSQL server."""
    with needed_server() as found:
        yield found


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    """An SQLite file."""
    path = tmp_path / "house.db"
    return Database(partial(rxt.SqliteTable, path, "results"), partial(sqlite3.connect, path))


@pytest.fixture
def postgres(address: str) -> Iterator[Database]:
    """An empty PostgreSQL database."""
    connect = partial(psycopg.connect, address)
    made = Database(partial(rxt.PostgresTable, address, "results", create=True), connect)
    yield made
    made.run("DROP SCHEMA public CASCADE")
    made.run("CREATE SCHEMA public")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    """Each of them."""
    found: Database = request.getfixturevalue(request.param)
    return found


def readings(**options: Any) -> rxt.Streamable:
    """Readings of three rooms, three at each time."""
    options = {"batch_rows": 7, "advance_time": 2, "name": "readings", **options}
    return rxt.from_polars(FRAME, start="t", **options)


def expect(query: rxt.Streamable) -> list[tuple[Any, ...]]:
    """Return the rows that a table has to have."""
    return query.to_polars().sort("start_time", "room").rows()


@pytest.mark.parametrize("saves", [save_at_once, save_never])
def test_a_run_that_breaks_anywhere_writes_each_row_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: Any
) -> None:
    """Before a transaction or after it, with a checkpoint since or without one."""
    saves(monkeypatch)
    made = readings().group_by("room").tumbling_window(9).aggregate(temp=agg.max("temp"))
    store = type(database.make())._store
    breaks: list[tuple[int, str]] = []

    def break_off(sink: Any, frame: pl.DataFrame, position: int) -> None:
        left, when = breaks[-1] if breaks else (0, "")
        breaks[-1:] = [(left - 1, when)] if breaks else []
        if left == 1 and when == "before":
            raise KeyError("killed")
        store(sink, frame, position)
        if left == 1 and when == "after":
            raise KeyError("killed")

    monkeypatch.setattr(type(database.make()), "_store", break_off)
    for each in [(1, "before"), (1, "after"), (3, "before"), (2, "after"), (1, "after")]:
        breaks = [each]
        with pytest.raises(KeyError, match="killed"):
            made.run(database.make(), resume=tmp_path / "kept").wait(SOON)
    breaks = []
    made.run(database.make(), resume=tmp_path / "kept").wait(SOON)
    assert database.rows() == expect(made)
    assert database.run("SELECT count(*) FROM rxtemporal_positions") == [(1,)]
    made.run(database.make(), resume=tmp_path / "kept").wait(SOON)
    assert database.rows() == expect(made)


def test_runs_without_a_folder_add_their_rows(database: Database) -> None:
    """Each run adds all of them, and leaves no position behind."""
    sink = database.make()
    for _ in range(2):
        readings().run(sink).wait(SOON)
    assert database.rows() == sorted(expect(readings()) * 2, key=lambda row: (row[0], row[2]))
    assert database.run("SELECT count(*) FROM rxtemporal_positions") == [(0,)]


def test_a_sink_that_is_used_again_writes_all_rows(database: Database, tmp_path: Path) -> None:
    """It remembers nothing of a run that another one does not resume."""
    sink = database.make()
    readings().run(sink, resume=tmp_path / "kept").wait(SOON)
    readings().run(sink).wait(SOON)
    readings().run(sink, resume=tmp_path / "kept").wait(SOON)
    assert len(database.rows()) == 2 * ROWS


def test_a_table_of_another_day_is_refused(database: Database, tmp_path: Path) -> None:
    """A run does not go on behind rows that its checkpoint says are there."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    process = source.stream.run(database.make(), resume=tmp_path / "kept")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    process.stop()
    database.run("DROP TABLE rxtemporal_positions")
    with pytest.raises(SpoolError, match=r"lost the position of this run.*Hint"):
        source.stream.run(database.make(), resume=tmp_path / "kept")


def test_a_table_ahead_of_a_folder_with_numbers_is_refused(
    database: Database, tmp_path: Path
) -> None:
    """A backup of the folder would give other rows the numbers that the table has."""
    folder, backup = tmp_path / "kept", tmp_path / "backup"

    def run(*times: int) -> None:
        source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", clock="room")
        process = source.stream.run(database.make(), resume=folder)
        for time in times:
            source.push([{"t": time, "room": "hall", "temp": 2}])
        process.stop()

    run(0, 1, 2)
    shutil.copytree(folder, backup)
    run(3)
    shutil.rmtree(folder)
    backup.rename(folder)
    with pytest.raises(SpoolError, match=r"its folder is of an earlier time.*Hint"):
        run(3, 4)
    assert len(database.rows()) >= 3


def test_a_run_that_is_stopped_before_its_first_event_can_be_resumed(
    database: Database, tmp_path: Path
) -> None:
    """Its fields are not known, so its sink was not open."""
    for life in range(4):
        subject = Subject[Any]()
        process = rxt.from_observable(subject, name="s").run(
            database.make(), resume=tmp_path / "kept"
        )
        if life > 1:
            subject.on_next(rxt.PointEvent(life, {"room": "hall", "temp": 2}))
            subject.on_next(rxt.Cti(life + 1))
        process.stop()
    assert database.rows("start_time") == [(2,), (3,)]


def test_a_table_that_is_gone_is_not_begun_again(database: Database, tmp_path: Path) -> None:
    """Its position is still there, and the rows before it would be missing."""

    def start() -> tuple[rxt.PushSource, rxt.Process]:
        fields = {"room": str, "temp": int}
        source = rxt.PushSource("rooms", schema=fields, start="t", unit="ticks")
        return source, source.stream.run(database.make(), resume=tmp_path / "kept")

    source, process = start()
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    process.stop()
    database.run("DROP TABLE results")
    source, process = start()
    with suppress(ProcessEndedError):
        source.push([{"t": 6, "room": "hall", "temp": 2}, rxt.Cti(9)])
    with pytest.raises(SpoolError, match=r"there is no table .*this run has written rows.*Hint: "):
        process.wait(SOON)


def test_a_query_without_results_has_an_empty_table(database: Database) -> None:
    """The table is created at the end, with all columns."""
    readings().where(pl.col("temp") > 99).run(database.make()).wait(SOON)
    assert database.rows() == []


NOON = datetime.datetime(2026, 5, 4, 12, 0, 0, 250, datetime.UTC)
VALUES: dict[str, Any] = {
    "flag": True,
    "number": -(2**62),
    "real": 0.1,
    "text": 'a "quoted", text\nof two lines',
    "empty": "",
    "raw": b"\x00\xff",
    "moment": NOON,
    "day": datetime.date(2026, 5, 4),
    "span": datetime.timedelta(hours=-3, microseconds=5),
    "price": Decimal("12.50"),
}
SCHEMA = {name: type(value) for name, value in VALUES.items()} | {"price": pl.Decimal(10, 2)}


def test_values_of_all_types_are_stored(database: Database) -> None:
    """Values, nulls, and the end of a row that never ends."""
    nothing = dict.fromkeys(VALUES)
    events = [
        rxt.IntervalEvent(NOON, NOON + datetime.timedelta(seconds=1), VALUES),
        rxt.IntervalEvent(NOON + datetime.timedelta(seconds=2), rxt.MAX_TIME, nothing),
    ]
    rxt.from_events(events, schema=SCHEMA).run(database.make()).wait(SOON)
    first, second = database.run("SELECT * FROM results ORDER BY start_time")
    assert second[1:] == (None,) * (1 + len(VALUES))
    found = dict(zip(["start_time", "end_time", *VALUES], first, strict=True))
    if isinstance(database.make(), rxt.PostgresTable):
        assert found == {
            "start_time": NOON,
            "end_time": NOON + datetime.timedelta(seconds=1),
            **VALUES,
        }
    else:
        assert found == {
            **VALUES,
            "start_time": "2026-05-04T12:00:00.000250+00:00",
            "end_time": "2026-05-04T12:00:01.000250+00:00",
            "moment": "2026-05-04T12:00:00.000250+00:00",
            "day": "2026-05-04",
            "span": -3 * 3_600_000_000 + 5,
            "price": "12.50",
        }


def test_years_of_any_length_are_stored(postgres: Database) -> None:
    """PostgreSQL took their signs for those of offsets, and ended the run."""
    years = [1, 9999, 10_000, 200_000, 0, -1, -4000]
    days = [(year - 1970) * 365_2425 // 10_000 + 40 for year in years]
    day = pl.Series("day", days, pl.Int32).cast(pl.Date)
    frame = pl.DataFrame({"t": range(len(years)), "day": day}).with_columns(
        at=pl.col("day").cast(pl.Datetime("us", "UTC")), local=pl.col("day").cast(pl.Datetime("us"))
    )
    rxt.from_polars(frame, start="t").run(postgres.make()).wait(SOON)
    for name in ("day", "at", "local"):
        found = postgres.run(
            f"SELECT (extract(epoch from {name}) / 86400)::bigint FROM results ORDER BY start_time"
        )
        assert [each for (each,) in found] == days, name


def test_an_instant_is_kept_in_any_zone(database: Database) -> None:
    """Berlin's offset was 53 minutes and 28 seconds, of which a text has only the minutes."""
    moment = datetime.datetime(1850, 6, 1, 11, 6, 32, tzinfo=datetime.UTC)
    at = pl.Series("at", [moment], pl.Datetime("us", "Europe/Berlin"))
    rxt.from_polars(pl.DataFrame({"t": [1], "at": at}), start="t").run(database.make()).wait(SOON)
    ((found,),) = database.run("SELECT at FROM results")
    text = isinstance(found, str)
    assert (datetime.datetime.fromisoformat(found) if text else found) == moment
    assert not text or found.endswith("+00:00")


@pytest.mark.parametrize("key", ["room", ["room"], ["start_time", "room"]])
def test_a_key_has_the_last_row(database: Database, key: Any) -> None:
    """Rows of one key replace each other, within a batch and over batches."""
    for _ in range(2):
        readings().run(database.make(key=key)).wait(SOON)
    names = [key] if isinstance(key, str) else key
    last = readings().to_polars().unique(names, keep="last", maintain_order=True)
    assert database.rows() == last.sort("start_time", "room").rows()


def test_a_table_that_is_there_has_to_fit(database: Database) -> None:
    """The error names each column that is missing or of another type, before a row is read."""
    database.run("CREATE TABLE results (start_time bigint, end_time bigint, temp text)")
    with pytest.raises(SchemaError, match=r"'results' does not fit query.*has no room.*Hint"):
        readings().run(database.make())
    database.run("ALTER TABLE results ADD COLUMN room text")
    with pytest.raises(SchemaError, match=r"temp is (text, not bigint|TEXT, not INTEGER)"):
        readings().run(database.make())
    database.run("DROP TABLE results")
    database.run(
        "CREATE TABLE results (start_time bigint, end_time bigint, temp numeric, room text)"
    )
    with pytest.raises(SchemaError, match=r"no primary key or unique index over \['room'\]"):
        readings().run(database.make(key="room"))
    database.run("CREATE UNIQUE INDEX rooms ON results (room)")
    readings().run(database.make(key="room")).wait(SOON)
    assert len(database.rows()) == 3


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        ("start_time timestamptz(0)", r"start_time is timestamp\(0\) with time zone, not"),
        ("price numeric(10, 1)", r"price is numeric\(10,1\), not numeric\(10, 2\)"),
        ("price numeric(10)", r"price is numeric\(10,0\), not"),
        ("n numeric(12, -2)", r"n is numeric\(12,-2\), not bigint"),
        ("span interval(3)", r"span is interval\(3\), not interval"),
        ("price numeric", None),
        ("price numeric(12, 4)", None),
        ("n numeric(20, 0)", None),
        ("name varchar(10)", None),
    ],
)
def test_a_column_that_would_round_is_refused(postgres: Database, kind: str, has: Any) -> None:
    """PostgreSQL says nothing when it stores 1.25 as 1.3."""
    row = {"price": Decimal("1.25"), "n": 5, "span": datetime.timedelta(microseconds=1), "name": ""}
    types = {name: type(value) for name, value in row.items()} | {"price": pl.Decimal(10, 2)}
    columns = {
        **dict.fromkeys(["start_time", "end_time"], "timestamptz"),
        "price": "numeric(10, 2)",
        "n": "bigint",
        "span": "interval",
        "name": "text",
        **dict([kind.split(" ", 1)]),
    }
    parts = ", ".join(" ".join(each) for each in columns.items())
    postgres.run(f"CREATE TABLE results ({parts})")
    query = rxt.from_events([rxt.PointEvent(NOON, row)], schema=types)
    if has is None:
        query.run(postgres.make()).wait(SOON)
        assert postgres.run("SELECT price, n FROM results") == [(Decimal("1.25"), 5)]
        return
    with pytest.raises(SchemaError, match=has):
        query.run(postgres.make()).wait(SOON)


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        ("name INTEGER", "name is INTEGER, not TEXT"),
        ("name numeric", "name is numeric, not TEXT"),
        ("name", None),
        ("name varchar(9)", None),
        ("price REAL", "price is REAL, not TEXT"),
        ("n DOUBLE PRECISION", "n is DOUBLE PRECISION, not INTEGER"),
        ("n BIGINT", None),
        ("share CHAR", "share is CHAR, not REAL"),
        ("share INT", None),
        ("start_time TIMESTAMP", None),
        ("raw INT", None),
    ],
)
def test_a_column_by_which_sqlite_converts_values_is_refused(
    tmp_path: Path, kind: str, has: Any
) -> None:
    """It says nothing when it stores the text 007 as the number 7."""
    row = {"name": "007", "price": Decimal("1.50"), "n": 2**60 + 1, "share": 0.1, "raw": b"7"}
    names = ["start_time", "end_time", *row]
    own = kind.partition(" ")[0]
    columns = [kind if name == own else f"{name} BLOB" for name in names]
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(f"CREATE TABLE results ({', '.join(columns)})")
    query = rxt.from_events([rxt.PointEvent(NOON, row)])
    sink = rxt.SqliteTable(tmp_path / "a.db", "results")
    if has is not None:
        with pytest.raises(SchemaError, match=has):
            query.run(sink).wait(SOON)
        return
    query.run(sink).wait(SOON)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        found = connection.execute("SELECT name, price, n, share, raw FROM results").fetchall()
    assert found == [("007", "1.50", 2**60 + 1, 0.1, b"7")]


def test_a_table_that_somebody_creates_meanwhile_has_to_fit(postgres: Database) -> None:
    """It is checked as one that was there before."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    process = source.stream.run(postgres.make())
    postgres.run("CREATE TABLE results (start_time bigint, end_time bigint, room text, temp text)")
    with suppress(ProcessEndedError, SchemaError):
        source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    with pytest.raises(SchemaError, match="temp is text, not bigint"):
        process.wait(SOON)


def test_a_table_that_lost_the_position_is_refused(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose rows the table may lack does not go on in silence, once it connects again."""
    monkeypatch.setattr("rxtemporal.sinks.sqlite.LOCKED_SECONDS", 0.01)
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    sink = sqlite.make()
    process = source.stream.run(sink, resume=tmp_path / "kept")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    source.push({"t": 6, "room": "hall", "temp": 3})
    other = sqlite.connect()
    other.isolation_level = None
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM rxtemporal_positions")

    def push() -> None:
        with suppress(RxTemporalError):
            source.push(rxt.Cti(9))

    thread = threading.Thread(target=push)
    thread.start()
    while not sink.restarts:
        threading.Event().wait(0.01)
    other.execute("COMMIT")
    other.close()
    thread.join(SOON)
    with pytest.raises(SpoolError, match=r"lost the position of this run.*Hint"):
        process.wait(SOON)


def test_wrong_arguments_are_refused(sqlite: Database, tmp_path: Path) -> None:
    """Each says what is expected."""
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: rxt.SqliteTable(3, "t"), "path is the path"),  # type: ignore[arg-type]
        (lambda: rxt.SqliteTable("a.db", "a.b"), "without a dot"),
        (lambda: rxt.SqliteTable("a.db", ""), "table is a name"),
        (lambda: rxt.SqliteTable("a.db", "t", patience=-1), "patience"),
        (lambda: rxt.PostgresTable(3, "t"), "dsn is a text"),  # type: ignore[arg-type]
        (lambda: readings().run(sqlite.make(key="floor")), "key= names 'floor'"),
    ]
    for make, says in wrong:
        with pytest.raises(ArgumentError, match=says):
            make()
    away = rxt.SqliteTable(tmp_path / "away" / "a.db", "t")
    with pytest.raises(FileNotFoundError, match="folder of the database does not exist"):
        readings().run(away)


def push_into_the_end(source: rxt.PushSource) -> None:
    """Push a CTI into a run that is stopped meanwhile."""
    with pytest.raises(ProcessEndedError):
        source.push(rxt.Cti(9))


def test_a_lock_is_waited_for(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another connection that writes is waited for; a run that is stopped does not wait."""
    monkeypatch.setattr("rxtemporal.sinks.sqlite.LOCKED_SECONDS", 0.01)
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    sink = sqlite.make()
    process = source.stream.run(sink)
    source.push({"t": 1, "room": "hall", "temp": 2})
    other = sqlite.connect()
    other.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=source.push, args=(rxt.Cti(5),))
    thread.start()
    while not sink.restarts:
        threading.Event().wait(0.01)
    assert process.diagnostics().queries[0].sink_lag > 0
    assert sink.away_since is not None
    (held,) = process.diagnostics().holding_back()
    assert str(held).startswith("query 'query' is held up by the sink SqliteTable of query 'query'")
    assert "hand_off" in "".join(held.remedies)
    other.rollback()
    thread.join(SOON)
    assert process.diagnostics().queries[0].sink_lag == 0
    assert sink.away_since is None
    assert sqlite.rows() == [(1, 2, "hall", 2)]
    source.push({"t": 6, "room": "hall", "temp": 2})
    other.execute("BEGIN IMMEDIATE")
    before = sink.restarts
    thread = threading.Thread(target=push_into_the_end, args=(source,))
    thread.start()
    while sink.restarts == before:
        threading.Event().wait(0.01)
    process.stop()
    thread.join(SOON)
    other.close()
    assert len(sqlite.rows()) == 1


@contextmanager
def lock_sqlite(database: Database) -> Iterator[None]:
    """Keep other writers of a file out."""
    with closing(database.connect()) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def test_a_run_resumes_while_its_database_is_away(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are delivered when the database is back; one that begins needs it at once."""
    monkeypatch.setattr("rxtemporal.sinks.sqlite.LOCKED_SECONDS", 0.01)

    def start(folder: Path) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource(
            "rooms", schema={"room": str, "temp": int}, start="t", unit="ticks",
            hand_off=rxt.HandOff(),
        )  # fmt: skip
        return source, source.stream.run(sqlite.make(), resume=folder)

    source, process = start(tmp_path / "run")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    process.stop()
    other = sqlite.connect()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        start(tmp_path / "another")
    source, process = start(tmp_path / "run")
    source.push([{"t": 6, "room": "hall", "temp": 3}, rxt.Cti(9)])
    (held,) = process.diagnostics().holding_back()
    assert "held up by the sink SqliteTable" in str(held)
    other.rollback()
    source.close()
    assert process.wait(SOON)
    other.close()
    assert sqlite.rows() == [(1, 2, "hall", 2), (6, 7, "hall", 3)]


def test_numbered_results_go_on_when_the_database_is_back(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers that the table has by then are those of the run itself."""
    store, locks = type(sqlite.make())._store, [False, True, False, True]

    def store_unless_locked(sink: Any, frame: pl.DataFrame, position: int) -> None:
        with lock_sqlite(sqlite) if locks and locks.pop() else nullcontext():
            store(sink, frame, position)

    monkeypatch.setattr("rxtemporal.sinks.sqlite.LOCKED_SECONDS", 0.01)
    monkeypatch.setattr(type(sqlite.make()), "_store", store_unless_locked)
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", clock="room")
    sink = sqlite.make()
    process = source.stream.run(sink, resume=tmp_path / "kept")
    for time in range(5):
        source.push([{"t": time, "room": "hall", "temp": time}])
    source.close()
    assert process.wait(SOON)
    assert sink.restarts == 2
    assert [temp for (temp,) in sqlite.rows("temp")] == [*range(5)]


def test_patience_has_an_end(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the run fails, and its error says for how long it has tried."""
    monkeypatch.setattr("rxtemporal.sinks.sqlite.LOCKED_SECONDS", 0.01)
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    process = source.stream.run(sqlite.make(patience=0.05))
    other = sqlite.connect()
    other.execute("BEGIN IMMEDIATE")
    source.push({"t": 1, "room": "hall", "temp": 2})
    message = r"not answered for 0\.05 seconds.*locked.*Hint"
    with pytest.raises(RxTemporalError, match=message):
        source.push(rxt.Cti(5))
    with pytest.raises(RxTemporalError, match=message):
        process.wait(SOON)
    other.close()


def test_a_lost_connection_is_made_again(postgres: Database) -> None:
    """A server that ends the connection loses no row and doubles none."""
    source = rxt.PushSource("rooms", schema={"room": str, "temp": int}, start="t", unit="ticks")
    sink = postgres.make()
    process = source.stream.run(sink)
    for time in range(1, 9):
        source.push({"t": time, "room": "hall", "temp": time})
        if time % 3 == 0:
            postgres.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        source.push(rxt.Cti(time + 1))
    source.close()
    process.wait(SOON)
    assert postgres.rows("temp, start_time, room") == [(n, n, "hall") for n in range(1, 9)]
    assert sink.restarts == 2


def start_rooms(sink: rxt.Sink, **options: Any) -> tuple[rxt.PushSource, rxt.Process]:
    """Start a run into which rows of rooms are pushed."""
    fields = {"room": str, "temp": int}
    source = rxt.PushSource("rooms", schema=fields, start="t", unit="ticks")
    return source, source.stream.run(sink, **options)


@contextmanager
def lock(database: Database, table: str) -> Iterator[None]:
    """Hold a lock of a table that excludes everybody else."""
    with closing(database.connect()) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def test_a_lock_that_lasts_ends_patience(postgres: Database, tmp_path: Path) -> None:
    """PostgreSQL alone would wait for ever; a run that resumes delivers the rows."""
    source, process = start_rooms(postgres.make(patience=0.05), resume=tmp_path / "kept")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    source.push({"t": 6, "room": "hall", "temp": 3})
    message = r"not answered for 0\.05 seconds: .*lock timeout(.|\n)*Hint"
    with lock(postgres, "results"):
        with suppress(RxTemporalError):
            source.push(rxt.Cti(9))
        with pytest.raises(RxTemporalError, match=message):
            process.wait(SOON)
    source, process = start_rooms(postgres.make(), resume=tmp_path / "kept")
    source.push(rxt.Cti(9))
    process.stop()
    assert postgres.rows("temp, start_time, room") == [(2, 1, "hall"), (3, 6, "hall")]


def test_a_locked_database_holds_no_run_back_while_it_opens(
    postgres: Database, tmp_path: Path
) -> None:
    """One that resumes goes on, and delivers its rows later; one that begins fails."""
    source, process = start_rooms(postgres.make(), resume=tmp_path / "kept")
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    process.stop()
    sink = postgres.make(patience=0.05)
    with lock(postgres, "rxtemporal_positions"):
        with pytest.raises(psycopg.errors.LockNotAvailable):
            start_rooms(postgres.make(patience=0.05))
        source, process = start_rooms(sink, resume=tmp_path / "kept")
        assert sink.away_since is not None
    source.push([{"t": 6, "room": "hall", "temp": 3}, rxt.Cti(9)])
    process.stop()
    assert postgres.rows("temp, start_time, room") == [(2, 1, "hall"), (3, 6, "hall")]


def test_each_wait_for_a_lock_is_an_attempt(
    postgres: Database, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted and logged; how long one may be is said in the dsn, too."""
    impatient = f"{address} options='-c lock_timeout=10ms'"
    sink = rxt.PostgresTable(impatient, "results", create=True)
    source, process = start_rooms(sink)
    source.push([{"t": 1, "room": "hall", "temp": 2}, rxt.Cti(5)])
    with lock(postgres, "results"):
        rows = [{"t": 6, "room": "hall", "temp": 3}, rxt.Cti(9)]
        thread = threading.Thread(target=source.push, args=(rows,))
        thread.start()
        while sink.restarts < 2:
            threading.Event().wait(0.01)
    thread.join(SOON)
    process.stop()
    assert "sink.again" in caplog.text
    assert postgres.rows("temp, start_time, room") == [(2, 1, "hall"), (3, 6, "hall")]


@pytest.mark.parametrize("key", [None, "room"])
def test_a_text_that_cannot_be_stored_is_named(postgres: Database, key: str | None) -> None:
    """The error names the field, and its hint is what makes the rows fit."""
    event = rxt.PointEvent(1, {"room": "hall", "note": "a\0b", "raw": b"\0"})
    made = rxt.from_events([event])
    with pytest.raises(SchemaError, match=r"text in field 'note' has the character '\\0'.*Hint: "):
        made.run(postgres.make(key=key)).wait(SOON)
    fit = made.with_columns(pl.col("note").str.replace_all("\0", "", literal=True))
    fit.run(postgres.make(key=key)).wait(SOON)
    assert postgres.rows("note, raw") == [("ab", b"\0")]


def test_a_missing_table_is_created_on_request(postgres: Database, address: str) -> None:
    """Otherwise the error has the statement that creates it."""
    with pytest.raises(SchemaError, match="there is no table 'results'") as caught:
        readings().run(rxt.PostgresTable(address, "results", "room"))
    statement = str(caught.value).split("run ", 1)[1]
    assert 'CREATE TABLE "results"' in statement
    assert 'PRIMARY KEY ("room")' in statement
    with pytest.raises(psycopg.OperationalError):
        readings().run(rxt.PostgresTable("host=/nowhere", "results"))
