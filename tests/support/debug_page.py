"""The event-flow page in a browser: what a reader sees of it, and does with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from flow_json import make_flow

from rxtemporal.view.debug.page import build_page

COUNT_COLOURS = """(canvas) => {
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    const counts = {};
    for (let i = 0; i < data.length; i += 4) {
        const colour = data[i] + "," + data[i + 1] + "," + data[i + 2];
        counts[colour] = (counts[colour] ?? 0) + 1;
    }
    return counts;
}"""


class Shown:
    """A page that a browser shows, with what it asked for and what went wrong."""

    def __init__(
        self,
        tab: Any,
        folder: Path,
        flow: dict[str, Any] | None = None,
        *,
        width: int = 1280,
        dark: bool = False,
        url: str = "",
    ) -> None:
        path = folder / "page.html"
        if not url:
            path.write_text(build_page(json.dumps(flow or make_flow()), title="flow"), "utf-8")
        self.url = url or path.as_uri()
        self.asked: list[str] = []
        self.problems: list[str] = []
        self.page = tab
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(color_scheme="dark" if dark else "light")
        tab.set_default_timeout(8_000)
        self._listeners = {
            "request": lambda request: self.asked.append(request.url),
            "pageerror": lambda error: self.problems.append(str(error)),
            "dialog": lambda dialog: self.problems.append(dialog.message),
            "console": self._hear,
        }
        for event, listener in self._listeners.items():
            tab.on(event, listener)
        self.page.goto(self.url)
        if not url:
            self.page.locator(".box").first.wait_for()

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def close(self) -> None:
        """Leave the page, so that the tab can show another one."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self._listeners = {}
        self.page.goto("about:blank")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def click(self, name: str, role: str = "button") -> None:
        """Click on what has a name, as a screen reader says it."""
        self.page.get_by_role(role, name=name, exact=True).click()

    def text(self, selector: str) -> str:
        """Return what a part of the page says, once it is drawn."""
        self.frame()
        return re.sub(r"\s+", " ", self.page.locator(selector).first.inner_text()).strip()

    def frame(self) -> None:
        """Wait until the next picture is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame("
                           "() => requestAnimationFrame(done)))")  # fmt: skip

    @property
    def range(self) -> str:
        """The span of time that the timeline shows."""
        self.frame()
        return self.text(".range")

    @property
    def step(self) -> str:
        """The step of the slider, in words."""
        return self.text(".step-text")

    @property
    def details(self) -> str:
        """The text beside the timeline."""
        return self.text(".side")

    def box(self, name: str) -> str:
        """Return what a box of the plan says."""
        return str(self.page.locator(".box", has_text=name).first.get_attribute("aria-label"))

    def rows(self) -> list[list[str]]:
        """Return the cells of the table's rows in sight."""
        self.frame()
        rows = self.page.locator(".grid tbody tr:not([aria-hidden])").all()
        return [row.locator("td").all_inner_texts() for row in rows]

    def colours(self) -> dict[str, int]:
        """Return the colours of the timeline's picture, with the number of their pixels."""
        self.frame()
        counts = self.page.locator(".timeline-frame canvas").evaluate(COUNT_COLOURS)
        return {str(colour): int(count) for colour, count in counts.items()}

    def pixels(self, name: str) -> int:
        """Return how much of the timeline has a colour of the page."""
        ink = self.page.evaluate(
            """(name) => { const probe = document.createElement("i");
            probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(name);
            document.body.append(probe);
            const { color } = getComputedStyle(probe);
            probe.remove();
            return color.match(/\\d+/g).slice(0, 3).join(); }""",
            f"--{name}",
        )
        return self.colours().get(ink, 0)

    def lane(self, name: str) -> tuple[float, float, float]:
        """Scroll to a lane; return left and right edge of its picture, and its top."""
        self.page.locator(".lane-head", has_text=name).first.evaluate(
            "(head) => { document.querySelector('[data-surface]').scrollTop = head.offsetTop - 8; }"
        )
        self.frame()
        surface = self.page.locator("[data-surface]").bounding_box()
        head = self.page.locator(".lane-head", has_text=name).first.bounding_box()
        assert surface is not None
        assert head is not None
        return surface["x"] + 196, surface["x"] + surface["width"], head["y"]

    def find(self, name: str, words: str, down: float = 10) -> tuple[float, float]:
        """Return a place of a lane where the pointer is told these words."""
        left, right, top = self.lane(name)
        for part in range(1, 160):
            place = left + (right - left) * part / 160, top + down
            self.page.mouse.move(*place)
            if re.search(words, self.tip()):
                return place
        raise AssertionError(f"no {words} in the lane of {name}")

    def tip(self) -> str:
        """Return what stands beside the pointer."""
        told = self.page.evaluate("document.querySelector('.tip')?.textContent ?? ''")
        return re.sub(r"\s+", " ", str(told))
