"""Event-flow page of the demonstration: the departures of one day, from three feeds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

import polars as pl

from rxtemporal.cli.demo.feeds import AIRPORTS, DEPARTURE_SCHEMA
from rxtemporal.cli.demo.query import DOOR, departures_by_airport
from rxtemporal.query.event_flow import write_event_flow
from rxtemporal.query.inputs import from_polars
from rxtemporal.query.streamable import Streamable

# a Friday on which some departures came late, from midnight to midnight in New York
DAY = (datetime(2013, 1, 18, 5, tzinfo=UTC), datetime(2013, 1, 19, 5, tzinfo=UTC))


def write_day(recorded: pl.DataFrame, path: Path) -> Path:
    """Write the page of the flights that departed on one day, and return its path.

    Each airport's feed is a stream, in order of scheduled departure.
    """
    begin, end = DAY
    gone = recorded.filter(pl.col("departure").is_between(begin, end, closed="left"))
    feeds = [_read_feed(gone, airport) for airport in AIRPORTS]
    query = departures_by_airport(reduce(Streamable.union, feeds))
    return write_event_flow(query._node, path, title="Departures on 18 January 2013").path


def _read_feed(flights: pl.DataFrame, airport: str) -> Streamable:
    own = flights.filter(pl.col("origin") == airport)
    frame = own.select("departure", *DEPARTURE_SCHEMA)
    return from_polars(frame, start="departure", advance_time=DOOR, name=airport)
