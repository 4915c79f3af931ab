"""Checkpoints of a run: it saves its state from time to time, and the next run resumes from it.

The folder keeps some earlier checkpoints, with the events since: a changed query may continue one
of them, in place of the last.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rxtemporal.core.events import EventShape
from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TimeLike, describe, time_ticks
from rxtemporal.core.turns import take_lock
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.ingress.side_source import RejectSource
from rxtemporal.ingress.source import Cursor
from rxtemporal.run.evolution import Evolution, begin_anew
from rxtemporal.run.execution import Execution
from rxtemporal.run.outlet import Outlet, SavedOutput
from rxtemporal.run.reader import Reader
from rxtemporal.run.run_state import ANEW, SavedRun, read_run, refuse_unsavable
from rxtemporal.storage.event_log.event_log import EventLog
from rxtemporal.storage.event_log.layout import EARLIER
from rxtemporal.storage.event_log.store import RunStore
from rxtemporal.storage.event_log.stored_log import FILE, Checkpoint, StoredLog

_log = get_logger(__name__)

# seconds between two checkpoints, and how much of a run's time they may take
SECONDS, SHARE = 10.0, 0.1
# seconds to wait for the end of the current batch before the checkpoint is put off
PATIENCE = 10.0
# seconds that the next run in this process waits for one that has just been stopped
RELEASE_PATIENCE = 60.0
# how many checkpoints are kept, evenly spaced
KEPT = 8
# folders of runs stopped in this process; the event is set when another run may use the folder
_releasing: dict[Path, threading.Event] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Resumption:
    """Use of the folder of ``resume=`` by a run; see ``Streamable.run`` for the arguments."""

    folder: str | os.PathLike[str]
    evolve: bool = False
    partial: bool = False
    replay_from: TimeLike | None = None
    keep_history: Span | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.folder, (str, os.PathLike)):
            raise ArgumentError(f"resume= is the path of a folder, got {self.folder!r}")
        if self.partial and not self.evolve:
            raise ArgumentError(
                "partial=True gives the windows that contain the time of a change, and needs "
                "evolve=True. Hint: leave it out."
            )
        # errors come before anything is opened
        if self.replay_from is not None:
            time_ticks(self.replay_from)
        if self.keep_history is not None:
            span(self.keep_history, "keep_history", least=1)


class _CapturedRun(NamedTuple):
    """State of a run at one instant: when capturing began, and how many records it covers.

    ``time`` is the highest CTI of its sources.
    """

    began: float
    records: int
    time: int
    counts: Sequence[Sequence[Any]]
    run: Captured
    # functions that return the states of the sinks
    sinks: Sequence[Callable[[], bytes]]
    # of each source that is read
    positions: Sequence[tuple[Cursor, Any]]


class Content(NamedTuple):
    """State of a checkpoint: of the run, and of its outputs by name."""

    name: str
    run: SavedRun
    outputs: Mapping[str, SavedOutput]


def read_state(path: Path, data: bytes) -> Content:
    """Return the state of a checkpoint in a folder. ``CheckpointError``: it is damaged."""
    name, counts, run, sinks = loads("checkpoint", data, f"the checkpoint in {path}", ANEW)
    state = read_run(run)
    # the CTIs of the queries, of which one that has changed may be behind its sink
    ctis = [meters[-1][1] for meters in state["meters"][-len(counts) :]]
    outputs = {
        count[0]: SavedOutput(sink, cti, *count[1:])
        for count, sink, cti in zip(counts, sinks, ctis, strict=True)
    }
    return Content(name, state, outputs)


class Checkpointer:
    """Saves the state of one run in a folder, and resumes a run of the same query from it.

    Call ``begin`` before the run starts, ``advance`` in place of the execution's, and ``stop`` to
    stop the run between two batches; then ``save_last`` and, when the sinks are closed, ``end``.

    Events that cannot be read again from a position go through the event log. A checkpoint deletes
    the events that it covers from the log, in one transaction.

    Results reach the sinks before they are saved. So after a crash the results since the last
    checkpoint are delivered again. The state of a sink is saved with the run's, and ``Sink.load``
    is called before ``Sink.open``, so that a sink can tell which results it has. A run without a
    checkpoint has the states of its sinks as they were before their first row.

    With ``keep_history`` some of the checkpoints before the last one stay, with the events since.
    A changed query may continue one of them: then its sinks, whose states are those of the last
    checkpoint, are not given again what they have.

    The folder contains the file of ``RunStore``, a ``lock`` against a second run, and in
    ``sources`` the files that sources need to resume.

    Threads: ``gate`` is held while a source is read, and while a piece of a source that pushes
    pieces is accepted and saved; the run's lock while anything else that is pushed is processed. So
    nothing is on its way when a state is captured. A thread that needs both takes the gate first.

    Under these locks a state is only captured, which copies it. A checkpoint that is due is encoded
    and written by a thread of its own, while sources are read and pushed into. The last one, and
    that of a source that waits for it, is written by the caller.
    """

    def __init__(self, resumption: Resumption, name: str) -> None:
        self.path = Path(resumption.folder).absolute()
        self.name = name
        self.gate = threading.RLock()
        self._how = resumption
        keep = resumption.keep_history
        self._keep = None if keep is None else span(keep, "keep_history")
        # the outputs of the saved run that are given up
        self._given_up: list[str] = []
        # if the query or a sink has changed since the checkpoint
        self._is_changed = False
        # the checkpoint that a changed query continues, where it is not the last one
        self._cut: Checkpoint | None = None
        self._store = RunStore(self.path, name, resume=True, keeps_history=self._keep is not None)
        self._log = EventLog(self._store)
        # the number of logged records at the last checkpoint
        self._logged = 0
        # and the number of rows in no log: rejected ones and duplicates
        self._refused = 0
        # the rows of each output that the last checkpoint has
        self._given: list[int] = []
        self._stopping = False
        self._saved, self._took = time.monotonic(), 0.0
        # set unless a thread is writing a checkpoint
        self._written = threading.Event()
        self._written.set()

    def begin(
        self,
        execution: Execution,
        outlets: Sequence[Outlet],
        fail: Callable[[BaseException], object],
    ) -> EventLog:
        """Open the folder, load its checkpoint and return the event log.

        ``fail`` ends the run with an error in writing a checkpoint.

        ``CheckpointError``: the query, a source or a setting has changed, beyond what has only been
        added, and may not; or the state is damaged.
        ``SpoolError``: the folder is in use, damaged or not writable.
        """
        self._execution, self._outlets, self._fail = execution, outlets, fail
        _refuse_same_names(execution.readers)
        for reader in execution.readers:
            refuse_unsavable(reader)
        logged = _select_logged(execution)
        if (released := _releasing.get(self.path)) is not None:
            released.wait(RELEASE_PATIENCE)
        _refuse_earlier_version(self.path)
        self._store.open()
        execution.keep_open_rows()
        execution.call_when_begun(self._save_begun)
        for outlet in outlets:
            if outlet.outbox is not None:
                outlet.outbox.keep_in(self._store)
        try:
            known = self._load()
            for reader in execution.readers:
                if reader.source.positioned:
                    folder = self.path / "sources" / _file_name(reader.name)
                    reader.position.save_with(folder, self.gate, self._save_piece)
            execution.attach_log(self._log, logged, known=known)
        except BaseException:
            self._store.release()
            raise
        for reader in logged:
            reader.call_when_safe(self._save_if_due)
        # what is replayed from the log reaches the sinks, and no checkpoint has it yet
        self._logged = self._store.find_checkpoint().records
        return self._log

    def advance(self) -> bool:
        """Advance the execution and save it if due; return False when it has to stop."""
        with self.gate:
            more = self._execution.advance()
            if more and self._stopping:
                self._save_last(anyway=True)
            elif more:
                self._save_aside_if_due()
        return more and not self._stopping

    @property
    def _due(self) -> bool:
        pause = max(SECONDS, self._took / SHARE)
        return self._written.is_set() and time.monotonic() - self._saved >= pause

    def _save_if_due(self) -> None:
        """Save the run if due; called by the thread that has pushed."""
        # not inside a batch, and without waiting for a source that may never answer
        if self._due and not self._execution.inside and take_lock(self.gate, blocking=False):
            try:
                self._save_aside_if_due()
            finally:
                self.gate.release()

    def _save_last(self, error: BaseException | None = None, *, anyway: bool = False) -> None:
        """Save a run that accepts nothing more, if there is news; return when that is done.

        Sinks deliver what they hold before, unless the run ends with an error. ``anyway``: what has
        been read is news that is in no log.
        """
        self._written.wait()
        with self._execution.pause(PATIENCE) as paused:
            if not paused or self._execution.ended:
                return
            settled = [] if error is not None else [each.settle() for each in self._outlets]
            if not any(settled) and not anyway and not self._has_news():
                return
            captured = self._capture()
        self._save(captured)

    def _has_news(self) -> bool:
        """Return True if the last checkpoint lacks what came since, be it in no log.

        A subject in front may have had late events; rejected rows and duplicates are counted.
        """
        readers = self._execution.readers
        return (
            any(each.front is not None for each in readers)
            or self._log.noted > self._logged
            or self._count_refused() != self._refused
            # some leave when time has passed, with no row
            or self._count_given() != self._given
        )

    def _count_refused(self) -> int:
        return sum(each.count_refused() for each in self._execution.readers)

    def _count_given(self) -> list[int]:
        return [each.rows for each in self._outlets]

    def _save_aside_if_due(self) -> None:
        if self._due and (captured := self._capture_unless_ended()) is not None:
            self._save_aside(captured)

    def _save_aside(self, captured: _CapturedRun) -> None:
        """Save a state in a thread of its own."""
        self._written.clear()
        thread = threading.Thread(
            target=self._write, args=(captured,), name=f"rxtemporal {self.name} saves", daemon=True
        )
        thread.start()

    def _write(self, captured: _CapturedRun) -> None:
        failed = None
        try:
            self._save(captured)
        except BaseException as error:
            failed = error
        # before the run ends, which waits for it
        self._written.set()
        if failed is not None:
            self._fail(failed)

    def _capture_unless_ended(self) -> _CapturedRun | None:
        with self._execution.pause(PATIENCE) as paused:
            if paused and not self._execution.ended:
                return self._capture()
        self._saved = time.monotonic()  # put off
        return None

    def stop(self) -> None:
        """Make ``advance`` save the run after the current batch and return False."""
        self._stopping = True
        self._execution.stop_after_batch()

    def save_last(
        self, thread: threading.Thread | None, patience: float, error: BaseException | None
    ) -> BaseException | None:
        """Save what was pushed since the last checkpoint and end the run with ``error``.

        Waits ``patience`` seconds for the thread that reads, and for the end of a batch; returns an
        error in saving.
        """
        if thread is not None:
            thread.join(patience)
        if not take_lock(self.gate, timeout=patience):
            return None
        try:
            self._save_last(error)
            self._execution.dispose(error)
        except Exception as failed:
            return failed
        finally:
            self.gate.release()
        return None

    def end(self, error: BaseException | None) -> None:
        """Save a run that has completed, once its sinks are closed, and release the folder."""
        self._written.wait()
        try:
            if error is None and self._store.is_open:
                with self.gate, self._execution.pause():
                    captured = self._capture()
                self._save(captured)
        finally:
            self._release()

    def _release(self) -> None:
        """Release the folder as soon as no source pushes into this run any more."""
        if not self._execution.has_subscriptions or not self._store.is_open:
            self._store.close(complete=True)
            return
        released = _releasing[self.path] = threading.Event()

        def release() -> None:
            self._execution.join()
            self._store.close(complete=True)
            released.set()
            if _releasing.get(self.path) is released:
                del _releasing[self.path]

        threading.Thread(target=release, name=f"rxtemporal {self.name} ends", daemon=True).start()

    def _save_piece(self) -> None:
        self._written.wait()
        with self._execution.pause() as paused:
            # another source may have failed whose error has not ended the run yet
            if self._execution.ended or not paused:
                raise CheckpointError(f"run {self.name!r} has been stopped before this was saved")
            captured = self._capture()
        self._save(captured)

    def _capture(self) -> _CapturedRun:
        """Capture sinks and operators; the gate is held, and nothing is on its way."""
        began = time.monotonic()
        sinks = [outlet.save() for outlet in self._outlets]
        counts = [each.count() for each in self._outlets]
        run = self._execution.state().capture()
        pulled = [each for each in self._execution.readers if each.pulls]
        positions = [
            (each.cursor, each.saved_position) for each in pulled if each.cursor is not None
        ]
        self._refused, self._given = self._count_refused(), self._count_given()
        reached = find_time(each.meter.cti for each in self._execution.readers)
        return _CapturedRun(began, self._log.cut(), reached, counts, run, sinks, positions)

    def _save(self, captured: _CapturedRun, forget: Sequence[str] = ()) -> None:
        """Encode and write a state; no lock need be held.

        ``forget`` are outputs that the run no longer has.
        """
        sinks = [finish() for finish in captured.sinks]
        state = Captured("checkpoint", [self.name, captured.counts, captured.run, sinks])
        kept = self._list_kept(captured)
        self._log.save(
            state.list_chunks(), captured.records, time=captured.time, forget=forget, kept=kept
        )
        for count, outlet in zip(captured.counts, self._outlets, strict=True):
            if outlet.outbox is not None:
                self._store.delete_outputs(outlet.name, count[-1][0])
        self._logged = captured.records
        self._saved = time.monotonic()
        self._took = self._saved - captured.began
        for cursor, position in captured.positions:
            cursor.note_saved(position)

    def _list_kept(self, captured: _CapturedRun) -> list[Checkpoint]:
        """Return the earlier checkpoints that stay when a state is saved."""
        if self._keep is None:
            return []
        last = self._store.find_checkpoint()
        found = [each for each in (*last.kept, last) if each.records < captured.records]
        return thin_out(found, captured.time, self._keep)

    def _save_begun(self) -> None:
        """Save a query that has changed, or a sink that is new, once it has begun.

        From now on the folder is that of the changed query.
        The log after the cut is still to be read, so it stays. A crash before the end of this
        leaves the folder of the query as it was.
        """
        # those that the checkpoint has
        self._refused, self._given = self._count_refused(), self._count_given()
        if not self._is_changed:
            return
        cut = self._cut or self._store.find_checkpoint()
        captured = self._capture()._replace(records=cut.records)
        self._save(captured, forget=self._given_up)

    def _load(self) -> Collection[str] | None:
        """Load the checkpoint, if there is one.

        Returns the names of the streams that the log may have, if it may have others, too; None: it
        has the streams of this run.
        """
        data = self._store.load()
        if data is None:
            self._load_sinks(self._outlets)
            return {each.name for each in self._store.streams} if self._how.evolve else None
        last = self._read(data)
        base: Content | None = last
        evolution = None
        if self._has_changed(last):
            there = [each.name for each in self._outlets]
            replay_from = self._how.replay_from
            base, self._cut, evolution = find_change(
                self._execution, self._store, last, there, replay_from
            )
            self._is_changed = True
            self._given_up = [each for each in last.outputs if each not in there]
            at = None if self._cut is None else describe(self._cut.time or 0)
            _log.info("run.changed", run=self.name, path=str(self.path), replayed_from=at)
        self._load_outlets(last, evolution)
        if base is not None:
            self._execution.load(base.run, f"{self.path} was begun")
            if evolution is not None:
                self._execution.evolve(evolution, partial=self._how.partial)
        _log.info("run.resumed", run=self.name, path=str(self.path))
        return {*last.run["inputs"]}

    def _read(self, data: bytes) -> Content:
        saved = read_state(self.path, data)
        if saved.name != self.name:
            raise CheckpointError(
                f"the checkpoint in {self.path} is of the run {saved.name!r}, but this is "
                f"{self.name!r}. Hint: give each run its own folder, and keep its name."
            )
        return saved

    def _load_outlets(self, last: Content, evolution: Evolution | None) -> None:
        """Load the states of the sinks, which may be ahead of what the run continues."""
        for number, outlet in enumerate(self._outlets):
            if (saved := last.outputs.get(outlet.name)) is None:
                continue
            if self._cut is not None and outlet.sink.shape is not EventShape.INTERVAL:
                raise CheckpointError(
                    f"query {outlet.name!r} goes into a sink of {outlet.sink.shape.name.lower()}s, "
                    "which may leave before the time has passed them: a replay would give some of "
                    "them twice. Hint: resume without a replay, give the new queries a run of "
                    "their own, or this one a sink of intervals."
                )
            is_kept = evolution is None or evolution.outputs[number] is not None
            outlet.resume(saved, is_same=is_kept and self._cut is None)
            if saved.sink:
                outlet.load(saved.sink)
                self._is_changed |= outlet.sink.has_begun
        self._load_sinks([each for each in self._outlets if each.name not in last.outputs])

    def _has_changed(self, last: Content) -> bool:
        """Return True if the query has changed since the last checkpoint, and may."""
        state, outputs = self._execution.state(), [*last.outputs]
        there = [each.name for each in self._outlets]
        if state.is_same(last.run) and outputs == there:
            return False
        begun = f"{self.path} was begun"
        change = (
            "or continue what is the same with evolve=True (serve --evolve): `rxtemporal plan "
            f"{self.path} FILE.py:NAME` shows what would be kept, begun and lost; {ANEW}"
        )
        if self._how.evolve:
            return True
        if "plan" in last.run and not state.compare(last.run, (outputs, there)).needs_flag:
            return True
        state.refuse_changes(last.run, begun, change)
        raise CheckpointError(
            f"cannot resume: the outputs have changed since {begun}. Saved: {outputs}. Now: "
            f"{there}. Hint: resume with the query as it was, {change}."
        )

    def _load_sinks(self, outlets: Sequence[Outlet]) -> None:
        """Load the states that the sinks had before the first row; save those that have none."""
        for outlet in outlets:
            state = self._store.load_sink(outlet.name)
            if state is None:
                outlet.call_on_open(partial(self._save_sink, outlet))
            elif state:
                outlet.load(state)

    def _save_sink(self, outlet: Outlet) -> None:
        self._store.save_sink(outlet.name, outlet.save()())


def make_checkpointer(
    resumption: Resumption | None, record: Any, log: Any, name: str
) -> Checkpointer | None:
    """Return the checkpointer of ``resume=``; None without that."""
    if resumption is None:
        return None
    if record is not None:
        raise ArgumentError(
            "record= and resume= cannot be combined: a recording has all events from the first on, "
            "but a run that resumes continues in the middle. Hint: leave one of them out."
        )
    if log is not None:
        raise ArgumentError(
            "log= and resume= cannot be combined: the folder of resume= has its own event log, "
            "with the events since the last checkpoint. Hint: leave log= out; or resume=, if "
            "all events have to be kept and each run has to compute all results again."
        )
    return Checkpointer(resumption, name)


def plan_change(
    path: Path,
    execution: Execution,
    outputs: Sequence[str],
    replay_from: TimeLike | None = None,
) -> Evolution:
    """Return what a query would keep of a folder, where no run is; nothing is changed there.

    ``CheckpointError``: there is no checkpoint, or none from before ``replay_from``.
    ``SpoolError``: a run has the folder.
    """
    if not (path / FILE).exists():
        raise CheckpointError(
            f"{path} is not a folder of resume=: it has no {FILE}. Hint: a service has the folder "
            "of --state, or of [state] in its settings."
        )
    store = RunStore(path, "", resume=True)
    store.open()
    try:
        if (data := store.load()) is None:
            raise CheckpointError(
                f"{path} has no checkpoint yet. Hint: any query over the same sources resumes from "
                "it, and computes all from its event log."
            )
        last, state = read_state(path, data), execution.state()
        if state.is_same(last.run) and [*last.outputs] == [*outputs]:
            replay_from = None
        return find_change(execution, store, last, outputs, replay_from)[2]
    finally:
        store.release()


def find_change(
    execution: Execution,
    store: RunStore,
    last: Content,
    outputs: Sequence[str],
    replay_from: TimeLike | None,
) -> tuple[Content | None, Checkpoint | None, Evolution]:
    """Return the state that a changed query continues, its checkpoint, and what is kept of it.

    The state is None for a query that begins with the first row, the checkpoint is None for the
    last one. ``outputs`` are the names of the present outputs. ``CheckpointError``: there is no
    checkpoint from before ``replay_from``, or the log does not have what would be replayed.
    """
    state = execution.state()
    evolution = state.compare(last.run, ([*last.outputs], outputs))
    if replay_from is None:
        return last, None, evolution
    cut = find_cut(store, replay_from)
    if cut.records == store.find_checkpoint().records:
        return last, None, evolution
    _refuse_unlogged(execution, store, cut)
    data = store.load(cut)
    if data is None:
        return None, cut, begin_anew(evolution)
    base = read_state(store.path, data)
    then = state.compare(base.run, ([*base.outputs], outputs), [*last.outputs])
    return base, cut, dataclasses.replace(then, needs_flag=evolution.needs_flag)


def _refuse_unlogged(execution: Execution, store: RunStore, cut: Checkpoint) -> None:
    """Raise if the log does not have all that has come after a checkpoint."""
    logged = _select_logged(execution)
    for reader in execution.readers:
        if reader not in logged:
            raise CheckpointError(
                f"stream {reader.name!r} is read from a position, and the log has not kept its "
                "events: there is nothing to replay. Hint: give the new queries a run of their "
                "own, which reads the stream from an earlier position; or leave replay_from= "
                "out, and they begin at the last checkpoint."
            )
        lives = [each.since for each in store.streams if each.name == reader.name]
        if len(lives) > 1 and lives[-1] > cut.records:
            raise CheckpointError(
                f"stream {reader.name!r} was removed after {describe(cut.time or 0)}, and is "
                "another one since it was added again. Hint: replay from a later time."
            )
    if any(isinstance(source, RejectSource) for source, _ in execution.wiring.entries):
        raise CheckpointError(
            "a query reads the rejected rows of a source, which are in no log: a replay would lose "
            "them. Hint: give that query a run of its own, or leave replay_from= out."
        )


def make_resumption(resume: Any, **arguments: Any) -> Resumption | None:
    """Return how a run uses the folder of ``resume=``; None without that.

    ``ArgumentError``: another argument is given without it.
    """
    if resume is not None:
        return Resumption(resume, **arguments)
    for name, value in arguments.items():
        if value not in (None, False):
            raise ArgumentError(
                f"{name}={value!r} is for the folder of a run with checkpoints, and there is none. "
                "Hint: resume= names it."
            )
    return None


def _select_logged(execution: Execution) -> Sequence[Reader]:
    """Return the readers whose events are logged: none if all can be read from a position.

    Frames are logged if others are, so that a replay repeats the order of acceptance.
    """
    readers = execution.readers
    if all(each.source.resumes for each in readers):
        return []
    positioned = [each for each in readers if each.source.resumes and not each.source.in_columns]
    if positioned and execution.imports:
        raise CheckpointError(
            f"stream {positioned[0].name!r} resumes from a position, others from an event log, and "
            "CTIs are imported: the order between them is not saved. Hint: leave the import out, "
            "or use separate runs."
        )
    return [each for each in readers if each not in positioned]


def _refuse_earlier_version(path: Path) -> None:
    if (path / "state").exists() or (path / "log").is_dir():
        raise CheckpointError(f"{path} {EARLIER}")


def _file_name(name: str) -> str:
    return quote(name, safe=" ").replace(".", "%2E")


def _refuse_same_names(readers: Sequence[Reader]) -> None:
    names = [each.name for each in readers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CheckpointError(
            f"several streams of this run are called {twice[0]!r}, but each is saved under its "
            "name. Hint: give each its own name, with name= or in an Application."
        )


def find_time(ctis: Iterable[int]) -> int:
    """Return the highest of the CTIs of sources that have not ended.

    >>> find_time([3, MAX_TIME, 5])
    5
    """
    return max((cti for cti in ctis if cti < MAX_TIME), default=MAX_TIME)


def thin_out(found: Sequence[Checkpoint], now: int, keep: int) -> list[Checkpoint]:
    """Return those of the checkpoints, in order, that stay for a history of ``keep`` ticks.

    They are the last one that is as old, and of those after it about ``KEPT``, evenly spaced.

    >>> times = [0, 10, 11, 20, 21, 30, 31]
    >>> [each.time for each in thin_out([Checkpoint(t, 1, t, t) for t in times], 95, 80)]
    [11, 21, 31]
    """
    timed = [(each.time, each) for each in found if each.time is not None]
    old = sum(at <= now - keep for at, _ in timed)
    kept: list[Checkpoint] = []
    reached = MIN_TIME
    for at, each in timed[max(old - 1, 0) :]:
        if not kept or at - reached >= keep // KEPT:
            kept.append(each)
            reached = at
    return kept


def find_cut(store: StoredLog, replay_from: TimeLike) -> Checkpoint:
    """Return the last checkpoint from before a time. ``CheckpointError``: there is none."""
    at, last = time_ticks(replay_from), store.find_checkpoint()
    found = [each for each in (*last.kept, last) if each.time is not None]
    before = [each for each in found if each.time is not None and each.time <= at]
    if before:
        return before[-1]
    begin = f"its history begins at {describe(found[0].time or 0)}" if found else "it has none"
    raise CheckpointError(
        f"{store.path} cannot be replayed from {describe(at)}: {begin}. Hint: replay "
        "from a later time; without it, what is new begins at the last checkpoint. keep_history=, "
        "or keep_history in [state] of a service, is for how long events are kept from now on."
    )
