"""Ready adapters of files: their rows travel in batches, from the file to the query."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.ingress.sources import FrameSource
from rxtemporal.query.inputs import BATCH_ROWS, read_csv, read_json, read_parquet
from rxtemporal.query.replay import at_speed
from rxtemporal.query.streamable import Streamable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileConfig:
    """Which file, and which of its columns.

    ``start`` and ``end`` name the columns of times, ``fields`` those of the payload (None: all the
    others). ``batch_rows`` are read at a time. ``speed`` is that of ``at_speed``; by default the
    file is read as fast as the query takes it.
    """

    path: str | Path
    start: str
    end: str | None = None
    fields: Sequence[str] | None = None
    batch_rows: int = BATCH_ROWS
    speed: float = math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CsvConfig(FileConfig):
    """A CSV file; ``time_zone`` says what times without an offset mean."""

    time_zone: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JsonConfig(FileConfig):
    """A file of JSON lines."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParquetConfig(FileConfig):
    """A Parquet file."""


class CsvAdapter:
    """Makes streams of CSV files, as ``read_csv``; the shape is POINT, or INTERVAL with an end."""

    def create(self, config: CsvConfig, shape: EventShape) -> Iterator[EventBatch]:
        """Return the file's rows in batches, as they are."""
        return _rows(self.stream(config, shape, None))

    def stream(
        self, config: CsvConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the file as a stream."""
        return _stream(read_csv, config, shape, advance_time, time_zone=config.time_zone)


class JsonAdapter:
    """Makes streams of JSON lines, as ``read_json``; shapes as of ``CsvAdapter``."""

    def create(self, config: JsonConfig, shape: EventShape) -> Iterator[EventBatch]:
        """Return the file's rows in batches, as they are."""
        return _rows(self.stream(config, shape, None))

    def stream(
        self, config: JsonConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the file as a stream."""
        return _stream(read_json, config, shape, advance_time)


class ParquetAdapter:
    """Makes streams of Parquet files, as ``read_parquet``; shapes as of ``CsvAdapter``.

    >>> import tempfile, polars as pl, rxtemporal as rxt
    >>> from rxtemporal import adapters
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = folder.name + "/readings.parquet"
    >>> pl.DataFrame({"at": [3, 7], "temp": [20, 24]}).write_parquet(path)
    >>> config = adapters.ParquetConfig(path=path, start="at")
    >>> app = rxt.Application("house")
    >>> shape = rxt.EventShape.POINT
    >>> app.create_stream("readings", adapters.ParquetAdapter, config, shape).to_events()
    [IntervalEvent(3, 4, {'temp': 20}), IntervalEvent(7, 8, {'temp': 24})]
    """

    def create(self, config: ParquetConfig, shape: EventShape) -> Iterator[EventBatch]:
        """Return the file's rows in batches, as they are."""
        return _rows(self.stream(config, shape, None))

    def stream(
        self, config: ParquetConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the file as a stream."""
        return _stream(read_parquet, config, shape, advance_time)


def _stream(
    read: Callable[..., Streamable],
    config: FileConfig,
    shape: EventShape,
    advance_time: AdvanceTimeSettings | None,
    **more: Any,
) -> Streamable:
    wanted = EventShape.POINT if config.end is None else EventShape.INTERVAL
    if shape is not wanted:
        column = "no column of ends" if config.end is None else f"ends in {config.end!r}"
        raise ArgumentError(
            f"the rows of {config.path} have {column}, so their shape is {wanted.name}, "
            f"got {shape.name}. Hint: end= of the config names the column of ends."
        )
    stream = read(
        config.path,
        start=config.start,
        end=config.end,
        advance_time=advance_time,
        batch_rows=config.batch_rows,
        fields=config.fields,
        **more,
    )
    return at_speed(stream, config.speed)


def _rows(stream: Streamable) -> Iterator[EventBatch]:
    source = stream._node.source
    assert isinstance(source, FrameSource)
    return iter(source.open())
