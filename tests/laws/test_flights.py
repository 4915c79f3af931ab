"""A year of flights and weather: queries against what polars computes by itself, row for row.

The year lies beside the repository and not in it; where it is not at hand the tests skip.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from flights import READING, at_departure_by_polars, departures, need_year, readings
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import agg

AIRPORTS = ["EWR", "JFK", "LGA"]
# the year at the airports, which keep New York's time
YEAR = datetime(2013, 1, 1, 5, tzinfo=UTC), datetime(2014, 1, 1, 5, tzinfo=UTC)
# flights are listed as they were scheduled; no departure is later than that by so much
DELAY = timedelta(hours=24)


@pytest.fixture(autouse=True)
def _at_hand() -> None:
    need_year()


def flown() -> pl.DataFrame:
    """The flights that departed and landed."""
    return departures().filter(pl.col("landing").is_not_null())


def stream(frame: pl.DataFrame, end: str | None = None) -> rxt.Streamable:
    """Flights as a stream of their departures, or of their time until ``end``.

    Every thousandth makes a CTI, so that answers come and state goes as the year passes.
    """
    kept = frame if end else frame.drop("landing")
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1_000, DELAY), policy=rxt.AdvanceTimePolicy.DROP
    )
    return rxt.from_polars(kept, start="departure", end=end, advance_time=settings)


def assert_same_rows(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    """The same rows, whatever the order of those that start together."""
    order = [name for name in wanted.columns if wanted[name].dtype != pl.Float64]
    assert wanted.height > 0
    assert_frame_equal(found.sort(order), wanted.sort(order), check_exact=True)


def test_nothing_is_late() -> None:
    """The flights' delay loses nothing: each departs after the latest before it, less the delay."""
    listed = departures()["departure"]
    assert (listed >= listed.cum_max() - DELAY).all()


# Aircraft in the air ------------------------------------------------------------------------------


def airborne_by_polars(flights: pl.DataFrame) -> pl.DataFrame:
    """Aircraft in the air as a running sum over departures and landings."""
    changes = pl.concat(
        [
            flights.select("origin", time="departure", by=pl.lit(1, pl.Int64)),
            flights.select("origin", time="landing", by=pl.lit(-1, pl.Int64)),
        ]
    )
    moments = changes.group_by("origin", "time").agg(pl.col("by").sum()).sort("origin", "time")
    running = moments.select(
        "origin",
        start_time="time",
        end_time=pl.col("time").shift(-1).over("origin"),
        airborne=pl.col("by").cum_sum().over("origin"),
    )
    alive = running.filter(pl.col("airborne") > 0)
    return alive.select("start_time", "end_time", "origin", "airborne")


def test_airborne() -> None:
    """A snapshot for each stretch between departures and landings, and the aircraft in the air."""
    flights = flown()
    snapshots = stream(flights, "landing").group_by("origin").snapshot_window()
    found = snapshots.aggregate(airborne=agg.count()).to_polars()
    assert_same_rows(found, airborne_by_polars(flights))


# The weather at departure -------------------------------------------------------------------------


def as_signal(weather: pl.DataFrame) -> rxt.Streamable:
    """Points made to last until the next one of their airport."""
    return rxt.from_polars(weather.drop("valid_to"), start="valid_from").to_signal(on="origin")


def as_intervals(weather: pl.DataFrame) -> rxt.Streamable:
    """Rows whose ends are known from the beginning."""
    return rxt.from_polars(weather, start="valid_from", end="valid_to")


def as_edges(weather: pl.DataFrame) -> rxt.Streamable:
    """Edges: a reading is open until the next one of its airport closes it."""
    events: list[rxt.EdgeEvent] = []
    current: dict[str, rxt.EdgeEvent] = {}
    for reading in weather.drop("valid_to").to_dicts():
        now, airport = reading.pop("valid_from"), reading["origin"]
        if airport in current:
            opened = current[airport]
            events.append(rxt.EdgeEvent.create_end(opened.start_time, now, opened.payload))
        current[airport] = rxt.EdgeEvent.create_start(now, reading)
        events.append(current[airport])
    return rxt.from_events(
        events,
        schema={name: weather.schema[name] for name in READING},
        advance_time=rxt.INCREASING_START_TIME,
    )


@pytest.mark.parametrize("reported", [as_signal, as_intervals, as_edges])
def test_weather_at_departure(reported: Callable[[pl.DataFrame], rxt.Streamable]) -> None:
    """Each departure meets the one reading of its airport that holds at that moment.

    It does not matter whether readings are a signal, intervals or edges.
    """
    flights, weather = departures(), readings()
    joined = stream(flights).join(reported(weather), on="origin")
    assert_same_rows(joined.to_polars(), at_departure_by_polars(flights, weather))


# Idle airports ------------------------------------------------------------------------------------


def airports() -> rxt.Streamable:
    """A row for each airport, which lives all year."""
    return rxt.from_events([rxt.IntervalEvent(*YEAR, {"origin": airport}) for airport in AIRPORTS])


def idle_by_polars(busy: pl.DataFrame) -> pl.DataFrame:
    """The stretches of the year that no busy interval covers, by running maxima of ends."""
    first, last = (pl.lit(time, pl.Datetime("us", "UTC")) for time in YEAR)
    bounds = pl.DataFrame({"origin": AIRPORTS})
    framed = pl.concat(
        [
            busy,
            bounds.select("origin", start=first, end=first),
            bounds.select("origin", start=last, end=last),
        ]
    )
    ordered = framed.sort("origin", "start", "end")
    covered = ordered.with_columns(until=pl.col("end").cum_max().shift(1).over("origin"))
    gaps = covered.filter(pl.col("start") > pl.col("until"), pl.col("until") < last)
    clipped = gaps.select(
        start_time=pl.max_horizontal("until", first),
        end_time=pl.min_horizontal("start", last),
        origin="origin",
    )
    return clipped.filter(pl.col("start_time") < pl.col("end_time"))


def test_nothing_in_the_air() -> None:
    """An airport is left alone while no aircraft that departed from it is in the air."""
    flights = flown()
    found = airports().left_anti_join(stream(flights, "landing"), on="origin").to_polars()
    busy = flights.select("origin", start="departure", end="landing")
    assert_same_rows(found, idle_by_polars(busy))


def test_no_departure_for_half_an_hour() -> None:
    """An airport is idle from half an hour after a departure until the next one."""
    flights, half_an_hour = departures(), timedelta(minutes=30)
    recent = stream(flights).alter_event_duration(half_an_hour)
    found = airports().left_anti_join(recent, on="origin").to_polars()
    until = pl.col("departure") + half_an_hour
    busy = flights.select("origin", start="departure", end=until)
    assert_same_rows(found, idle_by_polars(busy))
