"""Fates of rows that are in no result, and the answer to "why is there no such row"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import polars as pl

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.operators.causes.history import History

FateKind: TypeAlias = Literal[
    "late",
    "dropped",
    "no partner",
    "removed",
    "removes",
    "outside",
    "worse",
    "waiting",
    "elsewhere",
    "ended",
]
"""Kinds of fates.

``late``: the event came too late. ``dropped``: a ``where`` dropped it. ``no partner``: nothing
joined it. ``removed``: an anti join removed it. ``removes``: it gives no row itself, and removes
or ends rows of another stream. ``outside``: it lies in no window. ``worse``: others ranked before
it. ``waiting``: its result is not final. ``elsewhere``: it is in a result of another time or with
other values. ``ended``: it ended at an operator for another reason.
"""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Fate:
    """The end of a row's way through a query.

    ``operator`` and ``line`` are the place, None for an event that came late. ``values`` are those
    that decided, by field. ``others`` are rows that decided, with ``start_time`` and ``end_time``:
    the nearest partners, the rows that removed it or that it removes, better ones, or the results
    in which it is. ``late_by`` and ``delay`` are spans in ticks: how late the event came, and the
    least delay that would have kept it, None if the stream makes no CTIs by a delay. ``until`` is
    the CTI in ticks that a result waits for.
    """

    kind: FateKind
    message: str
    operator: str | None = None
    line: str | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    others: pl.DataFrame | None = None
    late_by: int | None = None
    delay: int | None = None
    until: int | None = None

    def __str__(self) -> str:
        return self.message


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An event that might have been in the missing row, and its fate.

    ``position`` is the number of the event in its stream, from 0, and ``input`` its sender, where a
    stream merges several. ``start`` and ``end`` are in ticks. ``mismatches`` is the number of
    fields that the missing row should have with another value.
    """

    stream: str
    position: int
    input: str | None
    start: int
    end: int
    payload: Mapping[str, Any]
    mismatches: int
    fate: Fate


def make_frame(history: History, rows: Int64s, form: TimeForm) -> pl.DataFrame:
    """Return rows of a history as a frame: ``start_time``, ``end_time`` and the payload."""
    times = [
        time_series("start_time", history.start[rows], form),
        time_series("end_time", history.end[rows], form, endless=True),
    ]
    return pl.DataFrame(times).hstack(history.payload[rows])
