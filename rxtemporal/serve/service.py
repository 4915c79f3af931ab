"""Service: runs of an application one after the other, its sources, results and compilation."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rxtemporal.brokers.mqtt_feed import MqttFeed
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import show
from rxtemporal.core.ticks import TICKS_PER_SECOND, TimeLike
from rxtemporal.core.time_forms import check_unit
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.pushed_source import PushedSource
from rxtemporal.ingress.side_source import find_origin
from rxtemporal.ingress.verdict import Rejects
from rxtemporal.operators.plan import Node, list_nodes
from rxtemporal.query.application import AnySink, Application
from rxtemporal.query.compilation import compile_plan
from rxtemporal.query.push_source import PushSource
from rxtemporal.run.evolution import Evolution
from rxtemporal.run.process import Process
from rxtemporal.serve.dead_letters import DeadLetters
from rxtemporal.serve.feeds import SinkPair, find_feeds, make_sinks
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import IngestSettings, MqttSection, Settings
from rxtemporal.serve.taps import StreamTap
from rxtemporal.serve.tokens import Tokens
from rxtemporal.sinks.sink import SinkAwayError


class Compilation:
    """Thread that compiles the kernels of a plan, so that no sender waits for them.

    They are kept on disk: a later start of the same release only reads them. Each operator whose
    kernels have to be compiled is logged.

    >>> compilation = Compilation([])
    >>> compilation.start()
    >>> compilation.wait()
    >>> compilation.describe()
    True
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._ended = threading.Event()
        self._number = 0

    @classmethod
    def of_application(cls, application: Application) -> Compilation:
        """Return that of the queries of an application."""
        return cls(list_nodes([each._node for each in application.queries.values()]))

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="rxtemporal compiles", daemon=True).start()

    def wait(self) -> None:
        """Wait for the end, also of one that is cancelled."""
        self._ended.wait()

    def cancel(self) -> None:
        """Compile no further operator."""
        self._ended.set()

    def describe(self) -> bool | str:
        """Return True at the end; before that, how far it is."""
        if self._ended.is_set():
            return True
        return f"kernels are compiled: {self._number} of {len(self._nodes)} operators"

    def _run(self) -> None:
        try:
            for number in compile_plan(self._nodes):
                self._number = number
                if self._ended.is_set():
                    return
        finally:
            self._ended.set()


@dataclasses.dataclass
class Counts:
    """Counters of a service since it was started; they are only added to.

    ``requests`` are answers by their status code, ``restarts`` the runs that were started again,
    ``refused`` the rows and whole bodies that were refused.
    """

    requests: Counter[int] = dataclasses.field(default_factory=Counter)
    receipts: int = 0
    restarts: int = 0
    refused: int = 0

    def add_receipt(self) -> None:
        """Count a receipt."""
        self.receipts += 1

    def add_refused(self, refused: int) -> None:
        """Count rows or bodies that were refused."""
        self.refused += refused

    def add_restart(self) -> None:
        """Count a run that was started again."""
        self.restarts += 1


def make_feed(
    section: MqttSection | None, sources: Mapping[str, PushSource], taps: Mapping[str, StreamTap]
) -> MqttFeed | None:
    """Return the feed into the stream that a section names; None without a section."""
    if section is None:
        return None
    names = [section.stream] if section.stream else list(sources)
    if len(names) != 1 or names[0] not in sources:
        raise ArgumentError(
            f"[mqtt] stream is one of {', '.join(sources) or 'none'}, got {section.stream!r}"
        )
    (name,) = names
    if sources[name]._rejects is Rejects.RAISE:
        raise ArgumentError(
            f"[mqtt] and rejects=Rejects.RAISE cannot be combined: the first message of stream "
            f"{name!r} that cannot be read would end the feed. Hint: rejects=Rejects.KEEP keeps "
            "such messages apart."
        )
    if (unit := check_unit(section.unit)) is not None:
        sources[name].use_unit(unit)
    return MqttFeed(sources[name], section.make_settings(), tell=taps[name].offer_all)


def find_in_plan(application: Application) -> dict[str, PushSource]:
    """Return the sources that the queries of an application read, by the names of their streams."""
    names = {id(each._node.source): name for name, each in application.streams.items()}
    nodes = list_nodes([each._node for each in application.queries.values()])
    found = [node.source for node in nodes if node.source is not None]
    origins = map(find_origin, found)
    return _select((names.get(id(each), each.name), each) for each in origins)


def find_in_run(process: Process) -> dict[str, PushSource]:
    """Return the sources that are pushed into a process."""
    return _select((each.name, each.source) for each in process._execution.readers)


def _select(sources: Iterable[tuple[str, Any]]) -> dict[str, PushSource]:
    found: dict[str, PushSource] = {}
    for name, source in sources:
        if not isinstance(source, PushedSource):
            continue
        if found.setdefault(name, source.owner) is not source.owner:
            raise BindingError(
                f"two sources are called {name!r}, and each is a path of its own. "
                "Hint: name their streams apart with application.define_stream(name, …)."
            )
    return found


def set_units(sources: Mapping[str, PushSource], unit: str | None) -> None:
    """Take the numbers among the times of sources without ``unit=`` as Unix times of a unit."""
    wanted = check_unit(unit)
    for source in sources.values():
        if wanted is not None and source.unit is None:
            source.use_unit(wanted)


def set_clocks(
    application: Application, sources: Mapping[str, PushSource], section: IngestSettings
) -> None:
    """Give the devices of sources without ``clock=`` times of their own, as the settings say.

    ``ArgumentError``: no source has the fields; or a query computes over several devices.
    """
    if not section.clock:
        return
    chosen = {
        name: source
        for name, source in sources.items()
        if source.clock is None
        and source.layout.start is not None  # such rows have one clock, that of this process
        and {*section.clock} <= {*(source.stream.schema or ())}
    }
    fields = {name for source in sources.values() for name in source.stream.schema or ()}
    if not {*section.clock} <= fields:
        raise ArgumentError(
            f"[ingest] clock names {', '.join(section.clock)}, and no source has such a field; "
            f"there are {', '.join(sources) or 'none'}. Hint: name the field that names a device."
        )
    try:
        for source in chosen.values():
            source.use_clock(section.clock, **section.clock_spans)
        application.compose_again()
    except BaseException:
        for source in chosen.values():
            source.drop_clock()
        raise
    others = [name for name in sources if name not in chosen]
    _log.info("service.clocks", by=[*section.clock], streams=[*chosen], others=others)


def guard_clocks(sources: Mapping[str, PushSource], ahead: float | Literal["delay"]) -> None:
    """Guard sources without ``ahead=`` against clocks that run ahead, before their run.

    ``ahead`` is in seconds.
    """
    for source in sources.values():
        entrance = source.stream._node.source
        assert isinstance(entrance, PushedSource)
        entrance.guard(None if ahead == "delay" else round(ahead * TICKS_PER_SECOND))


_log = get_logger(__name__)
# by then any wait is longer than somebody would set
_MOST_DOUBLINGS = 64


def _name_sinks(settings: Settings, sinks: Mapping[str, AnySink]) -> dict[str, AnySink]:
    """Return the sinks of the configuration and of the program, by query."""
    if both := sorted({*settings.queries} & {*sinks}):
        raise ArgumentError(
            f"query {both[0]!r} has a sink in sinks= and another one in the configuration. Hint: "
            "leave one of them out."
        )
    return {**{name: each.make() for name, each in settings.queries.items()}, **sinks}


class ServiceState(enum.Enum):
    """The state of a service; a run that has failed is started again."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    ENDED = "ended"
    DRAINING = "draining"
    STOPPED = "stopped"


class Service:
    """Service that runs an application, restarts it after a failure, and keeps its results.

    ``what`` is an application, which the service runs and restarts, or a process that the caller
    runs. ``sources`` are the push sources by the names of their streams, ``feeds`` the results by
    query. ``sinks`` get the results of their queries, too.

    * Restart: after ``restart_after`` seconds; after each further failure twice as many, up to
      ``restart_most``. A run that has lasted longer than ``restart_most`` resets this. With a
      folder the next run continues from it.
    * Threads: any; call ``drain`` in the event loop.

    >>> import rxtemporal as rxt
    >>> source = rxt.PushSource("readings", schema={"temp": float})
    >>> app = rxt.Application("house")
    >>> query = app.query("hot", source.stream)
    >>> service = Service(app)
    >>> service.start()
    >>> service.sources["readings"].push({"time": 1, "temp": 20.5}).accepted
    1
    >>> service.stop()
    >>> service.state
    <ServiceState.STOPPED: 'stopped'>
    """

    def __init__(
        self,
        what: Application | Process,
        settings: Settings | None = None,
        sinks: Mapping[str, AnySink] | None = None,
    ) -> None:
        if not isinstance(what, (Application, Process)):
            raise ArgumentError(f"serve takes an Application or a Process, got {what!r}")
        self.name = what.name
        self.settings = settings or Settings()
        if self.settings.state.keep_history is not None and self.settings.state.folder is None:
            raise ArgumentError(
                "[state] keep_history keeps events in a folder, and there is none. Hint: folder in "
                "[state] of the settings, or --state FOLDER."
            )
        self.counts = Counts()
        self.dead_letters = DeadLetters(self.settings.locate_dead_letters())
        self.tokens = Tokens(self.settings.tokens)
        self.state = ServiceState.NEW
        # the error of the last run that has failed, and the last one that was logged
        self.error: BaseException | None = None
        self._told: BaseException | None = None
        self.process: Process | None = None
        self._application: Application | None = None
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self.failures, self._began = 0, 0.0
        # if the application may have changed, if it gives windows that contain that time, and the
        # time from which what is new in it is computed
        self.evolve = self.partial = False
        self.replay_from: TimeLike | None = None
        self._drain_callbacks: list[Callable[[], None]] = []
        # called when another run has begun after one that has failed
        self.on_restart: Callable[[], object] = lambda: None
        # called with each run when it has begun
        self._run_callbacks: list[Callable[[Process], object]] = []
        self.pairs: dict[str, SinkPair] = {}
        # a process that the caller runs has compiled what it needs so far
        self.compilation = Compilation([])
        if isinstance(what, Application):
            self._application = what
            self.compilation = Compilation.of_application(what)
            self.sources = find_in_plan(what)
            set_clocks(what, self.sources, self.settings.ingest)
            named = _name_sinks(self.settings, sinks or {})
            self.feeds, self.pairs = make_sinks(what, self.settings.results, named)
        else:
            self._adopt(what, sinks)
        _check_streams(self.settings, self.sources)
        self.taps = {name: StreamTap() for name in self.sources}
        self.broker = make_feed(self.settings.mqtt, self.sources, self.taps)
        set_units(self.sources, self.settings.ingest.unit)

    def _adopt(self, process: Process, sinks: Mapping[str, AnySink] | None) -> None:
        if sinks or self.settings.queries:
            raise ArgumentError(
                "sinks= and [queries.NAME.sink] are for an application that the service runs; a "
                "process has its own"
            )
        if self.settings.ingest.clock:
            raise ArgumentError(
                "[ingest] clock is for an application that the service runs; the queries of a "
                "process are composed. Hint: clock= where its sources are made."
            )
        self.process = process
        self.sources, self.feeds = find_in_run(process), find_feeds(process)

    def _guard_clocks(self) -> None:
        ahead = self.settings.limits.ahead
        if self._application is not None and ahead is not None:
            guard_clocks(self.sources, ahead)

    @property
    def is_durable(self) -> bool:
        """True if what a receipt has accepted is on disk."""
        if not self.settings.state.durable:
            return False
        if self._application is not None:
            return self.settings.state.folder is not None
        return self.process is not None and self.process._log is not None

    @property
    def is_leaving(self) -> bool:
        """True once the service drains: it takes no more work."""
        return self.state in (ServiceState.DRAINING, ServiceState.STOPPED)

    def refuse_if_leaving(self) -> None:
        """Raise a ``RequestError`` if the service drains or has stopped."""
        if self.is_leaving:
            raise RequestError(503, "the service stops", retry_after=1, close=True)

    def check_takes(self) -> None:
        """Raise a ``RequestError`` unless the service takes work."""
        if self.state is ServiceState.RUNNING:
            return
        if self.state is ServiceState.ENDED:
            raise RequestError(503, "the query has ended and no longer accepts events")
        wait = max(self.settings.limits.retry_after, self.restart_delay())
        reason = {
            ServiceState.FAILED: "the query has failed",
            ServiceState.DRAINING: "the service stops",
            ServiceState.STOPPED: "the service has stopped",
        }.get(self.state, "the service starts")
        raise RequestError(503, reason, retry_after=wait, close=self.is_leaving)

    # Runs -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first run, and raise its error. A second call does nothing.

        A run that resumes may have results for a sink that is away. Then the service has failed as
        if that had happened later, and begins the next run after a while.

        ``BindingError``: the service has been stopped.
        """
        with self._lock:
            if self.state is ServiceState.STOPPED:
                raise BindingError(
                    f"service {self.name!r} has been stopped. Hint: make another service of the "
                    "same application."
                )
            if self.state is not ServiceState.NEW:
                return
            self.state = ServiceState.STARTING
            try:
                self._guard_clocks()
                try:
                    self._run()
                except SinkAwayError as error:
                    self.error = error
                    self._begin_restart()
                self.compilation.start()
                if self.broker is not None:  # outlives the runs
                    self.broker.start()
            except BaseException:
                self.state = ServiceState.NEW
                if self._application is not None and self.process is not None:
                    self.process.stop()
                    self.process = None
                raise

    def plan_change(self, folder: Path, replay_from: TimeLike | None = None) -> Evolution:
        """Return what this service would keep of the folder of one that has stopped."""
        from rxtemporal.query.runs import plan_change

        if self._application is None:
            raise BindingError(
                "a service of a process has no application to compare. Hint: serve the application."
            )
        self._guard_clocks()
        named = {name: self._application.queries[name] for name in {**self.feeds, **self.pairs}}
        return plan_change(folder, named, self._application.streams, replay_from)

    def _run(self) -> None:
        if self._application is not None:
            self.process = self._application.run(
                sinks={**self.feeds, **self.pairs},
                resume=self.settings.state.folder,
                evolve=self.evolve,
                partial=self.partial,
                replay_from=self.replay_from,
                keep_history=self.settings.state.keep_history,
            )
        assert self.process is not None
        for callback in self._run_callbacks:
            callback(self.process)
        self._began = time.monotonic()
        if self.state is not ServiceState.DRAINING:
            self.state = ServiceState.RUNNING
        self.process.add_done_callback(self._end)

    def _end(self, process: Process) -> None:
        """Note the end of a run, and start another one if it has failed."""
        with self._lock:
            if self.state is not ServiceState.RUNNING or process is not self.process:
                return
            self.error = process.error
            if time.monotonic() - self._began > self.settings.state.restart_most:
                self.failures = 0
            if self.error is None or self._application is None:
                self.state = ServiceState.ENDED if self.error is None else ServiceState.FAILED
                return
            self._begin_restart()

    def _begin_restart(self) -> None:
        """Start the next run after a while, since one has failed."""
        self.state = ServiceState.FAILED
        threading.Thread(
            target=self._restart, name=f"rxtemporal {self.name} restarts", daemon=True
        ).start()

    def allow_change(self, *, evolve: bool, partial: bool, replay_from: TimeLike | None) -> None:
        """Let the first run continue the folder of another application, as ``run`` does."""
        self.evolve, self.partial, self.replay_from = evolve, partial, replay_from

    def call_on_restart(self, on_restart: Callable[[], object]) -> None:
        """Call a function when another run has begun after one that has failed."""
        self.on_restart = on_restart

    def add_run_callback(self, callback: Callable[[Process], object]) -> None:
        """Call a function with each run when it has begun."""
        self._run_callbacks.append(callback)

    def restart_delay(self) -> float:
        """Return the seconds from a failure to the next start."""
        state = self.settings.state
        doubled = state.restart_after * 2.0 ** min(self.failures, _MOST_DOUBLINGS)
        return min(doubled, state.restart_most)

    def _restart(self) -> None:
        while True:
            delay = self.restart_delay()
            self._told = self.error
            _log.error("service.failed", error=show(self.error), restart_after=delay)
            if self._wake.wait(delay):
                return
            with self._lock:
                if self.state is not ServiceState.FAILED:
                    return
                self.failures += 1
                self.counts.add_restart()
                try:
                    self._run()
                except Exception as error:
                    self.error = error
                    continue
            self.on_restart()
            _log.warning("service.restarted", run=self.name, restarts=self.counts.restarts)
            return

    # End ------------------------------------------------------------------------------------------

    def add_drain_callback(self, callback: Callable[[], None]) -> None:
        """Call a function in the event loop when the service begins to drain."""
        self._drain_callbacks.append(callback)

    def remove_drain_callback(self, callback: Callable[[], None]) -> None:
        """Remove a function; does nothing if it is not there."""
        with contextlib.suppress(ValueError):
            self._drain_callbacks.remove(callback)

    def drain(self) -> None:
        """Take no more work; called in the event loop."""
        if self.is_leaving:
            return
        self.state = ServiceState.DRAINING
        self._wake.set()
        if self.broker is not None:
            self.broker.cancel()
        for callback in tuple(self._drain_callbacks):
            callback()

    def stop(self) -> None:
        """Stop and save the run of an application, not a given process. Idempotent.

        ``error`` is then the error of the run, which nothing else reports.
        """
        self._wake.set()
        with self._lock:
            process, self.state = self.process, ServiceState.STOPPED
        self.compilation.cancel()
        if self.broker is not None:
            self.broker.cancel()
            self.broker.join(self.settings.server.drain_seconds)
        if self._application is not None and process is not None:
            process.stop()
            self.error = process.error
            if self.error is not None and self.error is not self._told:
                _log.error("service.failed", error=show(self.error), exc_info=self.error)

    def __repr__(self) -> str:
        streams = ", ".join(self.sources) or "-"
        return f"Service({self.name!r}, {self.state.value}: streams {streams})"


def _check_streams(settings: Settings, sources: Mapping[str, PushSource]) -> None:
    """Refuse a token for a stream that there is not; a pattern may mean later ones."""
    for name, token in settings.tokens.items():
        for stream in token.write:
            if "*" not in stream and stream not in sources:
                raise ArgumentError(
                    f"[tokens.{name}] write names stream {stream!r}, which accepts no rows here; "
                    f"the streams are {', '.join(map(repr, sources)) or 'none'}. Hint: the name is "
                    "that of the PushSource, or of application.define_stream(name, …)."
                )
