"""What a reader asks of the event-flow page: sorting, links, charts, summaries; in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flow_json import MINUTE, ROOMS, causes, column, make_flow, row_columns, times, words

Show = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("chromium")


def sort_state(page: Any, name: str) -> str | None:
    """Return how the table is sorted by a column."""
    page.frame()
    return page.page.locator(".grid th", has_text=name).get_attribute("aria-sort")


def test_a_click_on_a_column_sorts_by_it(show: Show) -> None:
    """Up, then down, then as the rows came; numbers by size, and texts by the alphabet."""
    page = show()
    came = [row[0] for row in page.rows()]
    page.click("alert")
    values = [float(row[5]) for row in page.rows()]
    assert values == sorted(values)
    assert sort_state(page, "alert") == "ascending"
    page.click("alert")
    values = [float(row[5]) for row in page.rows()]
    assert values == sorted(values, reverse=True)
    assert sort_state(page, "alert") == "descending"
    page.click("alert")
    assert [row[0] for row in page.rows()] == came
    assert sort_state(page, "alert") is None
    page.click("room")
    assert {row[4] for row in page.rows()} == {"attic"}
    page.page.locator(".box", has_text="readings").click()
    page.click("verdict")
    page.click("verdict")
    spans = [row[3].removeprefix("late by ").partition(" min")[0] for row in page.rows()[:3]]
    assert spans == ["9", "9", "7"]


def test_what_is_no_value_stands_last(show: Show) -> None:
    """Nulls come after all numbers, whichever way the table is sorted."""
    flow = make_flow(60)
    rows = flow["nodes"][0]["rows"]
    count = rows["start"]["n"]
    values = {**column(np.arange(count), "f64"), "nulls": column(np.arange(count) == 3, "u8")}
    rows["payload"][1] = values
    flow["arrivals"] = []
    page = show(flow)
    page.page.locator(".box", has_text="readings").click()
    for first in ("0", str(count - 1)):
        page.click("value")
        assert page.rows()[0][5] == first
        page.page.locator(".grid").evaluate("(grid) => { grid.scrollTop = 1e6; }")
        page.page.locator(".grid td", has_text="null").wait_for()
        assert page.rows()[-1][5] == "null"
        page.page.locator(".grid").evaluate("(grid) => { grid.scrollTop = 0; }")


def test_the_address_leads_to_a_row(show: Show) -> None:
    """The selected row and the step are in the address, and come back from there."""
    page = show()
    page.click("Row 2")
    assert page.page.evaluate("location.hash") == "#node=3&row=2"
    assert page.page.get_by_role("link", name="link").get_attribute("href") == "#node=3&row=2"
    page.page.evaluate("location.hash = '#node=2&row=4'")
    page.page.get_by_role("heading", name="Row 4 tumbling_window").wait_for()
    # the word is on one line, beside a long name, too
    assert page.page.get_by_role("link", name="link").bounding_box()["height"] < 26
    page.page.evaluate("location.hash = '#node=2&row=5&step=200'")
    page.page.get_by_role("heading", name="Row 5 tumbling_window").wait_for()
    assert page.step.startswith("200 of 400 arrivals")
    page.page.reload()
    page.page.locator(".box").first.wait_for()
    assert page.text(".details h2") == "Row 5 tumbling_window"
    assert page.step.startswith("200 of 400 arrivals")
    page.press("Escape")
    assert page.page.evaluate("location.hash") == ""
    page.page.evaluate("location.hash = '#node=0&arrival=0'")
    page.page.get_by_role("heading", name="Row 0 readings").wait_for()
    page.press("Escape")
    page.page.evaluate("location.hash = '#node=2&row=5000'")
    page.page.get_by_text("The row that the link names is not on this page.").wait_for()
    page.asked[:] = [page.url]


def test_a_field_is_charted_over_time(show: Show) -> None:
    """The chart has a line for each key, follows zoom and step, and a click selects a row."""
    page = show()
    page.page.locator(".box", has_text="tumbling_window").click()
    page.click("Field", "tab")
    page.page.locator("[data-chart=field] .u-over").wait_for()
    label = page.page.locator("figure").get_attribute("aria-label")
    assert label.startswith("average of tumbling_window over time. attic: ")
    assert [each for each in ROOMS if f"{each}: " not in label] == []
    canvas = page.page.locator("[data-chart=field] canvas")
    whole = canvas.evaluate("(each) => each.toDataURL()")
    page.press("+", "+")
    page.frame()
    assert canvas.evaluate("(each) => each.toDataURL()") != whole
    page.page.locator("[data-chart=field] select").select_option("count")
    page.frame()
    assert page.page.locator("figure").get_attribute("aria-label").startswith("count of")
    page.page.locator("[data-chart=field] .u-over").click(position={"x": 300, "y": 60})
    assert page.text(".details h2").endswith("tumbling_window")
    page.press("Home")
    assert page.text("[data-chart=field] .empty") == "No row was known at this step."
    page.press("End")
    page.page.locator(".box", has_text="readings").click()
    assert page.text("[data-chart=field] figcaption b") == "readings"


def many_causes() -> dict[str, Any]:
    """Return a flow whose first window has 300 causes, with the values 0 to 299."""
    flow = make_flow(400)
    kept = 300
    start = np.arange(kept) * float(MINUTE)
    payload = [words(np.zeros(kept), ["attic"]), column(np.arange(kept), "f64")]
    number = np.arange(kept)
    rows = row_columns(start, start + 1, number, number, np.zeros(kept), ("attic",), payload)
    flow["nodes"][1]["rows"] = rows
    windows = flow["nodes"][2]["rows"]["start"]["n"]
    flow["nodes"][2]["causes"] = causes([list(range(kept)), *([0] for _ in range(windows - 1))])
    flow["nodes"][1]["causes"] = None
    return flow


def test_hundreds_of_causes_are_summarised(show: Show) -> None:
    """Their number, their span, range and mean of each number, and the ten first of them."""
    page = show(many_causes())
    page.page.locator(".box", has_text="tumbling_window").click()
    page.click("Row 0")
    assert page.text(".related.is-cause summary") == "where 300 rows"
    assert page.page.locator("[data-summary] li").all_inner_texts() == [
        "2026-01-01 08:00:00 – 12:59:00 UTC",
        "value 0 to 299, mean 149.5",
    ]
    assert page.page.locator(".related.is-cause button").count() == 10
    assert "and 290 more" in page.details


def test_the_sentence_is_that_of_the_step(show: Show) -> None:
    """At an earlier step it says what was final, who was waited for, and what had come late."""
    page = show()
    at_end = page.text(".sentence")
    page.press("Home")
    assert page.text(".sentence").startswith(
        "At arrival 0: select is final up to 07:50:00, with 0 rows. It waits for readings"
    )
    page.page.get_by_label("Arrival", exact=True).fill("200")
    sentence = page.text(".sentence")
    assert sentence.startswith("At arrival 200: select is final up to 10:50:00, with 39 rows. ")
    assert "It waits for readings, whose CTI is 10:54:39" in sentence
    assert sentence.endswith(" of 201 events of readings had come late.")
    page.press("End")
    assert page.text(".sentence") == at_end


def test_means_are_rounded(show: Show) -> None:
    """Table and lists have four digits after the point, the details all of them."""
    flow = make_flow(60)
    rows = flow["nodes"][3]["rows"]
    count = rows["start"]["n"]
    values = np.full(count, 20 + 1 / 3)
    values[1] = 1 / 3e6
    rows["payload"][1] = column(values, "f64")
    page = show(flow)
    assert [row[5] for row in page.rows()[:2]] == ["20.3333", "3.333e-7"]
    page.click("Row 0")
    assert page.page.locator(".details dd").last.inner_text() == str(20 + 1 / 3)
    page.page.get_by_label("Filter rows").fill(f"alert={20 + 1 / 3}")
    assert len(page.rows()) == count - 1


def test_all_parts_are_in_sight(show: Show) -> None:
    """At 1280 by 900 the page does not scroll, and timeline and table scroll on their own."""
    page = show()
    page.press("]")
    page.frame()
    size = page.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert size == [1280, 900]
    for part in (".plan", ".steps", ".timeline", ".overview", ".grid", ".details"):
        box = page.page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900, part
        assert box["height"] > 30, part
    assert len(page.page.locator(".grid tbody tr:not([aria-hidden])").all()) > 4


def fast_clock(ahead: float) -> dict[str, Any]:
    """Return a flow in which the last of the readings are far ahead of the CTI."""
    flow = make_flow(400)
    rows = flow["nodes"][0]["rows"]
    count = rows["start"]["n"]
    start = np.arange(count) * float(MINUTE)
    start[-20:] += ahead
    rows["start"], rows["end"] = times(start), times(start + 1)
    return flow


def test_a_fast_clock_does_not_zoom_out(show: Show) -> None:
    """Rows a year ahead are out of sight until somebody asks for all times, or selects one."""
    page = show()
    assert page.page.get_by_role("button", name="All times").count() == 0
    page = show(fast_clock(365 * 1440 * MINUTE))
    assert "(6 h" in page.range
    page.click("All times")
    assert "(387 d" in page.range
    page.click("All times")
    assert "(6 h" in page.range
    flow = fast_clock(365 * 1440 * MINUTE)
    flow["arrivals"] = []
    page = show(flow)
    page.page.locator(".box", has_text="readings").click()
    page.click("start")
    page.click("start")
    page.page.locator(".grid .row-button").first.click()
    assert page.range.startswith("2027-01-01")
