"""Adapters: factories with a configuration, their settings and the binding's, closing."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import EventShape, PointEvent

EACH = rxt.AdvanceTimeGenerationSettings(1, 0)


@dataclasses.dataclass
class Config:
    """What an adapter needs to know."""

    times: list[int]
    asynchronous: bool = False


class Factory:
    """A factory whose adapters tell that they were closed."""

    def __init__(self) -> None:
        self.closed = 0

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return an adapter."""
        return self._later(config) if config.asynchronous else _Events(self, config)

    async def _later(self, config: Config) -> AsyncIterator[Any]:
        for time in config.times:
            yield PointEvent(time, time)

    def declare_advance_time_properties(self, config: Config, shape: EventShape) -> Any:
        """Say that events come in order."""
        return rxt.AdapterAdvanceTimeSettings(EACH, rxt.AdvanceTimePolicy.DROP)


class _Events:
    def __init__(self, factory: Factory, config: Config) -> None:
        self._factory, self._config = factory, config

    def __iter__(self) -> Iterator[Any]:
        for time in self._config.times:
            if time < 0:
                raise OSError("the line is dead")
            yield PointEvent(time, time)

    def close(self) -> None:
        """Count."""
        self._factory.closed += 1


def run(factory: Any, config: Any, advance_time: Any = None) -> list[Any]:
    """The rows that come through a bound adapter."""
    app = rxt.Application("adapted")
    binder = rxt.QueryBinder(app)
    app.query("out", binder.bind_producer("in", factory, config, EventShape.POINT, advance_time))
    sink = Log()
    app.run("out", sink).wait(SOON)
    return sink.rows


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_factorys_settings_hold_unless_the_binding_has_others(asynchronous: bool) -> None:
    """An event out of order is late by the adapter's settings, and in time by the binding's."""
    config = Config([1, 5, 3], asynchronous)
    assert run(Factory(), config) == [1, 5]
    assert run(Factory, config) == [1, 5]
    patient = rxt.AdvanceTimeGenerationSettings(1, 10)
    binding = rxt.AdvanceTimeSettings(patient, policy=rxt.AdvanceTimePolicy.DROP)
    assert run(Factory(), config, binding) == [1, 3, 5]


@pytest.mark.parametrize("times", [[1, 2], [1, -1]])
def test_an_adapter_is_closed_once_however_it_ends(times: list[int]) -> None:
    """At its end, and when it raises in mid-stream, which ends the process."""
    factory = Factory()
    if -1 in times:
        with pytest.raises(OSError, match="the line is dead"):
            run(factory, Config(times))
    else:
        run(factory, Config(times))
    assert factory.closed == 1


def test_what_is_no_adapter_is_refused() -> None:
    """A config of another type, a factory without create, a shape that is none."""
    app = rxt.Application("bad")
    with pytest.raises(rxt.ArgumentError, match="Factory takes a Config as config, got 'x'"):
        app.create_stream("in", Factory(), "x", EventShape.POINT)
    with pytest.raises(rxt.ArgumentError, match="must have a method create"):
        app.create_stream("in", object(), Config([]), EventShape.POINT)
    with pytest.raises(rxt.ArgumentError, match="shape is an EventShape, got 'point'"):
        app.create_stream("in", Factory(), Config([]), "point")  # type: ignore[arg-type]


def test_an_adapter_that_cannot_be_created_closes_the_others() -> None:
    """What create raises is raised by run, nothing is opened, and what was created is closed."""

    class Broken:
        def create(self, config: Any, shape: EventShape) -> Any:
            """Fail."""
            raise OSError("no such line")

    app, factory = rxt.Application("broken"), Factory()
    sinks = {}
    for name, each in ("a", factory), ("b", Broken()):
        stream = app.create_stream(name, each, Config([1]), EventShape.POINT)
        app.query("out " + name, stream)
        sinks["out " + name] = Log()
    with pytest.raises(OSError, match="no such line"):
        app.run(sinks=sinks)
    assert factory.closed == 1
    assert [sink.told for sink in sinks.values()] == [[], []]


def test_an_adapter_that_fails_while_stopping_harms_nothing() -> None:
    """What its close raises is logged; the rows are there and the sink is closed."""

    class Bad(_Events):
        def close(self) -> None:
            """Fail."""
            raise OSError("cannot hang up")

    class Stubborn(Factory):
        def create(self, config: Config, shape: EventShape) -> Any:
            """Return an adapter that cannot be closed."""
            return Bad(self, config)

    assert run(Stubborn(), Config([1, 2])) == [1, 2]
