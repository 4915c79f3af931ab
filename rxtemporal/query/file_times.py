"""Times in the columns of a file or a frame: texts, numbers with a unit, datetimes with a zone."""

from __future__ import annotations

import dataclasses
import difflib
import re
import zoneinfo
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import polars as pl

from rxtemporal.core.safe_text import brief
from rxtemporal.core.time_forms import Unit, check_unit, explain_units, read_number_column
from rxtemporal.errors import ArgumentError, EventError, SourceError

Ambiguous = Literal["earliest", "latest"]
Nonexistent = Literal["forward"]

_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_YEAR_FIRST = r"^\s*\d{4}[-/]"
_FOUR_DIGITS = 1_000
_WITHOUT_SECONDS = r"(\d{2}:\d{2})(Z|[+-]\d{2}:?\d{2})$"
_DAY_OR_MONTH_FIRST = re.compile(r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?!\d)")


@dataclasses.dataclass(frozen=True, slots=True)
class TimeOptions:
    """Options for the times of a file: the unit of numbers, and the zone of times without offset.

    ``numbers_are_ticks`` is True where numbers without a unit are ticks.
    """

    unit: Unit | None = None
    time_zone: str | None = None
    ambiguous: Ambiguous | None = None
    nonexistent: Nonexistent | None = None
    numbers_are_ticks: bool = False

    def __post_init__(self) -> None:
        check_unit(self.unit)
        if self.ambiguous not in (None, "earliest", "latest"):
            raise ArgumentError(f"ambiguous is 'earliest' or 'latest', got {brief(self.ambiguous)}")
        if self.nonexistent not in (None, "forward"):
            raise ArgumentError(f"nonexistent is 'forward', got {brief(self.nonexistent)}")
        if self.time_zone is not None:
            _check_zone(self.time_zone)
        elif self.ambiguous or self.nonexistent:
            raise ArgumentError(
                "ambiguous= and nonexistent= are for times in a zone. Hint: time_zone= names it, "
                "for example time_zone='Europe/Berlin'."
            )

    def read(self, column: pl.Series, what: str, before: int = 0) -> pl.Series:
        """Return a column of times as instants or ticks; ``before`` rows of ``what`` precede it."""
        dtype = column.dtype
        if dtype == pl.String and column.null_count() == len(column):
            return column.cast(pl.Null)
        if dtype == pl.String and self.unit is not None:
            for numeric in (pl.Int64, pl.Float64):
                numbers = column.cast(numeric, strict=False)
                if numbers.null_count() == column.null_count():
                    return self._read_numbers(numbers, what)
        if dtype == pl.String:
            return _TextColumn(column, what, before, self).read()
        if dtype.is_numeric():
            return self._read_numbers(column, what)
        if _is_naive(dtype):
            naive = column.cast(pl.Datetime("us"))
            if self.time_zone is None and len(naive):
                raise _make_offset_error(naive.drop_nulls().head(1).to_list(), column.name, what)
            return self.localise(naive, what, before)
        return column

    def _read_numbers(self, column: pl.Series, what: str) -> pl.Series:
        if self.unit is None and column.dtype.is_integer() and self.numbers_are_ticks:
            return column
        if self.unit is None:
            raise ArgumentError(
                f"column {column.name!r} of {what} has numbers, and their unit is not known. "
                f"{self._explain_units(column)}"
            )
        try:
            return read_number_column(column, self.unit)
        except EventError as error:
            raise SourceError(
                f"{what} cannot be read: in column {column.name!r}, {error}"
            ) from None

    def _explain_units(self, column: pl.Series) -> str:
        """Return a hint that shows the first number in each unit."""
        hint = explain_units(column.drop_nulls().first())
        return hint if self.numbers_are_ticks else f"{hint} unit='ticks' leaves them numbers."

    def localise(self, naive: pl.Series, what: str, before: int = 0) -> pl.Series:
        """Return times without an offset as instants, in the zone of the options."""
        zone = self.time_zone
        assert zone is not None
        times = naive.dt.replace_time_zone(
            zone, ambiguous=self.ambiguous or "null", non_existent="null"
        )
        if times.null_count() > naive.null_count():
            skipped = naive.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            gap = skipped.is_null() & naive.is_not_null()
            twice = times.is_null() & skipped.is_not_null()
            if twice.any():
                raise self._make_zone_error(naive, twice, what, before, "twice")
            if self.nonexistent is None:
                raise self._make_zone_error(naive, gap, what, before, "never")
            times = times.fill_null(_move_forward(naive, zone))
        return times.dt.convert_time_zone("UTC")

    def localise_frame(self, frame: pl.DataFrame, names: Iterable[str], what: str) -> pl.DataFrame:
        """Return a frame; of the columns named, datetimes without a zone and dates are instants."""
        naive = [
            frame[name].cast(pl.Datetime("us"))
            for name in names
            if name in frame.columns and _is_naive(frame.schema[name])
        ]
        return frame.with_columns(self.localise(each, what) for each in naive)

    def _make_zone_error(
        self, naive: pl.Series, where: pl.Series, what: str, before: int, often: str
    ) -> SourceError:
        row = where.arg_max()
        assert row is not None
        hint = (
            "ambiguous='earliest' or 'latest' chooses one of the two"
            if often == "twice"
            else "nonexistent='forward' moves it forward by the length of the gap"
        )
        return SourceError(
            f"{what} cannot be read: {naive[row]} in column {naive.name!r}, row {before + row}, "
            f"exists {often} in the zone {self.time_zone}, where the clock was changed. Hint: "
            f"{hint}; times with an offset are better."
        )


def _is_naive(dtype: pl.DataType) -> bool:
    return dtype == pl.Date or (isinstance(dtype, pl.Datetime) and dtype.time_zone is None)


def _move_forward(naive: pl.Series, zone: str) -> pl.Series:
    """Return times, those in a gap of the zone with the offset of the day before."""
    before = naive.dt.offset_by("-1d").dt.replace_time_zone(
        zone, ambiguous="earliest", non_existent="null"
    )
    return before.dt.offset_by("24h")


def _check_zone(zone: Any) -> None:
    names = zoneinfo.available_timezones()
    if zone in names:
        return
    near = difflib.get_close_matches(str(zone), names, 1)
    hint = f"did you mean {near[0]!r}?" if near else "a zone has a name such as 'Europe/Berlin'."
    raise ArgumentError(f"time_zone: there is no zone {brief(zone)}. Hint: {hint}")


def _make_offset_error(first: list[Any], name: str, what: str) -> SourceError:
    return SourceError(
        f"{what} cannot be read: the times in column {name!r} have no offset and name no instant: "
        f"{first[0] if first else ''}. Hint: time_zone='UTC', or the zone that they mean."
    )


def _parse(texts: pl.Series) -> pl.Series:
    """Return texts with an offset as instants, null for others; a year has four digits."""
    times = texts.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    lowest = times.min()
    if isinstance(lowest, datetime) and lowest.year < _FOUR_DIGITS:
        return times.set(~texts.str.contains(_YEAR_FIRST), None)
    return times


@dataclasses.dataclass(frozen=True, slots=True)
class _TextColumn:
    """A column of ISO 8601 texts."""

    column: pl.Series
    what: str
    before: int
    options: TimeOptions

    def read(self) -> pl.Series:
        """Return the instants; raise for a text without a time, or without offset and zone."""
        times = _parse(self.column)
        rest = times.is_null() & self.column.is_not_null()
        return times.zip_with(~rest, self._read_others(rest)) if rest.any() else times

    def _read_others(self, rest: pl.Series) -> pl.Series:
        """Return the instants of the texts in other forms, null for all others."""
        texts = self.column.set(~rest, None).str.strip_chars()
        whole = texts.str.replace(_WITHOUT_SECONDS, "${1}:00${2}")
        times = _parse(whole)
        naive = self._read_naive(texts)
        if wrong := (rest & times.is_null() & naive.is_null()).arg_true().to_list():
            raise self._make_text_error(wrong[0])
        if naive.null_count() == len(naive):
            return times
        if self.options.time_zone is None:
            raise _make_offset_error(
                self.column.filter(naive.is_not_null()).head(1).to_list(),
                self.column.name,
                self.what,
            )
        return times.fill_null(self.options.localise(naive, self.what, self.before))

    def _read_naive(self, texts: pl.Series) -> pl.Series:
        """Return the texts without an offset as times of no zone; the year comes first."""
        plain = texts.str.replace("T", " ", literal=True)
        plain = plain.set(~plain.str.contains(_YEAR_FIRST), None)
        plain = plain.str.replace(r"^(\d{4})/(\d{1,2})/(\d{1,2})", "$1-$2-$3")
        naive = plain.str.to_datetime(_FORMATS[0], time_unit="us", strict=False)
        for form in _FORMATS[1:]:
            naive = naive.fill_null(plain.str.to_datetime(form, time_unit="us", strict=False))
        return naive

    def _make_text_error(self, row: int) -> SourceError:
        text, name = self.column[row], self.column.name
        if _DAY_OR_MONTH_FIRST.match(text):
            hint = (
                "whether the day or the month comes first is not guessed. Write the year first "
                f"(ISO 8601), or read the file with polars, convert with pl.col({name!r})"
                ".str.to_datetime('%d/%m/%Y %H:%M') or its like, and use rxt.from_polars."
            )
        else:
            hint = "times are ISO 8601, as in 2026-05-01T12:00:00Z, or numbers with unit=."
        return SourceError(
            f"{self.what} cannot be read: {brief(text)} in column {name!r}, row "
            f"{self.before + row}, is not a valid time. Hint: {hint}"
        )
