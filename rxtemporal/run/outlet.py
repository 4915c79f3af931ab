"""Outlet of a query: its sink, and the numbers of its results where devices have own times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.errors import CheckpointError, annotate
from rxtemporal.sinks.sink import Sink

# results that get one number at most: what a sink delivers at once
MOST_ROWS = 10_000


class OutputStore(Protocol):
    """File of a run that keeps the results since its last checkpoint."""

    def put_outputs(self, name: str, contents: Mapping[int, bytes]) -> None:
        """Write results of a query by their numbers; they are durable afterwards."""

    def list_outputs(self, name: str, number: int) -> Iterator[bytes]:
        """Yield the results of a query from a number on, in order."""


class Outbox:
    """Gives the results of a query numbers that stay in every life of its run.

    Results of devices leave when the time of each has come, in an order that depends on the speed
    of the machine; so after a crash they may come in other batches. In a run with ``resume=`` each
    batch is written to the run's file before the sink gets it, and a run that resumes begins with
    those since its checkpoint: with the same numbers and rows. When it computes them again, as
    often as they have left, they are left out. Rows are known by their times and values, as neither
    the order in which those of a device leave nor their batches are the same in each life.

    ``made_for`` identifies the query, and a batch has at most ``most`` rows.
    """

    def __init__(self, name: str, made_for: str, most: int | None = None) -> None:
        self._name, self._made_for = name, made_for
        self._most = min(most or MOST_ROWS, MOST_ROWS)
        # the number of the next batch
        self.number = 0
        self._store: OutputStore | None = None
        # the results that had left in an earlier life, and how often each is still to come again
        self._coder: KeyCoder | None = None
        self._given = np.full(0, 0)
        # they start before this time
        self._until = MIN_TIME

    def keep_in(self, store: OutputStore) -> None:
        """Write all results to a file before they leave."""
        self._store = store

    def restore(self) -> list[EventBatch]:
        """Return the results that have left since the checkpoint, with their numbers."""
        if self._store is None:
            return []
        found: list[EventBatch] = []
        for content in self._store.list_outputs(self._name, self.number):
            number, batch, form, made_for = loads("results", content)
            if made_for != self._made_for:
                raise CheckpointError(
                    f"query {self._name!r} has changed since its last results left, which no "
                    f"checkpoint has. Then: {made_for}. Now: {self._made_for}. Hint: resume with "
                    "the query as it was until there is a checkpoint, or begin with a new folder."
                )
            batch.set_time(form)
            self._note(batch)
            batch.set_number(number)
            self.number = number + 1
            found.append(batch)
        return found

    def _note(self, batch: EventBatch) -> None:
        """Note that results have left."""
        if self._coder is None:
            types = [pl.Int64(), pl.Int64(), *batch.schema.values()]
            self._coder = KeyCoder({str(place): dtype for place, dtype in enumerate(types)})
        codes = self._encode(self._coder, batch)  # which may replace the array
        np.add.at(self._given, codes, 1)
        self._until = max(self._until, int(batch.start.max()) + TICK)

    def _encode(self, coder: KeyCoder, batch: EventBatch) -> Int64s:
        fields = (batch.columns[each] for each in batch.schema)
        codes = coder.encode_columns([batch.start, batch.end, *fields])
        self._given = grow(self._given, len(coder), 0)
        return codes

    def _leave_out(self, coder: KeyCoder, batch: EventBatch) -> EventBatch:
        """Return a batch without the results that had left in an earlier life."""
        early = np.flatnonzero(batch.start < self._until)
        if not len(early):
            return batch
        codes = self._encode(coder, batch.take(early))
        again = count_earlier(codes) < self._given[codes]
        np.subtract.at(self._given, codes[again], 1)
        if not self._given.any():
            self._coder = None
        return batch.take(np.delete(np.arange(len(batch)), early[again]))

    def save(self) -> list[Any]:
        """Return the next number, and what had left in an earlier life and has not come again."""
        given = None if self._coder is None else self._given.copy()
        return [self.number, self._coder, given, self._until]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        self.number, coder, given, *until = state
        if coder is None:
            return
        if not until:  # an earlier release saved times of devices
            raise CheckpointError(
                f"the state of query {self._name!r} was saved by an earlier release while it "
                "computed results again. Hint: let that release resume it once, and stop it."
            )
        self._coder, self._given, (self._until,) = coder, given, until

    def number_results(self, batch: EventBatch) -> list[EventBatch]:
        """Return the results of a batch that have not left, with their numbers."""
        if self._coder is not None:
            batch = self._leave_out(self._coder, batch)
        parts = [
            batch.slice(begin, min(begin + self._most, len(batch)))
            for begin in range(0, len(batch), self._most)
        ]
        for part in parts:
            part.set_number(self.number)
            self.number += 1
        if self._store is not None and parts:
            # at once: a part says that all up to its CTI have left
            contents = {
                number: dumps("results", [number, each, each.time, self._made_for])
                for number, each in enumerate(parts, self.number - len(parts))
            }
            self._store.put_outputs(self._name, contents)
        return parts


def count_earlier(codes: Int64s) -> Int64s:
    """Return how many items before each one have the same code.

    >>> count_earlier(np.array([7, 5, 7, 7, 5])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    earlier = np.empty_like(codes)
    earlier[order] = np.arange(len(codes)) - np.searchsorted(in_order, in_order)
    return earlier


class SavedOutput(NamedTuple):
    """An output in a checkpoint: the state of its sink, the CTI of its query, and its counters.

    ``since`` is as in ``Outlet``; a release before did not save it.
    """

    sink: bytes
    query_cti: int
    rows: int
    batches: int
    cti: int
    since: int | None = None
    # the state of the outbox, where each device has its own time
    outbox: Sequence[Any] | None = None

    def find_since(self) -> int:
        """Return the start before which the rows of the query have been given."""
        if self.since is not None:
            return self.since
        return self.cti if self.query_cti < self.cti else MIN_TIME


class Outlet:
    """The end of one query of a process: opens its sink, writes into it and counts."""

    def __init__(
        self,
        name: str,
        sink: Sink,
        schema: pl.Schema | None,
        devices: Sequence[str] = (),
        made_for: str = "",
    ) -> None:
        self.name = name
        self.sink = sink
        # numbers the results for a sink that continues by position, if each device, which these
        # fields of the results name, has its own time
        self.outbox: Outbox | None = None
        if devices and sink.by_position:
            self.outbox = Outbox(name, made_for, sink.most_rows)
        sink.numbered = self.outbox is not None
        # the form of the times of rows that have left before, while these leave again
        self._form: TimeForm | None = None
        self.schema = schema
        self.opened = False
        self.rows = self.batches = 0
        self.cti = MIN_TIME
        # seconds of the wall clock at the last result
        self.wrote = 0.0
        # rows before this start have been given, by another query or by an earlier run of this one
        self.since = MIN_TIME
        self._on_open: Callable[[], object] | None = None

    def note_result(self, seconds: float) -> None:
        """Note when a result has come; by the clock of the run."""
        self.wrote = seconds

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self.sink.set_time_form(lambda: self._form or form())

    def open(self, schema: pl.Schema) -> None:
        """Open the sink, and give it again what has left since the checkpoint."""
        self._tell_next(None)
        with self._name_errors():
            self.sink.open(self.name, schema)
        self.opened = True
        if self._on_open is not None:
            self._on_open()
        if self.outbox is not None:
            for batch in self.outbox.restore():
                self._form = batch.time
                self._write(batch)
            self._form = None
            self._tell_next(self.outbox.number)

    def _tell_next(self, number: int | None) -> None:
        """Tell a sink of numbered results the next number; None: some may still come again."""
        if self.outbox is not None:
            with self._name_errors():
                self.sink.set_next_number(number)

    def call_on_open(self, action: Callable[[], object]) -> None:
        """Call a function when the sink is open, before its first row."""
        self._on_open = action

    def write(self, batch: EventBatch) -> None:
        """Write one batch to the sink; open it first if the fields were not known before.

        A CTI that comes before the fields are known is not written: the sink is opened with the
        fields of its first rows.
        """
        if self.since > MIN_TIME:
            batch = self._take_new(batch)
        if not self.opened:
            if not len(batch) and not batch.schema and batch.cti < MAX_TIME:
                self.cti = batch.cti
                return
            self.open(batch.schema)
        for part in [batch] if self.outbox is None else self.outbox.number_results(batch):
            self._write(part)
        self.cti = max(self.cti, batch.cti)

    def _write(self, batch: EventBatch) -> None:
        try:  # a context manager would cost two microseconds a batch
            self.sink.write(batch)
        except Exception as error:
            self._name(error)
            raise
        self.rows += len(batch)
        self.batches += 1

    def drop_given(self, batch: EventBatch) -> EventBatch:
        """Return the rows that the query before has not given."""
        return batch.take(batch.start >= self.since) if self.since > MIN_TIME else batch

    def _take_new(self, batch: EventBatch) -> EventBatch:
        """Return the rows that the query before has not given; the CTI does not go back."""
        new = self.drop_given(batch).replace(cti=max(batch.cti, self.since))
        if batch.cti >= self.since and self.sink.shape is not EventShape.EDGE:
            self.since = MIN_TIME  # no later row starts before
        return new

    def count(self) -> list[Any]:
        """Return name and counters, for a checkpoint."""
        outbox = None if self.outbox is None else self.outbox.save()
        return [self.name, self.rows, self.batches, self.cti, self.since, outbox]

    def resume(self, last: SavedOutput, *, is_same: bool) -> None:
        """Continue the last checkpoint; ``is_same``: its query continues its state."""
        self.rows, self.batches, self.cti = last.rows, last.batches, last.cti
        self.since = last.find_since() if is_same else last.cti
        if self.outbox is not None and last.outbox is not None:
            self.outbox.load(last.outbox)

    def settle(self) -> bool:
        """Have an open sink deliver what it holds; return True if it has delivered something."""
        if not self.opened:
            return False
        with self._name_errors():
            return bool(self.sink.settle())

    def save(self) -> Callable[[], bytes]:
        """Return a function that returns the state of the sink as it is now, for a checkpoint.

        The function may take long, and any thread may call it.
        """
        with self._name_errors():
            state = self.sink.save()
            if not callable(state):
                _check_state(state)
        return partial(self._finish, state)

    def _finish(self, state: bytes | Callable[[], bytes]) -> bytes:
        with self._name_errors():
            return _check_state(state() if callable(state) else state)

    def load(self, state: bytes) -> None:
        """Have the sink resume from what ``save`` returned."""
        self._tell_next(None)
        with self._name_errors():
            self.sink.load(state)

    def close(self, error: BaseException | None) -> None:
        """Close the sink, if it is open; ``error`` is what ended the query."""
        if self.opened:
            with self._name_errors():
                self.sink.close(error)

    @contextmanager
    def _name_errors(self) -> Iterator[None]:
        """Add a note to an error of the sink: which sink it was, and of which query."""
        try:
            yield
        except Exception as error:
            self._name(error)
            raise

    def _name(self, error: Exception) -> None:
        place = f"in the sink {self.sink.describe()} of query {self.name!r}"
        annotate(error, place)
        # its text is all that a log or a command line shows, and names at most a file
        if isinstance(error, OSError) and error.strerror and place not in error.strerror:
            error.strerror = f"{error.strerror}, {place}"


def _check_state(state: Any) -> bytes:
    if not isinstance(state, bytes):
        raise CheckpointError(
            f"save() returned {type(state).__name__}, not bytes. Hint: return "
            'json.dumps(state).encode() for example, or b"" if there is nothing to save.'
        )
    return state
