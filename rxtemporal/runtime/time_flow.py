"""Streams that take their time from others: who imports whose CTIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND, span
from rxtemporal.errors import AdvanceTimeError, BindingError
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.settings import needs_policy
from rxtemporal.operators.plan import Node
from rxtemporal.reactive.clock import TOLERANCE, Clock, RepeatingTimer
from rxtemporal.runtime.reader import Reading


def imported(outputs: Sequence[Node], named: Mapping[str, Node]) -> list[Node]:
    """Return the streams whose CTIs are imported, and theirs in turn, beside the outputs' own.

    They are found among those named here, and beside a recorded one in its recording.
    """
    sources = [each for node in outputs for each in node.every() if each.source is not None]
    there, others = {id(each.source) for each in sources}, []
    for node in sources:  # grows while it is gone through
        source = node.source.of if isinstance(node.source, LateSource) else node.source
        if source is None or source.settings is None or source.settings.imports is None:
            continue
        beside: Mapping[str, Node] = getattr(source, "beside", {})
        wanted = source.settings.imports.stream_name
        stream = named.get(wanted) or beside.get(wanted)
        if stream is not None and id(stream.source) not in there:
            there.add(id(stream.source))
            others.append(stream)
            sources.append(stream)
    return others


def linked(readings: Sequence[Reading]) -> bool:
    """Tell each reading who imports its CTIs; return whether anybody does."""
    imports = False
    for importer in readings:
        settings = importer.source.settings
        if settings is None or settings.imports is None:
            continue
        imports = True
        wanted = settings.imports.stream_name
        found = [each for each in readings if each.name == wanted]
        if found == [importer]:
            raise AdvanceTimeError(f"stream {wanted!r} imports its own CTIs")
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in readings)
            many = "are several streams" if found else "is no stream"
            raise AdvanceTimeError(
                f"stream {importer.name!r} imports the CTIs of {wanted!r}, and there {many} of "
                f"that name in this process; there are {there}. Hint: name= where a stream is "
                "made, or an Application, gives it a name of its own."
            )
        found[0].importers.append(importer)
        importer.imported = found[0]
    return imports


class Idling:
    """The streams of a run of which some are idle.

    An idle stream is advanced to the lowest CTI of those that are not, as if it imported that one,
    and its CTI goes on to the streams that import from it. So the end of time is not handed on,
    and where all are idle none moves. The first thing that its source sends ends it; that is judged
    by the CTI that was reached.

    Threads: whoever calls holds the run's lock.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        # nobody is, as a rule, and then it costs an event nothing
        self._some = False
        for reading in readings:
            reading.settle = self.settle

    def declare(self, name: str, *, at_once: bool = True) -> None:
        """Let the stream of this name be idle; refuse one that cannot be.

        ``at_once``: whether it follows now, or, where a batch is just on its way, after that.
        """
        found = [each for each in self._readings if each.name == name]
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in self._readings)
            many = f"there are {len(found)} streams" if found else "there is no stream"
            raise BindingError(
                f"{many} {name!r} in this process; there are {there}. "
                "Hint: name= where a stream is made, or an Application, gives it one of its own."
            )
        (reading,) = found
        if reading.pulls:
            raise BindingError(
                f"stream {name!r} is read by asking its source for more, which nobody can do while "
                "it does not answer; so it cannot be idle. Hint: from_observable, or from_async "
                "with idle_after=, which follow a source that may be silent."
            )
        if reading.source.settings is None:
            raise needs_policy(f"declaring stream {name!r} idle")
        self.rest(reading, at_once=at_once)

    def rest(self, reading: Reading, *, at_once: bool = True) -> None:
        """Let a stream be idle, unless it has ended."""
        if not reading.ended:
            reading.idle = self._some = True
            if at_once:
                self.settle()

    def settle(self) -> None:
        """Advance the idle streams as far as the others allow.

        Ends, whoever imports from whom: each round but the last advances a stream to a CTI that
        another one has, of which there are no more than streams.
        """
        while self._some:
            idle = [each for each in self._readings if each.idle]
            awake = [each for each in self._readings if not each.idle]
            self._some = bool(idle)
            if not (idle and awake and self._advanced(idle, awake)):
                return

    def _advanced(self, idle: Sequence[Reading], awake: Sequence[Reading]) -> bool:
        lowest = min(each.opened.door.cti for each in awake)
        moved = [each for each in idle if each.advanced_to(lowest)]
        for reading in moved:
            reading.spread()
        return bool(moved)


def watched(
    reading: Reading, idling: Idling, clock: Clock, lock: AbstractContextManager[object]
) -> list[RepeatingTimer]:
    """Watch a source as it has asked for; return what ends that."""
    asked = reading.source.lively
    if asked is None:
        return []
    watches: list[_Silence] = []
    if asked.heartbeat is not None:
        beat = _Beat(reading, span(asked.heartbeat.delay, "delay"), clock)
        watches.append(_Silence(reading, span(asked.heartbeat.every, "every"), beat, clock, lock))
    if asked.idle_after is not None:
        watches.append(
            _Silence(reading, asked.idle_after, lambda: idling.rest(reading), clock, lock)
        )
    heard = [watch.heard for watch in watches]

    def hear() -> None:
        for each in heard:
            each()

    reading.hear = heard[0] if len(heard) == 1 else hear
    return [watch.begin() for watch in watches]


class _Beat:
    """One stream's heartbeat: the wall clock's time less a delay."""

    def __init__(self, reading: Reading, delay: int, clock: Clock) -> None:
        self._reading = reading
        self._delay = delay
        self._clock = clock

    def __call__(self) -> None:
        if self._reading.advanced_to(max(self._clock.now() - self._delay, MIN_TIME)):
            self._reading.followed_up()


class _Silence:
    """Does something each time that a source has been silent for a span."""

    def __init__(
        self,
        reading: Reading,
        length: int,
        act: Callable[[], object],
        clock: Clock,
        lock: AbstractContextManager[object],
    ) -> None:
        self._reading = reading
        self._seconds = length / TICKS_PER_SECOND
        self._act = act
        self._clock = clock
        self._lock = lock
        self._since = clock.elapsed()
        self._timer = RepeatingTimer(clock, self._look)

    def begin(self) -> RepeatingTimer:
        """Begin to wait; what is returned ends it."""
        self._timer.start(self._seconds)
        return self._timer

    def heard(self) -> None:
        """Note that the source has sent something."""
        self._since = self._clock.elapsed()

    def _look(self) -> float | None:
        with self._lock:
            if self._reading.ended:
                return None
            left = self._since + self._seconds - self._clock.elapsed()
            if left > TOLERANCE:
                return left
            self._since = self._clock.elapsed()
            self._act()
            return self._seconds
