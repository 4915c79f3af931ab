"""Flow of time between the streams of a run: imports, idle streams, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from rxtemporal.core.spans import span
from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND
from rxtemporal.errors import AdvanceTimeError, BindingError
from rxtemporal.ingress.settings import policy_error
from rxtemporal.ingress.side_source import find_origin
from rxtemporal.operators.plan import Node
from rxtemporal.reactive.clock import TOLERANCE, Clock, RepeatingTimer
from rxtemporal.run.input_stream import InputStream, StreamState
from rxtemporal.run.reader import Reader


def find_imported(outputs: Sequence[Node], named: Mapping[str, Node]) -> list[Node]:
    """Return the streams whose CTIs are imported, directly or not, beyond the outputs' own.

    They are found among the ``named`` streams, and for a recorded stream in its recording.
    """
    sources = [each for node in outputs for each in node.list_nodes() if each.source is not None]
    there, others = {id(each.source) for each in sources}, []
    for node in sources:  # grows during the loop
        source = find_origin(node.source)
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


class TimeFlow:
    """Time that the streams of one run take from each other, and from the wall clock.

    *Imports*: each CTI of a stream is passed at once to the streams that import it, and on to their
    importers. *Idle streams*: each is advanced to the lowest CTI of the streams that are not idle,
    as if it imported that CTI. So the end of time is not passed on, and if all are idle none moves.
    An idle stream becomes active with the next item of its source, which is judged by the CTI
    reached. *Silence*: a source may have a heartbeat, or become idle, after a span without items.

    Threads: callers hold the run's lock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readers: Sequence[Reader] = ()
        self._importers: dict[InputStream, list[Reader]] = {}
        self._imported: dict[Reader, Reader] = {}
        self._watches: dict[Reader, list[_Silence]] = {}
        self._some_idle = False
        # usually no stream takes its time from others, and then this costs an event nothing
        self.active = False

    def connect(self, readers: Sequence[Reader]) -> None:
        """Link the streams that import each other's CTIs."""
        self._readers = readers
        for reader in readers:
            self._link(reader)
        self.active = self.imports

    @property
    def imports(self) -> bool:
        """True if a stream imports the CTIs of another."""
        return bool(self._imported)

    @property
    def may_follow(self) -> bool:
        """True if a stream may take its time from another one, now or after a silence."""
        return self.active or any(each.source.lively is not None for each in self._readers)

    def list_importers(self, reader: InputStream) -> Sequence[Reader]:
        """Return the streams that import a stream's CTIs."""
        return self._importers.get(reader, ())

    def imported_by(self, reader: Reader) -> Reader | None:
        """Return the stream whose CTIs a stream imports, if it imports any."""
        return self._imported.get(reader)

    def _link(self, importer: Reader) -> None:
        """Find the stream whose CTIs another one imports."""
        settings = importer.source.settings
        if settings is None or settings.imports is None:
            return
        wanted = settings.imports.stream_name
        found = [each for each in self._readers if each.name == wanted]
        if found == [importer]:
            raise AdvanceTimeError(f"stream {wanted!r} imports its own CTIs")
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in self._readers)
            many = "are several streams" if found else "is no stream"
            raise AdvanceTimeError(
                f"stream {importer.name!r} imports the CTIs of {wanted!r}, but there {many} of "
                f"that name in this process; there are {there}. Hint: name= where a stream is "
                "made, or an Application, gives it its own name."
            )
        if found[0].source.clock is not None:
            raise AdvanceTimeError(
                f"stream {importer.name!r} imports the CTIs of {wanted!r}, in which each device "
                "has its own time, so that there is none for all. Hint: import those of a stream "
                "with one time; an operator has one behind .synchronize('1h')."
            )
        self._importers.setdefault(found[0], []).append(importer)
        self._imported[importer] = found[0]

    # Imports and idle streams ---------------------------------------------------------------------

    def follow(self, reader: InputStream) -> None:
        """Advance the streams that follow this one: importers, and idle streams."""
        self._spread(reader)
        self._advance_idle()

    def _spread(self, reader: InputStream) -> None:
        """Pass the CTI on to the streams that import it, and from them to their importers.

        Terminates even if streams import in loops: a stream passes on only a CTI that advances it,
        and this is always the same CTI, so each stream passes it on at most once.
        """
        waiting = [reader]
        while waiting:
            reader = waiting.pop()
            cti = reader.door.importable_cti
            waiting += [each for each in self.list_importers(reader) if each.import_cti(cti)]

    def _advance_idle(self) -> None:
        """Advance the idle streams as far as the others allow.

        Terminates even if streams import in loops: each round but the last advances a stream to
        the CTI of another one, and there are no more CTIs than streams.
        """
        while self._some_idle:
            idle = [each for each in self._readers if each.state is StreamState.IDLE]
            awake = [each for each in self._readers if each.state is not StreamState.IDLE]
            if not idle:
                self._some_idle, self.active = False, self.imports
            if not (idle and awake and self._advance_to_lowest(idle, awake)):
                return

    def _advance_to_lowest(self, idle: Sequence[Reader], awake: Sequence[Reader]) -> bool:
        lowest = min(each.door.cti for each in awake)
        moved = [each for each in idle if each.advance_to(lowest)]
        for reader in moved:
            self._spread(reader)
        return bool(moved)

    def declare_idle(self, name: str, *, at_once: bool = True) -> None:
        """Make the stream of this name idle; raise if it cannot be.

        ``at_once``: it follows now; otherwise after the batch that is on its way.
        """
        found = [each for each in self._readers if each.name == name]
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in self._readers)
            many = f"there are {len(found)} streams" if found else "there is no stream"
            raise BindingError(
                f"{many} {name!r} in this process; there are {there}. "
                "Hint: name= where a stream is made, or an Application, gives it its own name."
            )
        (reader,) = found
        if reader.pulls:
            raise BindingError(
                f"stream {name!r} is read by this process, which waits until the source answers; "
                "so the stream cannot be idle. Hint: use from_observable, or from_async with "
                "idle_after=, for a source that may be silent."
            )
        if reader.source.settings is None:
            raise policy_error(f"declaring stream {name!r} idle")
        self.set_idle(reader, at_once=at_once)

    def set_idle(self, reader: Reader, *, at_once: bool = True) -> None:
        """Make a stream idle, unless it has ended."""
        if not reader.ended:
            reader.set_idle()
            self._some_idle = self.active = True
            if at_once:
                self._advance_idle()

    # Silence --------------------------------------------------------------------------------------

    def watch(self, reader: Reader) -> list[RepeatingTimer]:
        """Watch a source for silence as its settings say; return the timers to dispose."""
        asked = reader.source.lively
        if asked is None:
            return []
        watches: list[_Silence] = []
        if asked.heartbeat is not None:
            delay = span(asked.heartbeat.delay, "delay")
            every = span(asked.heartbeat.every, "every")
            beat = partial(self._beat, reader, delay)
            watches.append(_Silence(reader, every, beat, self._clock))
        if asked.idle_after is not None:
            rest = partial(self.set_idle, reader)
            watches.append(_Silence(reader, asked.idle_after, rest, self._clock))
        self._watches[reader] = watches
        return [watch.start() for watch in watches]

    def watch_devices(self, reader: Reader) -> list[RepeatingTimer]:
        """Watch for devices that are silent by the wall clock; return the timer to dispose.

        Call it before the source is connected: a long silence is that of the process.
        """
        length = reader.silent_after
        return [] if length is None else [DeviceWatch(reader, length, self._clock).start()]

    def watch_lanes(self, outputs: Sequence[DeviceOutput]) -> list[RepeatingTimer]:
        """Watch outputs of which each device has its own time; return the timer to dispose.

        A source that is read cannot be woken: there they wait for the next rows.
        """
        readers = [
            each
            for each in self._readers
            if each.source.clock is not None and not each.pulls and not each.ended
        ]
        if not readers or not outputs:
            return []
        return [LaneWatch(readers, outputs, self._clock).start()]

    def note_activity(self, reader: Reader) -> None:
        """Note that a watched source has sent something."""
        for watch in self._watches.get(reader, ()):
            watch.restart()

    def _beat(self, reader: Reader, delay: int) -> None:
        """Advance a stream to the wall clock's time less a delay."""
        if reader.advance_to(max(self._clock.now() - delay, MIN_TIME)):
            self.follow(reader)


# a device is found to be silent after at most a further such part of the span, or so many ticks
_PARTS, _LEAST = 16, TICKS_PER_SECOND // 20


class DeviceWatch:
    """Watch for devices of one source that have been silent for a span of the wall clock.

    While nothing comes from any device, it may be the line that is down. So when that has lasted
    for the span, each device is moved, but follows no longer; and each has the span again once
    something comes. A device is found at the end of its span, or a sixteenth of that later.
    """

    def __init__(self, reader: Reader, length: int, clock: Clock) -> None:
        self._reader, self._length, self._clock = reader, length, clock
        self._timer = RepeatingTimer(clock, self._look)

    def start(self) -> RepeatingTimer:
        """Look now, and from then on; return the timer to dispose."""
        if (seconds := self._look()) is not None:
            self._timer.start(seconds)
        return self._timer

    def _look(self) -> float | None:
        with self._reader.lock:
            if not self._reader.may_advance:
                return None
            left = self._find_next(self._clock.read_moment())
        return max(left, self._length // _PARTS, _LEAST) / TICKS_PER_SECOND

    def _find_next(self, now: int) -> int:
        """Note the devices that have become silent; return the ticks until others may be."""
        clocks = self._reader.door.clocks
        # a timer may fire a tick early
        silent, first, last = clocks.find_silent(now - self._length + 1)
        if last < 0 and not clocks.is_down and len(silent):
            self._reader.note_silence(None)
        elif last >= 0 and len(silent):
            self._reader.note_silence(clocks.list_devices(silent))
        return self._length if last < 0 else first + self._length - now


# seconds from one look to the next for results of devices that wait
_PATIENCE = 0.5


class DeviceOutput(Protocol):
    """An output in which something may wait for the next rows."""

    def find_wait(self) -> float | None:
        """Return the seconds until an empty batch of a source should come; None if none need to.

        Any thread may call it.
        """


class LaneWatch:
    """Watch of the outputs of a run whose devices each have their own time.

    These may keep rows, CTIs and results of devices that wait for others until the next rows come.
    When one says that it has waited for long enough, each of the sources gets an empty batch.
    ``readers`` are those of the sources of devices that push.
    """

    def __init__(
        self, readers: Sequence[Reader], outputs: Sequence[DeviceOutput], clock: Clock
    ) -> None:
        self._readers, self._outputs = readers, outputs
        self._timer = RepeatingTimer(clock, self._look)

    def start(self) -> RepeatingTimer:
        """Start watching; return the timer to dispose."""
        self._timer.start(_PATIENCE)
        return self._timer

    def _look(self) -> float | None:
        waits = [wait for each in self._outputs if (wait := each.find_wait()) is not None]
        if (soonest := min(waits, default=_PATIENCE)) > TOLERANCE:
            return min(soonest, _PATIENCE)
        are_awake = [each.wake() for each in self._readers]
        return _PATIENCE if any(are_awake) else None


class _Silence:
    """Watch of one source that runs an action each time it has been silent for a span."""

    def __init__(
        self, reader: Reader, length: int, act: Callable[[], object], clock: Clock
    ) -> None:
        self._reader = reader
        self._seconds = length / TICKS_PER_SECOND
        self._act = act
        self._clock = clock
        self._since = clock.elapsed()
        self._timer = RepeatingTimer(clock, self._look)

    def start(self) -> RepeatingTimer:
        """Start watching; return the timer to dispose."""
        self._timer.start(self._seconds)
        return self._timer

    def restart(self) -> None:
        """Note that the source has sent something."""
        self._since = self._clock.elapsed()

    def _look(self) -> float | None:
        with self._reader.lock:
            if not self._reader.may_advance:
                return None
            left = self._since + self._seconds - self._clock.elapsed()
            if left > TOLERANCE:
                return left
            self._since = self._clock.elapsed()
            self._act()
            return self._seconds
