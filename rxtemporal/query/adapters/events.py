"""Ready adapters of events that come from elsewhere: iterables, async iterables, observables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

from reactivex import Observable

from rxtemporal.core.events import EventShape
from rxtemporal.errors import BindingError
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.query.adapters.protocol import Adapted
from rxtemporal.query.inputs import from_events, from_observable
from rxtemporal.query.replay import at_speed
from rxtemporal.query.streamable import Streamable


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


class IterableAdapter:
    """Makes streams of iterables, as ``from_events``; each event says what shape it has."""

    def create(self, config: IterableConfig, shape: EventShape) -> Iterable[Any]:
        """Return the iterable."""
        return config.events() if callable(config.events) else config.events

    def stream(
        self, config: IterableConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return what each run's iterable gives as a stream."""
        return _stream(self, config, shape, advance_time)


class AsyncAdapter:
    """Makes streams of async iterables, as ``from_async``."""

    def create(self, config: AsyncConfig, shape: EventShape) -> AsyncIterable[Any]:
        """Return the async iterable."""
        return config.events() if callable(config.events) else config.events

    def stream(
        self, config: AsyncConfig, shape: EventShape, advance_time: AdvanceTimeSettings | None
    ) -> Streamable:
        """Return what each run's async iterable gives as a stream."""
        return _stream(self, config, shape, advance_time)


class ObservableAdapter:
    """Makes streams of observables, as ``from_observable``: they push, and are not asked."""

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


def _stream(
    factory: IterableAdapter | AsyncAdapter,
    config: IterableConfig | AsyncConfig,
    shape: EventShape,
    advance_time: AdvanceTimeSettings | None,
) -> Streamable:
    events = Adapted(factory, config, shape)
    stream = from_events(events, schema=config.schema, advance_time=advance_time)
    return at_speed(stream, config.speed)
