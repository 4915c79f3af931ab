"""A run that is kept in a folder: it goes on where the run before it has stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rxtemporal.core.log import get_logger
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.reader import Reader
from rxtemporal.runtime.run_state import ANEW, refuse_unsaved
from rxtemporal.storage.event_log import EARLIER, EventLog, RunStore

_log = get_logger(__name__)

# seconds between two saves of a run that is read by asking, and how much of its time they may take
SECONDS, SHARE = 10.0, 0.1
# seconds that a query may take for what it is at before it is left to be saved later
PATIENCE = 10.0
# seconds that the next run in this process waits for one that has just been stopped
LEAVING = 60.0
# folders of runs that have been stopped in this process: set when another run may come
_leaving: dict[Path, threading.Event] = {}


class Keeper:
    """Keeps the state of one run in a folder, and lets a run of the same query go on with it.

    ``begin`` before the run starts, ``advance`` in place of the execution's, ``stop`` when it is to
    stop between two batches, then ``leave``, and ``end`` when its sinks are closed.

    What cannot be read again from a position goes through an input log. Each state has a log of its
    own, of what has come since: so a log is read from its beginning, and deleted with its state.

    What is saved has left before: results reach the sinks first. So after a crash what came since
    the last state comes again, to the sinks as well. A sink with ``save()`` and ``load(state)``
    (called before ``open``) has its own state kept with the run's, and can tell what it has.

    The folder has the newest ``state``, published at once or not at all, a ``lock`` against a
    second run, in ``sources`` what sources need to go on, and in ``log`` the state's log, by its
    number; another one there is what a crash has left.

    Threads: ``gate`` is held while a source is asked, and while a piece of one that pushes is
    taken and saved, the run's lock while anything else that is pushed goes through; so nothing is
    on its way when a state is saved. Who has both asked for the gate first.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"resume= is the path of a folder, got {path!r}")
        self.path = Path(path).absolute()
        self.name = name
        self.gate = threading.RLock()
        self._store = RunStore(self.path, name, resume=True)
        self._log = EventLog(self._store)
        # how much had been logged at the last checkpoint
        self._logged = 0
        self._stopping = False
        self._saved, self._took = time.monotonic(), 0.0

    def begin(self, execution: Execution, outlets: Sequence[Outlet]) -> EventLog:
        """Take up the folder and load what is there; refuse what cannot go on.

        Returns the event log. ``CheckpointError``: the query, a source or a setting has changed, or
        the state is damaged. ``SpoolError``: the folder is in use, or cannot be written.
        """
        self._execution, self._outlets = execution, outlets
        _refuse_same_names(execution.readers)
        for reader in execution.readers:
            refuse_unsaved(reader)
        logged = _select_logged(execution)
        if (leaving := _leaving.get(self.path)) is not None:
            leaving.wait(LEAVING)
        _refuse_earlier_version(self.path)
        self._store.open()
        try:
            self._load()
            for reader in execution.readers:
                if reader.source.positioned:
                    folder = self.path / "sources" / _file_name(reader.name)
                    reader.position.keep(folder, self.gate, self._taken)
            execution.keep(self._log, logged)
        except BaseException:
            self._store.release()
            raise
        for reader in logged:
            reader.on_safe = self._save_if_due
        self._logged = self._log.noted
        return self._log

    def advance(self) -> bool:
        """Advance the execution, and save it if it is time; False when it is to be left alone."""
        with self.gate:
            more = self._execution.advance()
            if more and (self._stopping or self._due):
                self._save_unless_ended()
        return more and not self._stopping

    @property
    def _due(self) -> bool:
        return time.monotonic() - self._saved >= max(SECONDS, self._took / SHARE)

    def _save_if_due(self) -> None:
        """Save what has been pushed, if it is time for it; by who has pushed it."""
        # not from inside of a batch; nor does anybody wait for a source that does not answer
        if self._due and not self._execution.inside and self.gate.acquire(blocking=False):
            try:
                self._save_unless_ended()
            finally:
                self.gate.release()

    def _save_unless_ended(self) -> None:
        with self._execution.still(PATIENCE) as still:
            if still and not self._execution.ended:
                self._save()

    def stop(self) -> None:
        """Have ``advance`` save the run after the batch that it is at, and return False."""
        self._stopping = self._execution.stopping = True

    def leave(self) -> None:
        """Save what has been pushed since the last state; the gate is held, the run is stopped."""
        if self._log.noted > self._logged:
            self._save_unless_ended()

    def end(self, error: BaseException | None) -> None:
        """Save a run that has completed, its sinks and its log closed, and let another one in."""
        try:
            if error is None and self._store.is_open:
                with self.gate, self._execution.still():
                    self._save()
        finally:
            self._let_in()

    def _let_in(self) -> None:
        """Let another run in, as soon as nobody pushes into this one any more."""
        if not self._execution.followed or not self._store.is_open:
            self._store.close(complete=True)
            return
        left = _leaving[self.path] = threading.Event()

        def leave() -> None:
            self._execution.join()
            self._store.close(complete=True)
            left.set()
            if _leaving.get(self.path) is left:
                del _leaving[self.path]

        threading.Thread(target=leave, name=f"rxtemporal {self.name} leaves", daemon=True).start()

    def _taken(self) -> None:
        with self._execution.still() as still:
            # where another source has failed, its error is on the way, and it had not ended
            if self._execution.ended or not still:
                raise CheckpointError(f"run {self.name!r} has been stopped before this was saved")
            self._save()

    def _save(self) -> None:
        """Save sinks and operators as they are now: the run is still, and the gate is held."""
        began = time.monotonic()
        sinks = [outlet.sink.save() for outlet in self._outlets]
        counts = [[each.name, each.rows, each.batches, each.cti] for each in self._outlets]
        run = self._execution.state().save()
        self._log.save(dumps("checkpoint", [self.name, counts, run, sinks]))
        self._logged = self._log.noted
        self._saved = time.monotonic()
        self._took = self._saved - began

    def _load(self) -> None:
        data = self._store.load()
        if data is None:
            return
        where = f"the checkpoint in {self.path}"
        name, counts, run, sinks = loads("checkpoint", data, where, ANEW)
        there = [each.name for each in self._outlets]
        if [name, *(each[0] for each in counts)] != [self.name, *there]:
            raise CheckpointError(
                f"{where} is of the run {name!r} of {[each[0] for each in counts]}, and this is "
                f"{self.name!r} of {there}. Hint: give each run a folder of its own."
            )
        for outlet, (_, rows, batches, cti), state in zip(
            self._outlets, counts, sinks, strict=True
        ):
            outlet.rows, outlet.batches, outlet.cti = rows, batches, cti
            if state:
                outlet.sink.load(state)
        self._execution.load(run, f"{self.path} was begun")
        _log.info("run.resumed", run=self.name, path=str(self.path))


def kept(resume: Any, record: Any, log: Any, name: str) -> Keeper | None:
    """Return what keeps a run, if it is asked for."""
    if resume is None:
        return None
    if record is not None:
        raise ArgumentError(
            "record= and resume= do not go together: what is recorded begins at the beginning, and "
            "a run that is resumed goes on in the middle. Hint: leave one of them out."
        )
    if log is not None:
        raise ArgumentError(
            "log= and resume= do not go together: a run that is kept has an input log of its own, "
            "in its folder, of what has come since its last state. Hint: leave log= out, or where "
            "all that ever came is to be kept, and computed anew by each run, resume=."
        )
    return Keeper(resume, name)


def _select_logged(execution: Execution) -> Sequence[Reader]:
    """Return the readers of which a log is kept: none where all can be read from a position.

    Frames go into it beside others, so that all come again in the order in which they came.
    """
    readers = execution.readers
    if all(each.source.resumes for each in readers):
        return []
    positioned = [each for each in readers if each.source.resumes and not each.source.in_columns]
    if positioned and execution.imports:
        raise CheckpointError(
            f"stream {positioned[0].name!r} goes on from a position, others from an input log, and "
            "CTIs are imported: in which order they came nobody keeps. Hint: leave the import out, "
            "or run them apart."
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
            f"several streams of this run are called {twice[0]!r}, and each is kept by its name. "
            "Hint: name= where a stream is made, or an Application, gives it a name of its own."
        )
