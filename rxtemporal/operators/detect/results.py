"""Results of matches: a row for each match with its measures, or its rows."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import time_series
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import SchemaError
from rxtemporal.operators.detect.conditions import RowValues
from rxtemporal.operators.detect.functions import Function, parse_column
from rxtemporal.operators.detect.layout import ROW_START
from rxtemporal.operators.detect.settings import DetectSettings

# columns of the frame in which a function is computed
_WAY, _VALUE = "way", "value"
_MOST = int(np.iinfo(np.int64).max)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of one call: the rows of each in order, one match after the other.

    ``row`` and ``variable`` of each row and ``way``, the number of its match; ``length`` and
    ``complete`` of each match, and ``first``, the row at which it begins.
    """

    row: Int64s
    variable: Int64s
    length: Int64s
    complete: Int64s

    def __len__(self) -> int:
        return len(self.length)

    @property
    def way(self) -> Int64s:
        """The number of each row's match."""
        return np.repeat(np.arange(len(self.length)), self.length)

    @property
    def end(self) -> Int64s:
        """The number of rows up to the end of each match."""
        end: Int64s = np.cumsum(self.length)
        return end

    @property
    def first(self) -> Int64s:
        """The first row of each match."""
        first: Int64s = self.row[self.end - self.length]
        return first

    @property
    def last(self) -> Int64s:
        """The last row of each match."""
        last: Int64s = self.row[self.end - 1]
        return last


class Results:
    """Maker of the payload of matches."""

    def __init__(self, settings: DetectSettings, values: RowValues) -> None:
        self._settings = settings
        self._values = values

    def make(self, matches: Matches) -> pl.DataFrame:
        """Return the payload of matches, of which there is one at least."""
        asked = matches.row if self._settings.all_rows else matches.last
        fields = self._values.schema if self._settings.all_rows else self._settings.keys
        made = self._values.read_fields(fields, asked)
        if self._settings.all_rows:
            made["variable"] = self._name(matches.variable)
            made["match"] = self._read_starts(matches.first[matches.way])
        elif not self._settings.measures:
            made["rows"] = pl.Series(matches.length)
        made |= self._measure(matches, asked)
        way = matches.way if self._settings.all_rows else np.arange(len(matches))
        if "complete" in self._settings.output:
            made.setdefault("complete", pl.Series(matches.complete[way] != 0))
        return pl.DataFrame(
            [made[name].cast(dtype).alias(name) for name, dtype in self._settings.output.items()]
        )

    def _measure(self, matches: Matches, asked: Int64s) -> dict[str, pl.Series]:
        """Return the measures, over the rows that are asked for."""
        if not self._settings.measures:
            return {}
        measures = self._settings.measures
        names = sorted({name for each in measures.values() for name in each.meta.root_names()})
        columns = [self._compute(name, matches, asked).alias(name) for name in names]
        frame = pl.DataFrame([pl.Series("", np.zeros(len(asked), np.int8)), *columns])
        made = frame.with_columns(**self._settings.measures)
        return {name: made[name] for name in self._settings.measures}

    def _compute(self, name: str, matches: Matches, asked: Int64s) -> pl.Series:
        """Return a field of the rows that are asked for, or a function of their matches."""
        function = parse_column(name)
        if function is None:
            return self._values.read_series(name, asked)
        if function.kind == "prev":
            before = self._values.find_before(asked, function.n)
            return self._values.read_series(str(function.field), before)
        if function.kind == "variable":
            at = slice(None) if self._settings.all_rows else matches.end - 1
            return self._name(matches.variable[at])
        made = self._compute_matches(function, matches)
        return made.gather(matches.way) if self._settings.all_rows else made

    def _compute_matches(self, function: Function, matches: Matches) -> pl.Series:
        """Return a function of each match."""
        if function.kind == "match_start":
            return self._read_starts(matches.first)
        number = self._settings.automaton.variables.index(function.variable)
        mine = np.flatnonzero(matches.variable == number)
        way = matches.way[mine]
        count = np.bincount(way, minlength=len(matches))
        if function.kind == "count" and function.field is None:
            return pl.Series(count)
        if function.kind in ("first", "last"):
            end = np.cumsum(count)
            at = end - count if function.kind == "first" else end - 1 - function.n
            there = count > function.n
            rows = np.full(len(matches), -1)
            rows[there] = matches.row[mine[at[there]]]
            return self._values.read_series(str(function.field), rows)
        return self._aggregate(function, way, matches.row[mine], len(matches))

    def _aggregate(self, function: Function, way: Int64s, row: Int64s, count: int) -> pl.Series:
        values = self._values.read_series(str(function.field), row)
        if function.kind in ("sum", "mean") and values.dtype.is_float():
            values = values.cast(pl.Float64)
        elif function.kind == "sum":
            values = values.cast(pl.Int64)
        frame = pl.DataFrame([pl.Series(_WAY, way), values.alias(_VALUE)])
        made = frame.group_by(_WAY).agg(getattr(pl.col(_VALUE), function.kind)())
        if function.kind == "sum" and not values.dtype.is_float():
            _check_sums(function, frame)
        ways = pl.DataFrame([pl.Series(_WAY, np.arange(count))])
        made = ways.join(made, on=_WAY, how="left", maintain_order="left")
        column = made[_VALUE]
        if function.kind == "count":
            # that of polars is short and has no sign
            column = column.cast(pl.Int64)
        return column.fill_null(0) if function.kind in ("sum", "count") else column

    def _name(self, numbers: Int64s) -> pl.Series:
        return pl.Series(self._settings.automaton.variables, dtype=pl.String).gather(numbers)

    def _read_starts(self, rows: Int64s) -> pl.Series:
        form: TimeForm = "ticks" if self._values.time == pl.Int64 else "datetime"
        return time_series("", self._values.rows.array[rows, ROW_START], form)


def _check_sums(function: Function, frame: pl.DataFrame) -> None:
    """Raise if a sum of integers overflows."""
    sums = frame.group_by(_WAY).agg(pl.col(_VALUE).cast(pl.Int128).sum())[_VALUE]
    if not sums.is_between(-_MOST - 1, _MOST).all():
        raise SchemaError(
            f"detect: {function.column} overflows Int64. Hint: cast the field to Float64 first "
            "with with_columns()."
        )
