"""A plan, run: sources pushed through the operators' observables to one observer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from reactivex import Observable, abc
from reactivex.subject import Subject

from rxtemporal.advance_time import Door
from rxtemporal.batch import EventBatch, TimeForm
from rxtemporal.packing import Packer
from rxtemporal.plan import AnySource, Node, Wiring
from rxtemporal.sources import EventSource, ObservableSource, OpenEvents, OpenFrames
from rxtemporal.ticks import MIN_TIME

__all__ = ["Execution", "Output"]

# a stream of a plan, and how it is shaped on its way out
Output: TypeAlias = tuple[Node, Callable[[Observable[EventBatch]], Observable[Any]]]


class Execution:
    """One run of a plan. Not thread-safe: whoever drives it serialises.

    ``start`` connects it; after that ``advance`` moves the source that has to be asked and lies
    furthest behind one batch on, until it returns False. Sources that push drive themselves, one
    at a time where there are several.

    An output is a stream of the plan and the shape in which it leaves. Several are run as one: what
    they share is read and computed once, an error of one ends all, and the run has completed when
    all have.
    """

    def __init__(self, *outputs: Output, names: Mapping[int, str] | None = None) -> None:
        self._wiring = Wiring(*(node for node, _ in outputs))
        shaped = zip(outputs, self._wiring.outputs, strict=True)
        self._outputs = [shape(stream) for (_, shape), stream in shaped]
        self._unfinished = len(outputs)
        lock = threading.RLock()
        # the names of the sources here, by identity; others have the one they were made with
        named = names or {}
        self._readings = [
            _Reading(source, entry, lock, named.get(id(source), source.name))
            for source, entry in self._wiring.entries
        ]
        self._subscriptions: list[Any] = []
        self.ended = False

    @property
    def doors(self) -> list[Door]:
        """The sources' doors, with what they have counted."""
        return [reading.opened.door for reading in self._readings]

    @property
    def held(self) -> list[tuple[str, str, int]]:
        """The operators that have begun: their names, where they were composed, rows held."""
        steps = list(self._wiring.steps)
        return [(operator.name, operator.line, step.rows) for operator, step in steps]

    @property
    def time(self) -> TimeForm:
        """The form in which the first source gives times; datetimes until one has given one."""
        forms = (reading.opened.time for reading in self._readings)
        return next((form for form in forms if form), "datetime")

    @property
    def pulls(self) -> bool:
        """Whether a source has to be asked for its batches."""
        return any(reading.pulls for reading in self._readings)

    @property
    def may_block(self) -> bool:
        """Whether asking a source for more may take for ever."""
        return any(isinstance(reading.source, EventSource) for reading in self._readings)

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
                self.ended = True
                on_error(error)

        def complete() -> None:
            self._unfinished -= 1
            if not self._unfinished and not self.ended:
                self.ended = True
                on_completed()

        for output, observer in zip(self._outputs, on_next, strict=True):
            self._subscriptions.append(output.subscribe(observer, fail, complete))
        self._subscriptions += self._wiring.connect()
        for reading in self._readings:
            subscription = reading.connect()
            if subscription is not None:
                self._subscriptions.append(subscription)

    def advance(self) -> bool:
        """Push one batch of a source that has to be asked; False when there are no more.

        Of several the one that has come least far in time, in the plan's order where they are even:
        so all of them advance together, and nothing waits longer than it must.
        """
        waiting = [reading for reading in self._readings if reading.unread]
        if not waiting or self.ended:
            return False
        min(waiting, key=lambda reading: reading.place).advance()
        return not self.ended

    def drain(self) -> None:
        """Read the sources that have to be asked to their ends."""
        while self.advance():
            pass

    def dispose(self) -> None:
        """Let go of sources and observer."""
        self.ended = True
        for subscription in self._subscriptions:
            subscription.dispose()
        for reading in self._readings:
            if isinstance(reading.opened, OpenEvents):
                reading.opened.close()


class _Reading:
    """One source of a run, and how far it has come."""

    def __init__(
        self, source: AnySource, entry: Subject[EventBatch], lock: threading.RLock, name: str
    ) -> None:
        self.source = source
        self.opened: OpenFrames | OpenEvents | Packer = source.open(name)
        self.pulls = not isinstance(source, ObservableSource)
        self.unread = self.pulls
        self.place = MIN_TIME
        self._entry = entry
        self._lock = lock
        self._batches: Iterator[EventBatch] | None = None

    def connect(self) -> abc.DisposableBase | None:
        """Make ready to read, or subscribe to what pushes."""
        if isinstance(self.source, ObservableSource):
            pusher = _Pusher(self.opened, self._entry, self._lock)  # type: ignore[arg-type]
            return self.source.observable.subscribe(pusher)
        self._batches = iter(self.opened)  # type: ignore[arg-type]
        return None

    def advance(self) -> None:
        """Push the next batch, or the end."""
        assert self._batches is not None
        try:
            batch = next(self._batches, None)
        except Exception as error:
            self.unread = False
            with self._lock:
                self._entry.on_error(error)
            return
        with self._lock:
            if batch is None:
                self.unread = False
                self._entry.on_completed()
                return
            if len(batch):
                self.place = max(self.place, int(batch.start.max()))
            self._entry.on_next(batch)


class _Pusher(abc.ObserverBase[Any]):
    """Takes what an observable pushes, events or whole batches, through the door."""

    def __init__(self, packer: Packer, entry: Subject[EventBatch], lock: threading.RLock) -> None:
        self._packer = packer
        self._entry = entry
        self._lock = lock
        self._ended = False

    def on_next(self, item: Any) -> None:
        with self._lock:
            if not self._ended:
                self._take(item)

    def _take(self, item: Any) -> None:
        try:
            batch = (
                self._packer.take_batch(item)
                if isinstance(item, EventBatch)
                else self._packer.take(item)
            )
        except Exception as error:
            self._fail(error)
            return
        if batch is not None:
            self._entry.on_next(batch)

    def _fail(self, error: Exception) -> None:
        self._ended = True
        accepted, first = self._packer.rescue(error)
        if accepted is not None:
            self._entry.on_next(accepted)
        self._entry.on_error(first)

    def on_error(self, error: Exception) -> None:
        with self._lock:
            if not self._ended:
                self._fail(error)

    def on_completed(self) -> None:
        with self._lock:
            if not self._ended:
                self._complete()

    def _complete(self) -> None:
        self._ended = True
        try:
            last = self._packer.finish()
        except Exception as error:
            self._fail(error)
            return
        if last is not None:
            self._entry.on_next(last)
        self._entry.on_completed()
