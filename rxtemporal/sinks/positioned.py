"""Sinks that know what they have delivered, and try again while the other side is away.

A position in the results of a query stands for exactly the results before it, in every life of a
run. Where the stream has one time it is a time: the results before it are those that start before
it, however they are cut into batches. Where each device has its own time, results leave in no order
of theirs; then their batches are numbered, and a position is the number of the next batch.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.sinks.sink import ReadySink, SinkAwayError

# seconds before the second attempt, and the most between two
FIRST, MOST = 0.1, 10.0


class Backoff:
    """Pauses that grow, for ``patience`` seconds in all.

    >>> waits = Backoff(0.05)
    >>> waits.next() is None, Backoff(60).next(asked=3)
    (True, 3)
    """

    def __init__(self, patience: float) -> None:
        self._end = time.monotonic() + patience
        self._pause = FIRST

    def next(self, asked: float = 0.0) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is no time for one.

        ``asked``: the other side has asked for so many seconds.
        """
        wait = asked or self._pause * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, MOST)
        return None if time.monotonic() + wait > self._end else wait


def find_position(batch: EventBatch) -> int:
    """Return the position after a batch of results."""
    return batch.cti if batch.number is None else batch.number + 1


def list_positions(batch: EventBatch) -> Int64s:
    """Return the position of each row: those that are not below a position come after it."""
    if batch.number is None:
        return batch.start
    return np.full(len(batch), batch.number)


def take_rest(batch: EventBatch, position: int) -> EventBatch:
    """Return the results of a batch that come after a position; one-time results are in order."""
    if find_position(batch) <= position:
        return batch.none(batch.cti)
    if batch.number is not None:
        return batch
    begin = int(np.searchsorted(batch.start, position))
    return batch.slice(begin, len(batch)) if begin else batch


_log = get_logger(__name__)


class PositionedSink(ReadySink):
    """Base class of sinks with a position, before which all rows have been delivered.

    Rows are in interval shape: they are final. Rows before the position that the other side has are
    left out, so where it is written together with the rows none is there twice. A run is known by
    an id, which is saved in its checkpoints.
    """

    by_position = True

    def __init__(self, form: TimeForm | None, patience: float) -> None:
        super().__init__(form)
        if isinstance(patience, bool) or not patience >= 0:
            raise ArgumentError(f"patience is a number of seconds, got {patience!r}")
        self._patience = patience
        self._query, self._schema = "", pl.Schema()
        # the run's id, and two states: loaded from a checkpoint, part of one
        self._id = ""
        self._is_loaded = self._is_saved = False
        self._position = MIN_TIME
        # with numbers, the highest position that the other side may have; None: it is not known yet
        self._highest: int | None = None
        self._is_connected = False
        self._cancelled = threading.Event()
        self._error: BaseException | None = None

    def open(self, query: str, schema: pl.Schema) -> None:
        """Connect, and check what is there.

        A run that resumes does not wait for another side that is away: the first rows do.

        ``SchemaError``: it does not fit the query. ``SpoolError``: it lacks rows, or the position,
        that an earlier run has written.
        """
        self._query, self._schema = query, schema
        self._begin()
        if not self._is_loaded:
            self._id, self._position = uuid.uuid4().hex, MIN_TIME
        self._is_saved, self._is_loaded = self._is_loaded, False
        self._cancelled.clear()
        self._error = self.undelivered_since = self.away_since = self._highest = None
        try:
            self._connect_once()
        except Exception as error:
            if not self._is_saved or not self._is_away(error):
                raise
            self.away_since = time.monotonic()
            _log.warning("sink.away", sink=repr(self), query=query, error=str(error))

    def set_next_number(self, number: int | None) -> None:
        """Raise if the other side has numbers that this run has not given yet."""
        self._highest = number
        if self._is_connected:
            self._check_highest(self._position)

    def write(self, batch: EventBatch) -> None:
        """Deliver the rows that the other side does not have; costs one round for each batch."""
        if len(batch):
            self._write_patiently(batch)

    def close(self, error: BaseException | None) -> None:
        """Disconnect."""
        super().close(error)
        self._is_connected = False
        self._disconnect()

    def cancel(self, error: BaseException) -> None:
        """Make a ``write`` that waits for the other side raise this error."""
        self._error = error
        self._cancelled.set()

    def save(self) -> bytes | Callable[[], bytes]:
        """Return the id of the run, and the position that the other side has at least."""
        return self._save_run()

    def _save_run(self) -> bytes:
        self._is_saved = True
        return f"{self._id} {self._position}".encode()

    def load(self, state: bytes) -> None:
        """Continue the run with this id."""
        self._id, position = state.decode().split()
        self._position, self._is_loaded = int(position), True

    # Attempts -------------------------------------------------------------------------------------

    def _write_patiently(self, batch: EventBatch) -> None:
        """Write a batch; connect and try again while the other side is away."""
        backoff = Backoff(self._patience)
        if self.undelivered_since is None:
            self.undelivered_since = time.monotonic()
        while True:
            self._check_cancelled()
            try:
                self._connect_once()
                self._write_rest(batch)
                self.undelivered_since = self.away_since = None
                return
            except Exception as error:
                self._is_connected = False
                if error is self._error or not self._is_away(error):
                    raise
                self._wait(backoff, error)

    def _check_cancelled(self) -> None:
        if self._error is not None:
            raise self._error

    def _wait(self, backoff: Backoff, error: Exception) -> None:
        wait = backoff.next()
        if wait is None:
            raise SinkAwayError(
                f"{self._place} has not answered for {self._patience:g} seconds: {error}. Hint: "
                "raise patience=; a run with resume= continues from its checkpoint."
            ) from error
        self.away_since = self.away_since or time.monotonic()
        self.restarts += 1
        _log.warning("sink.again", sink=repr(self), query=self._query, error=str(error))
        self._cancelled.wait(wait)

    def _connect_once(self) -> None:
        if self._is_connected:
            return
        self._disconnect()
        self._connect()
        found = self._find_position()
        found = MIN_TIME if found is None else found
        if found < self._position:
            raise SpoolError(
                f"{self._place} has lost the position of this run: rows may be missing. Hint: "
                "restore what was there, or begin with a new folder and a new place."
            )
        self._check_highest(found)
        self._position = found
        self._check_place()
        self._is_connected = True

    def _check_highest(self, found: int) -> None:
        if self._highest is not None and found > self._highest:
            raise SpoolError(
                f"{self._place} has the results of batch {found - 1}, and this run has only made "
                f"{self._highest}: its folder is of an earlier time, as a backup is, and new rows "
                "would be taken for those. Hint: restore what was there at that time, or begin "
                "with a new folder and a new place."
            )

    def _write_rest(self, batch: EventBatch) -> None:
        """Write the rows from the position on."""
        rest, after = take_rest(batch, self._position), find_position(batch)
        if len(rest):
            if self._highest is not None:
                self._highest = max(self._highest, after)
            self._deliver(rest, after)
            self._position = after

    # The other side -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _place(self) -> str:
        """The place that the sink writes into, as the subject of a sentence."""

    def _begin(self) -> None:
        """Check the arguments against the fields of the query."""

    def _check_place(self) -> None:
        """Check what is there against the fields of the query; it is connected."""

    @abstractmethod
    def _connect(self) -> None:
        """Connect, and prepare what keeps the positions."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one."""

    @abstractmethod
    def _is_away(self, error: Exception) -> bool:
        """Return True if a later attempt may succeed."""

    @abstractmethod
    def _find_position(self) -> int | None:
        """Return the position of the run; None if it has none."""

    @abstractmethod
    def _deliver(self, rows: EventBatch, position: int) -> None:
        """Write rows, and the position after them."""


def as_names(given: str | Sequence[str] | None) -> list[str]:
    """Return one name, several or none as a list."""
    return [given] if isinstance(given, str) else [*(given or ())]


def check_names(argument: str, names: Iterable[str], schema: pl.Schema) -> None:
    """Raise ``ArgumentError`` if an argument names what is no column of the results."""
    columns = [START, END, *schema]
    if missing := [name for name in names if name not in columns]:
        raise ArgumentError(
            f"{argument} names {missing[0]!r}, which no column of the results has; they are "
            f"{columns}. Hint: select() adds fields."
        )
