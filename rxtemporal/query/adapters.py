"""Ready adapter factories, each with its configuration: for ``create_stream``, ``bind_producer``.

Files: ``CsvAdapter``, ``JsonAdapter``, ``ParquetAdapter``. Events from elsewhere:
``IterableAdapter``, ``AsyncAdapter``, ``ObservableAdapter``. For a factory of your own see
``Application.create_stream``.
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
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError
from rxtemporal.ingress.settings import AdapterAdvanceTimeSettings, AdvanceTimeSettings
from rxtemporal.query.async_bridge import AsyncEvents
from rxtemporal.query.inputs import (
    BATCH_ROWS,
    from_events,
    from_observable,
    read_csv,
    read_json,
    read_parquet,
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
    """A file, and which of its columns to read.

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IterableConfig:
    """Events or batches: an iterable, or a function that makes one for each run.

    ``schema`` is as ``from_events`` takes it, ``speed`` that of ``at_speed``.
    """

    events: Iterable[Any] | Callable[[], Iterable[Any]]
    schema: Any = None
    speed: float = math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AsyncConfig:
    """Events or batches: an async iterable, or a function that makes one for each run.

    ``schema`` is as ``from_async`` takes it, ``speed`` that of ``at_speed``.
    """

    events: AsyncIterable[Any] | Callable[[], AsyncIterable[Any]]
    schema: Any = None
    speed: float = math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObservableConfig:
    """An observable of events or batches, with the options of ``from_observable``."""

    observable: Observable[Any]
    schema: Any = None
    batch_rows: int = 1


# Factories --------------------------------------------------------------------------------------


class _FileAdapter:
    """A factory of streams of files, by one of the functions that read them."""

    _read: Callable[..., Streamable]

    def create(self, config: Any, shape: EventShape) -> Iterator[EventBatch]:
        """Return the file's rows in batches, as they are."""
        source: Any = self.stream(config, shape, None)._node.source
        return iter(source.open())

    def stream(
        self, config: Any, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return the file as a stream."""
        wanted = EventShape.POINT if config.end is None else EventShape.INTERVAL
        if shape is not wanted:
            column = "no column of ends" if config.end is None else f"ends in {config.end!r}"
            raise ArgumentError(
                f"the rows of {config.path} have {column}, so their shape is {wanted.name}, "
                f"got {shape.name}. Hint: end= of the config names the column of ends."
            )
        options = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        speed = options.pop("speed")
        stream = type(self)._read(options.pop("path"), advance_time=advance_time, **options)
        return at_speed(stream, speed)


class CsvAdapter(_FileAdapter):
    """Makes streams of CSV files, as ``read_csv``; the shape is POINT, or INTERVAL with an end."""

    config_type = CsvConfig
    _read = staticmethod(read_csv)


class JsonAdapter(_FileAdapter):
    """Makes streams of JSON lines, as ``read_json``; shapes as of ``CsvAdapter``."""

    config_type = JsonConfig
    _read = staticmethod(read_json)


class ParquetAdapter(_FileAdapter):
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

    config_type = ParquetConfig
    _read = staticmethod(read_parquet)


class _EventAdapter:
    """A factory of streams of events that are asked for; each event says what shape it has."""

    def create(self, config: Any, shape: EventShape) -> Any:
        """Return the iterable, or async iterable."""
        return config.events() if callable(config.events) else config.events

    def stream(
        self, config: Any, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return what is created for each run as a stream."""
        events = AdapterEvents(self, config, shape)
        stream = from_events(events, schema=config.schema, advance_time=advance_time)
        return at_speed(stream, config.speed)


class IterableAdapter(_EventAdapter):
    """Makes streams of iterables, as ``from_events``."""

    config_type = IterableConfig


class AsyncAdapter(_EventAdapter):
    """Makes streams of async iterables, as ``from_async``."""

    config_type = AsyncConfig


class ObservableAdapter:
    """Makes streams of observables, as ``from_observable``: they push, and are not asked."""

    config_type = ObservableConfig

    def create(self, config: ObservableConfig, shape: EventShape) -> Iterable[Any]:
        """Refuse: what pushes is no iterable."""
        raise BindingError(
            "an observable pushes its events, and gives no iterable of them. "
            "Hint: create_stream and bind_producer make a stream of it."
        )

    def stream(
        self, config: ObservableConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return what the observable pushes as a stream."""
        return from_observable(
            config.observable,
            schema=config.schema,
            advance_time=advance_time,
            batch_rows=config.batch_rows,
        )


# Factories of users -----------------------------------------------------------------------------


class AdapterEvents:
    """The events of a factory's adapters, which it creates anew for each run."""

    def __init__(self, factory: Any, config: Any, shape: EventShape) -> None:
        self._factory, self._config, self._shape = factory, config, shape

    def __iter__(self) -> Iterator[Any]:
        created = self._factory.create(self._config, self._shape)
        if isinstance(created, AsyncIterable):
            return _AdapterIterator(created, iter(AsyncEvents(created)))
        if not hasattr(created, "__iter__"):
            raise BindingError(
                f"{type(self._factory).__name__}.create returns an iterable or async iterable of "
                f"events or batches, and it returned {created!r}"
            )
        return _AdapterIterator(created, iter(created))


class _AdapterIterator:
    """One adapter being read; closed once, with what it reads from."""

    def __init__(self, created: Any, events: Iterator[Any]) -> None:
        self._created, self._events = created, events
        self._closed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def in_step(self) -> None:
        """Have nothing read ahead of what is asked for."""
        in_step = getattr(self._events, "in_step", lambda: None)
        in_step()

    def close(self) -> None:
        """Close the adapter, if it can be."""
        if self._closed:
            return
        self._closed = True
        for each in {id(each): each for each in (self._events, self._created)}.values():
            # a generator that another thread is asking cannot be closed; it ends by itself
            running = inspect.isgenerator(each) and each.gi_running
            if hasattr(each, "close") and not running:
                each.close()


def check_factory(factory: Any, config: Any, shape: Any) -> Any:
    """Return the factory, made where a class was given; refuse what does not fit together."""
    if inspect.isclass(factory):
        factory = factory()
    if not callable(getattr(factory, "create", None)):
        raise ArgumentError(
            f"an adapter factory has a method create(config, shape), got {factory!r}"
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
    except NameError:  # a name that only type checkers see
        return None
    checkable = inspect.isclass(wanted) and wanted is not Any
    return wanted if checkable and not getattr(wanted, "_is_protocol", False) else None


def read_declared_settings(
    factory: Any, config: Any, shape: EventShape
) -> AdvanceTimeSettings | None:
    """Return the settings that a factory declares for its adapter, if it does."""
    declare = getattr(factory, "declare_advance_time_properties", None)
    if declare is None:
        return None
    settings = declare(config, shape)
    if settings is not None and not isinstance(settings, AdapterAdvanceTimeSettings):
        raise AdvanceTimeError(
            "declare_advance_time_properties returns an AdapterAdvanceTimeSettings or None, "
            f"and it returned {settings!r}"
        )
    return None if settings is None else settings.settings()
