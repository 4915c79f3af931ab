"""The page of the demonstration, in a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rxtemporal.serve.demo import house

pytestmark = pytest.mark.xdist_group("chromium")
ADDRESS = "http://house/"
SO_FAR = "queries/by_device/now?every=1s"
HIDE = """() => {
    Object.defineProperty(document, "hidden", {value: true, configurable: true});
}"""
# waits until a hidden page has looked several times whether it is seen again
WAIT = """() => new Promise((done) => {
    const wait = window.setTimeout;
    let looks = 0;
    window.setTimeout = (call, pause) => {
        if (pause === 500 && ++looks === 4) done();
        return wait(call, pause);
    };
})"""
MEANS = {"hall": [20.0, 22.0, 21.0], "attic": [float(mean) for mean in range(40)], "shed": []}


def answer(route: Any, so_far: str) -> None:
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
    elif path == SO_FAR:
        route.fulfill(body=so_far, content_type="text/event-stream")
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


def make_open(minute: int, device: str, count: int, mean: float | None) -> dict[str, Any]:
    """Return the result so far of a minute."""
    start = f"2026-01-01T08:{minute:02}:00Z"
    return {"start_time": start, "device": device, "count": count, "mean": mean}


def write_so_far() -> str:
    """Return events of results so far: the minute of the hall changes, one of the attic is over."""
    hall, attic = make_open(3, "hall", 4, 18.0), make_open(39, "attic", 9, 1.0)
    now = [hall, attic, make_open(40, "attic", 5, 45.0), make_open(2, "shed", 1, 9.0)]
    changed = [make_open(3, "hall", 5, 24.0), make_open(4, "shed", 7, 8.0)]
    events = [("now", now), ("gone", [hall, attic]), ("now", changed), ("now", [])]
    return "".join(f"event: {kind}\ndata: {json.dumps(rows)}\n\n" for kind, rows in events)


def show_house(page: Any, *, width: int = 1280) -> None:
    """Open the page, and wait until the results so far are there."""
    page.set_viewport_size({"width": width, "height": 900})
    so_far = write_so_far()
    page.route("**/*", lambda route: answer(route, so_far))
    page.goto(ADDRESS)
    page.locator("#open tr", has_text="24.0").wait_for()
    page.locator("#results tr", has_text="39.0").wait_for()


def test_the_newest_minute_of_each_device_is_shown_so_far(chromium: Any) -> None:
    """It stands above the final ones, in another colour, and beside the last final mean."""
    page = chromium
    try:
        show_house(page)
        head, *rows = page.locator("#open tr").all_inner_texts()
        assert head == "So far, not final"
        assert [row.split()[1:] for row in rows] == [
            ["attic", "5", "45.0"], ["shed", "7", "8.0"], ["hall", "5", "24.0"],
        ]  # fmt: skip
        devices = page.locator("#devices tr").all_inner_texts()
        assert [" ".join(row.split()[2:5]) for row in devices] == [
            "39.0 45.0 so", "21.0 24.0 so", "– 8.0 so",
        ]  # fmt: skip
        style = "(cell) => [getComputedStyle(cell).color, getComputedStyle(cell).fontStyle]"
        so_far, final = (page.locator(f"{each} td").last.evaluate(style)
                         for each in ("#open", "#results"))  # fmt: skip
        assert so_far[0] != final[0]
        assert (so_far[1], final[1]) == ("italic", "normal")
        border = "(cell) => getComputedStyle(cell).borderBottomStyle"
        assert page.locator("#open td").last.evaluate(border) == "dashed"
    finally:
        page.goto("about:blank")
        page.unroute("**/*")


def test_a_line_goes_on_dashed_where_it_is_not_final(chromium: Any) -> None:
    """The dashes begin at the last final mean, and the point at their end is hollow."""
    page = chromium
    try:
        show_house(page, width=390)
        lines = page.locator(".devices svg")
        assert [each.get_attribute("aria-label") for each in lines.all()] == [
            "31 means, from 10.0 to 45.0 °C, 1 of them not final",
            "4 means, from 20.0 to 24.0 °C, 1 of them not final",
            "2 means, from 8.0 to 9.0 °C, 2 of them not final",
        ]
        final, dashes = ([each.get_attribute("points").split() for each in line.all()]
                         for line in (lines.locator("polyline:not(.open)"),
                                      lines.locator("polyline.open")))  # fmt: skip
        assert [len(each) for each in final] == [30, 3, 0]
        assert [len(each) for each in dashes] == [2, 2, 2]
        assert [each[0] for each in dashes[:2]] == [each[-1] for each in final[:2]]
        assert lines.locator("circle.open").count() == 3
        dash = "(line) => getComputedStyle(line).strokeDasharray"
        found = {each.evaluate(dash) for each in lines.locator("polyline.open").all()}
        assert "none" not in found
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        page.goto("about:blank")
        page.unroute("**/*")


def test_a_hidden_page_asks_for_no_results_so_far(chromium: Any) -> None:
    """Each look costs the service something: it is asked again once somebody sees the page."""
    page, asked = chromium, list[str]()
    try:
        show_house(page)
        # the first stream has ended, and the next one would begin after two seconds
        page.evaluate(HIDE)
        page.on("request", note := lambda request: asked.append(request.url))
        page.evaluate(WAIT)
        page.remove_listener("request", note)
        assert ADDRESS + SO_FAR not in asked
        with page.expect_request(ADDRESS + SO_FAR):
            page.evaluate("delete document.hidden")
    finally:
        page.goto("about:blank")
        page.unroute("**/*")


def test_each_device_has_a_line_of_its_last_means(chromium: Any) -> None:
    """The line goes from the oldest to the newest of up to thirty means, and says its range."""
    page = chromium
    page.set_viewport_size({"width": 1280, "height": 900})
    page.route("**/*", lambda route: answer(route, so_far=""))
    try:
        page.goto(ADDRESS)
        lines = page.locator(".devices svg")
        lines.first.wait_for()
        rows = page.locator("#devices tr").all_inner_texts()
        assert [row.split()[0] for row in rows] == ["attic", "hall", "shed"]
        assert lines.count() == 2
        labels = [each.get_attribute("aria-label") for each in lines.all()]
        assert labels == ["30 means, from 10.0 to 39.0 °C", "3 means, from 20.0 to 22.0 °C"]
        points = lines.nth(1).locator("polyline").first.get_attribute("points")
        heights = [float(point.partition(",")[2]) for point in points.split()]
        assert heights[1] < heights[2] < heights[0]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        page.goto("about:blank")
        page.unroute("**/*")
