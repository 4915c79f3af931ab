"""Store of numbered records that a kernel reads and writes: the integers of each side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.holdings import KEY
from rxtemporal.engine.kernels.rows import find_numbers
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.rows import LARGE, MANY, NumberedStore
from rxtemporal.engine.rows import grow_rows as grow
from rxtemporal.engine.state import make_version_error


class RecordStore(NumberedStore):
    """Numbered records of integers, and the payload of each if a step needs it again.

    ``RowStore`` for kernels that make and release records themselves: one array ``int64[height,
    columns]``, so that a kernel binds it once and finds a record in one place. Records get rising
    numbers. Released ones stay until most are; then ``compact`` renumbers the others.
    """

    def __init__(self, columns: int, payload: pl.Schema | None = None) -> None:
        super().__init__(payload)
        self._records = np.empty((0, columns), np.int64)

    @property
    def array(self) -> Int64s:
        """The records with room for more, for kernels, which look only at known numbers."""
        return self._records

    @property
    def records(self) -> Int64s:
        """The records, ``int64[height, columns]``."""
        return self._records[: self._height]

    @property
    def columns(self) -> list[Int64s]:
        """The columns, ``[height]`` each, to be read and written by record number."""
        return [*self.records.T]

    @property
    def alive(self) -> Bools:
        """The mask of the records that are not released."""
        alive: Bools = self.records[:, KEY] >= 0
        return alive

    @property
    def content(self) -> Int64s:
        """The records, to be saved."""
        return self.records

    @content.setter
    def content(self, saved: Int64s) -> None:
        self._records, self._height = saved, len(saved)

    def check_saved(self, held: Mapping[str, Any]) -> None:
        """Refuse records of more or fewer columns."""
        if np.shape(held["content"])[1:] != self._records.shape[1:]:
            raise make_version_error("a set of records")

    def make_room(self, count: int) -> Int64s:
        """Make room for so many records more; return the records."""
        self._records = grow(self._records, self._height + count)
        return self._records

    def append(self, columns: Sequence[Int64s | int], payload: Columns | None = None) -> Int64s:
        """Add records and return their numbers; an int stands for a column filled with it."""
        assert not isinstance(columns[0], int)
        first = self._height
        self.make_room(len(columns[0]))
        self._height += len(columns[0])
        for place, column in enumerate(columns):
            self._records[first : self._height, place] = column
        if payload is not None and payload.height:
            self._add_payloads(payload)
        return np.arange(first, self._height)

    def count(self, height: int, released: int) -> None:
        """Count what a kernel has made, up to ``height``, and how many records it has released."""
        self._height = height
        self._released += released

    def compact(self) -> Int64s | None:
        """Renumber the records if most are released; return the new numbers (-1: gone), or None."""
        is_empty = self._released == self._height
        if not is_empty and (2 * self._released <= self._height or self._height < MANY):
            return None
        if not self._height:
            return None
        new = np.empty(self._height, np.int64)
        self._keep(find_numbers(self.alive, new))
        return new

    def _keep(self, numbers: Int64s) -> None:
        """Keep these records, which are numbered anew; give up the room of a burst."""
        kept, room = self._records.take(numbers, axis=0), len(self._records)
        if room > LARGE and 8 * len(numbers) < room:
            room = len(numbers)
            self._records = kept
        else:
            self._records[: len(numbers)] = kept
        self._keep_payloads(numbers, room)
        self._height, self._released = len(numbers), 0

    def select_rows(self, mask: Bools) -> KeptKeys:
        """Keep these records, ``bool[height]``, as far as they are alive; they are renumbered."""
        height = self._height
        numbers = np.flatnonzero(self.alive & mask)
        self._keep(numbers)
        return KeptKeys(numbers, height)

    def append_rows(self, other: RecordStore) -> tuple[Int64s, int]:
        """Add the records of an equal store that are alive.

        Returns the new numbers by those that they had, -1 for one that is released, and how many
        numbers are in use then.
        """
        numbers = np.flatnonzero(other.alive)
        moved = np.full(other._height, -1)
        has_payload = len(other._fields) > 0
        payload = other.payload(numbers) if has_payload else None
        moved[numbers] = self.append([*other.records[numbers].T], payload)
        return moved, self._height

    def mark_keys(self, column: int, held: Bools) -> None:
        """Set ``held`` to True for the keys of the records; ``column`` is that of their keys."""
        keys = self.records[:, column]
        held[keys[keys >= 0]] = True

    def renumber_keys(self, column: int, kept: KeptKeys) -> None:
        """Give the records the new codes of their keys."""
        keys = self.records[:, column]
        keys[:] = kept.renumber(keys)
