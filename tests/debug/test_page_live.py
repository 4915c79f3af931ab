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


def make_results(minutes: list[tuple[int, int]], alert: float) -> dict[str, Any]:
    """Return results of the cellar, each from one minute to another."""
    start, end = np.array(minutes, float).reshape(-1, 2).T * MINUTE
    none = np.zeros(len(minutes))
    payload = [words(none, ["cellar"]), column(np.full(len(minutes), alert), "f64")]
    return row_columns(start, end, none, none, none, ("cellar",), payload)


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


OUTLINES = {"count": 7_003, "rows": make_results([(60, 70), (65, 75), (70, 80)], 21.5)}
NO_OUTLINES = {"count": 0, "rows": make_results([], 0.0)}
# the lane of the cellar, below that of the attic
CELLAR = 30


def send_results(page: Shown, live: LivePage, step: int, **changes: Any) -> None:
    """Send changes of the result of the query, and wait until the page has them."""
    part = make_part(step, 1)
    live.send("part", {**part, "nodes": [{"id": 3, "rowsIn": 9, "rowsOut": 8, **changes}]})
    page.page.get_by_text(f"step {step} has come").wait_for()


def test_results_that_are_not_final_are_outlines(chromium: Any, tmp_path: Path) -> None:
    """They are drawn hollow, and the pointer, the plan and the table say that they may change."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        assert "result so far, not final" in page.text(".legend")
        assert page.page.locator(".so-far-list").count() == 0
        send_results(page, live, 70, soFar=OUTLINES)
        assert page.box("select").endswith("held, 7,003 not final")
        x, y = page.find(
            "select", "^not final, so far: room cellar, alert 21.5 · from 2026", CELLAR
        )
        page.page.locator(".lane-head", has_text="select").locator(".link-button").click()
        page.page.get_by_text("7,003 rows so far, not final").click()
        listed = page.page.locator(".so-far-list li").all_inner_texts()
        assert len(listed) == 4
        assert listed[0].startswith("from 2026-01-01 09:10:00 UTC to 2026-01-01 09:20:00 UTC: room")
        assert listed[-1] == "and 7,000 more"
        page.page.mouse.click(x + 12, y)
        assert "The result so far is room cellar, alert 21.5; it is not final." in page.details
        page.press("Home")
        assert "not final" not in page.box("select")
        assert page.page.locator(".so-far-list").count() == 0
        page.page.mouse.move(x + 13, y)
        assert "not final, so far" not in page.tip()
        page.close()


def test_an_outline_is_not_filled(chromium: Any, tmp_path: Path) -> None:
    """Its dashes have less than a third of the colour that the same rows have as final ones."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        send_results(page, live, 70, soFar=OUTLINES)
        page.lane("select")
        # from here on the span of time stays as it is
        page.press("ArrowRight")
        dashed = page.pixels("output")
        send_results(page, live, 71, soFar=NO_OUTLINES)
        none = page.pixels("output")
        send_results(page, live, 72, rows=OUTLINES["rows"])
        assert none < dashed < none + (page.pixels("output") - none) / 3
        page.close()


def test_an_outline_goes_once_its_row_is_there(chromium: Any, tmp_path: Path) -> None:
    """A row that has come is no outline, even if the last look has found it so."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        send_results(page, live, 70, soFar=OUTLINES)
        page.find("select", "^not final, so far: .* from 2026-01-01 09:00:00", CELLAR)
        final = make_results([(60, 70)], 23.0)
        ctis = {"step": column([71], "i32"), "cti": times([65.0 * MINUTE])}
        send_results(page, live, 71, rows=final, ctis=ctis)
        page.find("select", "^room cellar, alert 23 · from 2026-01-01 09:00:00", CELLAR)
        assert page.box("select").endswith("7,002 not final")
        # one that the operator has given, and that its query holds, is there as it is
        send_results(page, live, 72, rows=make_results([(65, 75)], 21.5))
        assert page.box("select").endswith("7,001 not final")
        send_results(page, live, 73, soFar=NO_OUTLINES)
        assert "not final" not in page.box("select")
        page.close()


def test_a_key_without_a_final_row_has_a_lane(chromium: Any, tmp_path: Path) -> None:
    """The lanes are those of all rows, and the page goes as far as the outlines."""
    with serve_page() as live:
        page = connect(chromium, tmp_path, live)
        keys = page.page.locator(".lane-key", has_text="cellar")
        assert keys.count() == 0
        far = {"count": 1, "rows": make_results([(300, 310)], 21.5)}
        send_results(page, live, 70, soFar=far)
        keys.wait_for()
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
