"""House of sensors: one stream of readings, and one query over it."""

from __future__ import annotations

from datetime import timedelta

import rxtemporal as rxt
from rxtemporal import agg

# long enough for a slow network, and short enough to watch
DELAY = timedelta(seconds=5)
# a clock that is further ahead is wrong
AHEAD = timedelta(minutes=1)


def application() -> rxt.Application:
    """Return an application with the stream ``readings`` and the query ``by_device``.

    A reading has a device, a time and a temperature, and may have a sequence number. The query
    counts the readings of each device in each minute, and computes their mean.

    >>> house = application()
    >>> print(house)
    Application('house': streams readings; queries by_device)
    """
    readings = rxt.PushSource(
        "readings",
        schema={"device": str, "temp": float},
        start="time",
        seq="seq",
        delay=DELAY,
        ahead=AHEAD,
    )
    house = rxt.Application("house")
    house.define_stream("readings", readings.stream)
    minutes = readings.stream.group_by("device").tumbling_window(timedelta(minutes=1))
    house.query("by_device", minutes.aggregate(count=agg.count(), mean=agg.avg("temp")))
    return house
