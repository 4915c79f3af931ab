"""Cost of the event-flow page in Chromium: the time to open it, and the time to draw a frame."""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from rxtemporal.view.debug.page import build_page

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from flow_json import flow_text

PAN = """async (surface) => {
    const box = surface.getBoundingClientRect(), y = box.top + 5;
    const send = (type, x) => surface.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, button: 0, clientX: x, clientY: y, bubbles: true, isPrimary: true}));
    const frames = [];
    surface.setPointerCapture = () => {};
    send("pointerdown", box.left + 700);
    let before = performance.now();
    for (let i = 0; i < 120; i++) {
        send("pointermove", box.left + 700 - 300 * Math.sin(i / 19));
        await new Promise(requestAnimationFrame);
        frames.push(performance.now() - before);
        before = performance.now();
    }
    send("pointerup", box.left + 700);
    return frames;
}"""


def busy(session: CDPSession) -> float:
    """Return the seconds that the page's main thread has computed so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def drawn(page: Page) -> list[float]:
    """Return the milliseconds of each picture of the timeline since the last call."""
    return list(page.evaluate(
        "() => { const all = performance.getEntriesByName('frame').map((each) => each.duration);"
        "performance.clearMeasures(); return all; }"
    ))  # fmt: skip


def describe(name: str, values: list[float]) -> None:
    """Print median, 95th percentile and largest of some milliseconds."""
    ordered = sorted(values)
    high = ordered[int(0.95 * (len(ordered) - 1))]
    print(f"{name:<34} median {statistics.median(ordered):6.2f} ms   95 % {high:6.2f} ms"
          f"   most {ordered[-1]:6.2f} ms   ({len(ordered)})")  # fmt: skip


def pan(page: Page, name: str) -> None:
    """Pan the timeline for 120 frames and print what they cost."""
    drawn(page)
    frames = page.locator("[data-surface]").evaluate(PAN)
    describe(f"{name}: frame to frame", frames[10:])
    describe(f"{name}: drawing", drawn(page))


def measure(page: Page, session: CDPSession, path: Path) -> None:
    """Open a page and pan it: the whole, zoomed in, at an earlier step, with a row selected."""
    page.goto(f"{path.as_uri()}#measure")
    page.wait_for_function("performance.getEntriesByName('open').length > 0")
    opened = page.evaluate("performance.getEntriesByName('open')[0].startTime")
    print(f"open: {opened:.0f} ms after navigation, main thread busy {1000 * busy(session):.0f} ms")
    pan(page, "the whole run")
    for _ in range(6):
        page.keyboard.press("+")
    pan(page, "zoomed in 17 times")
    page.keyboard.press("f")
    page.get_by_label("Arrival", exact=True).fill(str(page.evaluate(
        "Math.floor(document.querySelector('.slider').max / 2)")))  # fmt: skip
    page.keyboard.press("f")
    pan(page, "half of the run known")
    page.keyboard.press("End")
    page.keyboard.press("]")
    pan(page, "a row selected")


def main() -> None:
    """Print the costs for a flow of the chosen size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    settings: dict[str, Any] = {"executable_path": shutil.which("chromium")}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = Path(folder) / "page.html"
        path.write_text(build_page(flow_text(options.events), title="benchmark"), "utf-8")
        print(f"{options.events:,} events, a page of {path.stat().st_size / 1e6:.1f} MB")
        browser = play.chromium.launch(args=["--no-sandbox"], **settings)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        measure(page, session, path)
        browser.close()


if __name__ == "__main__":
    main()
