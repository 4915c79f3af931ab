"""The live event-flow page in a browser: rows that come while somebody looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debug_page import Shown
from flow_json import MINUTE, ROOMS, column, make_flow, row_columns, times, words
from live_page import TOKEN, LivePage, serve_page

pytestmark = pytest.mark.xdist_group("chromium")


def make_part(step: int, rows: int, *, edge: int = 0, end: float | None = None) -> dict[str, Any]:
    """Return new rows of the readings, and the counters of their node."""
    start = np.full(rows, step * MINUTE) if edge == 0 else np.full(rows, 500.0 * MINUTE)
    ends = start + 1 if edge == 0 else np.full(rows, np.inf if end is None else end)
    number = np.full(rows, step)
    closed = number if np.isfinite(ends).all() else np.full(rows, -1)
    payload = [words(np.zeros(rows), ["cellar"]), column(np.full(rows, float(step)), "f64")]
    new = row_columns(start, ends, number, closed, np.zeros(rows), ("cellar",), payload)
    new["edge"] = column(np.full(rows, edge), "f64")
    return {
        "step": step,
        "sentence": f"step {step} has come",
        "nodes": [
            {
                "id": 0, "rowsIn": 1000 + step, "rowsOut": 900 + step, "rows": new,
                "ctis": {"step": column([step], "i32"), "cti": times([step * MINUTE])},
                "heldCurve": {"step": column([step], "i32"), "rows": column([3], "i32")},
            }
        ],
    }  # fmt: skip


def live_flow() -> dict[str, Any]:
    """Return the flow with which a connection begins."""
    flow = make_flow(60, rooms=ROOMS)
    rows = flow["nodes"][0]["rows"]
    rows["edge"] = column(np.zeros(rows["start"]["n"]), "f64")
    return {**flow, "live": True, "events": "debug/events"}


def connect(chromium: Any, folder: Path, live: LivePage) -> Shown:
    """Return the page, connected, with the first flow."""
    page = Shown(chromium, folder, url=live.url)
    page.page.get_by_label("Token").fill(TOKEN)
    page.click("Connect")
    wait_for(page, "connected")
    live.send("flow", live_flow())
    page.page.locator(".box").first.wait_for()
    return page


def wait_for(page: Shown, state: str) -> None:
    """Wait until the page says how it is connected."""
    page.page.locator(".live", has_text=state).wait_for()


def test_a_live_page_asks_for_its_token_and_adds_rows(chromium: Any, tmp_path: Path) -> None:
    """Counters, rows and sentence are those of the last part; only the server was asked."""
    with serve_page() as live:
        page = Shown(chromium, tmp_path, url=live.url)
        wait_for(page, "token needed")
        assert "Nothing has come from the server yet." in page.text("main")
        page.page.get_by_label("Token").fill("wrong")
        page.click("Connect")
        page.page.get_by_label("Token").fill(TOKEN)
        page.click("Connect")
        wait_for(page, "connected")
        live.send("flow", live_flow())
        page.page.locator(".box", has_text="readings").click()
        live.send("part", make_part(70, 2))
        page.page.get_by_text("step 70 has come").wait_for()
        assert page.box("readings").startswith("readings, input stream: 1,070 rows in, 970 out")
        assert page.step == "all of 71 batches the newest rows are shown"
        page.page.locator(".grid").evaluate("(grid) => { grid.scrollTop = 1e6; }")
        assert page.rows()[-1][4:] == ["cellar", "70"]
        assert {url.removeprefix(live.url) for url in page.asked} == {"", "/events"}
        page.close()


def test_a_live_page_keeps_the_newest_rows(chromium: Any, tmp_path: Path) -> None:
    """Older rows are forgotten, and an open row that has ended is replaced."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        page.page.locator(".box", has_text="readings").click()
        live.send("part", make_part(80, 1, edge=7))
        page.page.get_by_text("step 80 has come").wait_for()
        page.page.get_by_label("Filter rows").fill("value=80")
        assert [row[2] for row in page.rows()] == ["open end"]
        live.send("part", make_part(81, 1, edge=7, end=510 * MINUTE))
        page.page.get_by_text("step 81 has come").wait_for()
        page.page.get_by_label("Filter rows").fill("cellar")
        assert [row[2:4] for row in page.rows()] == [["16:30:00", "81"]]
        page.page.get_by_label("Filter rows").fill("")
        for step in (82, 83, 84):
            live.send("part", make_part(step, 900))
        page.page.get_by_text("step 84 has come").wait_for()
        page.frame()
        assert page.text("[data-count]") == "2,000 rows"
        page.close()
        assert page.problems == ["Failed to load resource: the server responded with a status "
                                 "of 401 (Unauthorized)"]  # fmt: skip


def test_a_live_page_shows_causes(chromium: Any, tmp_path: Path) -> None:
    """Causes name rows by numbers, which stay theirs when older rows are forgotten."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        first = make_part(70, 3)
        first["nodes"][0]["rows"]["number"] = column([100, 101, 102], "f64")
        flow = live_flow()
        for each in flow["nodes"]:
            each["causes"] = None
            count = each["rows"]["start"]["n"]
            each["rows"]["number"] = column(np.arange(count), "f64")
        live.send("flow", flow)
        window = make_part(70, 1)["nodes"][0]
        window["rows"]["number"] = column([500], "f64")
        window["links"] = {
            "of": column([500, 500, 500, 500], "f64"), "side": column([0] * 4, "u8"),
            "row": column([100, 102, 7, 99_999], "f64"), "role": column([0] * 4, "u8"),
        }  # fmt: skip
        live.send("part", {**first, "nodes": [first["nodes"][0], {**window, "id": 1}]})
        page.page.get_by_text("step 70 has come").wait_for()
        page.page.locator(".box", has_text="where").click()
        page.page.get_by_label("Filter rows").fill("cellar")
        page.page.locator(".grid .row-button").click()
        # the fourth is not among the rows of the page
        assert page.text(".related.is-cause h3") == "Causes 3"
        more = make_part(71, 1_950)
        more["nodes"][0]["rows"]["number"] = column(np.arange(103, 2_053), "f64")
        live.send("part", more)
        page.page.get_by_text("step 71 has come").wait_for()
        assert page.text(".related.is-cause h3") == "Causes 2"
        page.page.locator(".related.is-cause button").last.click()
        assert page.text(".related.is-effect h3") == "Effects 1"
        assert page.page.evaluate("location.hash") == ""
        page.close()


def test_a_live_page_comes_back(chromium: Any, tmp_path: Path) -> None:
    """When the server ends, or has too many guests, the page says so and tries again."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        live.refuse = [503]
        live.end()
        wait_for(page, "connecting again")
        wait_for(page, "too many look at this page")
        wait_for(page, "connected")
        assert page.box("readings").startswith("readings")
        page.close()
