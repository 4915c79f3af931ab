"""Generator of the facts in ``docs/operators``: ``python tests/support/operator_pages.py``.

A page is written by hand, but for two parts: between ``<!-- facts -->`` and ``<!-- end -->`` stand
the call, the summary, the CTI rule and what is held; between ``<!-- docstring -->`` and
``<!-- end -->`` stands the docstring without its example. The list of the operators in
``docs/reference/operators.md`` is generated, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from algebra import described, summary

from rxtemporal import operators as ops
from rxtemporal.operators.windows.plan import Windowed

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "operators"
# methods of windows that have a page
RESULTS = ("aggregate", "top_k")
REFERENCE = FOLDER.parent / "reference" / "operators.md"


def find_function(name: str) -> Callable[..., Any]:
    """Return the operator, or the method of windows, that a page describes."""
    function: Callable[..., Any] = getattr(ops if name in ops.__all__ else Windowed, name)
    return function


def call(name: str) -> str:
    """Return a call with names and defaults, without types."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(find_function(name)).parameters.values()
        if each.name != "self"
    ]
    text = str(inspect.Signature(parameters))
    # <WindowOutput.WINDOW: 'window'> is not Python
    text = re.sub(r"<(\w+\.\w+): [^>]+>", r"\1", text)
    return f"{'stream' if name in ops.__all__ else 'window'}.{name}{text}"


def facts(name: str) -> str:
    """Return the call of an operator, its summary, its CTI rule and what it holds, in Markdown."""
    lines = ["```", call(name), "```", "", f"{summary(find_function(name))}."]
    if name in ops.__all__:
        cti, held = described(name)
        rule = "CTIs pass unchanged" if cti == "t" else f"for an input CTI `t`: {cti}"
        lines += ["", f"- **Output [CTI](../events.md):** {rule}."]
        lines += [f"- **Held in memory:** {held}."]
    return "\n".join(lines)


def docstring(name: str) -> str:
    """Return the docstring of an operator after its summary and without its example."""
    text = inspect.getdoc(find_function(name)) or ""
    _, _, rest = text.partition("\n\n")
    rest = rest.partition(">>> ")[0].strip().replace("``", "`")
    return f"## In full\n\n{rest}\n" if rest else ""


def generate(page: str, name: str) -> str:
    """Return the page of an operator with its generated parts made anew."""
    parts = {"facts": facts(name) + "\n", "docstring": docstring(name)}
    for part, text in parts.items():
        begin = f"<!-- {part} -->\n"
        before, found, rest = page.partition(begin)
        assert found, f"the page of {name} has no {begin}"
        page = before + begin + text + rest[rest.index("<!-- end -->") :]
    return page


def generate_reference(page: str) -> str:
    """Return the reference of the operators with its list made anew."""
    before, _, _ = page.partition("\n::: ")
    lines = [f"\n::: {getattr(ops, name).__module__}.{name}\n" for name in ops.__all__]
    return before + "".join(lines)


if __name__ == "__main__":
    REFERENCE.write_text(generate_reference(REFERENCE.read_text("utf-8")), "utf-8")
    for each in (*ops.__all__, *RESULTS):
        path = FOLDER / f"{each}.md"
        path.write_text(generate(path.read_text("utf-8"), each), "utf-8")
