"""A plan, run: sources pushed through the operators' observables to one observer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.errors import BindingError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.resumable import Following
from rxtemporal.ingress.settings import HandOff
from rxtemporal.ingress.sources import EventSource, ObservableSource, OpenEvents
from rxtemporal.operators.plan import Node
from rxtemporal.operators.wiring import Wiring
from rxtemporal.reactive.clock import Clock
from rxtemporal.reactive.lift import BatchOperator, Entry
from rxtemporal.reactive.meters import Gauge, Meter
from rxtemporal.runtime.hand_off import Consumer
from rxtemporal.runtime.input_log import begun, relived
from rxtemporal.runtime.late import LateFeed, WithLate
from rxtemporal.runtime.ordering import accept_next, played_back
from rxtemporal.runtime.pace import Pacing
from rxtemporal.runtime.reader import Reading, RealSource
from rxtemporal.runtime.run_state import RunState
from rxtemporal.runtime.time_flow import Idling, linked, watched
from rxtemporal.storage.event_log import InputLog, Recorder

_log = get_logger(__name__)

# a stream of a plan, and how it is shaped on its way out
Output: TypeAlias = tuple[Node, BatchOperator]


class Execution:
    """One run of a plan. Not thread-safe: whoever drives it serialises.

    ``start`` connects it; after that ``advance`` moves the source that has to be asked and lies
    furthest behind one batch on, until it returns False. Sources that push drive themselves, one
    at a time where there are several.

    An output is a stream of the plan and the shape in which it leaves. Several are run as one: what
    they share is read and computed once, an error of one ends all, and the run has completed when
    all have.
    """

    def __init__(
        self,
        *outputs: Output,
        names: Mapping[int, str] | None = None,
        others: Sequence[Node] = (),
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or Clock()
        elapsed = self.clock.elapsed
        self.wiring = Wiring(*(node for node, _ in outputs), others=others, clock=elapsed)
        # each stream that leaves, and what passes by on its way out
        self.leaving = [(node, Gauge(1, elapsed)) for node, _ in outputs]
        shaped = zip(outputs, self.wiring.outputs, self.leaving, strict=True)
        self._outputs = [shape(stream, gauge) for (_, shape), stream, (_, gauge) in shaped]
        self._unfinished = len(outputs)
        entries = _entries(self.wiring, elapsed)
        handed = any(_hand_off(source) for source, _ in entries)
        self._consumer = Consumer() if handed else None
        # held while a source is read; with hand-offs, while its door judges
        own = threading.RLock()
        self.lock: AbstractContextManager[Any] = (
            own if self._consumer is None else self._consumer.gate
        )
        self._own, self._entered = own, threading.Condition(own)
        # the names of the sources here, by identity; others have the one they were made with
        named = names or {}
        self._subscriptions: list[Any] = []
        self.readings: list[Reading] = []
        self.ended = False
        # somebody waits for the end of the batch that is just coming
        self.stopping = False
        self._saved: tuple[bytes, str] | None = None
        self._log: InputLog | None = None
        self._logged: Sequence[Reading] = ()
        self.late = LateFeed()
        try:
            for source, entry in entries:
                name = named.get(id(source), source.name)
                queue = None
                if self._consumer is not None:
                    queue = self._consumer.add_queue(entry, _hand_off(source))
                lock = queue.lock if queue else self.lock
                self.readings.append(Reading(source, entry, lock, name, self.late, queue))
            # whether streams take their time from each other
            self.imports = linked(self.readings)
            self._idling = Idling(self.readings)
        except BaseException:
            self.dispose()  # what has been opened before the one that could not be
            raise
        # of events at the same time those of the stream that was named first come first
        ranks = {source: rank for rank, source in enumerate(named)}
        self.readings.sort(key=lambda each: ranks.get(id(each.source), len(ranks)))
        self._others = {id(node.source) for node in others}
        pulled = [reading for reading in self.readings if reading.pulls]
        self._pacing = self._paced()
        self._asked = played_back(pulled, exact=self.imports or self._pacing is not None)

    @property
    def doors(self) -> list[Door]:
        """The sources' doors, with what they have counted."""
        return [reading.opened.door for reading in self.readings]

    @property
    def time(self) -> TimeForm:
        """The form in which the first source gives times; datetimes until one has given one."""
        forms = (reading.opened.time for reading in self.readings)
        return next((form for form in forms if form), "datetime")

    @property
    def pulls(self) -> bool:
        """Whether a source has to be asked for its batches."""
        return any(reading.pulls for reading in self.readings)

    @property
    def inside(self) -> bool:
        """Whether who asks is in the midst of a batch, as a sink's own function is."""
        if self._consumer is not None:
            return self._consumer.inside
        try:
            self._entered.notify(0)
        except RuntimeError:  # this thread does not hold the lock
            return False
        return True

    @property
    def may_block(self) -> bool:
        """Whether asking a source for more may take for ever."""
        return any(isinstance(reading.source, EventSource) for reading in self.readings)

    def _paced(self) -> Pacing | None:
        paces = set(self.wiring.paces)
        if not paces:
            return None
        if len(paces) > 1:
            speeds = ", ".join(sorted(f"{pace.speed:g}" for pace in paces))
            self.dispose()
            raise BindingError(
                f"the sources of one run are replayed at one speed, by one clock; got {speeds}. "
                "Hint: at_speed() of the whole query."
            )
        for reading in self.readings:
            reading.answer_promptly()
        return Pacing(paces.pop(), lambda: self.ended or self.stopping)

    def record(self, recorder: Recorder) -> None:
        """Have what comes recorded; before ``start``."""
        for reading in self.readings:
            reading.record(recorder)

    def keep(self, log: InputLog, readings: Sequence[Reading]) -> None:
        """Have what these accept kept in a log, after what is there has come again at ``start``.

        ``SpoolError``: the log is not for these streams, is in use, or cannot be read or written.
        """
        begun(log, readings)
        self._log, self._logged = log, readings

    def save(self) -> bytes:
        """Return the state of the whole run, between two batches: no pickle, only data.

        The same plan that loads it goes on as this run would have. What waits in hand-offs is given
        to the query first. ``CheckpointError`` where what waits cannot be saved: in a recording
        that is replayed, in users' objects.
        """
        with self.still():
            return self.state().save()

    @contextmanager
    def still(self, patience: float = -1) -> Iterator[bool]:
        """Have nothing on its way inside, not in hand-offs either; not from inside of a batch.

        ``patience`` is how many seconds that may take, -1: any. Yields whether it is so.
        """
        if self._consumer is not None:
            with self._consumer.pause(patience) as quiet:
                yield quiet
        elif self._own.acquire(timeout=patience):
            try:
                yield True
            finally:
                self._own.release()
        else:
            yield False

    def load(self, state: bytes, begun: str = "it was saved") -> None:
        """Have ``start`` go on from a state; ``begun`` says of errors when that began.

        Sources that have to be asked are read again, and what was judged already is left out; those
        that push have to go on after what they had pushed.
        """
        self._saved = state, begun

    def _go_on(self, state: bytes, begun: str) -> None:
        self.state().load(state, begun)
        for reading in self.readings:
            if reading.idle:
                self._idling.rest(reading, at_once=False)
            reading.complete_again()

    def state(self) -> RunState:
        """Return what saves and loads the run; for who keeps it ``still``."""
        return RunState(self.wiring.gauges, self.leaving, self.readings)

    def start(
        self,
        on_next: Callable[[Any], None],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
    ) -> None:
        """Subscribe the observer of the only output, then connect the sources."""
        self.start_each([on_next], on_error, on_completed)

    def start_each(
        self,
        on_next: Sequence[Callable[[Any], None]],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
    ) -> None:
        """Subscribe one ``on_next`` to each output, then connect the sources.

        The first error, or the end of all outputs, is told once.
        """

        def fail(error: Exception) -> None:
            if not self.ended:
                self._end(error)
                on_error(error)

        def complete() -> None:
            self._unfinished -= 1
            if not self._unfinished and not self.ended:
                self._end()
                on_completed()

        for output, observer in zip(self._outputs, on_next, strict=True):
            self._subscriptions.append(output.subscribe(observer, fail, complete))
        self._subscriptions += self.wiring.connect()
        for source, entry in self.wiring.entries:
            if id(source) in self._others:
                self._subscriptions.append(entry.subscribe(lambda batch: None, fail))
        if self._saved is not None:
            self._go_on(*self._saved)
            if self.ended:  # there is nothing left to do
                return
        if self._consumer is not None:
            self._consumer.start(fail)
        if self._log is not None:
            relived(self._log, self._logged, self.imports, self._goes_on)
            if self.ended:
                return
        for reading in self.readings:
            if reading.ended:
                continue
            subscription = reading.connect()
            if subscription is not None:
                self._subscriptions.append(subscription)
            self._subscriptions += watched(reading, self._idling, self.clock, self.lock)

    def _goes_on(self) -> bool:
        """Give the query what waits, for nobody is held up yet; whether the run still runs."""
        if self._consumer is not None:
            self._consumer.serve()
        return not self.ended

    def advance(self) -> bool:
        """Push one batch of a source that has to be asked; False when there are no more.

        Of several the one that has come least far in time, in the plan's order where they are even:
        so all of them advance together, and nothing waits longer than it must. At a pace it waits
        until it is time for what comes next.
        """
        waiting = [each for each in self._asked if each.unread]
        if not waiting or self.ended:
            return False
        if self.imports or self._pacing is not None:
            accept_next(waiting, self._pacing)
            return not self.ended
        min(waiting, key=lambda each: each.place).advance()
        return not self.ended

    def drain(self) -> None:
        """Read the sources that have to be asked to their ends."""
        while self.advance():
            pass

    def declare_idle(self, name: str, *, at_once: bool = True) -> None:
        """Let the stream of this name follow the others until its source sends something.

        ``at_once`` is false where an output is just being told of a batch.
        """
        with self.lock:
            self._idling.declare(name, at_once=at_once)

    def _end(self, error: BaseException | None = None) -> None:
        self.ended = True
        if self._consumer is not None:
            self._consumer.close(error)

    def settle(self) -> None:
        """Accept nothing more, and give the query what waits in hand-offs."""
        if self._consumer is not None:
            self._consumer.finish()

    @property
    def followed(self) -> bool:
        """Whether sources are followed that end by themselves, some time after ``dispose``."""
        return any(isinstance(each, Following) for each in self._subscriptions)

    def join(self) -> None:
        """Wait until nobody pushes any more and the hand-offs' thread has ended.

        After ``dispose``, and not from inside what is pushed.
        """
        for subscription in self._subscriptions:
            if isinstance(subscription, Following):
                subscription.join()
        if self._consumer is not None:
            self._consumer.join()

    def dispose(self, error: BaseException | None = None) -> None:
        """Let go of sources and observer, and of producers that wait: these are told the error."""
        # first, for a source may not be let go of while it waits
        self._end(error)
        for subscription in self._subscriptions:
            subscription.dispose()
        for reading in self.readings:
            if isinstance(reading.opened, OpenEvents):
                try:
                    reading.opened.close()
                except Exception:
                    _log.exception("a source could not be closed", source=reading.name)


def _hand_off(source: RealSource) -> HandOff | None:
    return source.hand_off if isinstance(source, ObservableSource) else None


def _entries(wiring: Wiring, clock: Callable[[], float]) -> list[tuple[RealSource, WithLate]]:
    """Return where each source enters; one of which only late events are asked is read for them."""
    mains: dict[int, tuple[RealSource, Entry]] = {}
    lates: dict[int, list[tuple[LateSource, Entry]]] = {}
    for source, entry in wiring.entries:
        if isinstance(source, LateSource):
            mains.setdefault(id(source.of), (source.of, Entry(Meter(clock))))
            lates.setdefault(id(source.of), []).append((source, entry))
        else:
            mains[id(source)] = source, entry
    return [(main, WithLate(entry, lates.get(at, []))) for at, (main, entry) in mains.items()]
