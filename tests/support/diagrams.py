"""Pictures of queries for the docs: the inputs above, the result below, over one axis of time.

A page says in a comment in front of an image which of its streams the image shows:

    <!-- draw: crowds -->
    ![words that say what is seen](pictures/windows-crowds.svg)

The comment has a Python expression over the names of the page's code above it: a stream, a call of
``draw_query(stream, title=…)``, which the code need not import, or the text of an SVG file that the
code has saved. ``python
tests/support/diagrams.py [PAGE …]`` draws the pictures of these pages, by default of all;
``tests/house/test_pictures.py`` checks that they are current.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rxtemporal import Streamable
from rxtemporal.query.timelines import make_timeline
from rxtemporal.text.timeline import Bar, Lane
from rxtemporal.text.timeline_svg import timeline_svg

DOCS = Path(__file__).resolve().parents[2] / "docs"
PART = re.compile(
    r"^```python\n(?P<code>.*?)^```$"
    r"|^<!-- draw: (?P<draw>[^\n]*?) -->\s*!\[[^\]]*\]\((?P<path>[^)]+\.svg)\)",
    re.M | re.S,
)


def draw_query(
    query: Streamable,
    *,
    name: str = "result",
    by: str | None = None,
    title: str = "",
    windows: str = "",
    **between: Streamable,
) -> str:
    """Return an SVG file of a query: a lane for each input stream, and one for its result.

    Bars are rows, dots points, dashed lines with a triangle CTIs; late events are hollow. Each
    event is read on its own, so all CTIs are there. The name of an input lane is that of its source
    (``from_events(…, name=…)``); ``name`` is that of the result. ``by`` is a field whose values
    have colours of their own. ``windows`` shades windows of a duration, or of a duration and a
    period (``"10/5"``), behind the inputs. Further streams have lanes above that of the result.
    """
    timeline = make_timeline(query, name=name, by=by, title=title)
    *inputs, result = map(_without_only_end, timeline.lanes)
    steps = [
        dataclasses.replace(make_timeline(each, name=key, inputs=False, by=by).lanes[-1], name=key)
        for key, each in between.items()
    ]
    if windows:
        shaded = _find_windows(inputs, windows)
        inputs = [dataclasses.replace(lane, windows=shaded) for lane in inputs]
    lanes = _color_alike((*inputs, *map(_without_only_end, steps), result), by)
    return timeline_svg(dataclasses.replace(timeline, lanes=lanes), alone=True) + "\n"


def _without_only_end(lane: Lane) -> Lane:
    """Return a lane without the CTI at the end of its stream, if it is the only one."""
    return dataclasses.replace(lane, ctis=()) if set(lane.ctis) == {None} else lane


def _color_alike(lanes: tuple[Lane, ...], by: str | None) -> tuple[Lane, ...]:
    """Give the same value of a field the same colour in each lane that has the field."""
    colors: dict[str, int] = {}
    field = re.compile(rf"(?:^|, ){by}=([^,]*)")

    def color(bar: Bar) -> Bar:
        found = field.search(bar.detail) if by else None
        key = colors.setdefault(found[1], len(colors) + 1) if found else 0
        return dataclasses.replace(bar, key=key)

    return tuple(dataclasses.replace(each, bars=tuple(map(color, each.bars))) for each in lanes)


def _find_windows(lanes: list[Lane], text: str) -> tuple[tuple[int, int], ...]:
    """Return the windows ``duration`` or ``duration/period`` that the rows of lanes touch."""
    duration, _, period = text.partition("/")
    size, step = int(duration), int(period or duration)
    bars = [bar for lane in lanes for bar in lane.bars]
    low = min(bar.start for bar in bars)
    high = max(bar.start + 1 if bar.end is None else bar.end for bar in bars)
    starts = (n * step for n in range((low - size) // step + 1, -(-high // step)))
    return tuple((start, start + size) for start in starts)


def list_pages() -> list[Path]:
    """Return the pages that have pictures of queries."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "<!-- draw: " in page.read_text("utf-8")]


def draw_page(page: Path) -> Iterator[tuple[Path, str]]:
    """Run the code of a page, and yield the file and the SVG of each of its pictures."""
    text = page.read_text("utf-8")
    names: dict[str, Any] = {"__name__": "__main__", "draw_query": draw_query}
    with _run_aside():
        for part in PART.finditer(text):
            if part["code"] is not None:
                line = text.count("\n", 0, part.start("code"))
                code = compile("\n" * line + part["code"], str(page), "exec", dont_inherit=True)
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, names)
            else:
                drawn = eval(part["draw"], names)
                svg = drawn if isinstance(drawn, str) else draw_query(drawn)
                yield (page.parent / part["path"]).resolve(), svg


def is_current(path: Path, svg: str) -> bool:
    """Return True if a file has this picture.

    Of a chart that another matplotlib has drawn, the texts are compared.
    """
    if not path.is_file():
        return False
    there = path.read_text("utf-8")
    made = [re.findall(r"Matplotlib v[\d.]+", each) for each in (there, svg)]
    if made[0] != made[1] and all(made):
        return [*re.findall(r"<text[^>]*>([^<]*)<", there)] == re.findall(
            r"<text[^>]*>([^<]*)<", svg
        )
    return there == svg


@contextlib.contextmanager
def _run_aside() -> Iterator[None]:
    """Let the code of a page find an empty folder, which is removed."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:]) if sys.argv[1:] else list_pages():
        for path, svg in draw_page(each.resolve()):
            path.parent.mkdir(exist_ok=True)
            path.write_text(svg, encoding="utf-8")
            print(path)
