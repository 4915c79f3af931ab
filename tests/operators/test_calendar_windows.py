"""Windows of local days, weeks, months and years, across changes of clocks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.calendars import read_calendar
from rxtemporal.core.ticks import ticks
from rxtemporal.engine.grids import CalendarGrid

HOUR = timedelta(hours=1)
# changes of clocks: at two in the morning, at midnight, by half an hour; and a day left out
PLACES = {
    "Europe/Berlin": date(2026, 3, 29),
    "America/Sao_Paulo": date(2018, 11, 4),
    "Australia/Lord_Howe": date(2026, 4, 5),
    "Pacific/Apia": date(2011, 12, 30),
    "UTC": date(2026, 1, 1),
}
UNITS = [
    "1d", "2d", "1w", "1mo", "3mo", "1y", "6h", "5h", pytest.param("25m", marks=pytest.mark.long),
]  # fmt: skip


def find_instant(day: date, at: timedelta, zone: str) -> datetime:
    """Return the first instant at which clocks show a time, or have passed it by a change."""
    clock, local = ZoneInfo(zone), datetime.combine(day, time()) + at
    found = local.replace(tzinfo=clock, fold=0).astimezone(UTC)
    if found.astimezone(clock).replace(tzinfo=None) == local:
        return found
    # left out: look for the change, which is at a whole minute in these years
    found -= timedelta(days=2)
    while found.astimezone(clock).replace(tzinfo=None) < local:
        found += timedelta(minutes=1)
    return found


def list_days(unit: str, around: date) -> Iterator[date]:
    """Yield the days with which units begin, from two years before to two years after."""
    for number in range(-800, 800):
        day = around + timedelta(days=number)
        since = (day - date(1970, 1, 1)).days
        months = (day.year - 1970) * 12 + day.month - 1
        begins = {
            "2d": since % 2 == 0, "1w": day.weekday() == 0, "1mo": day.day == 1,
            "3mo": day.day == 1 and months % 3 == 0, "1y": day.day == 1 and months % 12 == 0,
        }  # fmt: skip
        if begins.get(unit, True):
            yield day


def list_bounds(unit: str, zone: str, shift: timedelta = timedelta(0)) -> list[datetime]:
    """Return the bounds of units around the change of a zone, by the standard library."""
    firsts = [find_instant(day, shift, zone) for day in list_days(unit, PLACES[zone])]
    if unit[-1] not in "hm":
        return firsts
    step = int(unit[:-1]) * (HOUR if unit[-1] == "h" else timedelta(minutes=1))
    bounds = []
    for first, after in pairwise(firsts):
        count = -((first - after) // step)
        bounds += [first + n * step for n in range(count)]
    return bounds


@pytest.mark.parametrize("zone", PLACES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("shift", [timedelta(0), 6 * HOUR + timedelta(minutes=30)])
def test_bounds_are_those_of_the_standard_library(zone: str, unit: str, shift: timedelta) -> None:
    """A time that is left out is that of the change, and one that comes twice is the first."""
    bounds = list_bounds(unit, zone, shift)
    source = rxt.from_events([rxt.PointEvent(bounds[0], {"x": 1})])
    windows = source.tumbling_window(unit, shift, time_zone=zone).aggregate(n=agg.count())
    grid: CalendarGrid = windows._node.operator.grid  # type: ignore[union-attr]
    expected = np.array([ticks(each) for each in bounds])
    first = grid.find_place(int(expected[0])) // 2
    made = grid.find_bounds(np.arange(first, first + len(expected)))
    # of bounds at one time, as of a day that is left out, the last one is found first
    skipped = int((expected == expected[0]).sum()) - 1
    np.testing.assert_array_equal(made[: len(expected) - skipped], expected[skipped:])
    assert (grid.find_places(expected)[1:] >= grid.find_places(expected)[:-1]).all()
    assert grid.is_bound(expected).all()
    assert not grid.is_bound(expected[1:][np.diff(expected) > 1] - 1).any()


@pytest.mark.parametrize("zone", PLACES)
@pytest.mark.parametrize("unit", UNITS)
def test_lines_have_the_bounds_of_the_calendar(zone: str, unit: str) -> None:
    """Where bounds are equally far apart, division finds the number of each time and each end."""
    bounds = np.array([ticks(each) for each in list_bounds(unit, zone)])
    times = np.unique((bounds[:, np.newaxis] + np.array([-1, 0, 1, 1_000_000])).ravel())
    grid = CalendarGrid(read_calendar(unit, zone, 0, "duration"))
    numbers, ends = grid.find_places(times) // 2, (grid.find_end_places(times) + 1) // 2
    found = 0
    for first in range(0, len(times) - 1, 1 + len(times) // 200):
        for last in first + 1, first + 4, first + 50:
            among = times[first : last + 1]
            line = grid.find_line(int(among[0]), int(among[-1]))
            if line is None:
                continue
            found += 1
            made = (among[:-1] - line.origin) // line.spacing
            np.testing.assert_array_equal(made, numbers[first:last][: len(made)])
            until = -((line.origin - among[1:]) // line.spacing)
            np.testing.assert_array_equal(until, ends[first + 1 : last + 1])
    assert found


@st.composite
def rows_around_a_change(draw: Any) -> tuple[str, list[rxt.IntervalEvent]]:
    """Draw a zone, and rows around its change of clocks."""
    zone = draw(st.sampled_from(sorted(PLACES)))
    change = datetime.combine(PLACES[zone], time(), UTC)
    halves = st.integers(-150, 150)
    rows = []
    for begin, length, key in draw(
        st.lists(st.tuples(halves, st.integers(1, 200), st.sampled_from("ab")), max_size=12)
    ):
        start = change + begin * HOUR / 2
        rows.append(rxt.IntervalEvent(start, start + length * HOUR / 2, {"k": key}))
    return zone, sorted(rows, key=lambda row: row.start)


@given(drawn=rows_around_a_change(), unit=st.sampled_from(["1d", "1w", "6h", "5h", "1mo"]))
def test_windows_hold_the_rows_that_overlap_them(drawn: Any, unit: str) -> None:
    """Each window counts its rows and for how long they are alive; empty ones are left out."""
    zone, rows = drawn
    bounds = [ticks(each) for each in list_bounds(unit, zone)]
    expected = []
    for begin, end in pairwise(bounds):
        for key in "ab":
            inside = [row for row in rows if row.start < end and row.end > begin]
            mine = [row for row in inside if row.payload["k"] == key]
            lived = sum(min(row.end, end) - max(row.start, begin) for row in mine)
            if mine and begin < end:
                expected.append((begin, end, key, len(mine), timedelta(microseconds=lived)))
    stream = rxt.from_events(rows, schema={"k": str})
    windows = stream.group_by("k").tumbling_window(unit, time_zone=zone)
    for named in {"n": agg.count(), "time": agg.duration()}, {"n": agg.count()}:
        made = windows.aggregate(**named).to_polars(time="ticks").rows()
        assert sorted(made) == [row[: 3 + len(named)] for row in expected]
    begins = (datetime.fromtimestamp(row.start // 10**6, UTC) for row in rows)
    points = [rxt.PointEvent(at, row.payload) for at, row in zip(begins, rows, strict=True)]
    stream = rxt.from_events(points, schema={"k": str}).group_by("k")
    made = stream.tumbling_window(unit, time_zone=zone).aggregate(n=agg.count())
    windows_of = [(bisect_right(bounds, row.start) - 1, row.payload["k"]) for row in rows]
    counted = Counter((bounds[n], bounds[n + 1], key) for n, key in windows_of)
    found = sorted(made.to_polars(time="ticks").rows())
    assert found == sorted((*at, n) for at, n in counted.items())


@given(drawn=rows_around_a_change(), days=st.integers(2, 9))
def test_windows_of_several_days(drawn: Any, days: int) -> None:
    """They begin with each local day."""
    zone, rows = drawn
    bounds = [ticks(each) for each in list_bounds("1d", zone)]
    expected = []
    for begin, end in zip(bounds, bounds[days:], strict=False):
        inside = [row for row in rows if row.start < end and row.end > begin]
        lived = sum(min(row.end, end) - max(row.start, begin) for row in inside)
        if inside and begin < end:
            expected.append((begin, end, len(inside), timedelta(microseconds=lived)))
    stream = rxt.from_events(rows, schema={"k": str})
    windows = stream.hopping_window(f"{days}d", "1d", time_zone=zone)
    both = windows.aggregate(n=agg.count(), time=agg.duration()).to_polars(time="ticks").rows()
    assert sorted(both) == sorted(expected)


def test_days_across_a_change_of_clocks() -> None:
    """A reading an hour: 23 of the day on which clocks go forward, 25 of the other."""
    for begin, counts in (
        (datetime(2026, 3, 28, 23, tzinfo=UTC), [23, 24, 24, 1]),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), [25, 24, 23]),
    ):
        rows = [rxt.PointEvent(begin + n * HOUR, {"x": n}) for n in range(72)]
        days = rxt.from_events(rows).tumbling_window("1d", time_zone="Europe/Berlin")
        assert days.aggregate(n=agg.count()).to_polars()["n"].to_list() == counts


def test_weeks_begin_on_monday() -> None:
    """With and without a zone; an alignment moves them."""
    rows = [rxt.PointEvent(datetime(2026, 11, 25, 12, tzinfo=UTC), {"x": 1})]
    for options, day in (
        ({}, 23),
        ({"time_zone": "UTC"}, 23),
        ({"alignment": "1970-01-01T00:00Z"}, 19),
        ({"alignment": "2d", "time_zone": "UTC"}, 25),
        ({"alignment": datetime(2026, 1, 4, tzinfo=UTC), "time_zone": "UTC"}, 22),
    ):
        weeks = rxt.from_events(rows).tumbling_window("1w", **options).aggregate(n=agg.count())
        assert weeks.to_polars()["start_time"].to_list() == [datetime(2026, 11, day, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("unit", "begin"),
    [("3mo", (2026, 2, 1)), ("1y", (2026, 4, 1)), ("12mo", (2026, 7, 1)), ("3mo", (2025, 6, 15))],
)
def test_quarters_and_years_that_begin_in_a_month(unit: str, begin: tuple[int, int, int]) -> None:
    """They begin on the same day of a month each time, however long months are."""
    first = datetime(*begin, tzinfo=UTC)
    rows = [rxt.PointEvent(first + timedelta(days=n), {"x": 1}) for n in range(3_000)]
    windows = rxt.from_events(rows).tumbling_window(unit, first).aggregate(n=agg.count())
    months = {"3mo": 3, "1y": 12, "12mo": 12}[unit]
    numbers = [first.month - 1 + months * n for n in range(40)]
    expected = [
        first.replace(year=first.year + number // 12, month=number % 12 + 1) for number in numbers
    ]
    starts = windows.to_polars()["start_time"].to_list()
    assert starts[:8] == expected[:8]
    assert len(starts) > 8
    assert set(starts) <= set(expected)


@pytest.mark.parametrize("unit", ["1w", "2w", "3w"])
def test_weeks_are_the_same_with_and_without_a_zone(unit: str) -> None:
    """They are counted from the same Monday."""
    rows = [rxt.PointEvent(datetime(2026, 11, 25, tzinfo=UTC), {"x": 1})]
    for kind in (
        lambda s, **zone: s.tumbling_window(unit, **zone).aggregate(n=agg.count()),
        lambda s, **zone: s.extend_lifetime("30d").chop(unit, **zone),
    ):
        bare, zoned = (kind(rxt.from_events(rows), **zone) for zone in ({}, {"time_zone": "UTC"}))
        assert bare.to_polars().rows() == zoned.to_polars().rows()


def test_chop_and_sample_at_local_midnights() -> None:
    """As windows do."""
    begin, end = datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC)
    stay = rxt.from_events([rxt.IntervalEvent(begin, end, {"x": 1})])
    midnights = [datetime(2026, 3, day, 23, tzinfo=UTC) for day in (27, 28)]
    midnights.append(datetime(2026, 3, 29, 22, tzinfo=UTC))
    pieces = stay.chop("1d", time_zone="Europe/Berlin").to_polars()
    assert pieces["start_time"].to_list() == [begin, *midnights]
    points = stay.sample("1d", time_zone="Europe/Berlin").to_polars()
    assert points["start_time"].to_list() == midnights
    assert stay.sample("1mo").to_polars().is_empty()


def test_times_far_away() -> None:
    """Rows at both ends of time have windows, which end there."""
    rows = [
        rxt.PointEvent(datetime(1, 1, 1, tzinfo=UTC), {"x": 1}),
        rxt.PointEvent(datetime(9999, 12, 31, 16, tzinfo=UTC), {"x": 2}),
    ]
    days = rxt.from_events(rows).tumbling_window("1d", time_zone="Asia/Tokyo")
    made = days.aggregate(x=agg.sum("x")).to_polars(time="ticks").rows()
    assert [row[2] for row in made] == [1, 2]
    assert made[-1][1] is None  # the end of time


@pytest.mark.parametrize(
    ("window", "hint"),
    [
        (lambda s: s.tumbling_window("1d", time_zone="Europe/Berln"), "'Europe/Berlin'"),
        (lambda s: s.tumbling_window("1d", time_zone="berlin"), "'Europe/Berlin'"),
        (lambda s: s.tumbling_window("1d", time_zone=5), "no time zone 5"),
        (lambda s: s.tumbling_window("36h", time_zone="UTC"), "nor shorter than one"),
        (lambda s: s.tumbling_window(5, time_zone="UTC"), "a calendar is about datetimes"),
        (lambda s: s.tumbling_window("0d", time_zone="UTC"), "from 1 to 10,000"),
        (lambda s: s.tumbling_window("1d", "30h", time_zone="UTC"), "not shorter than 1 day"),
        (lambda s: s.tumbling_window("1d", "24h", time_zone="UTC"), "not shorter than 1 day"),
        (lambda s: s.tumbling_window("1d", 7, time_zone="UTC"), "lets days begin at six"),
        (lambda s: s.hopping_window("1mo", "1d", time_zone="UTC"), "a number of periods"),
        (lambda s: s.hopping_window("6h", "1h", time_zone="UTC"), "a number of periods"),
        (lambda s: s.hopping_window2("1mo", "1mo"), "'mo' is not a unit"),
        (lambda s: s.chop("1mo", time_zone="Mars"), "no time zone 'Mars'"),
        (lambda s: s.sample("1.5mo"), "is not a span of time"),
        (lambda s: s.sample("1y6mo"), r"windows also have mo \(months\)"),
        (lambda s: s.tumbling_window("1d", time_zone=""), "no time zone ''"),
        (lambda s: s.tumbling_window("36h", time_zone="UTC"), "duration='36h'"),
        (
            lambda s: s.tumbling_window("1mo", datetime(2026, 1, 30, tzinfo=UTC)),
            "does not begin each 1 month in UTC: not every month has such a day",
        ),
        (
            lambda s: s.tumbling_window("1mo", datetime(2026, 1, 29, tzinfo=UTC)),
            "does not begin each 1 month in UTC: not every month has such a day",
        ),
    ],
)
def test_calendars_that_are_refused(window: Any, hint: str) -> None:
    """Each error says what to write."""
    stream = rxt.from_events([], schema={"x": int})
    with pytest.raises(rxt.ArgumentError, match=hint):
        window(stream)


def test_a_calendar_over_ticks_is_refused() -> None:
    """Ticks have no days."""
    source = rxt.from_events([rxt.PointEvent(5, {"x": 1})])
    with pytest.raises(rxt.ArgumentError, match="ticks"):
        source.tumbling_window("1d", time_zone="UTC").aggregate(n=agg.count()).to_polars()


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_a_sum_that_stops_goes_on_behind_a_day_that_a_zone_leaves_out(name: str) -> None:
    """Samoa had no 30 December 2011; the last row that goes on for days ends on the 31st."""
    zone = ZoneInfo("Pacific/Apia")

    def at(*date: int) -> datetime:
        return datetime(*date, tzinfo=zone)  # type: ignore[arg-type]

    rows = [
        rxt.IntervalEvent(at(2011, 12, 29, 12), at(2011, 12, 31, 12), {"x": 1.0}),
        rxt.IntervalEvent(at(2012, 1, 1, 1), at(2012, 1, 1, 2), {"x": 4.0}),
        rxt.IntervalEvent(at(2012, 1, 2, 1), at(2012, 1, 2, 2), {"x": 6.0}),
    ]
    batch = rxt.from_events(rows).to_batches()
    days = rxt.from_events(batch, schema={"x": float}).tumbling_window(
        "1d", time_zone="Pacific/Apia"
    )
    found = days.aggregate(x=getattr(agg, name)("x")).to_polars()
    assert found["x"].to_list() == [1.0, 1.0, 4.0, 6.0]
