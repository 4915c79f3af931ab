"""The picture of the event-flow page in the README.

    python tests/support/flow_picture.py

draws ``docs/pictures/event-flow.png``: readings of three rooms, their means, and those above a
limit, with a row selected, as Chromium shows the page.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
from playwright.sync_api import sync_playwright

import rxtemporal as rxt
from rxtemporal import agg

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "event-flow.png"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_query() -> rxt.Streamable:
    """Return the query: rooms whose mean of ten minutes is above their limit."""
    draw = random.Random(4)
    readings, limits = list[rxt.PointEvent](), list[rxt.IntervalEvent]()
    for minute in range(60):
        for room, warm in (("hall", 19.0), ("lab", 22.5), ("attic", 17.5)):
            late = draw.choice([0, 0, 0, 0, 3, 8])
            time = NOON + timedelta(minutes=minute - late, seconds=draw.randrange(60))
            temp = round(warm + minute / 20 + draw.uniform(-1, 1), 1)
            readings.append(rxt.PointEvent(time, {"room": room, "temp": temp}))
    for room, limit in (("hall", 21.0), ("lab", 24.0), ("attic", 20.0)):
        payload = {"room": room, "limit": limit}
        limits.append(rxt.IntervalEvent(NOON, rxt.MAX_TIME, payload))
    means = (
        rxt.from_events(readings, name="readings", advance_time="5m")
        .group_by("room")
        .tumbling_window("10m")
        .aggregate(n=agg.count(), mean=agg.mean("temp"))
    )
    known = rxt.from_events(limits, name="limits", advance_time="5m")
    return means.join(known, on="room").where(pl.col("mean") > pl.col("limit"))


def main() -> None:
    """Write the page, open it, select a row and take the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = make_query().debug(f"{folder}/flow.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(page.as_uri())
        tab.locator("table tbody tr").first.click()
        tab.wait_for_timeout(500)
        tab.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
