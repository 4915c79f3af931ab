"""A year of flights beside its weather, with and without imports: what the docs say it costs.

The figures of the table in ``docs/advancing-time.md`` are those of a run, and of polars by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from flights import at_departure_by_polars, departures, need_year, readings
from runs import SOON, Log

import rxtemporal as rxt

DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST
DOCS = Path(__file__).parents[2] / "docs" / "advancing-time.md"
HEADING = "### What each choice costs"

Query = Callable[[rxt.Streamable, rxt.Streamable], rxt.Streamable]
FIGURES = ["flights lost", "by the import", "readings late", "joined"]


@pytest.fixture(autouse=True)
def _at_hand() -> None:
    need_year()


def choices() -> list[dict[str, str]]:
    """The rows of the docs' table."""
    section = DOCS.read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    names, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def hours(told: str) -> timedelta:
    """The delay that a cell names."""
    return timedelta(hours=int(re.fullmatch(r"(\d+) h", told)[1]))  # type: ignore[index]


def flights_settings(choice: dict[str, str]) -> rxt.AdvanceTimeSettings:
    """Return the settings of the flights' time."""
    every = int(choice["flights: a CTI every"].replace(",", ""))
    generation = rxt.AdvanceTimeGenerationSettings(every, hours(choice["less a delay of"]))
    named = {"–": None, "the weather's": rxt.AdvanceTimeImportSettings("weather")}
    return rxt.AdvanceTimeSettings(generation, named[choice["flights import"]], policy=DROP)


def weather_settings(choice: dict[str, str]) -> rxt.AdvanceTimeSettings | None:
    """Return the settings of the weather's time; None if only its end advances it."""
    told = choice["weather's CTIs"]
    if told == "at its end":
        return None
    generation = imports = None
    for part in told.split("; "):
        if part == "the flights'":
            imports = rxt.AdvanceTimeImportSettings("flights")
        else:
            delay = hours(part.removeprefix("each reading, less "))
            generation = rxt.AdvanceTimeGenerationSettings(1, delay)
    return rxt.AdvanceTimeSettings(generation, imports, policy=ADJUST)


def at_departure(flights: rxt.Streamable, weather: rxt.Streamable) -> rxt.Streamable:
    """Each departure with the weather of its airport."""
    return flights.join(weather, on="origin")


def ran(choice: dict[str, str], query: Query = at_departure) -> tuple[list[int], pl.DataFrame]:
    """The table's figures by a run, and the rows that came out of the query."""
    app = rxt.Application("a year")
    flights = rxt.from_polars(
        departures().drop("landing"), start="departure", advance_time=flights_settings(choice)
    )
    weather = rxt.from_polars(
        readings(), start="valid_from", end="valid_to", advance_time=weather_settings(choice)
    )
    fast, slow = app.define_stream("flights", flights), app.define_stream("weather", weather)
    app.query("out", query(fast, slow))
    sink = Log()
    process = app.run("out", sink)
    process.wait(SOON)
    told = {each.name: each for each in process.diagnostics().streams}
    late = {name: sum(each.late.values()) for name, each in told.items()}
    joined = pl.concat([batch.to_polars() for batch in sink.batches])
    by_import = told["flights"].late_by_import
    return [late["flights"], by_import, late["weather"], joined.height], joined


def in_time_by_polars(choice: dict[str, str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The flights that are in time, by running maxima, and those that were without an import.

    A reading is accepted before the flights that lie behind it in time and after all others; a
    flight's place is that of the latest flight before it, its own departure included.
    """
    every = int(choice["flights: a CTI every"].replace(",", ""))
    delay, start = hours(choice["less a delay of"]), pl.col("departure")
    flights = departures().with_row_index("nth", offset=1)
    made = pl.when(pl.col("nth") % every == 0).then(start - delay)
    flights = flights.with_columns(
        place=start.cum_max(), own=made.cum_max().forward_fill().shift(1)
    )
    flights = flights.with_columns(cti=pl.col("own"))
    if choice["flights import"] != "–":
        told = choice["weather's CTIs"].split("; ")[0].removeprefix("each reading, less ")
        times = readings().select(reading="valid_from").unique().sort("reading")
        # at the same time the flights, which were named first, come first
        flights = flights.join_asof(
            times, left_on="place", right_on="reading", allow_exact_matches=False
        )
        flights = flights.with_columns(
            cti=pl.max_horizontal("own", pl.col("reading") - hours(told))
        )
    kept = flights.filter((start >= pl.col("cti")).fill_null(True))
    alone = flights.filter((start >= pl.col("own")).fill_null(True))
    return kept, alone


def test_the_table_tells_what_is_lost() -> None:
    """Each row of the docs' table is what a run loses, and what polars says that it must lose."""
    table = choices()
    assert len(table) >= 10
    for choice in table:
        kept, alone = in_time_by_polars(choice)
        figures, joined = ran(choice)
        wanted = at_departure_by_polars(kept.select(departures().columns), readings())
        every = departures().height
        assert figures == [every - kept.height, alone.height - kept.height, 0, wanted.height]
        order = ["start_time", "carrier", "flight", "origin", "dest"]
        assert joined.select(wanted.columns).sort(order).equals(wanted.sort(order))
        told = dict(zip(FIGURES, (f"{figure:,}" for figure in figures), strict=True))
        assert {name: choice[name] for name in FIGURES} == told, choice


def test_united_as_much_is_lost() -> None:
    """Late events are judged at the input, whatever the query: a union loses as many flights."""

    def airports(flights: rxt.Streamable, weather: rxt.Streamable) -> rxt.Streamable:
        return flights.select("origin").union(weather.select("origin"))

    for choice in choices():
        (lost, *_), out = ran(choice, airports)
        assert f"{lost:,}" == choice["flights lost"]
        assert out.height == departures().height - lost + readings().height
