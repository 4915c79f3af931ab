"""The rows of one node of a plan in a run, and the arrivals of one input stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import EdgeEvent, PointEvent, RowEvent, ends_row
from rxtemporal.core.ticks import MAX_TIME

Bytes = npt.NDArray[np.uint8]
# the step of an end that has not come
NEVER = int(np.iinfo(np.int64).max)
POINT, INTERVAL, EDGE_START, EDGE_END, CTI = range(5)
"""Kinds of arrivals."""
ACCEPTED, ADJUSTED, LATE, TIME = range(4)
"""Verdicts on arrivals; ``TIME`` is that on a CTI."""


class PlanNode(Protocol):
    """Node of a plan, of which a history has the rows."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The nodes below it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys by which its rows are grouped."""

    @property
    def schema(self) -> pl.Schema | None:
        """The fields of its rows, if known."""

    @property
    def operator(self) -> Any:
        """The operator; None for a source."""

    @property
    def source(self) -> Any:
        """The source; None for an operator."""

    @property
    def cti_delay(self) -> int | None:
        """The ticks by which a source makes its CTIs behind its events; None if it makes none."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rows that left one node of a plan in a run: an input stream, or an operator.

    Row i of ``start``, ``end``, ``known``, ``closed`` and ``payload`` is row i of the node.

    ========= ===================================================================================
    start     lifetimes in ticks; ``end`` is ``MAX_TIME`` for a row that never ends, or that was
    end       still open at the end of the run
    known     the number of the step with which the row left the node
    closed    the step with which its end left; ``known`` for a complete row, ``NEVER`` if the
              row was still open at the end of the run
    payload   the fields
    ctis      the CTI after each of ``cti_steps``, the steps with which it advanced
    held      the rows held after each of ``held_steps``, the steps with which that changed
    seconds   the time spent in the operator
    origin    of a source: the name of the stream whose arrivals its rows are; else empty
    ========= ===================================================================================

    ``inputs`` are the numbers of the histories of its inputs, and ``keys`` the fields by which its
    rows are grouped.
    """

    number: int
    name: str
    kind: Literal["source", "operator"]
    line: str | None
    inputs: tuple[int, ...]
    keys: tuple[str, ...]
    node: PlanNode
    start: Int64s
    end: Int64s
    known: Int64s
    closed: Int64s
    payload: pl.DataFrame
    cti_steps: Int64s
    ctis: Int64s
    held_steps: Int64s
    held: Int64s
    seconds: float = 0.0
    origin: str = ""

    def __len__(self) -> int:
        return len(self.start)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The items of one input stream in order of arrival: rows with original times, and CTIs.

    ``step`` is the number of the step that took the item, over all streams. ``kind`` and
    ``verdict`` are the numbers of this module. ``reason`` is the ``LateReason`` of a row that was
    late, else null, and ``by`` how many ticks it was late. ``row`` is the row of the stream's
    history, -1 without one. ``position`` is the number of the item in its stream, from 0: the
    record of a recording, the row of a file or a frame, the place in a list. ``input`` is the name
    of the sender, where the stream merges several.
    """

    step: Int64s
    start: Int64s
    end: Int64s
    kind: Bytes
    verdict: Bytes
    reason: pl.Series
    by: Int64s
    row: Int64s
    position: Int64s
    input: pl.Series
    payload: pl.DataFrame

    def __len__(self) -> int:
        return len(self.start)


def find_kind(event: RowEvent) -> int:
    """Return the kind of an event, as arrivals have it."""
    if isinstance(event, EdgeEvent):
        return EDGE_END if ends_row(event) else EDGE_START
    return POINT if isinstance(event, PointEvent) else INTERVAL


class ClosedRows(NamedTuple):
    """Rows with their last ends; ``entered`` is the row of each entry, end edges included."""

    begins: Int64s
    end: Int64s
    known: Int64s
    closed: Int64s
    entered: Int64s


def make_no_rows() -> Int64s:
    """Return no numbers of rows."""
    return np.empty(0, np.int64)


def close_rows(batch: EventBatch, step: Int64s) -> ClosedRows:
    """Return the rows of a stream with the ends that came for them."""
    edges = batch.edge != 0
    ends = edges & (batch.end != MAX_TIME)
    begins = np.flatnonzero(~ends)
    entered = np.cumsum(~ends) - 1
    end, known = batch.end[begins], step[begins]
    closed = np.where(edges[begins], NEVER, known)
    # the edges of one id in order: a start, and at once its end
    places = np.flatnonzero(edges)
    places = places[np.argsort(batch.edge[places], kind="stable")]
    at = np.flatnonzero(ends[places])
    entered[places[at]] = entered[places[at - 1]]
    rows = entered[places[at]]
    end[rows], closed[rows] = batch.end[places[at]], step[places[at]]
    return ClosedRows(begins, end, known, closed, entered)


# no field has these names: they begin with a null character
_START, _END, _ROW = "\0start", "\0end", "\0row"


def match_equal_rows(left: History, right: History) -> tuple[Int64s, Int64s]:
    """Return pairs of rows of two histories with the same lifetime and payload.

    Of several equal rows the first of one is that of the other, and so on; rows without a partner
    are in no pair. Nulls are equal to each other, and so are NaNs.
    """
    names = left.payload.columns
    return match_codes(*code_rows(*(_to_frame(each, names) for each in (left, right))))


def _to_frame(history: History, names: Sequence[str]) -> pl.DataFrame:
    times = [pl.Series(_START, history.start), pl.Series(_END, history.end)]
    return pl.DataFrame([*times, *(history.payload.get_column(name) for name in names)])


def code_fields(left: History, right: History, names: Sequence[str]) -> tuple[Int64s, Int64s]:
    """Return a number for each row of two histories, the same where these fields are equal."""
    if not names:  # a frame without columns has no rows
        return np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    return code_rows(left.payload.select(names), right.payload.select(names))


def code_rows(left: pl.DataFrame, right: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Return a number for each row of two frames of the same columns, the same for equal rows."""
    both = pl.concat([left, right], how="vertical_relaxed")
    first = pl.col(_ROW).first().over(both.columns)
    codes = both.with_row_index(_ROW).select(first).to_series().to_numpy().astype(np.int64)
    return codes[: left.height], codes[left.height :]


def match_codes(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of equal codes: the n-th of one value on the left with the n-th on the right."""
    pairs = pl.DataFrame({"code": left, "left": np.arange(len(left))}).with_columns(
        pl.int_range(pl.len()).over("code").alias("n")
    )
    others = pl.DataFrame({"code": right, "right": np.arange(len(right))}).with_columns(
        pl.int_range(pl.len()).over("code").alias("n")
    )
    found = pairs.join(others, on=["code", "n"], how="inner").sort("left")
    return found.get_column("left").to_numpy(), found.get_column("right").to_numpy()


def find_at(
    of: Int64s, key: Int64s, time: Int64s, keys: Int64s, times: Int64s
) -> tuple[Int64s, Int64s]:
    """Return pairs of a number of ``of`` and a row: those with the same key and the same time.

    ``key`` and ``time`` are those of ``of``, ``keys`` and ``times`` those of the rows. A key of -1
    matches nothing.
    """
    wanted = pl.DataFrame({"of": of, "key": key, "time": time}).filter(pl.col("key") >= 0)
    rows = pl.DataFrame({"row": np.arange(len(keys)), "key": keys, "time": times})
    found = wanted.join(rows, on=["key", "time"], how="inner")
    return found.get_column("of").to_numpy(), found.get_column("row").to_numpy()


Pairs: TypeAlias = tuple[Int64s, Int64s]
# children of a node of the tree of maxima
WIDTH = 4


def expand(low: Int64s, high: Int64s) -> Pairs:
    """Return the pairs (number of the range, place) of ranges ``[low, high)``, in order. O(pairs).

    >>> [pair.tolist() for pair in expand(np.array([3, 8, 5]), np.array([5, 8, 6]))]
    [[0, 0, 2], [3, 4, 5]]
    """
    count = np.maximum(high - low, 0)
    of = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return of, np.arange(len(of)) - before[of] + low[of]


class TimeIndex:
    """Rows sorted by (key code, time); ``order`` has their numbers.

    Building it costs a sort of the rows; each question a binary search, and what it returns.
    """

    def __init__(self, key: Int64s, time: Int64s) -> None:
        self.order: Int64s = np.lexsort((time, key))
        self._times = np.unique(time)
        self._places = self._place(key, np.searchsorted(self._times, time))[self.order]

    def _place(self, key: Int64s, rank: Int64s) -> Int64s:
        return key * (len(self._times) + 1) + rank

    def search(self, key: Int64s, time: Int64s) -> Int64s:
        """Return the place in ``order`` of the first row of each key at or after each time."""
        return np.searchsorted(self._places, self._place(key, np.searchsorted(self._times, time)))

    def first(self, key: Int64s) -> Int64s:
        """Return the place in ``order`` of the first row of each key."""
        return np.searchsorted(self._places, self._place(key, np.zeros_like(key)))

    def between(self, key: Int64s, low: Int64s, high: Int64s) -> Pairs:
        """Return the pairs (number of the question, row) with ``low <= time < high``."""
        of, place = expand(self.search(key, low), self.search(key, high))
        return of, self.order[place]


class AliveIndex(TimeIndex):
    """Rows by (key, start), with a tree of the latest ends, to find the rows alive.

    A question costs the logarithm of the number of rows for each row that it returns, however
    many others there are and however long they live.
    """

    def __init__(self, key: Int64s, start: Int64s, end: Int64s) -> None:
        super().__init__(key, start)
        self._ends = np.unique(end)
        latest = key * (len(self._ends) + 1) + np.searchsorted(self._ends, end)
        # the latest end so far of each row's key: keys ascend
        self._latest = np.maximum.accumulate(latest[self.order])
        self._levels = [end[self.order]]
        while len(self._levels[-1]) > WIDTH:
            self._levels.append(_find_maxima(self._levels[-1]))

    def alive_at(self, key: Int64s, time: Int64s) -> Pairs:
        """Return the pairs (question, row) with ``start <= time < end``."""
        return self._find(key, self.search(key, time + 1), time)

    def overlap(self, key: Int64s, low: Int64s, high: Int64s) -> Pairs:
        """Return the pairs (question, row) with ``start < high`` and ``end > low``."""
        inside = self.between(key, low, high)
        before = self._find(key, self.search(key, low), low)
        return np.concatenate([inside[0], before[0]]), np.concatenate([inside[1], before[1]])

    def _find(self, key: Int64s, high: Int64s, time: Int64s) -> Pairs:
        """Return the pairs with a place of the key before ``high`` and an end after ``time``.

        It goes down the tree for all questions at once and leaves out what ends too early.
        """
        low = self.first(key)
        after = key * (len(self._ends) + 1) + np.searchsorted(self._ends, time, side="right")
        of = np.flatnonzero(low < high)
        of = of[self._latest[high[of] - 1] >= after[of]]
        node = np.zeros(len(of), np.int64)
        for level in reversed(range(len(self._levels))):
            ends, span = self._levels[level], WIDTH**level
            of = np.repeat(of, WIDTH)
            node = (node[:, None] * WIDTH + np.arange(WIDTH)).ravel()
            there = node < len(ends)
            of, node = of[there], node[there]
            wanted = (
                (ends[node] > time[of]) & (node * span < high[of]) & ((node + 1) * span > low[of])
            )
            of, node = of[wanted], node[wanted]
        return of, self.order[node]


def _find_maxima(values: Int64s) -> Int64s:
    """Return the greatest of every ``WIDTH`` neighbours."""
    return np.maximum.reduceat(values, np.arange(0, len(values), WIDTH))
