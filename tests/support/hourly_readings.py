"""Readings of an hour, their settings, and a query over them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


READINGS = pl.DataFrame(
    {
        "received": range(60),
        "time": [BEGIN + timedelta(minutes=10 * n - (n % 5 == 0) * 40) for n in range(60)],
        "room": ["hall", "lab", None, "attic", "cellar", "roof"] * 10,
        "temp": [19.0 + n % 7 for n in range(60)],
    }
)


SETTINGS = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(
        3, timedelta(minutes=15), advance_to_infinity_on_shutdown=False
    ),
    policy=rxt.AdvanceTimePolicy.DROP,
)


def hourly(readings: rxt.Streamable) -> rxt.Streamable:
    """Each room's hour."""
    windows = readings.group_by("room").tumbling_window(timedelta(hours=1))
    return windows.aggregate(n=agg.count(), warmest=agg.max("temp"))
