"""The adapters that come with the library: files, iterables, async iterables, observables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log, nothing_left_running
from time_settings import settings

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, EventShape, PointEvent
from rxtemporal.errors import ArgumentError, BindingError, SchemaError, SourceError
from rxtemporal.query import adapters

POINT, INTERVAL = EventShape.POINT, EventShape.INTERVAL
ROWS = pl.DataFrame(
    {"at": [1, 5, 3, 8], "until": [4, 6, 9, None], "payload": [1, 2, 3, 4], "more": ["a"] * 4}
)
FILES = {
    "csv": (adapters.CsvAdapter, adapters.CsvConfig, pl.DataFrame.write_csv),
    "jsonl": (adapters.JsonAdapter, adapters.JsonConfig, pl.DataFrame.write_ndjson),
    "parquet": (adapters.ParquetAdapter, adapters.ParquetConfig, pl.DataFrame.write_parquet),
}
each_kind = pytest.mark.parametrize("kind", FILES)


def config(kind: str, folder: Path, **options: Any) -> tuple[Any, Any]:
    """A factory and its configuration for a file of the rows."""
    factory, make, write = FILES[kind]
    write(ROWS, folder / f"rows.{kind}")
    given = {"path": folder / f"rows.{kind}", "start": "at", "unit": "ticks", **options}
    return factory, make(**given)


def bound(factory: Any, given: Any, shape: EventShape, advance_time: Any = None) -> rxt.Streamable:
    """The stream that a binder makes."""
    binder = rxt.QueryBinder(rxt.Application("ready"))
    return binder.bind_producer("in", factory, given, shape, advance_time)


@each_kind
def test_a_files_rows_come_in_batches(kind: str, tmp_path: Path) -> None:
    """Points or intervals of the fields named, judged by the binding's settings, under its name."""
    factory, given = config(kind, tmp_path, fields=["payload"], batch_rows=2)
    stream = bound(factory, given, POINT, settings(1, 0))
    assert stream.schema == {"payload": pl.Int64}
    sink = Log()
    with stream.run(sink) as process:
        process.wait(SOON)
    assert (sink.rows, process.diagnostics().late) == ([1, 2, 4], {rxt.LateReason.DROPPED: 1})
    factory, given = config(kind, tmp_path, end="until")
    rows = bound(factory, given, INTERVAL).to_polars().rows()
    assert rows == [(1, 4, 1, "a"), (3, 9, 3, "a"), (5, 6, 2, "a"), (8, None, 4, "a")]


@each_kind
def test_create_gives_batches_before_any_door(kind: str, tmp_path: Path) -> None:
    """The documents' protocol: an iterable of batches in the file's order."""
    factory, given = config(kind, tmp_path, batch_rows=3)
    batches = list(factory().create(given, POINT))
    assert all(isinstance(batch, EventBatch) for batch in batches)
    assert [start for batch in batches for start in batch.start.tolist()] == [1, 5, 3, 8]


@each_kind
def test_a_file_that_does_not_fit_is_refused_where_it_is_bound(kind: str, tmp_path: Path) -> None:
    """No such file, no such column, a shape that its rows do not have, no rows at a time."""
    factory, given = config(kind, tmp_path)
    change = dataclasses.replace
    with pytest.raises(SourceError, match=r"there is no file .*gone"):
        bound(factory, change(given, path=tmp_path / "gone"), POINT)
    for column in ({"start": "x"}, {"fields": ["payload", "x"]}):
        with pytest.raises(SchemaError, match="no column 'x'; it has at, until, payload, more"):
            bound(factory, change(given, **column), POINT)
    with pytest.raises(SchemaError, match="no column 'x'"):
        bound(factory, change(given, end="x"), INTERVAL)
    with pytest.raises(
        ArgumentError, match=r"no column of end times, so their shape is POINT, got INT"
    ):
        bound(factory, given, INTERVAL)
    with pytest.raises(ArgumentError, match=r"ends in 'until', so their shape is INTERVAL"):
        bound(factory, change(given, end="until"), EventShape.EDGE)
    with pytest.raises(ArgumentError, match="batch_rows must be positive, got 0"):
        bound(factory, change(given, batch_rows=0), POINT)
    with pytest.raises(ArgumentError, match="speed must be a positive number, got 0"):
        bound(factory, change(given, speed=0), POINT)
    with pytest.raises(ArgumentError, match="fields is a list of columns, got 'payload'"):
        bound(factory, change(given, fields="payload"), POINT)
    with pytest.raises(
        SourceError, match=r"cannot be read: 'a' in column 'more', row 0, is not a valid time"
    ):
        bound(factory, change(given, start="more", unit=None), POINT)


@pytest.mark.parametrize(
    "factory",
    [*(made[0] for made in FILES.values()), adapters.IterableAdapter, adapters.AsyncAdapter,
     adapters.ObservableAdapter],
)  # fmt: skip
def test_a_config_of_another_kind_is_refused(factory: Any) -> None:
    """The message says which one it takes."""
    name = factory.__name__.replace("Adapter", "Config")
    with pytest.raises(ArgumentError, match=f"{factory.__name__} takes a {name} as config, got 7"):
        bound(factory, 7, POINT)


def test_a_schema_beside_a_ready_adapter_is_refused(tmp_path: Path) -> None:
    """A file adapter takes no schema."""
    factory, given = config("csv", tmp_path)
    app = rxt.Application("ready")
    with pytest.raises(ArgumentError, match="CsvAdapter does not accept schema="):
        app.create_stream("in", factory, given, POINT, schema={"x": int})


def test_a_file_that_goes_bad_in_the_midst_ends_the_run(tmp_path: Path) -> None:
    """One error that names the file; nothing is left running."""
    path = tmp_path / "bad.csv"
    path.write_text("at,x\n" + "1,1\n" * 20_000 + "noon,1\n", "utf-8")
    given = adapters.CsvConfig(path=path, start="at", unit="ticks")
    stream = bound(adapters.CsvAdapter, given, POINT)
    with (
        nothing_left_running(),
        pytest.raises(SourceError, match=r"bad\.csv cannot be read"),
    ):
        stream.run(Log()).wait(SOON)


def events() -> Iterator[Any]:
    """Two points and a CTI."""
    yield from (PointEvent(1, 1), PointEvent(2, 2), Cti(3))


async def later() -> AsyncIterator[Any]:
    """The same, asynchronously."""
    for event in events():
        yield event


@pytest.mark.parametrize(
    ("factory", "given"),
    [
        (adapters.IterableAdapter, adapters.IterableConfig(events=list(events()))),
        (adapters.IterableAdapter, adapters.IterableConfig(events=events)),
        (adapters.AsyncAdapter, adapters.AsyncConfig(events=later)),
        (
            adapters.AsyncAdapter,
            adapters.AsyncConfig(events=later, speed=1000, schema={"payload": int}),
        ),
    ],
)
def test_events_come_anew_in_each_run(factory: Any, given: Any) -> None:
    """From a list, and from functions that make the iterable, async or not."""
    stream = bound(factory, given, POINT)
    for _ in range(2):
        assert [event.payload for event in stream.to_events()] == [1, 2]


def test_what_an_observable_pushes_comes() -> None:
    """As from_observable, with its options; there is no iterable of it."""
    subject = Subject[Any]()
    given = adapters.ObservableConfig(observable=subject, schema={"payload": int}, batch_rows=5)
    seen: list[Any] = []
    bound(adapters.ObservableAdapter, given, POINT, settings(1)).subscribe(seen.append)
    for time in (1, 2, 3):
        subject.on_next(PointEvent(time, time))
    assert seen == []  # fewer than batch_rows have come
    subject.on_completed()
    assert [event.payload for event in seen] == [1, 2, 3]
    with pytest.raises(BindingError, match="an observable pushes its events"):
        adapters.ObservableAdapter().create(given, POINT)


def test_an_iterable_that_cannot_be_made_fails_the_run() -> None:
    """What the function raises, and what is not an iterable, is told by run; sinks stay closed."""

    def broken() -> Any:
        raise OSError("no such line")

    sink = Log()
    given = adapters.IterableConfig(events=broken)
    with pytest.raises(OSError, match="no such line"):
        bound(adapters.IterableAdapter, given, POINT).run(sink)
    nothing: Any = adapters.IterableConfig(events=7)  # type: ignore[arg-type]
    with pytest.raises(BindingError, match=r"IterableAdapter\.create must return an iterable"):
        bound(adapters.IterableAdapter, nothing, POINT).run(sink)
    assert sink.told == []


def test_a_speed_is_the_configs(tmp_path: Path) -> None:
    """Infinite by default; a finite one is kept by the stream."""
    factory, given = config("csv", tmp_path)
    assert given.speed == math.inf
    assert bound(factory, given, POINT)._node.pace is None
    paced = bound(factory, dataclasses.replace(given, speed=60), POINT)
    assert paced._node.pace == rxt.at_speed(paced, 60)._node.pace
