"""Execution of a plan: sources push through the operators' observables to one observer."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.turns import take_lock
from rxtemporal.engine.codec import Captured
from rxtemporal.engine.driver import Entry
from rxtemporal.errors import BindingError
from rxtemporal.ingress.batch_verdicts import LateRows
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.packers import make_packer
from rxtemporal.ingress.side_source import (
    LateSource,
    RejectSource,
    SideSource,
    find_origin,
    lacks_common_time,
)
from rxtemporal.ingress.source import StreamSource, Subscription
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.operators.plan import Node, list_nodes, refuse_two_forms
from rxtemporal.operators.wiring import Shape, Wiring
from rxtemporal.reactive.clock import Clock
from rxtemporal.run.evolution import Evolution, keep_tails
from rxtemporal.run.hand_off import Consumer, StreamLock
from rxtemporal.run.late import LateEvents, LateFeed, RejectedRows
from rxtemporal.run.ordering import accept_next, group_recordings, make_pacer
from rxtemporal.run.push_entry import PushEntry
from rxtemporal.run.pushed_stream import PushedStream
from rxtemporal.run.reader import Reader
from rxtemporal.run.recovery import match_log, refuse_completed, refuse_pushes, replay_log
from rxtemporal.run.run_end import RunEnd
from rxtemporal.run.run_state import RunState, SavedRun, read_run
from rxtemporal.run.time_flow import TimeFlow
from rxtemporal.storage.event_log.event_log import EventLog
from rxtemporal.storage.event_log.recorder import RunRecorder


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SourceEntry:
    """One source of a plan, with its entry and the entries of its side streams."""

    source: StreamSource
    main: Entry
    sides: list[tuple[SideSource, Entry]]

    @property
    def lates(self) -> list[tuple[LateSource, Entry]]:
        """The streams of late events."""
        return [(side, entry) for side, entry in self.sides if isinstance(side, LateSource)]

    def put_rejected_beside(self) -> Entry | RejectedRows:
        """Return the stream's entry, beside that of its rejected rows if a query reads them."""
        for side, entry in self.sides:
            if isinstance(side, RejectSource):
                return RejectedRows(self.main, side, entry)
        return self.main


def list_entries(wiring: Wiring, clock: Callable[[], float]) -> list[SourceEntry]:
    """Return the sources of a plan, including those of which only side streams are used."""
    found: dict[int, SourceEntry] = {}
    for source, entry in wiring.entries:
        if isinstance(source, SideSource):
            origin = source.origin
            found.setdefault(id(origin), SourceEntry(origin, Entry(wiring.driver, clock), []))
            found[id(origin)].sides.append((source, entry))
        else:
            sides = found[id(source)].sides if id(source) in found else []
            found[id(source)] = SourceEntry(source, entry, sides)
    return list(found.values())


class StreamTimes:
    """The form of times of each stream of a run.

    Streams meet in an operator, and where one imports the CTIs of another; all that meet, directly
    or not, have times of one form. ``names`` are the names of sources in the run, by their id.
    """

    def __init__(self, nodes: Sequence[Node], names: Mapping[int, str]) -> None:
        self._parents: dict[int, int] = {}
        for node in nodes:
            for each in node.inputs:
                self._join(id(node), id(each))
            if node.source is not None:
                self._join(id(node), id(find_origin(node.source)))
        self._join_imports([find_origin(each.source) for each in nodes if each.source], names)
        self._times: dict[int, StreamTime] = {}
        witnesses: dict[int, Node] = {}
        for node in nodes:
            group = self._find(id(node))
            times = self._times.setdefault(group, StreamTime())
            form = node.own_time
            if form is None:
                continue
            reads = node.operator is not None and node.operator.reads_times
            if times.form not in (None, form):
                refuse_two_forms(witnesses[group], node)
            elif times.form is None or (times.is_assumed and not reads):
                times.declare(form, node.describe_own_time(), is_assumed=reads)
                witnesses[group] = node

    def _join_imports(self, sources: Sequence[Any], names: Mapping[int, str]) -> None:
        by_name = {names.get(id(each), each.name): each for each in sources}
        for each in sources:
            imports = None if each.settings is None else each.settings.imports
            if imports is not None and imports.stream_name in by_name:
                self._join(id(each), id(by_name[imports.stream_name]))

    def _find(self, key: int) -> int:
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def _join(self, one: int, other: int) -> None:
        self._parents[self._find(one)] = self._find(other)

    def of(self, stream: Any) -> StreamTime:
        """Return the form of the times of a node, or of a source."""
        return self._times[self._find(id(stream))]


_log = get_logger(__name__)
_get_place = attrgetter("place")
# a stream of a plan, and the shape of its results; None: as they leave the plan
Output: TypeAlias = tuple[Node, Shape | None]


class Execution:
    """One run of a plan. Not thread-safe: its owner serialises calls.

    ``start`` connects it; after that each ``advance`` reads one batch of the source that is
    furthest behind, until it returns False. Sources that push drive themselves, one at a time if
    there are several.

    An output is a stream of the plan and the shape of its results. Several run as one: shared
    sources and operators run once, an error of one ends all, and the run has completed when all
    outputs have.
    """

    def __init__(
        self,
        *outputs: Output,
        names: Mapping[int, str] | None = None,
        others: Sequence[Node] = (),
        clock: Clock | None = None,
    ) -> None:
        self.outputs = outputs
        self.clock = clock or Clock()
        elapsed = self.clock.elapsed
        streams, shapes = zip(*outputs, strict=True)
        self.wiring = Wiring(streams, shapes, others, elapsed)
        self._unfinished = len(outputs)
        # the sources whose devices get one time
        self._synchronized: set[int] = set()
        for node, stage in self.wiring.stages.items():
            if node.operator is not None and node.operator.makes_one_time:
                made: Any = stage
                made.report_late_to(partial(self._report_late, node))
                self._synchronized.add(id(node.inputs[0].source))
        entries = list_entries(self.wiring, elapsed)
        handed = any(each.source.hand_off for each in entries)
        self.run_end = RunEnd()
        self._consumer = Consumer(self.run_end) if handed else None
        # held while a source is read; with hand-offs, while its door judges
        own = threading.RLock()
        self.lock: StreamLock = own if self._consumer is None else self._consumer.gate.lock
        self._own, self._entered = own, threading.Condition(own)
        self._subscriptions: list[Any] = []
        # True if a caller waits for the end of the current batch
        self.stopping = False
        self._saved: tuple[bytes | SavedRun, str] | None = None
        self._evolution: tuple[Evolution, bool] | None = None
        # called when what is new in a query has begun, before anything more is read
        self.on_begun: Callable[[], object] = lambda: None
        self.event_log: EventLog | None = None
        self.logged: Sequence[Reader] = ()
        self.late = LateFeed()
        self.flow = TimeFlow(self.clock)
        # the names of sources in this run, by identity; other sources keep their own names
        self._names = named = names or {}
        self._times = StreamTimes(list_nodes((*streams, *others)), named)
        # the form of the times of each output's results
        self._shown = [self._times.of(node) for node in streams]
        self.readers = [self._reader(each) for each in entries]
        # at equal times, events of the stream that was named first come first
        ranks = {source: rank for rank, source in enumerate(named)}
        self.readers.sort(key=lambda each: ranks.get(id(each.source), len(ranks)))
        self.flow.connect(self.readers)
        pulled = [reader for reader in self.readers if reader.pulls]
        try:
            self._pacer = make_pacer(self.wiring.paces, lambda: self.ended or self.stopping)
        except BindingError:
            self.dispose()
            raise
        for reader in self.readers if self._pacer is not None else ():
            reader.answer_promptly()
        self._ordered = self.imports or self._pacer is not None
        self._asked = group_recordings(pulled, exact=self._ordered)

    def call_when_begun(self, on_begun: Callable[[], object]) -> None:
        """Call a function when what is new in a query has begun; call before the run starts."""
        self.on_begun = on_begun

    def stop_after_batch(self) -> None:
        """Read nothing more after the current batch: a caller waits for its end."""
        self.stopping = True

    def make_door(self, source: StreamSource, times: StreamTime) -> Packer:
        """Return a new door for a source, with the settings of the run's own."""
        moves = id(source) in self._synchronized
        return make_packer(source, self._names.get(id(source)), times, tells_moves=moves)

    def _reader(self, entry: SourceEntry) -> Reader:
        source, main = entry.source, entry.main
        packer = self.make_door(source, self._times.of(source))
        beside = entry.put_rejected_beside()
        late = LateEvents(self.late, packer, beside, entry.lates)
        _warn_of_waiting(entry)
        queue = (
            None
            if self._consumer is None
            else self._consumer.add_queue(late.entry, source.hand_off)
        )
        lock = self.lock if queue is None else queue.lock
        kind = _find_kind(source)
        reader = kind(source, packer, late, main, self.flow, lock, self.run_end, queue)
        if isinstance(beside, RejectedRows):
            reader.join_rejected(beside)
            beside.listen(reader.wake)
        reader.use_clock(self.clock)
        return reader

    @property
    def ended(self) -> bool:
        """True once nothing more is delivered."""
        return self.run_end.ended

    @property
    def error(self) -> BaseException | None:
        """The error that ends the run, as soon as it is known."""
        return self.run_end.error

    @property
    def imports(self) -> bool:
        """True if a stream imports the CTIs of another."""
        return self.flow.imports

    @property
    def time(self) -> TimeForm:
        """The form of the first source's times; datetimes until it is known."""
        for reader in self.readers:
            if (form := reader.door.time) is not None:
                return form
        return "datetime"

    @property
    def pulls(self) -> bool:
        """True if a source has to be read: it does not push."""
        return any(reader.pulls for reader in self.readers)

    @property
    def inside(self) -> bool:
        """True if the calling thread is processing a batch, as in a sink's own function."""
        if self._consumer is not None:
            return self._consumer.inside
        try:
            self._entered.notify(0)
        except RuntimeError:  # this thread does not hold the lock
            return False
        return True

    @property
    def may_block(self) -> bool:
        """True if reading a source may block for ever."""
        return any(reader.pulls and not reader.source.bounded for reader in self.readers)

    def _report_late(self, node: Node, late: LateRows) -> None:
        """Publish the rows that came too late for an operator."""
        if self.late.has_listeners:
            assert node.operator is not None
            time = self._times.of(node).shown or "ticks"
            for each in late.list_events(f"{node.operator.name} ({node.operator.line})", time):
                self.late.push(each)

    def record(self, recorder: RunRecorder) -> None:
        """Record the events of all streams; call before ``start``."""
        for reader in self.readers:
            reader.record(recorder.add_stream(reader.name, reader.source))

    def attach_log(
        self, log: EventLog, readers: Sequence[Reader], *, known: Collection[str] | None = None
    ) -> None:
        """Log the events that these readers accept; ``start`` first replays the log.

        ``known`` are the names of the streams that the log may have, if it may have others, too, or
        of other settings.
        ``CheckpointError``: the log is not for these streams. ``SpoolError``: it is damaged.
        """
        match_log(log, readers, known=known)
        self.event_log, self.logged = log, readers

    def save(self) -> bytes:
        """Return the state of the whole run as data without pickle, between two batches.

        A run of the same plan that loads it continues as this run would have. Rows that wait in
        hand-offs are delivered first. ``CheckpointError`` if the state cannot be saved: that of a
        replayed recording, or users' objects.
        """
        return self.capture().dumps()

    def capture(self) -> Captured:
        """Return the state as it is now, as for ``save``, to be encoded later."""
        with self.pause():
            return self.state().capture()

    def find_reader(self, source: StreamSource) -> Reader:
        """Return the reader of a source."""
        return next(each for each in self.readers if each.source is source)

    def get_time(self, number: int) -> TimeForm:
        """Return the form of the times of an output's results; datetimes until it is known."""
        return self._shown[number].shown or "datetime"

    @contextmanager
    def hold(self, patience: float = -1) -> Iterator[bool]:
        """Return a context in which nothing is delivered; what is accepted waits in hand-offs.

        ``patience`` and the result are as for ``pause``.
        """
        self.fetch_waiting()
        made = self.pause if self._consumer is None else self._consumer.hold
        with made(patience) as held:
            yield held

    @contextmanager
    def pause(self, patience: float = -1) -> Iterator[bool]:
        """Return a context in which nothing is on its way, not even in hand-offs.

        ``patience`` is how many seconds to wait, -1: without limit. Yields True on success. Not to
        be called from inside a batch.
        """
        if self._consumer is not None:
            with self._consumer.pause(patience) as quiet:
                yield quiet
        elif take_lock(self._own, timeout=patience):
            try:
                for reader in self.readers:
                    reader.drain()
                yield True
            finally:
                self._own.release()
        else:
            yield False

    def load(self, state: bytes | SavedRun, begun: str = "it was saved") -> None:
        """Let ``start`` resume from a state; ``begun`` says in errors when the run began.

        Sources that are read are read again, skipping the events already judged; sources that push
        must continue after their last pushed event.
        """
        self._saved = state, begun

    def evolve(self, evolution: Evolution, *, partial: bool) -> None:
        """Let ``start`` continue what a changed query keeps of the loaded state.

        ``partial``: new windows that contain the cut are given, too.
        """
        self._evolution = evolution, partial

    def keep_open_rows(self) -> None:
        """Keep the open rows of the streams, for operators that begin after a change."""
        keep_tails(self.wiring)

    def _go_on(self, state: bytes | SavedRun, begun: str) -> None:
        saved = read_run(state) if isinstance(state, bytes) else state
        if self._evolution is None:
            self.state().load(saved, begun)
        else:
            evolution, partial = self._evolution
            self.state().load_changed(saved, evolution, partial=partial)
        if all(reader.ended for reader in self.readers):
            for reader in self.logged:
                refuse_completed(reader, begun)
            names = [reader.name for reader in self.readers]
            _log.info("the run has completed; nothing is read", streams=names)
        for reader in self.readers:
            if reader.idle:
                self.flow.set_idle(reader, at_once=False)
            reader.complete_again()

    def fetch_waiting(self) -> None:
        """Judge the events that wait in front of hand-offs; takes the lock."""
        if self._consumer is not None:
            self._consumer.fetch_waiting()

    def state(self) -> RunState:
        """Return the object that saves and loads the run; for callers inside ``pause``."""
        return RunState(self.wiring, self.readers)

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

        The first error, or the end of all outputs, is reported once.
        """
        self.begin(on_next, on_error, on_completed)
        self.connect()

    def begin(
        self,
        on_next: Sequence[Callable[[Any], None]],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
    ) -> None:
        """Do what ``start_each`` does, up to the sources: nothing comes from them yet.

        A saved run is loaded by then, its event log has been replayed, and the sources are open.
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

        self.wiring.driver.report_to(fail)
        each = zip(self.wiring.leaves, self._shown, on_next, strict=True)
        for (_, leaf), times, receive in each:
            leaf.deliver_to(partial(_deliver, times, receive), complete)
        if self._saved is not None:
            self._go_on(*self._saved)
            if self.ended:  # there is nothing left to do
                return
        if self._consumer is not None:
            self._consumer.start(fail)
        if self.event_log is not None:
            self.event_log.begin()
            self.on_begun()
            replay_log(self.event_log, self.logged, self.imports, self._goes_on)
            refuse_pushes(self.logged)
            if self.ended:
                return
        for reader in self.readers:
            if not reader.ended:
                reader.open()

    def connect(self) -> None:
        """Connect the sources, after ``begin``."""
        if self.ended:
            return
        for reader in self.readers:
            if reader.ended:
                continue
            self._subscriptions += self.flow.watch_devices(reader)
            if not reader.pulls:
                self._subscriptions.append(reader.connect())
            self._subscriptions += self.flow.watch(reader)
        by_device: list[Any] = [leaf for node, leaf in self.wiring.leaves if node.clock is not None]
        self._subscriptions += self.flow.watch_lanes(by_device)

    def _goes_on(self) -> bool:
        """Deliver the rows waiting in hand-offs; return True if the run continues."""
        if self._consumer is not None:
            self._consumer.serve()
        return not self.ended

    def advance(self) -> bool:
        """Read and push one batch of a source; return False when there are no more.

        Of several sources the one with the lowest time is read, ties in the plan's order, so that
        all advance together and rows wait no longer than they must. With a pace, waits until the
        next event is due.
        """
        waiting = [each for each in self._asked if each.unread]
        if not waiting or self.run_end.ended:
            return False
        if self._ordered:
            accept_next(waiting, self.flow, self._pacer)
        else:
            for each in sorted(waiting, key=_get_place):
                each.read_batch()
                if not each.waits:  # or another one is read meanwhile
                    break
        return not self.run_end.ended

    def drain(self) -> None:
        """Read all sources that do not push to their ends."""
        while self.advance():
            pass

    def declare_idle(self, name: str, *, at_once: bool = True) -> None:
        """Let the stream of this name follow the others until its source sends something.

        ``at_once`` is False while an output is receiving a batch.
        """
        self._close_inboxes()
        with self.lock:
            self._close_inboxes()  # another one may have been opened
            self.flow.declare_idle(name, at_once=at_once)

    def _close_inboxes(self) -> None:
        if self._consumer is not None:
            self._consumer.close_inboxes()

    def _end(self, error: BaseException | None = None) -> None:
        self.wiring.driver.stop()
        # before the hand-offs are closed, so that a producer they release finds the error
        self.run_end.end(error)
        if self._consumer is not None:
            self._consumer.close(error)

    def settle(self, patience: float) -> None:
        """Accept nothing more, and deliver the accepted rows, also those waiting in hand-offs.

        ``patience`` is how many seconds to wait for the end of a batch.
        """
        self.run_end.close()
        if self.inside or self.ended:
            return
        if self._consumer is not None:
            self._close_inboxes()
            with self.lock:
                self._give_waiting()
            self._consumer.finish()
        elif take_lock(self._own, timeout=patience):
            try:
                self._give_waiting()
            finally:
                self._own.release()

    def _give_waiting(self) -> None:
        for reader in self.readers:
            if not reader.ended:
                reader.give_waiting()

    @property
    def has_subscriptions(self) -> bool:
        """True if a source's subscription ends some time after ``dispose``."""
        return any(isinstance(each, Subscription) for each in self._subscriptions)

    def join(self) -> None:
        """Wait until no source pushes any more and the hand-offs' thread has ended.

        Call it after ``dispose``, and not from a thread that pushes.
        """
        for subscription in self._subscriptions:
            if isinstance(subscription, Subscription):
                subscription.join()
        if self._consumer is not None:
            self._consumer.join()

    def dispose(self, error: BaseException | None = None) -> None:
        """Release sources, observer and waiting producers; the producers get the error."""
        # first, since a source that waits cannot be disposed
        self._end(error)
        for subscription in self._subscriptions:
            subscription.dispose()
        for reader in self.readers:
            try:
                reader.close()
            except Exception:
                _log.exception("a source could not be closed", source=reader.name)

    def release(self) -> None:
        """Dispose of the run, and drop all that its operators hold: nobody asks for it again."""
        try:
            self.dispose()
        finally:
            self.wiring.release()


def _warn_of_waiting(entry: SourceEntry) -> None:
    """Warn of rows beside a stream that would wait for its end, which may never come."""
    sides = [side for side, _ in entry.sides]
    if sides and not entry.source.bounded and lacks_common_time(sides[0]):
        _log.warning(
            "late events and rejected rows wait for the end of their stream",
            stream=entry.source.name,
            hint="each device has its own time: behind= makes one that holds for all",
        )


def _find_kind(source: StreamSource) -> type[Reader]:
    """Return the class of the reader of a source."""
    if source.has_verdicts:
        return PushEntry
    return PushedStream if source.pushes else Reader


def _deliver(times: StreamTime, observer: Callable[[Any], None], batch: EventBatch) -> None:
    """Deliver results, with the form in which the sources give their times."""
    batch.set_time(times.shown)
    observer(batch)
