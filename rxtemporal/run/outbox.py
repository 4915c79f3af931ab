"""Numbered results of a query in which each device has its own time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Column
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.errors import CheckpointError

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
    those since its checkpoint: with the same numbers and rows. When it computes them again, they
    are left out: the rows of a device that start before the CTI of its last batch.

    ``devices`` are the fields of the results that name the device, ``made_for`` identifies the
    query, and a batch has at most ``most`` rows.
    """

    def __init__(
        self, name: str, devices: Sequence[str], made_for: str, most: int | None = None
    ) -> None:
        self._name, self._devices, self._made_for = name, devices, made_for
        self._most = min(most or MOST_ROWS, MOST_ROWS)
        # the number of the next batch
        self.number = 0
        self._store: OutputStore | None = None
        # the devices of results that had left in an earlier life, and up to which time
        self._coder: KeyCoder | None = None
        self._given = np.full(0, MIN_TIME)

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
            batch.time = form
            self._note(batch)
            batch.number, self.number = number, number + 1
            found.append(batch)
        return found

    def _note(self, batch: EventBatch) -> None:
        """Note that the results of these devices have left up to the CTI."""
        if self._coder is None:
            self._coder = KeyCoder(pl.Schema({each: batch.schema[each] for each in self._devices}))
        codes = self._encode(self._coder, self._list_columns(batch))
        np.maximum.at(self._given, codes, batch.cti)

    def _encode(self, coder: KeyCoder, columns: Sequence[Column]) -> Int64s:
        codes = coder.encode_columns(columns)
        self._given = grow(self._given, len(coder), MIN_TIME)
        return codes

    def _list_columns(self, batch: EventBatch) -> list[Column]:
        return [batch.columns[each] for each in self._devices]

    def _leave_out(self, coder: KeyCoder, batch: EventBatch) -> EventBatch:
        """Return a batch without the results that had left in an earlier life."""
        if len(batch):
            codes = self._encode(coder, self._list_columns(batch))
            new = batch.take(batch.start >= self._given[codes])
        else:
            new = batch
        if batch.clocks is not None:
            # all results of these devices up to the CTI have come again
            codes = self._encode(coder, batch.clocks.devices.columns)
            self._given[codes[self._given[codes] <= batch.cti]] = MIN_TIME
            if self._given.max() <= MIN_TIME:
                self._coder = None
        return new

    def save(self) -> list[Any]:
        """Return the next number, and what had left in an earlier life and has not come again."""
        return [self.number, self._coder, None if self._coder is None else self._given.copy()]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        self.number, self._coder, given = state
        if given is not None:
            self._given = given

    def number_results(self, batch: EventBatch) -> list[EventBatch]:
        """Return the results of a batch that have not left, with their numbers."""
        if self._coder is not None:
            batch = self._leave_out(self._coder, batch)
        parts = [
            batch.slice(begin, min(begin + self._most, len(batch)))
            for begin in range(0, len(batch), self._most)
        ]
        for part in parts:
            part.number, self.number = self.number, self.number + 1
        if self._store is not None and parts:
            # at once: a part says that all up to its CTI have left
            contents = {
                number: dumps("results", [number, each, each.time, self._made_for])
                for number, each in enumerate(parts, self.number - len(parts))
            }
            self._store.put_outputs(self._name, contents)
        return parts
