"""Departures, the wind at the time, and the periods in which no flight left.

A weather report is valid until the next one: ``to_signal`` gives the points such lifetimes, and a
join finds the report that was valid while a flight left. An airport is idle while none of its
flights is leaving: a left anti join of its opening hours with the departures.

    python samples/joins.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

import rxtemporal as rxt

MORNING = datetime(2013, 1, 5, 6, tzinfo=UTC)

# minutes after six o'clock
REPORTS = [(0, "EWR", 9), (10, "LGA", 12), (45, "EWR", 31), (70, "EWR", 14)]
DEPARTURES = [
    (20, "EWR", "UA 1545"),
    (8, "EWR", "B6 507"),
    (50, "EWR", "DL 461"),
    (55, "LGA", "AA 8"),
]
OPEN = [(0, 90, "EWR"), (30, 90, "LGA")]


def at(minutes: int) -> datetime:
    return MORNING + timedelta(minutes=minutes)


def show(title: str, stream: rxt.Streamable) -> None:
    print(title)
    for start, end, *payload in stream.to_polars().sort(pl.all()).iter_rows():
        print(f"  {start:%H:%M} to {end:%H:%M}  ", *payload)


def main() -> None:
    reports = rxt.from_events(
        [rxt.PointEvent(at(t), {"origin": o, "wind": wind}) for t, o, wind in REPORTS]
    )
    departures = rxt.from_events(
        [rxt.PointEvent(at(t), {"origin": o, "flight": flight}) for t, o, flight in DEPARTURES]
    )
    gates = rxt.from_events([rxt.IntervalEvent(at(s), at(e), {"origin": o}) for s, e, o in OPEN])

    weather = reports.to_signal("origin")
    # a flight takes a quarter of an hour to leave
    leaving = departures.alter_event_duration(timedelta(minutes=15))
    show("Flights that leave, and the wind", leaving.join(weather, on="origin"))
    show("Idle periods", gates.left_anti_join(leaving, on="origin"))


if __name__ == "__main__":
    main()
