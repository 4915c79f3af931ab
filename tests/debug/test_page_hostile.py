"""The event-flow page with texts that were made to break it: they are shown, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from flow_json import make_flow, words

import rxtemporal as rxt
from rxtemporal.view.debug.data import describe_flow
from rxtemporal.view.debug.page import build_page
from rxtemporal.view.lineage.capture import capture

Show = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("chromium")

EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!--<script>",
    "\u202eevil\u2066 \u0000\u0007\u001b[31m\u200b",
    "__proto__",
    "x" * 50_000,
    "{{script}} ${alert(3)} &lt;b&gt;",
    "\ud800",
]


def hostile_flow() -> dict[str, Any]:
    """Return a flow whose names, keys and payloads are all hostile."""
    flow = make_flow(80, rooms=tuple(EVIL))
    flow["title"], flow["sentence"] = EVIL[0], " ".join(EVIL)
    flow["delay"] = dict.fromkeys(EVIL, 1)
    for number, each in enumerate(flow["nodes"]):
        each["name"], each["line"] = EVIL[number], EVIL[number + 1]
        each["holds"] = each["ctiRule"] = each["causesNote"] = EVIL[number]
        each["fields"] = [{"name": text, "type": text} for text in EVIL[3:6]][: len(each["fields"])]
    flow["arrivals"][0]["fields"] = [{"name": text, "type": text} for text in EVIL[4:6]]
    flow["arrivals"][0]["input"] = words([0] * 80, [EVIL[1]])
    return flow


def test_nothing_in_a_payload_runs_and_nothing_breaks(show: Show) -> None:
    """Tags are text, characters without a picture are spelt out, long texts are cut."""
    page = show(hostile_flow())
    assert page.text("h1").startswith("</script><script>alert(1)</script>")
    for box in page.page.locator(".box").all():
        box.click()
        page.press("]", "[")
        assert page.rows()
    page.click("start")
    page.click("Curves", "tab")
    page.click("Events", "tab")
    left, right, top = page.lane("</script>")
    page.page.mouse.click((left + right) / 2, top + 4)
    page.press("Home", "n", "r", "c")
    text = page.page.inner_text("body")
    assert "\\u{202e}evil\\u{2066} \\u{0}\\u{7}\\u{1b}[31m\\u{200b}" in text
    assert not {"\u202e", "\u2066", "\u0000", "\x1b", "\u200b"} & set(text)
    assert "x" * 601 not in text
    assert page.page.locator("img, body script:not([type])").count() == 0
    assert page.page.evaluate("({}).polluted === undefined && !window.alerted")


def test_a_row_that_has_always_been_there_is_chosen(show: Show) -> None:
    """The timeline stays within time where a row has neither a beginning nor an end."""
    rows = [
        rxt.IntervalEvent(rxt.MIN_TIME, 5, {"a": 1}),
        rxt.IntervalEvent(rxt.MIN_TIME, rxt.MAX_TIME, {"a": 2}),
        rxt.PointEvent(7, {"a": 3}),
    ]
    flow = describe_flow(capture(rxt.from_events(rows, name="rows")._node), "rows")
    page = show(flow)
    for _ in rows:
        page.press("]", "+", "-")
        assert "a" in page.details
    page.press("f")


def test_a_script_that_is_not_the_page_s_own_is_refused(show: Show) -> None:
    """The policy of the page lets no other script run, and lets it connect to nothing."""
    page = show()
    refused = page.page.evaluate(
        """async () => {
            const refused = [];
            document.addEventListener("securitypolicyviolation",
                (event) => refused.push(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "document.title = 'taken'";
            document.body.append(script);
            await fetch("http://127.0.0.1:9/").catch(() => 0);
            await new Promise((done) => setTimeout(done, 50));
            return [document.title, ...refused];
        }"""
    )
    assert refused == ["flow", "script-src-elem", "connect-src"]
    page.problems.clear()
    del page.asked[1:]


def test_the_flow_cannot_end_its_script() -> None:
    """No tag stands in the data, the title is escaped, and a name in braces is left alone."""
    page = build_page('{"title": "</script><b>{{style}}"}', title="</title><b>{{flow}}")
    assert '"\\u003c/script>\\u003cb>{{style}}"' in page
    assert "<title>&lt;/title&gt;&lt;b&gt;{{flow}}</title>" in page
    assert page.count("</script>") == 2
    assert page.count("</style>") == 1


def test_a_page_has_the_licences_of_its_libraries() -> None:
    """The libraries' notices stand beside them in the package."""
    from importlib import resources

    vendor = resources.files("rxtemporal.view.debug") / "assets" / "vendor"
    notices = {"preact": "MIT", "htm": "Apache License", "uplot": "MIT"}
    for library, licence in notices.items():
        assert licence in (vendor / f"{library}.LICENSE").read_text("utf-8")


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
def test_no_order_of_keys_and_clicks_breaks_it(show: Show, seed: int) -> None:
    """A hundred random keys, clicks and drags leave a page that still answers, without an error."""
    random = Random(seed)
    page = show(hostile_flow() if seed % 2 else make_flow(120), width=random.choice([1280, 390]))
    keys = "ArrowLeft ArrowRight ArrowUp + - f n p c r Home End [ ] Escape ? Tab Enter / a Space"
    for _ in range(100):
        if random.random() < 0.6:
            page.press(random.choice(keys.split()))
        else:
            surface = page.page.locator("[data-surface]").bounding_box()
            x = surface["x"] + random.random() * surface["width"]
            page.page.mouse.click(x, surface["y"] + random.random() * surface["height"])
    page.press("Escape", "Escape", "Home")
    assert page.step.startswith("0 of")
