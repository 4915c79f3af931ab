"""Ready-made adapter factories and their configurations.

They are arguments of ``create_stream`` and ``bind_producer``. For files: ``CsvAdapter``,
``JsonAdapter``, ``ParquetAdapter``. For events: ``IterableAdapter``, ``AsyncAdapter``,
``ObservableAdapter``. To write a factory of your own see ``Application.create_stream``.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.time_forms import Unit
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError
from rxtemporal.ingress.settings import AdapterAdvanceTimeSettings, AdvanceTimeSettings
from rxtemporal.query.async_bridge import AsyncEvents
from rxtemporal.query.file_times import Ambiguous, Nonexistent
from rxtemporal.query.files import read_csv, read_json, read_parquet
from rxtemporal.query.inputs import (
    BATCH_ROWS,
    from_events,
    from_observable,
)
from rxtemporal.query.replay import at_speed
from rxtemporal.query.streamable import Streamable

if TYPE_CHECKING:
    from reactivex import Observable

__all__ = [
    "AsyncAdapter",
    "AsyncConfig",
    "CsvAdapter",
    "CsvConfig",
    "FileConfig",
    "IterableAdapter",
    "IterableConfig",
    "JsonAdapter",
    "JsonConfig",
    "ObservableAdapter",
    "ObservableConfig",
    "ParquetAdapter",
    "ParquetConfig",
]


# Configurations ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileConfig:
    """A file and the columns to read from it.

    ``start`` and ``end`` name the columns with the times, ``fields`` those of the payload (None:
    all the others). ``batch_rows`` rows are read at a time. ``speed`` is passed to ``at_speed``; by
    default the file is read as fast as the query consumes it. ``unit``, ``time_zone``,
    ``ambiguous`` and ``nonexistent`` say what the times mean, as in ``read_csv``.
    """

    path: str | Path
    start: str
    end: str | None = None
    fields: Sequence[str] | None = None
    batch_rows: int = BATCH_ROWS
    speed: float = math.inf
    unit: Unit | None = None
    time_zone: str | None = None
    ambiguous: Ambiguous | None = None
    nonexistent: Nonexistent | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CsvConfig(FileConfig):
    """A CSV file; ``schema`` has the types of the payload's fields."""

    schema: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JsonConfig(FileConfig):
    """A file of JSON lines; ``schema`` has the types of the payload's fields."""

    schema: Any = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParquetConfig(FileConfig):
    """A Parquet file."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IterableConfig:
    """Events or batches: an iterable, or a function that makes one for each run.

    ``schema`` and ``unit`` are passed to ``from_events``, ``speed`` to ``at_speed``.
    """

    events: Iterable[Any] | Callable[[], Iterable[Any]]
    schema: Any = None
    speed: float = math.inf
    unit: Unit | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsyncConfig:
    """Events or batches: an async iterable, or a function that makes one for each run.

    ``schema`` and ``unit`` are passed to ``from_async``, ``speed`` to ``at_speed``.
    """

    events: AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]
    schema: Any = None
    speed: float = math.inf
    unit: Unit | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObservableConfig:
    """An observable of events, batches or rows, with the options of ``from_observable``."""

    observable: Observable[Any]
    schema: Any = None
    start: str | None = None
    end: str | None = None
    batch_rows: int = 1
    unit: Unit | None = None


# Factories --------------------------------------------------------------------------------------


class _FileAdapter:
    """A factory of streams that read files with one of the ``read_*`` functions."""

    _read: Callable[..., Streamable]

    def create(self, config: Any, shape: EventShape) -> Iterator[EventBatch]:
        """Return the file's rows in batches, unchanged."""
        source: Any = self.stream(config, shape, None)._node.source
        return iter(source.open())

    def stream(
        self, config: Any, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the file as a stream."""
        wanted = EventShape.POINT if config.end is None else EventShape.INTERVAL
        if shape is not wanted:
            column = "no column of end times" if config.end is None else f"ends in {config.end!r}"
            raise ArgumentError(
                f"the rows of {config.path} have {column}, so their shape is {wanted.name}, "
                f"got {shape.name}. Hint: name the column of end times with end= in the config."
            )
        options = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        speed = options.pop("speed")
        stream = type(self)._read(options.pop("path"), advance_time=advance_time, **options)
        return at_speed(stream, speed)


class CsvAdapter(_FileAdapter):
    """A factory for CSV files, as ``read_csv``; the shape is POINT, or INTERVAL with ``end``."""

    config_type = CsvConfig
    _read = staticmethod(read_csv)


class JsonAdapter(_FileAdapter):
    """A factory for files of JSON lines, as ``read_json``; same shapes as ``CsvAdapter``."""

    config_type = JsonConfig
    _read = staticmethod(read_json)


class ParquetAdapter(_FileAdapter):
    """A factory for Parquet files, as ``read_parquet``; same shapes as ``CsvAdapter``.

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

    config_type = ParquetConfig
    _read = staticmethod(read_parquet)


class _EventAdapter:
    """A factory of streams that iterate over events; each event has a shape of its own."""

    def create(self, config: Any, shape: EventShape) -> Any:
        """Return the iterable or async iterable."""
        return config.events() if callable(config.events) else config.events

    def stream(
        self, config: Any, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return a stream that calls ``create`` for each run."""
        events = AdapterEvents(self, config, shape)
        stream = from_events(
            events, schema=config.schema, advance_time=advance_time, unit=config.unit
        )
        return at_speed(stream, config.speed)


class IterableAdapter(_EventAdapter):
    """A factory for iterables, as ``from_events``."""

    config_type = IterableConfig


class AsyncAdapter(_EventAdapter):
    """A factory for async iterables, as ``from_async``."""

    config_type = AsyncConfig


class ObservableAdapter:
    """A factory for observables, as ``from_observable``; these push their events."""

    config_type = ObservableConfig

    def create(self, config: ObservableConfig, shape: EventShape) -> Iterable[Any]:
        """Raise an error: an observable cannot be iterated over."""
        raise BindingError(
            "an observable pushes its events and cannot be iterated over. "
            "Hint: make a stream of it with create_stream or bind_producer."
        )

    def stream(
        self, config: ObservableConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the observable as a stream."""
        return from_observable(
            config.observable,
            schema=config.schema,
            start=config.start,
            end=config.end,
            advance_time=advance_time,
            batch_rows=config.batch_rows,
            unit=config.unit,
        )


# Factories of users -----------------------------------------------------------------------------


class AdapterEvents:
    """The events of an adapter, which the factory creates anew for each run."""

    def __init__(self, factory: Any, config: Any, shape: EventShape) -> None:
        self._factory, self._config, self._shape = factory, config, shape

    def __iter__(self) -> Iterator[Any]:
        created = self._factory.create(self._config, self._shape)
        if isinstance(created, AsyncIterable):
            return _AdapterIterator(created, iter(AsyncEvents(created)))
        if not hasattr(created, "__iter__"):
            raise BindingError(
                f"{type(self._factory).__name__}.create must return an iterable or async iterable "
                f"of events or batches, got {created!r}"
            )
        return _AdapterIterator(created, iter(created))


class _AdapterIterator:
    """An iterator over the events of one adapter; ``close`` closes both, once."""

    def __init__(self, created: Any, events: Iterator[Any]) -> None:
        self._created, self._events = created, events
        self._closed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def stop_reading_ahead(self) -> None:
        """Stop the adapter from reading ahead."""
        stop = getattr(self._events, "stop_reading_ahead", lambda: None)
        stop()

    def close(self) -> None:
        """Close the adapter if it has a ``close`` method."""
        if self._closed:
            return
        self._closed = True
        for each in {id(each): each for each in (self._events, self._created)}.values():
            # a generator that another thread is running cannot be closed; it ends by itself
            running = inspect.isgenerator(each) and each.gi_running
            if hasattr(each, "close") and not running:
                each.close()


def check_factory(factory: Any, config: Any, shape: Any) -> Any:
    """Return the factory (an instance, if it is a class); check the config and the shape."""
    if inspect.isclass(factory):
        factory = factory()
    if not callable(getattr(factory, "create", None)):
        raise ArgumentError(
            f"an adapter factory must have a method create(config, shape), got {factory!r}"
        )
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}")
    wanted = getattr(factory, "config_type", None) or _annotated_type(factory)
    if wanted is not None and not isinstance(config, wanted):
        raise ArgumentError(
            f"{type(factory).__name__} takes a {wanted.__name__} as config, got {config!r}"
        )
    return factory


def _annotated_type(factory: Any) -> type | None:
    try:
        wanted = get_type_hints(factory.create).get("config")
    except NameError:  # a name that only type checkers know
        return None
    checkable = inspect.isclass(wanted) and wanted is not Any
    return wanted if checkable and not getattr(wanted, "_is_protocol", False) else None


def read_declared_settings(
    factory: Any, config: Any, shape: EventShape
) -> AdvanceTimeSettings | None:
    """Return the settings that a factory declares for its adapter, or None."""
    declare = getattr(factory, "declare_advance_time_properties", None)
    if declare is None:
        return None
    settings = declare(config, shape)
    if settings is not None and not isinstance(settings, AdapterAdvanceTimeSettings):
        raise AdvanceTimeError(
            "declare_advance_time_properties must return an AdapterAdvanceTimeSettings or None, "
            f"got {settings!r}"
        )
    return None if settings is None else settings.settings()
