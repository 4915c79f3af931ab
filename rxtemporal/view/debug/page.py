"""Event-flow page of a captured run: one HTML file, and what has been written."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import html
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rxtemporal.operators.causes.history import CTI
from rxtemporal.text.plain_text import count_noun
from rxtemporal.view.debug.data import describe_flow, write_json

if TYPE_CHECKING:
    from rxtemporal.view.lineage.flow import Flow


# seconds from one line to the next, and from the beginning to the first
_PERIOD = 1.0


@contextmanager
def show_progress(doing: str, then: str) -> Iterator[Callable[[int], object]]:
    """Show on standard error, if it is a terminal, how far some work has come.

    Yields a function that takes the number of arrivals so far. While that grows the line has it
    with ``doing``; once it has stayed the same for a second, the line has ``then``.
    """
    arrivals = [0]
    if not sys.stderr.isatty():
        yield lambda number: arrivals.__setitem__(0, number)
        return
    done = threading.Event()
    thread = threading.Thread(target=_write_lines, args=(doing, then, arrivals, done), daemon=True)
    thread.start()
    try:
        yield lambda number: arrivals.__setitem__(0, number)
    finally:
        done.set()
        thread.join()


def _write_lines(doing: str, then: str, arrivals: list[int], done: threading.Event) -> None:
    before, seconds = -1, count(1)
    while not done.wait(_PERIOD):
        now = arrivals[0]
        what = f"{doing}: {now:,} arrivals" if now != before else then
        before = now
        line = f"\r\x1b[K{what}, {next(seconds)} s"
        print(line, end="", file=sys.stderr, flush=True)
    if before >= 0:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


MODULES = (
    "html",
    "escape",
    "icons",
    "columns",
    "times",
    "payload",
    "rows",
    "flow",
    "store",
    "trace",
    "tracks",
    "lanes",
    "view",
    "palette",
    "bars",
    "draw",
    "hit",
    "painter",
    "absence",
    "actions",
    "layout",
    "plan",
    "pointer",
    "overview",
    "timeline",
    "filter",
    "table",
    "details",
    "links",
    "sentence",
    "steps",
    "curves",
    "charts",
    "field",
    "help",
    "keys",
    "ring",
    "live",
    "app",
)
STYLES = ("vendor/uplot.css", "page.css")


def build_page(flow: str, *, title: str, live: bool = False) -> str:
    """Return the page that shows a flow, given as JSON text; a live page may ask its own server.

    The text of the flow is put in as data: no tag in it ends the script that holds it.
    """
    script, style = _script(), _style()
    values = {
        "title": html.escape(title),
        "policy": _policy(script, style, live),
        "style": style,
        "flow": flow.replace("<", "\\u003c"),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], _asset("template.html"))


def _policy(script: str, style: str, live: bool) -> str:
    """Return the content security policy: this script and style, and no connection elsewhere."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        f"connect-src '{'self' if live else 'none'}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    """Return the hash by which a content security policy names an inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _script() -> str:
    """Return the libraries and the page's own scripts as one module."""
    parts = [
        _wrap("preact", _asset("vendor/preact.mjs")),
        _wrap("hooks", _asset("vendor/preact-hooks.mjs")),
        _wrap("htm", _asset("vendor/htm.mjs")),
        _asset("vendor/uplot.js"),
        *(_asset(f"{name}.js") for name in MODULES),
    ]
    return "\n".join(parts)


@functools.cache
def _style() -> str:
    """Return the styles of the libraries and of the page."""
    return "\n".join(_asset(name) for name in STYLES)


def _wrap(name: str, code: str) -> str:
    """Return a library's module as a constant: its imports are constants before it.

    >>> _wrap("two", 'import{one as a}from"preact";export{a as b};')
    'const two = (() => {const{one:a}=preact;return{b:a};})();'
    """
    code = re.sub(r"//# sourceMappingURL=.*\s*", "", code)
    code = re.sub(r'import\{(.*?)\}from"(\w+)"', _constants, code)
    code = re.sub(r"export\{(.*?)\}", _result, code)
    code = code.replace("export default ", "return ")
    return f"const {name} = (() => {{{code}}})();"


def _constants(found: re.Match[str]) -> str:
    """Return an import as the constants that it stands for."""
    return f"const{{{found[1].replace(' as ', ':')}}}={found[2]}"


def _result(found: re.Match[str]) -> str:
    """Return an export list as the value that a function returns."""
    pairs = (each.partition(" as ") for each in found[1].split(","))
    return "return{" + ",".join(f"{outside}:{inside}" for inside, _, outside in pairs) + "}"


def _asset(name: str) -> str:
    """Return a text file of the page."""
    return (resources.files(__package__) / "assets" / name).read_text("utf-8")


@dataclasses.dataclass(frozen=True)
class WrittenPage:
    """A page that has been written: its size in bytes, and what is in it.

    ``events`` is the number of events of the run, ``shown`` how many of them the page shows, and
    ``rows`` the number of rows of the result. ``failed`` is True if an error ended the run.
    """

    path: Path
    size: int
    events: int
    shown: int
    operators: int
    rows: int
    sentence: str
    failed: bool

    def __str__(self) -> str:
        """Return one line that says what has been written."""
        events = count_noun(self.events, "event")
        if self.shown < self.events:
            events += f" (a sample of {self.shown:,} is shown)"
        plan, rows = count_noun(self.operators, "operator"), count_noun(self.rows, "row")
        return f"{self.path}: {events}, {plan}, {rows} of the result, {self.size / 1e6:.1f} MB"


def write_page(flow: Flow, path: Path, *, title: str) -> WrittenPage:
    """Write the page of a run. The folder is made if it is not there."""
    data = describe_flow(flow, title)
    page = build_page(write_json(data), title=title).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page)
    kinds = [arrivals.kind != CTI for arrivals in flow.arrivals.values()]
    events = sum(int(each.sum()) for each in kinds)
    sampled = data["sampled"]
    return WrittenPage(
        path=path,
        size=len(page),
        events=events,
        shown=events if sampled is None else min(events, sampled["shown"]),
        operators=sum(each.kind == "operator" for each in flow.histories),
        rows=len(flow.result),
        sentence=data["sentence"],
        failed=flow.error is not None,
    )
