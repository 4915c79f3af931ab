"""Calendars: bounds of time at local midnights, of days, weeks, months and years in a time zone."""

from __future__ import annotations

import dataclasses
import difflib
import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.columns import Int64s
from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import UNITS, Span, describe_span, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, time_ticks
from rxtemporal.errors import ArgumentError

DAY = UNITS["d"]
_MONTHS = {"mo": 1, "y": 12}
_DAYS = {"d": 1, "w": 7}
# 1970-01-05, a Monday
_MONDAY = 4
_ONE = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.ASCII)
# times inside of these years are found in a small table, others in one of all time
_USUAL = (1900, 2200)
_FIRST_YEAR = 1970
# an offset from UTC is less than so many ticks
_FAR = 2 * DAY

Unit: TypeAlias = Literal["months", "days", "ticks"]


@dataclasses.dataclass(frozen=True, slots=True)
class Calendar:
    """Bounds at local times of a zone, ``count`` units apart.

    ``first`` is the month or day from which units are counted: months from January 1970, so that
    quarters and years begin in January, weeks from a Monday, other days from 1970-01-01. Units of
    ``ticks`` begin anew each day. ``shift`` is how long after the local midnight a unit begins, in
    ticks of local time.

    A local time that a change of clocks leaves out is the time of the change, and of one that comes
    twice it is the first.
    """

    count: int
    unit: Unit
    zone: str
    shift: int = 0
    first: int = 0

    def __str__(self) -> str:
        """Return a description in words."""
        names = {"months": "month", "days": "day"}
        length = describe_span(self.count)
        if self.unit != "ticks":
            length = f"{self.count} {names[self.unit]}{'s' * (self.count > 1)}"
        return f"{length} in {self.zone}"


def names_calendar(duration: Any, time_zone: Any) -> bool:
    """Return True if a span has no fixed length: it has a zone, or months or years."""
    found = _ONE.fullmatch(duration) if isinstance(duration, str) else None
    return time_zone is not None or (found is not None and found[2] in _MONTHS)


def find_monday(duration: Any) -> int:
    """Return the default alignment of windows, in ticks: for weeks a Monday, else 1970-01-01."""
    found = _ONE.fullmatch(duration) if isinstance(duration, str) else None
    return _MONDAY * DAY % UNITS["w"] if found is not None and found[2] == "w" else 0


def read_calendar(duration: Span, time_zone: Any, alignment: Any, name: str) -> Calendar:
    """Return the calendar of adjacent units of a duration; ``ArgumentError`` if it has none.

    >>> str(read_calendar("1mo", "Europe/Berlin", 0, "duration"))
    '1 month in Europe/Berlin'
    """
    zone = check_zone("UTC" if time_zone is None else time_zone)
    count, unit, first = _read_unit(duration, name)
    made = Calendar(count, unit, zone, first=first)
    if unit == "months" and _is_time(alignment):
        # the start of a quarter or year lies in a month of its own
        local = _find_local(np.array([time_ticks(alignment)]), zone)
        month = int(_find_unit(local, dataclasses.replace(made, count=1))[0])
        made = dataclasses.replace(made, first=month % count)
    return dataclasses.replace(made, shift=_read_shift(alignment, made))


def _read_unit(duration: Any, name: str) -> tuple[int, Unit, int]:
    """Return the count, the unit, and the day from which it is counted."""
    found = _ONE.fullmatch(duration) if isinstance(duration, str) else None
    if found is not None and found[2] in {**_MONTHS, **_DAYS}:
        count = int(found[1])
        if not 0 < count <= 10_000:
            raise ArgumentError(f"{name} has from 1 to 10,000 units, got {brief(duration)}")
        if found[2] in _MONTHS:
            return count * _MONTHS[found[2]], "months", 0
        return count * _DAYS[found[2]], "days", _MONDAY if found[2] == "w" else 0
    if isinstance(duration, int):
        raise ArgumentError(
            f"{name}={duration!r} is a number of ticks, and a calendar is about datetimes. "
            f"Hint: {name}='1d', or without time_zone=."
        )
    length = span(duration, name, least=1)
    if length % DAY == 0:
        return length // DAY, "days", 0
    if length > DAY:
        raise ArgumentError(
            f"{name}={brief(duration)} is neither a number of days nor shorter than one, so it "
            f"does not fit the days of a zone. Hint: {name}='2d', or without time_zone=."
        )
    return length, "ticks", 0


def check_zone(zone: Any) -> str:
    """Return the name of a time zone; ``ArgumentError`` with the nearest name if there is none."""
    try:
        if zone == "":  # which polars takes for UTC
            raise ValueError
        pl.Series([datetime(2000, 1, 1, tzinfo=UTC)]).dt.convert_time_zone(zone)
    except (pl.exceptions.PolarsError, TypeError, ValueError):
        known = sorted(zoneinfo.available_timezones())
        near = difflib.get_close_matches(str(zone), known, n=1, cutoff=0.4)
        ends = [each for each in known if each.rpartition("/")[2].lower() == str(zone).lower()]
        hint = (ends or near or ["Europe/Berlin"])[0]
        raise ArgumentError(
            f"there is no time zone {brief(zone)}. Hint: time_zone={hint!r}."
        ) from None
    return str(zone)


def _read_shift(alignment: Any, calendar: Calendar) -> int:
    """Return how long after the local midnight a unit begins."""
    longest = {"months": 28 * calendar.count * DAY, "days": calendar.count * DAY, "ticks": DAY}
    if isinstance(alignment, timedelta) or (isinstance(alignment, str) and _is_span(alignment)):
        shift = span(alignment, "alignment", least=0)
    elif _is_time(alignment):
        if calendar.unit == "months":
            longest["months"] = 28 * DAY
        local = _find_local(np.array([time_ticks(alignment)]), calendar.zone)
        shift = int(local[0] - _find_unit_start(local, calendar)[0])
    elif alignment == 0:
        return 0
    else:
        raise ArgumentError(
            f"alignment={brief(alignment)} is a number of ticks, and a calendar is about "
            "datetimes. Hint: alignment='6h' lets days begin at six."
        )
    if shift >= longest[calendar.unit]:
        if calendar.unit == "months":
            raise ArgumentError(
                f"alignment={brief(alignment)} does not begin each {calendar}: not every month has "
                "such a day. Hint: a day from 1 to 28."
            )
        raise ArgumentError(f"alignment={brief(alignment)} is not shorter than {calendar}")
    return shift


def _is_time(alignment: Any) -> bool:
    return isinstance(alignment, datetime) or (
        isinstance(alignment, str) and not _is_span(alignment)
    )


def _is_span(text: str) -> bool:
    return re.match(r"\s*-?\s*\d+(\.\d+)?\s*[a-z]", text) is not None


def _find_local(ticks: Int64s, zone: str) -> Int64s:
    """Return the local times of instants, as ticks."""
    utc = pl.Series(ticks).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    local = utc.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return local.cast(pl.Int64).to_numpy()


def _find_unit_start(local: Int64s, calendar: Calendar) -> Int64s:
    """Return the local midnight with which the unit of a local time begins."""
    number = _find_unit(local, calendar)
    return _find_midnights(number, calendar)


def _find_unit(local: Int64s, calendar: Calendar) -> Int64s:
    """Return the number of the unit, without its shift, that a local time lies in."""
    days = local // DAY
    if calendar.unit == "months":
        months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
        return (months - calendar.first) // calendar.count
    count = 1 if calendar.unit == "ticks" else calendar.count
    return (days - calendar.first) // count


def _find_midnights(number: Int64s, calendar: Calendar) -> Int64s:
    """Return the local midnights with which units begin, as ticks of local time."""
    if calendar.unit == "months":
        days = (
            (number * calendar.count + calendar.first)
            .astype("M8[M]")
            .astype("M8[D]")
            .astype(np.int64)
        )
    else:
        count = 1 if calendar.unit == "ticks" else calendar.count
        days = number * count + calendar.first
    return days * DAY


def _find_instants(local: Int64s, zone: str) -> Int64s:
    """Return the instants of local times, as ticks."""
    naive = pl.Series(local).cast(pl.Datetime("us"))
    found = naive.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    ticks = found.dt.convert_time_zone("UTC").cast(pl.Int64)
    left_out = found.is_null().to_numpy()
    made = ticks.fill_null(0).to_numpy().copy()
    if left_out.any():
        made[left_out] = [_find_change(int(each), zone) for each in local[left_out]]
    return made


def _find_change(local: int, zone: str) -> int:
    """Return the instant of the change that leaves out a local time."""
    low, high = local - _FAR, local + _FAR  # before the change, and after it
    while high - low > 1:
        middle = (low + high) // 2
        after = int(_find_local(np.array([middle]), zone)[0]) > local
        low, high = (low, middle) if after else (middle, high)
    return high


class Line(NamedTuple):
    """Bounds ``origin + number * spacing``, which are those of a calendar from begin to end."""

    begin: int
    end: int
    origin: int
    spacing: int


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundTable:
    """Bounds in order of time, ``int64[n]``, and their numbers.

    Each unit of a calendar in which no bound of its own lies is divided at each ``step`` after its
    bound, if that is not 0; the numbers go on with each such bound. ``breaks`` ``int64[b]`` are the
    places in the table at which bounds cease to be as far apart as those before.
    """

    bounds: Int64s
    numbers: Int64s
    step: int
    breaks: Int64s

    def find_line(self, time: int) -> Line | None:
        """Return the bounds around a time that are equally far apart; None outside the table."""
        bounds, breaks = self.bounds, self.breaks
        place = int(bounds.searchsorted(time, side="right")) - 1
        after = int(breaks.searchsorted(place, side="right"))
        if not 0 < after < len(breaks):
            return None
        first, last = int(breaks[after - 1]), int(breaks[after])
        begin, end = int(bounds[first]), int(bounds[last])
        spacing = self.step or int(bounds[first + 1]) - begin
        return Line(begin, end, begin - int(self.numbers[first]) * spacing, spacing)


@lru_cache(maxsize=64)
def make_usual_table(calendar: Calendar) -> BoundTable:
    """Return the bounds of usual times; one at least lies before, and one behind them."""
    years = (np.array([year - _FIRST_YEAR], "M8[Y]") for year in _USUAL)
    first, last = (year.astype("M8[us]").astype(np.int64) for year in years)
    return _make_table(calendar, first, last)


@lru_cache(maxsize=8)
def make_whole_table(calendar: Calendar) -> BoundTable:
    """Return the bounds of all times; one at least lies before, and one behind them.

    A table of days has 60 MB and takes a second to make; so only some are kept.
    """
    return _make_table(calendar, np.array([MIN_TIME]), np.array([MAX_TIME]))


def _make_table(calendar: Calendar, first: Int64s, last: Int64s) -> BoundTable:
    low = int(_find_unit(first - _FAR - calendar.shift, calendar)[0]) - 1
    high = int(_find_unit(last + _FAR, calendar)[0]) + 2
    numbers = np.arange(low, high)
    bounds = _find_instants(_find_midnights(numbers, calendar) + calendar.shift, calendar.zone)
    step = calendar.count if calendar.unit == "ticks" else 0
    if step:
        counts = -(np.diff(bounds) // -step)
        before = np.concatenate([[0], np.cumsum(counts)])
        # the first bound of 1970-01-01 has the number 0 in each table
        numbers = before - before[-low]
    breaks = _find_breaks(bounds, numbers, step)
    for column in bounds, numbers, breaks:  # shared by all who ask
        column.setflags(write=False)
    return BoundTable(bounds, numbers, step, breaks)


def _find_breaks(bounds: Int64s, numbers: Int64s, step: int) -> Int64s:
    """Return the places at which bounds cease to be as far apart as those before."""
    lengths = np.diff(bounds)
    # the last part of a unit may be shorter
    even = np.diff(numbers)[:-1] * step if step else lengths[1:]
    ends = lengths[:-1] != even
    return np.concatenate([[0], np.flatnonzero(ends) + 1, [len(bounds) - 1]])
