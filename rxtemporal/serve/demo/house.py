"""House of sensors: one stream of readings, and one query over it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.engine.kernels.compiled import on_first_compile
from rxtemporal.serve.push_sources import find_in_plan

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


def warm_up(report: Callable[[str], None]) -> None:
    """Run the query once in memory, so that no device waits until its kernels are compiled.

    They are kept on disk: ``report`` is called if that takes its seconds.
    """
    made = application()
    source = find_in_plan(made)["readings"]
    stored = [_make_reading(second, number=second) for second in range(40)]
    with (
        on_first_compile(lambda: report("compiling the query, once for this installation")),
        made.run(sinks={"by_device": rxt.Collect()}, warn_after=None),
    ):
        source.push([_make_reading(3_900)])
        source.push(stored[0])
        source.push(stored)
        source.push([_make_reading(second) for second in range(38, 78)])
        source.push([_make_reading(second) for second in range(38, 78)])
        source.push([_make_reading(80), _make_reading(0)])
        source.push(_make_reading(150))
        source.close()


def _make_reading(second: int, number: int | None = None) -> dict[str, object]:
    """Return a reading of the hour before now; a second beyond that is one of a fast clock."""
    time = datetime.now(UTC) + timedelta(seconds=second - 3_600)
    return {"device": f"device {second % 3}", "time": time, "temp": 20.5, "seq": number}
