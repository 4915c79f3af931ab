"""The rows of one node of a plan in a run, and the arrivals of one input stream."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
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
