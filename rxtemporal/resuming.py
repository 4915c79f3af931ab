"""A run that is kept in a folder: it goes on where the run before it has stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from rxtemporal.durable import WriterLock, publish, reported, sync_folder
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.execution import Execution
from rxtemporal.log import get_logger
from rxtemporal.positions import PositionedSource
from rxtemporal.readings import Reading
from rxtemporal.runstate import ANEW, refuse_unsaved
from rxtemporal.saving import joined, parted, sealed, told, tree_of, unsealed
from rxtemporal.sources import FrameSource

__all__ = ["Keeper", "kept"]

_log = get_logger(__name__)

_MAGIC, _VERSION = b"RXTK", 1
# seconds between two saves of a run that is read by asking, and how much of its time they may take
SECONDS, SHARE = 10.0, 0.1
# seconds that the next run in this process waits for one that has just been stopped
LEAVING = 60.0
# folders of runs that have been stopped in this process: set when another run may come
_leaving: dict[Path, threading.Event] = {}


class _Outlet(Protocol):
    """Where one query of a run goes, and what that has been given."""

    name: str
    sink: Any
    rows: int
    batches: int
    cti: int


class Keeper:
    """Keeps the state of one run in a folder, and lets a run of the same query go on with it.

    ``begin`` before the run starts, ``advance`` in place of the execution's, ``stop`` when it is to
    stop between two batches, ``end`` when its sinks are closed.

    What is saved has left before: results reach the sinks first. So after a crash what came since
    the last state comes again, to the sinks as well. A sink with ``save()`` and ``load(state)``
    (called before ``open``) has its own state kept with the run's, and can tell what it has.

    The folder has the newest ``state``, published at once or not at all, a ``lock`` against a
    second run, and in ``sources`` what sources need to go on.

    Threads: ``gate`` is held while a source is asked, and while a piece of one that pushes is
    taken and saved; so nothing is on its way when a state is saved.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"resume= is the path of a folder, got {path!r}")
        self.path = Path(path).absolute()
        self.name = name
        self.gate = threading.RLock()
        self._lock: WriterLock | None = None
        self._stopping = False
        self._saved, self._took = time.monotonic(), 0.0

    def begin(self, execution: Execution, outlets: Sequence[_Outlet]) -> None:
        """Take up the folder and load what is there; refuse what cannot go on.

        ``CheckpointError``: the query, a source or a setting has changed, the state is damaged, or
        a source has no position. ``SpoolError``: the folder is in use, or cannot be written.
        """
        self._execution, self._outlets = execution, outlets
        _refuse_same_names(execution.readings)
        for reading in execution.readings:
            refuse_unsaved(reading)
            refuse_without_position(reading)
        if self.path in _leaving:
            _leaving[self.path].wait(LEAVING)
        with reported(f"cannot keep a run in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = WriterLock(self.path / "lock")
        try:
            self._load()
            for reading in execution.readings:
                if isinstance(reading.source, PositionedSource):
                    folder = self.path / "sources" / _file_name(reading.name)
                    reading.position.keep(folder, self.gate, self._taken)
        except BaseException:
            self._lock.release()
            raise

    def advance(self) -> bool:
        """Advance the execution, and save it if it is time; False when it is to be left alone."""
        with self.gate:
            more = self._execution.advance()
            pause = max(SECONDS, self._took / SHARE)
            due = self._stopping or time.monotonic() - self._saved >= pause
            if more and due and not self._execution.ended:
                self._save()
        return more and not self._stopping

    def stop(self) -> None:
        """Have ``advance`` save the run after the batch that it is at, and return False."""
        self._stopping = True

    def end(self, error: BaseException | None) -> None:
        """Save a run that has completed, its sinks closed, and let another one in."""
        try:
            if error is None and self._lock is not None:
                self._save()
        finally:
            if self._lock is not None:
                self._let_in(self._lock)

    def _let_in(self, lock: WriterLock) -> None:
        """Let another run in, as soon as nobody pushes into this one any more."""
        if not self._execution.followed:
            lock.release()
            return
        left = _leaving[self.path] = threading.Event()

        def leave() -> None:
            self._execution.join()
            lock.release()
            left.set()

        threading.Thread(target=leave, name=f"rxtemporal {self.name} leaves", daemon=True).start()

    def _taken(self) -> None:
        if self._execution.ended:
            raise CheckpointError(f"run {self.name!r} has been stopped before this was saved")
        self._save()

    def _save(self) -> None:
        began = time.monotonic()
        sinks = [_sink_state(outlet) for outlet in self._outlets]
        counts = [[each.name, each.rows, each.batches, each.cti] for each in self._outlets]
        parts = [told([self.name, counts]), self._execution.save(), *sinks]
        with reported(f"cannot save the run in {self.path}"):
            publish(self.path / "state", sealed(_MAGIC, _VERSION, joined(parts)))
            sync_folder(self.path)
        self._saved = time.monotonic()
        self._took = self._saved - began

    def _load(self) -> None:
        path = self.path / "state"
        if not path.exists():
            return
        with reported(f"cannot read {path}"):
            data = path.read_bytes()
        head, run, *sinks = parted(unsealed(_MAGIC, _VERSION, data, f"{path}", ANEW))
        name, counts = tree_of(head)
        there = [each.name for each in self._outlets]
        if [name, *(each[0] for each in counts)] != [self.name, *there]:
            raise CheckpointError(
                f"{path} is of the run {name!r} of {[each[0] for each in counts]}, and this is "
                f"{self.name!r} of {there}. Hint: give each run a folder of its own."
            )
        for outlet, (_, rows, batches, cti), state in zip(
            self._outlets, counts, sinks, strict=True
        ):
            outlet.rows, outlet.batches, outlet.cti = rows, batches, cti
            if state:
                _load_sink(outlet, state)
        self._execution.load(run, f"{self.path} was begun")
        _log.info("run.resumed", run=self.name, path=str(self.path))


def kept(resume: Any, record: Any, name: str) -> Keeper | None:
    """Return what keeps a run, if it is asked for."""
    if resume is None:
        return None
    if record is not None:
        raise ArgumentError(
            "record= and resume= do not go together: what is recorded begins at the beginning, and "
            "a run that is resumed goes on in the middle. Hint: leave one of them out."
        )
    return Keeper(resume, name)


def refuse_without_position(reading: Reading) -> None:
    """Refuse a source that cannot be read again from a position, in a run that is kept."""
    if isinstance(reading.source, FrameSource | PositionedSource):
        return
    raise CheckpointError(
        f"stream {reading.name!r} cannot be read again from where a run has stopped: its source "
        "gives events once. Hint: resume= takes files, frames and DataFrames; an input that "
        "only pushes, or an iterable, has to be recorded first."
    )


def _sink_state(outlet: _Outlet) -> bytes:
    save = getattr(outlet.sink, "save", None)
    return b"" if save is None else save()


def _load_sink(outlet: _Outlet, state: bytes) -> None:
    load = getattr(outlet.sink, "load", None)
    if load is None:
        raise CheckpointError(
            f"the sink of {outlet.name!r} has kept something in the run's state, and a "
            f"{type(outlet.sink).__name__} cannot take it. Hint: go on with the sink as it was."
        )
    load(state)


def _file_name(name: str) -> str:
    return quote(name, safe=" ").replace(".", "%2E")


def _refuse_same_names(readings: Sequence[Reading]) -> None:
    names = [each.name for each in readings]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CheckpointError(
            f"several streams of this run are called {twice[0]!r}, and each is kept by its name. "
            "Hint: name= where a stream is made, or an Application, gives it a name of its own."
        )
