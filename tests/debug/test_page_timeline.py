"""The plan and the timeline of the event-flow page, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flow_json import MINUTE, column, make_flow, times

Show = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("chromium")


def test_the_plan_says_what_each_node_did_and_who_holds_back(show: Show) -> None:
    """The sentence stands on top; each box has its numbers, and one is marked."""
    page = show()
    assert page.text(".sentence").startswith("tumbling_window holds rows back")
    assert page.box("readings").startswith("readings, input stream: 400 rows in, 381 out, CTI 2026")
    assert "119 out, CTI 2026-01-01 13:50:00 UTC, 37 held, holds back" in page.box(
        "tumbling_window"
    )
    assert page.text(".box:has-text('where')") == (
        "where 381 in → 306 out CTI 13:52:04.920447 held 0 time 150 ms"
    )
    assert page.page.locator(".mark-back").all_inner_texts() == ["holds back"]
    places = [box.bounding_box()["x"] for box in page.page.locator(".box").all()]
    assert places == sorted(set(places))


def test_a_box_of_the_plan_chooses_the_table(show: Show) -> None:
    """A click on an operator, or Enter, shows its rows; the name of a lane does the same."""
    page = show()
    page.page.locator(".box", has_text="where").click()
    assert page.text("#table-title") == "Rows where, UTC"
    page.page.locator(".box", has_text="readings").focus()
    page.press("Enter")
    assert page.text("#table-title") == "Arrivals readings, UTC"
    page.click("select")
    assert page.text("#table-title") == "Rows select, UTC"
    assert page.text("[role=status].spoken") == "select chosen: 64 rows"


def test_the_timeline_draws_rows_ctis_late_events_and_windows(show: Show) -> None:
    """Inputs, operators, results, CTIs and late events have their own colours in the picture."""
    page = show()
    for lane, names in (
        ("readings", ("source", "operator", "late", "cti")),
        ("select", ("output",)),
    ):
        page.lane(lane)
        for name in names:
            assert page.pixels(name) > 50, name
    for name in ("cause", "effect", "select"):
        assert page.pixels(name) == 0, name
    flow = make_flow()
    flow["nodes"][2]["window"] = None
    assert page.colours() != show(flow).colours()


def test_the_timeline_zooms_pans_and_fits(show: Show) -> None:
    """Buttons, keys, wheel and drags change the span that is shown."""
    page = show()
    whole = page.range
    page.click("Zoom in")
    closer = page.range
    page.press("+")
    assert len({whole, closer, page.range}) == 3
    page.press("-", "-")
    assert page.range == whole
    page.click("Zoom in")
    page.press("ArrowRight")
    right = page.range
    page.press("ArrowLeft")
    assert (page.range == closer, right == closer) == (True, False)
    page.press("f")
    assert page.range == whole
    left, end, top = page.lane("readings")
    page.page.mouse.move((left + end) / 2, top + 20)
    page.page.mouse.wheel(0, -400)
    wheel = page.range
    assert wheel != whole
    page.page.mouse.down()
    page.page.mouse.move((left + end) / 2 + 150, top + 20, steps=3)
    page.page.mouse.up()
    assert page.range not in (wheel, whole)
    page.click("Fit")
    assert page.range == whole


def test_a_brush_shows_the_span_below_it(show: Show) -> None:
    """Shift and a drag zoom to a span; a drag over the overview does so too, and moves it."""
    page = show()
    left, end, top = page.lane("readings")
    page.page.keyboard.down("Shift")
    page.page.mouse.move(left + (end - left) * 0.25, top + 20)
    page.page.mouse.down()
    page.page.mouse.move(left + (end - left) * 0.5, top + 20, steps=3)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    brushed = page.range
    assert "(1 h 3" in brushed
    page.press("f")
    strip = page.page.locator(".overview").bounding_box()
    y = strip["y"] + 15
    page.page.mouse.move(left + 200, y)
    page.page.mouse.down()
    page.page.mouse.move(left + 300, y, steps=3)
    page.page.mouse.up()
    chosen = page.range
    page.page.mouse.move(left + 250, y)
    page.page.mouse.down()
    page.page.mouse.move(left + 350, y, steps=3)
    page.page.mouse.up()
    assert page.range != chosen
    assert page.range.partition("(")[2] == chosen.partition("(")[2]


def test_two_fingers_zoom(show: Show) -> None:
    """Fingers that move apart show less time, in more detail."""
    page = show()
    whole = page.range
    session = page.page.context.new_cdp_session(page.page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    left, _, top = page.lane("readings")
    for kind, apart in (("touchStart", 40), ("touchMove", 90), ("touchMove", 160)):
        points = [
            {"x": left + 300 + side * apart, "y": top + 20, "id": side + 1} for side in (-1, 1)
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert "(1 h" in page.range
    assert page.range != whole


def test_keys_are_lanes_that_open_and_close(show: Show) -> None:
    """A lane has a sub-lane for each key; many keys stay together until they are asked for."""
    page = show()
    assert page.page.locator(".lane-key").count() == 16
    page.click("Keys of readings")
    assert page.page.locator(".lane-key").count() == 12
    page.click("Keys of readings")
    assert page.page.locator(".lane-key").all_inner_texts()[:4] == [
        "attic", "hall", "kitchen", "office"
    ]  # fmt: skip
    many = show(make_flow(300, rooms=tuple(f"room {number}" for number in range(60))))
    assert many.page.locator(".lane-key").count() == 0
    many.click("Keys of readings")
    assert many.page.locator(".lane-key").last.inner_text() == "20 more keys"
    surface = many.page.locator("[data-surface]")
    many.press("ArrowDown", "ArrowDown")
    assert surface.evaluate("(each) => each.scrollTop") == 120
    many.press("ArrowUp")
    assert surface.evaluate("(each) => each.scrollTop") == 60


def test_the_page_is_legible_on_a_small_screen(show: Show) -> None:
    """Nothing stands past the edge at 390 pixels, and the lanes keep their names."""
    page = show(width=390)
    width = page.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    names = page.page.locator(".lane-head .link-button").all_inner_texts()
    assert names == ["readings", "where", "tumbling_window", "select"]


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.full)])
def test_dark_and_light(show: Show, dark: bool) -> None:
    """The page follows the system until a reader chooses; the picture changes, too."""
    page = show(dark=dark)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    before, picture = page.page.evaluate(ground), page.colours()
    page.click("Colours: auto; switch to dark")
    if dark:
        page.click("Colours: dark; switch to light")
    assert page.page.evaluate(ground) != before
    assert page.colours() != picture


@pytest.mark.full
def test_a_hundred_thousand_events_need_few_elements(show: Show) -> None:
    """A large flow opens, and its table and timeline hold no element for each row."""
    page = show(make_flow(100_000))
    assert page.box("readings").startswith("readings, input stream: 100,000 rows in")
    assert page.page.evaluate("document.querySelectorAll('*').length") < 700
    page.press("[")
    assert page.text(".details h2").startswith("Row ")


def test_a_flow_without_rows_is_shown(show: Show) -> None:
    """Nothing has come: each part says so, and every key and button still does no harm."""
    page = show(make_flow(0))
    assert page.box("readings").startswith("readings, input stream: 0 rows in, 0 out, CTI none yet")
    assert page.text(".grid .empty") == "Nothing came out of this operator."
    page.press("n", "p", "c", "r", "]", "[", "+", "-", "f", "Home", "End", "ArrowRight")
    left, right, top = page.lane("select")
    page.page.mouse.click((left + right) / 2, top + 10)
    assert "select has no CTI yet" in page.details
    page.click("Curves", "tab")
    assert page.page.get_by_text("Nothing to show.").count() == 3


@pytest.mark.full
def test_the_timeline_reaches_to_the_last_cti(show: Show) -> None:
    """A CTI long after the last row is in sight, and a single moment has room around it."""
    flow = make_flow(1)
    flow["nodes"][0]["ctis"] = {"step": column([0], "i32"), "cti": times([600 * MINUTE])}
    assert "(10 h" in show(flow).range
    assert show({**make_flow(1), "time": "ticks"}).range
