"""Hopping windows over a row that never ends, with a finite result.

An ordinary hopping window would give a row for each of the infinitely many windows that e0 touches.
``hopping_window2`` gives a row only where the input changes. The output is the two tables of the
StreamInsight article *Taming Hopping Windows*: the altered lifetimes, and the count over them.

    python samples/hopping_tables.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import rxtemporal as rxt
from rxtemporal import agg

START = datetime(2012, 6, 28, tzinfo=UTC)
WINDOWS = {
    "duration": timedelta(seconds=5),
    "period": timedelta(seconds=2),
    "alignment": datetime(2012, 3, 15, 12, tzinfo=UTC),
}


def second(number: int) -> datetime:
    return START + timedelta(seconds=number)


def show(title: str, stream: rxt.Streamable) -> None:
    print(title)
    for start, end, payload in stream.to_polars().iter_rows():
        until = "never ends" if end is None else f"{end:%H:%M:%S}"
        print(f"  {start:%H:%M:%S}  {until:<10}  {payload}")


def main() -> None:
    events = rxt.from_events(
        [
            rxt.EdgeEvent.create_start(second(0), "e0"),
            rxt.EdgeEvent.create_start(second(1), "e1"),
            rxt.EdgeEvent.create_end(second(1), second(2), "e1"),
            rxt.EdgeEvent.create_start(second(3), "e2"),
            rxt.EdgeEvent.create_start(second(9), "e3"),
            rxt.EdgeEvent.create_end(second(3), second(10), "e2"),
            rxt.EdgeEvent.create_end(second(9), second(10), "e3"),
        ],
        advance_time=rxt.INCREASING_START_TIME,
    )
    show("Adjusted Events", events.snap_to_window_intervals(**WINDOWS))
    show("Query", events.hopping_window2(**WINDOWS).aggregate(n=agg.count()))


if __name__ == "__main__":
    main()
