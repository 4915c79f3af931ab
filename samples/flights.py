"""Departures from three airports in January 2013, merged and counted in hopping windows.

The feed of an airport is in order of *scheduled* departure, and the time of an event is the
*actual* departure, so a feed is out of order by as much as flights were delayed. Each feed sends a
CTI at its latest departure so far. The subject holds CTIs back by four hours and drops events that
come later.

    python samples/flights.py
"""

from __future__ import annotations

from datetime import timedelta

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.demo.feeds import AIRPORTS, DEPARTURE_SCHEMA, departures, flights
from rxtemporal.query.replay import merge_by_time


def main() -> None:
    recorded = flights()
    feeds = {airport: departures(recorded, airport) for airport in AIRPORTS}

    subject = rxt.CtiSynchronizingSubject.create_point(delay=timedelta(hours=4))
    hourly = (
        rxt.from_observable(subject, schema=DEPARTURE_SCHEMA, unit="us", batch_rows=512)
        .group_by("origin")
        .hopping_window2(timedelta(hours=1), timedelta(minutes=15))
        .aggregate(departures=agg.count(), mean_delay=agg.avg("dep_delay"))
    )
    results: list[rxt.IntervalEvent] = []
    hourly.to_observable(ctis=False).subscribe(results.append)

    inputs = {airport: subject.input(airport) for airport in AIRPORTS}
    for airport, event in merge_by_time(feeds):
        inputs[airport].on_next(event)
        inputs[airport].on_next(rxt.Cti(event.start))  # a CTI that does not advance is ignored
    subject.on_completed()

    print(f"{len(results):,} windows; the busiest:")
    busiest = sorted(results, key=lambda event: (-event.payload["departures"], event.start))
    for event in busiest[:5]:
        # a hopping window's result begins when the window ends
        begin = event.start_time - timedelta(hours=1)
        origin, count, delay = event.payload.values()
        print(
            f"  {begin:%d %b %H:%M} to {event.start_time:%H:%M}  {origin}  "
            f"{count} departures, {delay:.1f} min late"
        )

    stats = subject.stats()
    for airport in AIRPORTS:
        source = stats.sources[airport]
        print(f"{airport}  {source.events:,} departures, {source.late} too late to count")
    print(f"the latest was {timedelta(microseconds=stats.largest_lateness)} late")


if __name__ == "__main__":
    main()
