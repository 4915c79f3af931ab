"""Tables, causes and effects, missing rows and steps of the event-flow page, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flow_json import MINUTE, column, make_flow

Show = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("chromium")


def test_the_table_is_ordered_and_filtered(show: Show) -> None:
    """Rows stand in the order of arrival or of a column; words and comparisons filter them."""
    page = show()
    page.page.locator(".box", has_text="readings").click()
    by_arrival = [row[0] for row in page.rows()]
    assert by_arrival[:3] == ["0", "1", "2"]
    page.click("start")
    assert [row[1] for row in page.rows()] == sorted(row[1] for row in page.rows())
    assert [row[0] for row in page.rows()] != by_arrival
    page.press("/")
    page.page.keyboard.type("room=attic value>24 13:")
    cells = page.rows()
    assert cells
    assert all(row[4] == "attic" and float(row[5]) > 24 for row in cells)
    assert page.text("[data-count]") == f"{len(cells)} of 400 rows"
    page.press("ControlOrMeta+a")
    page.page.keyboard.type("late by")
    assert all(row[3].startswith("late by") for row in page.rows())
    page.press("ControlOrMeta+a")
    page.page.keyboard.type("nowhere")
    assert page.text(".grid .empty").startswith("No row passes the filter")


def test_the_table_makes_only_the_rows_in_sight(show: Show) -> None:
    """The table knows how many rows it has, holds a few, and makes others as it scrolls."""
    page = show()
    page.page.locator(".box", has_text="readings").click()
    assert page.page.locator(".grid table").get_attribute("aria-rowcount") == "401"
    assert len(page.rows()) < 30
    page.page.locator(".grid").evaluate("(grid) => { grid.scrollTop = 1e6; }")
    page.page.get_by_role("button", name="Arrival 399", exact=True).wait_for()
    assert page.rows()[-1][0] == "399"


def test_a_row_lights_up_with_its_causes_and_effects(show: Show) -> None:
    """A click on a window marks what it stands on and what it leads to, everywhere."""
    page = show()
    place = page.find("tumbling_window", "room office, average .*, count [3-9]", 65)
    page.page.mouse.click(*place)
    assert page.text(".details h2").endswith("tumbling_window")
    causes = page.text(".related.is-cause h3")
    members = page.page.locator(".details dd").all_inner_texts()[2]
    assert causes == f"Causes {2 * int(members)}"
    assert f"{members} causes" in page.box("readings")
    assert page.pixels("cause") > 20
    assert page.text(".spoken").endswith(f"{2 * int(members)} causes, " + _effects(page))
    page.page.locator(".box", has_text="where").click()
    page.click("start")
    page.press("/")
    page.page.keyboard.type("room=office")
    page.page.locator(".grid tr.is-cause").first.wait_for()
    page.press("Escape", "Escape")
    assert page.pixels("cause") == 0
    assert page.details.startswith("Why?")


def _effects(page: Any) -> str:
    count = page.text(".related.is-effect h3").removeprefix("Effects ").replace("none", "0")
    return f"{count} effect{'' if count == '1' else 's'}"


def test_effects_go_down_to_the_result(show: Show) -> None:
    """A reading that is in a warm window has this window and the result as its effects."""
    page = show()
    page.press("]")
    page.page.locator(".related.is-cause button").last.click()
    assert page.text(".details h2").endswith("readings")
    assert "record" in page.details
    assert page.text(".related.is-cause h3") == "Causes none: this is an input"
    assert page.text(".related.is-effect h3") == "Effects 3"
    assert page.pixels("effect") > 5
    assert "1 effect" in page.box("select")
    page.page.locator(".related.is-effect button").last.click()
    assert page.text(".details h2") == "Row 0 select"


@pytest.mark.full
def test_a_click_in_the_table_selects_too(show: Show) -> None:
    """The row is selected in table and timeline, and read out; brackets go to its neighbours."""
    page = show()
    page.click("Row 2")
    assert page.page.locator("tr[aria-current=true]").inner_text().startswith("● 2")
    assert page.text(".spoken").startswith("Row 2 of select, from 2026-01-01 08:30:00 UTC to")
    page.press("]")
    assert page.text(".details h2") == "Row 3 select"
    page.press("[", "[")
    assert page.text(".details h2") == "Row 1 select"


def test_a_late_event_says_by_how_much(show: Show) -> None:
    """A click on a triangle shows the event, its payload, and the delay that would have kept it."""
    page = show()
    place = page.find("readings", "late by", 82)
    page.page.mouse.click(*place)
    assert "It was dropped: no row stands on it." in page.details
    assert "would have kept it" in page.details
    assert page.page.locator("tr[aria-current=true] td.is-late").count() == 1


@pytest.mark.full
def test_an_adjusted_event_is_marked_and_leads_to_its_row(show: Show) -> None:
    """An event that was moved has its mark at its own time; a click on it selects its row."""
    flow = make_flow(60)
    verdict = np.zeros(60)
    verdict[30] = 1
    arrivals = flow["arrivals"][0]
    arrivals["verdict"] = column(verdict, "u8")
    arrivals["row"] = column(
        np.minimum(np.arange(60), flow["nodes"][0]["rows"]["start"]["n"] - 1), "i32"
    )
    arrivals["by"] = column(verdict * 3 * MINUTE, "f64")
    page = show(flow)
    page.page.mouse.click(*page.find("readings", "adjusted by 3 min", 82))
    assert page.text(".details h2") == "Row 30 readings"
    assert "adjusted by 3 min" in page.details


def test_an_empty_place_says_why_no_row_is_there(show: Show) -> None:
    """The answer names the CTI, the window, the input's rows and what they came to."""
    page = show()
    left, right, top = page.lane("select")
    page.page.mouse.click(left + (right - left) * 0.02, top + 10)
    assert page.text(".details h2") == "Why no row of select here?"
    facts = page.page.locator(".facts li").all_inner_texts()
    assert facts[0].startswith("No row of select for attic is alive at 2026-01-01 07:")
    assert "so this time is final: no row will come here any more" in facts[1]
    assert any("tumbling_window for attic has" in each for each in facts)
    assert "rxt.why_not" in page.details
    page.page.mouse.click(right - 3, top + 10)
    assert "a row may still come" in page.details
    _, _, top = page.lane("tumbling_window")
    page.page.mouse.click(left + (right - left) * 0.95, top + 10)
    assert "window" in page.details
    assert page.pixels("select") > 50


def test_steps_show_what_was_known_then(show: Show) -> None:
    """Events, CTIs and results are stepped through; plan, table and timeline are those of then."""
    page = show()
    picture = page.colours()
    page.press("Home")
    assert page.step.startswith("0 of 400 arrivals readings 07:5")
    assert page.box("readings").startswith("readings, input stream: 1 rows in")
    page.press("n", "n", "p")
    assert page.step.startswith("1 of 400")
    page.click("Next event")
    assert page.step.startswith("2 of 400")
    page.click("Next result")
    first = int(page.step.split()[0])
    assert first > 2
    assert page.text(".details h2") == "Row 0 select"
    assert page.text("[data-count]").startswith(("1 of", "2 of", "3 of"))
    page.press("r")
    assert int(page.step.split()[0]) > first
    before = int(page.step.split()[0])
    page.press("c")
    assert int(page.step.split()[0]) > before
    assert page.colours() != picture
    page.press("End")
    assert page.step == "all of 400 arrivals everything is known"


def test_rows_are_open_until_their_end_is_known(show: Show) -> None:
    """At an earlier step a row whose end came later has an open end, and fades in the timeline."""
    flow = make_flow()
    windows = flow["nodes"][2]["rows"]
    windows["known"] = column([0] * windows["known"]["n"], "i32")
    page = show(flow)
    page.page.locator(".box", has_text="tumbling_window").click()
    assert page.rows()[0][2] == "08:00:00"
    colours = len(page.colours())
    page.press("Home")
    assert {row[2] for row in page.rows()} == {"open end"}
    assert len(page.colours()) > colours
    page.click("Row 0")
    assert "open end" in page.details
    assert "still open" in page.details


@pytest.mark.full
def test_an_empty_place_that_fills_later_says_when(show: Show) -> None:
    """Where a row became known after the step of the slider, the answer names its arrival."""
    page = show()
    x, y = page.find("select", "room attic", 10)
    page.page.get_by_label("Arrival", exact=True).fill("3")
    page.press("f")
    page.page.mouse.click(x + 12, y)
    facts = page.text(".facts")
    assert "There is a row of select for attic at" in facts
    assert "it became known only at arrival" in facts
    assert "a row may still come" in facts
    assert "not known before arrival" in facts


@pytest.mark.full
def test_the_slider_is_an_input_with_words(show: Show) -> None:
    """The slider goes to any arrival, says which one, and open windows are open again there."""
    page = show()
    slider = page.page.get_by_label("Arrival", exact=True)
    slider.fill("200")
    assert slider.get_attribute("aria-valuetext") == "arrival 200 of 399"
    assert page.step.startswith("200 of 400 arrivals readings")
    known = int(page.box("tumbling_window").split(": ")[1].split(" out")[0].split(", ")[1])
    assert 0 < known < 119


def test_curves_show_lateness_rows_held_and_latency(show: Show) -> None:
    """Three charts say their highest values, and lateness has the delay beside it."""
    page = show()
    page.click("Curves", "tab")
    page.page.locator(".uplot canvas").nth(2).wait_for()
    labels = [each.get_attribute("aria-label") for each in page.page.locator("figure").all()]
    assert [label.partition(":")[0] for label in labels] == ["Lateness", "Rows held", "Latency"]
    assert "readings: at most 14 min" in labels[0]
    assert ", delay 5 min" in page.text("figure[data-chart=lateness]")
    page.page.locator("figure[data-chart=held] .u-over").click(position={"x": 200, "y": 40})
    assert not page.step.startswith("all")


def test_help_names_the_keys(show: Show) -> None:
    """A question mark opens the keys, Escape closes them."""
    page = show()
    page.press("?")
    assert "next result" in page.page.get_by_role("dialog", name="Keys").inner_text()
    page.press("Escape")
    page.frame()
    assert page.page.get_by_role("dialog").count() == 0
    page.page.get_by_role("tab", name="Events").focus()
    page.press("ArrowRight")
    page.frame()
    assert page.page.locator("[role=tab][aria-selected=true]").inner_text() == "Field"
    page.press("ArrowLeft", "ArrowLeft")
    page.frame()
    assert page.page.locator("[role=tab][aria-selected=true]").inner_text() == "Curves"
    page.click("Help: keys")
    page.click("Close help")
    page.frame()
    assert page.page.get_by_role("dialog").count() == 0


def test_all_controls_have_names(show: Show) -> None:
    """Each button, field and region has a name for screen readers."""
    page = show()
    page.press("]")
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll("button, input, section, [role]")].filter((each) =>
            !each.getAttribute("aria-label") && !each.getAttribute("aria-labelledby")
            && !each.textContent.trim()).map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


@pytest.mark.full
def test_a_sample_says_so(show: Show) -> None:
    """A page that shows a part of the events says how many, and how many a step stands for."""
    flow = {**make_flow(50), "sampled": {"of": 1_000_000, "shown": 50}, "every": 10}
    page = show(flow)
    assert page.text(".top").count("A sample: 50 of 1,000,000 events are shown.") == 1
    assert "One step stands for 10 arrivals." in page.text(".top")


@pytest.mark.full
def test_ticks_are_shown_as_numbers(show: Show) -> None:
    """A flow of plain ticks has numbers in axis, table and details, and no dates."""
    page = show({**make_flow(60), "time": "ticks", "delay": {"readings": 300}})
    page.press("]")
    assert "UTC" not in page.details
    assert page.rows()[0][1].isdigit()
    assert "ticks)" in page.range
