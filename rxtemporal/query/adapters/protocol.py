"""What an adapter factory is, in the documents' sense, and its adapters being read."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Iterator
from typing import Any, get_type_hints

from rxtemporal.core.events import EventShape
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError
from rxtemporal.ingress.settings import AdapterAdvanceTimeSettings, AdvanceTimeSettings
from rxtemporal.query.async_bridge import AsyncEvents


class Adapted:
    """What a factory creates, anew for each run."""

    def __init__(self, factory: Any, config: Any, shape: EventShape) -> None:
        self._factory, self._config, self._shape = factory, config, shape

    def __iter__(self) -> Iterator[Any]:
        created = self._factory.create(self._config, self._shape)
        if isinstance(created, AsyncIterable):
            return _Adapter(created, iter(AsyncEvents(created)))
        if not hasattr(created, "__iter__"):
            raise BindingError(
                f"{type(self._factory).__name__}.create returns an iterable or async iterable of "
                f"events or batches, and it returned {created!r}"
            )
        return _Adapter(created, iter(created))


class _Adapter:
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
            # a generator that is just being asked in another thread cannot be closed, and ends
            running = inspect.isgenerator(each) and each.gi_running
            if hasattr(each, "close") and not running:
                each.close()


def checked_factory(factory: Any, config: Any, shape: Any) -> Any:
    """Return the factory, made where a class was given; refuse what does not fit together."""
    if inspect.isclass(factory):
        factory = factory()
    if not callable(getattr(factory, "create", None)):
        raise ArgumentError(
            f"an adapter factory has a method create(config, shape), got {factory!r}"
        )
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}")
    wanted = _annotated(factory)
    if wanted is not None and not isinstance(config, wanted):
        raise ArgumentError(
            f"{type(factory).__name__} takes a {wanted.__name__} as config, got {config!r}"
        )
    return factory


def _annotated(factory: Any) -> type | None:
    try:
        wanted = get_type_hints(factory.create).get("config")
    except NameError:  # a name that only type checkers see
        return None
    checkable = inspect.isclass(wanted) and wanted is not Any
    return wanted if checkable and not getattr(wanted, "_is_protocol", False) else None


def declared(factory: Any, config: Any, shape: EventShape) -> AdvanceTimeSettings | None:
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
