"""The event-flow page put together: template, styles, scripts and a flow in one HTML file.

The scripts in ``assets`` are parts of one ES module: they stand one after the other in the order of
`MODULES`, share one scope, and import nothing. The browser runs this script and no other, for the
page's content security policy names it by its hash; it also forbids every connection.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import re
from importlib import resources

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
    "steps",
    "curves",
    "charts",
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
