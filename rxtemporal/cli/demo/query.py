"""Queries of the demonstration, and the merge of three feeds into one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.demo.feeds import AIRPORTS, DEPARTURE_SCHEMA
from rxtemporal.ingress.door import Door
from rxtemporal.query.replay import merge_by_time

# every tenth event makes a CTI, four hours behind it: events delayed by more are late
DOOR = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(10, timedelta(hours=4)), policy=rxt.AdvanceTimePolicy.DROP
)
# how far one airport's feed may be ahead of another's
DELAY = timedelta(hours=1)
# rows in a batch of the merged stream
BATCH_ROWS = 512


def departures_by_airport(departures: rxt.Streamable) -> rxt.Streamable:
    """Count departures and their mean delay by airport, for an hour, every fifteen minutes."""
    return (
        departures.group_by("origin")
        .hopping_window2(timedelta(hours=1), timedelta(minutes=15))
        .aggregate(departures=agg.count(), mean_delay=agg.avg("dep_delay"))
    )


def airborne(flights: pl.DataFrame) -> rxt.Streamable:
    """Count the flights in the air at each moment, by airport of departure."""
    landed = flights.filter(pl.col("landing").is_not_null())
    intervals = landed.select("departure", "landing", "origin")
    stream = rxt.from_polars(intervals, start="departure", end="landing", name="flights")
    return stream.group_by("origin").snapshot_window().aggregate(airborne=agg.count())


class Merge:
    """Merge of three feeds into one stream: each has its own door, and a subject joins them."""

    def __init__(self) -> None:
        self.doors = {airport: Door(DOOR, airport) for airport in AIRPORTS}
        self.subject = rxt.CtiSynchronizingSubject.create_point(DELAY)
        self.stream = rxt.from_observable(
            self.subject,
            schema=DEPARTURE_SCHEMA,
            name="departures",
            batch_rows=BATCH_ROWS,
            unit="us",
        )

    def run(
        self, feeds: Mapping[str, Iterable[rxt.PointEvent]], accepted: Callable[[], None]
    ) -> None:
        """Push the events of the feeds in order of time; call ``accepted`` after each."""
        inputs = {name: self.subject.input(name) for name in feeds}
        for name, event in merge_by_time(feeds):
            door, into = self.doors[name], inputs[name]
            before = door.cti
            kept, _, _ = door.accept(event)
            if kept is not None:
                into.on_next(kept)
            if door.cti > before:
                into.on_next(rxt.Cti(door.cti))
            accepted()
        for into in inputs.values():
            into.close()
        self.subject.on_completed()
