"""Whatever is wrong with settings and adapters: one clear error, and nothing is left running.

Each case runs beside a healthy stream; afterwards that one's adapter and its sink are closed, and
the threads are those that there were before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from runs import SOON, Log, nothing_left_running

import rxtemporal as rxt
from rxtemporal import Cti, EventShape, PointEvent
from rxtemporal.errors import (
    AdvanceTimeError,
    ArgumentError,
    BindingError,
    CtiViolationError,
    EventError,
)

EACH = rxt.AdvanceTimeGenerationSettings(1, 0)
DROP = rxt.AdvanceTimePolicy.DROP
POINT = EventShape.POINT


@dataclasses.dataclass
class Config:
    """What the adapters here need to know: how many events, and what goes wrong after them."""

    events: int = 3
    error: str = ""


class Healthy:
    """A factory whose adapters go on for ever, and tell that they were closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.created = 0

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return an adapter."""
        self.created += 1
        return self

    def __iter__(self) -> Iterator[Any]:
        now = 0
        while not self.closed:
            now += 1
            yield PointEvent(now, {"x": now})
            yield Cti(now)

    def close(self) -> None:
        """Count."""
        self.closed += 1


class FailsInCreate:
    """Nothing can be created."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Fail."""
        raise OSError("no such line")


class CreatesNothing:
    """What is created is not a source."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return what cannot be iterated."""
        return 5


class FailsInMidStream:
    """Some events come, then an error."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return a generator."""
        for n in range(config.events):
            yield PointEvent(n, {"x": n})
        raise OSError("the line is dead")


class FailsInMidStreamLater:
    """The same, asynchronously."""

    async def create(self, config: Config, shape: EventShape) -> AsyncIterator[Any]:
        """Return an asynchronous generator."""
        for n in range(config.events):
            yield PointEvent(n, {"x": n})
        raise OSError("the line is dead")


class FailsTwice(FailsInMidStream):
    """It cannot even be closed: the first error is the one to tell."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return itself."""
        return self

    def __iter__(self) -> Iterator[Any]:
        return super().create(Config(), POINT)

    def close(self) -> None:
        """Fail."""
        raise OSError("cannot hang up")


class GoesBack:
    """Its own CTI goes back."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return the events."""
        return iter([PointEvent(1, {"x": 1}), Cti(9), Cti(9), Cti(5)])


class SendsNoEvents:
    """What it sends is not an event."""

    def create(self, config: Config, shape: EventShape) -> Any:
        """Return numbers."""
        return iter([PointEvent(1, {"x": 1}), 7])


BROKEN: dict[str, tuple[Any, type[Exception], str]] = {
    "create raises": (FailsInCreate, OSError, "no such line"),
    "create returns no source": (
        CreatesNothing,
        BindingError,
        "CreatesNothing.create must return an iterable or async iterable.*got 5",
    ),
    "it raises in mid-stream": (FailsInMidStream, OSError, "the line is dead"),
    "it raises in mid-stream, asynchronously": (
        FailsInMidStreamLater,
        OSError,
        "the line is dead",
    ),
    "it raises in mid-stream and while stopping": (FailsTwice, OSError, "the line is dead"),
    "its CTI goes back": (
        GoesBack,
        CtiViolationError,
        r"Cti\(5\) of stream 'broken' is before its last CTI, .*"
        r"Hint: give the stream advance_time=",
    ),
    "it sends no events": (SendsNoEvents, EventError, "a stream takes PointEvent.*got 7"),
}


@pytest.mark.parametrize(("factory", "error", "message"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("healthy_first", [True, False])
def test_a_broken_adapter_ends_the_process(
    factory: Any, error: type[Exception], message: str, healthy_first: bool
) -> None:
    """One error, told to whoever waits and to every sink that was opened; the others are closed."""
    healthy, app, sinks = Healthy(), rxt.Application("bad"), {}
    order = ["healthy", "broken"] if healthy_first else ["broken", "healthy"]
    for name in order:
        made = healthy if name == "healthy" else factory()
        stream = app.create_stream(name, made, Config(), POINT, schema={"x": int})
        app.query("out " + name, stream)
        sinks["out " + name] = Log(POINT)
    with nothing_left_running(), pytest.raises(error, match=message):
        app.run(sinks=sinks).wait(SOON)
    assert healthy.closed == healthy.created
    for sink in sinks.values():
        assert sink.told.count("close") == sink.told.count("open")
        if sink.told:
            assert isinstance(sink.calls[-1][1], error)


class FailsWhileStopping(Healthy):
    """It cannot be closed."""

    def close(self) -> None:
        """Fail."""
        super().close()
        raise OSError("cannot hang up")


def test_an_adapter_that_raises_while_stopping(caplog: pytest.LogCaptureFixture) -> None:
    """The process stops all the same; the log has what was raised, under the stream's name."""
    app, stubborn = rxt.Application("stubborn"), FailsWhileStopping()
    stream = app.create_stream("in", stubborn, Config(), POINT, schema={"x": int})
    app.query("out", stream)
    sink = Log(POINT)
    with nothing_left_running():
        process = app.run("out", sink)
        process.dispose()
    assert stubborn.closed == 1
    assert sink.told[-1] == "close"
    assert "a source could not be closed" in caplog.text
    assert "cannot hang up" in caplog.text


class Declares(Healthy):
    """A factory that declares what it is told to."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._settings = settings

    def declare_advance_time_properties(self, config: Any, shape: Any) -> Any:
        """Return it, or raise it."""
        if isinstance(self._settings, Exception):
            raise self._settings
        return self._settings


def imports(name: Any) -> rxt.AdvanceTimeSettings:
    """Settings that import from a stream."""
    return rxt.AdvanceTimeSettings(
        imports=rxt.AdvanceTimeImportSettings(name), policy=rxt.AdvanceTimePolicy.ADJUST
    )


BOUND: dict[str, tuple[Callable[[rxt.Application], object], type[Exception], str]] = {
    "a config of the wrong type": (
        lambda app: app.create_stream("in", Healthy(), {"events": 3}, POINT),
        ArgumentError,
        r"Healthy takes a Config as config, got \{'events': 3\}",
    ),
    "a config's class": (
        lambda app: app.create_stream("in", Healthy, Config, POINT),
        ArgumentError,
        "Healthy takes a Config as config, got <class",
    ),
    "settings that are none": (
        lambda app: app.create_stream("in", Declares("often"), Config(), POINT),
        AdvanceTimeError,
        "declare_advance_time_properties must return an AdapterAdvanceTimeSettings.*'often'",
    ),
    "a binding's settings in an adapter": (
        lambda app: app.create_stream("in", Declares(imports("clock")), Config(), POINT),
        AdvanceTimeError,
        "declare_advance_time_properties must return an AdapterAdvanceTimeSettings or None",
    ),
    "a declaration that raises": (
        lambda app: app.create_stream("in", Declares(OSError("no clock")), Config(), POINT),
        OSError,
        "no clock",
    ),
    "advance_time that is none": (
        lambda app: app.create_stream("in", Healthy(), Config(), POINT, DROP),  # type: ignore[arg-type]
        ArgumentError,
        "advance_time is an AdvanceTimeSettings",
    ),
    "two streams of one name": (
        lambda app: [app.create_stream("in", Healthy(), Config(), POINT) for _ in range(2)],
        BindingError,
        "'bound' already has a stream 'in'. Hint: rename one",
    ),
    "neither generation nor import": (
        lambda app: rxt.AdvanceTimeSettings(policy=DROP),
        AdvanceTimeError,
        "generation is an AdvanceTimeGenerationSettings, got None",
    ),
    "a frequency of zero": (
        lambda app: rxt.AdvanceTimeGenerationSettings(0, 0),
        AdvanceTimeError,
        "frequency must be positive, got 0",
    ),
    "a delay that is not a span": (
        lambda app: rxt.AdvanceTimeGenerationSettings(1, "5 sec"),
        AdvanceTimeError,
        "delay=.5 sec. is not a span of time",
    ),
}


@pytest.mark.parametrize(("bind", "error", "message"), BOUND.values(), ids=BOUND)
def test_a_wrong_binding_is_refused_where_it_is_made(
    bind: Any, error: type[Exception], message: str
) -> None:
    """Nothing has been created then, and the name is still free."""
    app = rxt.Application("bound")
    with nothing_left_running(), pytest.raises(error, match=message):
        bind(app)
    if "already" not in message:
        assert app.create_stream("in", Healthy(), Config(), POINT) is app.stream("in")


IMPORTS: dict[str, tuple[str, str]] = {
    "a stream that does not exist": (
        "nowhere",
        "stream 'in' imports the CTIs of 'nowhere', but there is no stream of that name in this "
        "process; there are 'in', 'beside'",
    ),
    "itself": ("in", "stream 'in' imports its own CTIs"),
}


@pytest.mark.parametrize(("name", "message"), IMPORTS.values(), ids=IMPORTS)
def test_an_import_that_leads_nowhere_leaves_nothing_running(name: str, message: str) -> None:
    """What the other stream's adapter had been created for is closed; no sink was opened."""
    app, healthy, sinks = rxt.Application("lost"), Healthy(), [Log(), Log()]
    app.query("out", app.define_stream("in", [], advance_time=imports(name)))
    app.query("beside out", app.create_stream("beside", healthy, Config(), POINT))
    with nothing_left_running(), pytest.raises(AdvanceTimeError, match=message):
        app.run("out", "beside out", *sinks)
    assert healthy.closed == healthy.created
    assert [sink.told for sink in sinks] == [[], []]


def test_an_import_from_two_streams_of_one_name_is_refused() -> None:
    """Without an application names may meet; nobody can say then whose CTIs are meant."""
    twins = [rxt.from_events([PointEvent(1, 1)], name="twin") for _ in range(2)]
    one = rxt.from_events([PointEvent(1, 1)], name="one", advance_time=imports("twin"))
    with pytest.raises(AdvanceTimeError, match="there are several streams of that name"):
        one.union(twins[0]).union(twins[1]).to_events()


def test_a_process_runs_once() -> None:
    """A second start is refused and ends nothing; a second run of the application is another."""
    app = rxt.Application("once")
    app.query("out", app.define_stream("in", [PointEvent(1, 1)]))
    sink = Log()
    with nothing_left_running():
        process = app.run("out", sink)
        with pytest.raises(BindingError, match="'once' has been started before"):
            process.start()
        process.wait(SOON)
        again = Log()
        app.run("out", again).wait(SOON)
    assert sink.rows == again.rows == [1]
