"""Candidates: the events of each stream that are nearest to a missing row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.history import CTI, EDGE_END, Arrivals, History

Where = Mapping[str, Any] | pl.Expr | None


@dataclasses.dataclass(frozen=True, eq=False)
class Wanted:
    """The row that is missing: a time that its lifetime should contain, and its fields.

    ``at`` is in ticks. ``where`` is a mapping from field to value, or a predicate over the fields
    of the result with ``start_time`` and ``end_time``.
    """

    at: int | None
    where: Where
    form: TimeForm

    def measure(self, start: Int64s, end: Int64s) -> Int64s:
        """Return how far each lifetime is from the time, 0 if it contains it."""
        if self.at is None:
            return np.zeros(len(start), np.int64)
        return np.maximum(np.maximum(start - self.at, self.at - (end - 1)), 0)

    def count_mismatches(self, rows: pl.DataFrame, start: Int64s, end: Int64s) -> Int64s:
        """Return for each row how many of the fields have other values; unknown fields count not.

        For a predicate it is 1 if the row has the fields of the predicate and does not satisfy it.
        """
        count = np.zeros(rows.height, np.int64)
        if isinstance(self.where, pl.Expr):
            frame = _add_times(rows, start, end, self.form)
            if set(self.where.meta.root_names()) <= set(frame.columns):
                count += ~_evaluate(frame, self.where)
        elif self.where is not None:
            for name, value in self.where.items():
                if name in rows.columns:
                    count += ~_evaluate(rows, _equals(name, value))
        return count

    def check(self, result: pl.DataFrame) -> None:
        """Raise an error if ``where`` names a field that the result does not have."""
        if isinstance(self.where, pl.Expr):
            names = set(self.where.meta.root_names()) - {"start_time", "end_time"}
        else:
            names = set(self.where or {})
        if missing := names - set(result.columns):
            raise ArgumentError(
                f"where names {min(missing)!r}, which the result does not have; it has the fields "
                f"{result.columns}"
            )


def _equals(name: str, value: Any) -> pl.Expr:
    return pl.col(name).eq_missing(pl.lit(value))


def _evaluate(rows: pl.DataFrame, predicate: pl.Expr) -> Any:
    try:
        series = rows.select(predicate.alias("is")).to_series()
        if series.dtype not in (pl.Boolean, pl.Null):
            raise ArgumentError(
                f"where takes a predicate, got {predicate} of type {series.dtype}. "
                'Hint: pl.col("temp") > 20 for example, or a mapping {"room": "lab"}.'
            )
        return series.cast(pl.Boolean).fill_null(False).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise ArgumentError(f"where does not fit the fields {dict(rows.schema)}: {error}") from None


def _add_times(rows: pl.DataFrame, start: Int64s, end: Int64s, form: TimeForm) -> pl.DataFrame:
    times = time_series("start_time", start, form), time_series("end_time", end, form, endless=True)
    return rows.with_columns(*times)


def find_nearest(wanted: Wanted, history: History, most: int) -> tuple[Int64s, Int64s]:
    """Return the rows of a history that are nearest to the missing one, and their mismatches."""
    mismatches = wanted.count_mismatches(history.payload, history.start, history.end)
    distance = wanted.measure(history.start, history.end)
    rows = np.lexsort((distance, mismatches))[:most]
    return rows, mismatches[rows]


def find_nearest_arrivals(
    wanted: Wanted, arrivals: Arrivals, history: History | None, most: int
) -> tuple[Int64s, Int64s]:
    """Return the numbers of the events that are nearest to the missing row, and their mismatches.

    The end of a start edge is that of its row.
    """
    events = np.flatnonzero((arrivals.kind != CTI) & (arrivals.kind != EDGE_END))
    start, end, row = arrivals.start[events], arrivals.end[events], arrivals.row[events]
    if history is not None:
        entered = row >= 0
        end = end.copy()
        end[entered] = history.end[row[entered]]
    mismatches = wanted.count_mismatches(arrivals.payload[events], start, end)
    order = np.lexsort((wanted.measure(start, end), mismatches))[:most]
    return events[order], mismatches[order]
