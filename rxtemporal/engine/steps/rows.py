"""Store of rows, found by number until they are released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.frames import stack, take_columns, take_rows
from rxtemporal.engine.steps.state import Stateful

Column = npt.NDArray[Any]
# minimum capacity in rows, kept even when few are alive
LARGE = 1 << 18


def grow(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Return the array, made longer along its last axis if it is shorter than ``size``.

    It doubles at least; the new elements are ``fill``.
    """
    have = array.shape[-1]
    if have >= size:
        return array
    larger = np.full((*array.shape[:-1], max(size, 2 * have, 64)), fill, array.dtype)
    larger[..., :have] = array
    return larger


def grow_rows(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Return the array ``[n, columns]``, made longer along its first axis like ``grow``."""
    have = array.shape[0]
    if have >= size:
        return array
    larger = np.full((max(size, 2 * have, 64), *array.shape[1:]), fill, array.dtype)
    larger[:have] = array
    return larger


def relink(new: Int64s, keys: Int64s, head: Int64s, *links: Int64s) -> None:
    """Update linked lists of rows to new row numbers.

    ``head`` ``int64[keys]``; ``keys`` and ``links`` are columns of the remaining rows. Only the
    heads of these keys are updated, since the list of any other key is empty.
    """
    for link in links:
        link[link >= 0] = new[link[link >= 0]]
    first = head[keys]
    head[keys] = np.where(first >= 0, new[first], first)


class RowStore(Stateful):
    """Numbered rows: columns as arrays, and the payload if a step needs it again.

    Rows get rising numbers. Released rows stay until most rows are released; then ``compact``
    renumbers the others, so that memory is a small multiple of the rows alive, and each row is
    moved O(1) times. The payload is kept in a few frames, each shorter than the one before.
    """

    held = ("content", "_frames", "_released")
    next_due = None

    def __init__(self, dtypes: Sequence[Any], payload: pl.Schema | None = None) -> None:
        self._columns: list[Column] = [np.empty(0, dtype) for dtype in dtypes]
        self._alive = np.empty(0, np.bool_)
        self._schema = payload
        self._frames: list[pl.DataFrame] = []
        self._height = self._released = 0

    def __len__(self) -> int:
        """Return the number of rows alive."""
        return self._height - self._released

    @property
    def height(self) -> int:
        """The number of row numbers in use."""
        return self._height

    @property
    def columns(self) -> list[Column]:
        """The columns, ``[height]`` each, to be read and written by row number."""
        return [column[: self._height] for column in self._columns]

    @property
    def content(self) -> list[Column]:
        """The columns, and the mask of rows alive, to be saved."""
        return [*self.columns, self._alive[: self._height]]

    @content.setter
    def content(self, saved: list[Column]) -> None:
        *self._columns, self._alive = saved
        self._height = len(self._alive)

    def append(
        self, columns: Sequence[Column | int], payload: pl.DataFrame | None = None
    ) -> Int64s:
        """Add rows and return their numbers; an int stands for a column filled with it."""
        assert not isinstance(columns[0], int)
        n = len(columns[0])
        first, self._height = self._height, self._height + n
        if self._height > len(self._alive):
            self._columns = [grow(column, self._height) for column in self._columns]
            self._alive = grow(self._alive, self._height, False)
        for column, new in zip(self._columns, columns, strict=True):
            column[first : self._height] = new
        self._alive[first : self._height] = True
        if payload is not None and n:
            self._keep(payload)
        return np.arange(first, self._height)

    def _keep(self, payload: pl.DataFrame) -> None:
        frames = self._frames
        frames.append(payload)
        # two frames may stay as they are
        while len(frames) > 2 and frames[-2].height < 2 * frames[-1].height:
            last = frames.pop()
            frames[-1] = pl.concat([frames[-1], last], rechunk=True)

    def payload(self, numbers: Int64s) -> pl.DataFrame:
        """Return the payload of these rows, which may repeat and be in any order."""
        frames = self._frames
        if not frames:
            return pl.DataFrame(schema=self._schema)
        return take_rows(stack(frames), numbers)

    def fields(self, numbers: Int64s, names: Sequence[str]) -> list[pl.Series]:
        """Return these fields of the payload of these rows."""
        if not self._frames:
            schema = self._schema or pl.Schema()
            return [pl.Series(name, [], schema[name]) for name in names]
        return take_columns(stack(self._frames), numbers, names)

    def release(self, numbers: Int64s) -> None:
        """Release these rows, each once; their numbers stay valid until ``compact``."""
        self._alive[numbers] = False
        self._released += len(numbers)

    def release_by(self, forget: Callable[[npt.NDArray[np.bool_]], int]) -> None:
        """Release the rows that ``forget`` sets to False in the mask of rows alive.

        ``forget`` returns their number.
        """
        self._released += forget(self._alive)

    def compact(self) -> Int64s | None:
        """Renumber the rows if most are released; return the new numbers (-1: gone), or None."""
        if 2 * self._released <= self._height or self._height < 1024:
            return None if self._released < self._height or not self._height else self._clear()
        alive = self._alive[: self._height]
        numbers = np.flatnonzero(alive)
        new = np.full(self._height, -1, np.int64)
        new[numbers] = np.arange(len(numbers))
        if self._frames:
            self._frames = [self.payload(numbers)] if len(numbers) else []
        room = len(self._alive)
        self._height, self._released = len(numbers), 0
        if room > LARGE and 8 * len(numbers) < room:  # a burst is over
            self._columns = [column[numbers] for column in self._columns]
            self._alive = np.ones(len(numbers), np.bool_)
            return new
        for column in self._columns:
            column[: len(numbers)] = column[numbers]
        self._alive[: len(numbers)] = True
        return new

    def _clear(self) -> Int64s:
        new = np.full(self._height, -1, np.int64)
        self._frames = []
        self._height = self._released = 0
        return new
