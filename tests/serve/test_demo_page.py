"""The page of the demonstration, in a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxtemporal.serve.demo import house

pytestmark = pytest.mark.xdist_group("chromium")
ADDRESS = "http://house/"
MEANS = {"hall": [20.0, 22.0, 21.0], "attic": [float(mean) for mean in range(40)], "shed": []}


def answer(route: Any) -> None:
    """Answer as a house in which three devices have sent."""
    path = route.request.url.removeprefix(ADDRESS)
    if path == "":
        page = house.read_page()
        policy = {"content-security-policy": house.make_policy(page)}
        route.fulfill(body=page, content_type="text/html", headers=policy)
    elif path == "diagnostics":
        inputs = {name: {"name": name, "events": 60, "late": 0} for name in MEANS}
        stream = {"name": "readings", "events_in": 180, "inputs": inputs, "late": {}}
        route.fulfill(json={"run": {"streams": [stream]}, "inputs": {"readings": 3}})
    elif "last-event-id" in route.request.headers:
        route.fulfill(body="", content_type="text/event-stream")
    elif path == "queries/by_device/events":
        rows = [
            {"start_time": f"2026-01-01T08:{at:02}:00Z", "device": name, "count": 20, "mean": mean}
            for name, means in MEANS.items()
            for at, mean in enumerate(means)
        ]
        body = f"event: rows\nid: 1\ndata: {json.dumps(rows)}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")
    else:
        route.abort()


def test_each_device_has_a_line_of_its_last_means(chromium: Any) -> None:
    """The line goes from the oldest to the newest of up to thirty means, and says its range."""
    page = chromium
    page.set_viewport_size({"width": 1280, "height": 900})
    page.route("**/*", answer)
    try:
        page.goto(ADDRESS)
        lines = page.locator(".devices svg")
        lines.first.wait_for()
        rows = page.locator("#devices tr").all_inner_texts()
        assert [row.split()[0] for row in rows] == ["attic", "hall", "shed"]
        assert lines.count() == 2
        labels = [each.get_attribute("aria-label") for each in lines.all()]
        assert labels == ["30 means, from 10.0 to 39.0 °C", "3 means, from 20.0 to 22.0 °C"]
        points = lines.nth(1).locator("polyline").get_attribute("points")
        heights = [float(point.partition(",")[2]) for point in points.split()]
        assert heights[1] < heights[2] < heights[0]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        page.goto("about:blank")
        page.unroute("**/*")
