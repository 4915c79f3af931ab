"""Generator of the tables of docs/algebra.md: ``python tests/support/algebra.py``.

A table's row is the operator's signature, the first line of its docstring, its CTI rule and what it
holds. The tables stand between the page's ``<!-- table … -->`` and ``<!-- end -->`` lines.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from operator_plans import OF_OTHERS, PLANS, SCHEMA

import rxtemporal as rxt
from rxtemporal import WindowOutput, agg
from rxtemporal import operators as ops
from rxtemporal.operators.windows.plan import Windowed

Compose = Callable[[Any], Any]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "algebra.md"
PAGES = PAGE.parent / "operators"
SITE = PAGE.parent / "zensical.toml"
POINTS = "points at the windows' ends"

# the same operators where their arguments change what they promise or hold
VARIANTS: dict[str, tuple[str, Compose]] = {
    "clip_event_duration": ("a limit", lambda s: s.clip_event_duration(5)),
    "count_window": (
        "whole windows",
        lambda s: s.count_window(2, output=WindowOutput.WINDOW).aggregate(n=agg.count()),
    ),
    "detect": ('`at="last"`', lambda s: s.detect("A B", within=5, at="last")),
    "extend_lifetime": ("`d < 0`", lambda s: s.extend_lifetime(-1)),
    "hopping_window": (
        POINTS,
        lambda s: s.hopping_window(5, 1, output=WindowOutput.POINT_AT_END).top_k(1, "x"),
    ),
    "session_window": (
        POINTS,
        lambda s: s.session_window(5, output=WindowOutput.POINT_AT_END).apply(
            list, schema={"y": int}
        ),
    ),
    "tumbling_window": (
        POINTS,
        lambda s: s.tumbling_window(5, output=WindowOutput.POINT_AT_END).top_k(1, "x"),
    ),
}

# an operator that is two, one after the other
MADE_OF = {"hopping_window2": ["snap_to_window_intervals"]}


def read_tables() -> dict[str, list[str]]:
    """Return the operators of each table, as the navigation of the site groups their pages."""
    configuration = tomllib.loads(SITE.read_text("utf-8"))
    sections = {
        name: pages for each in configuration["project"]["nav"] for name, pages in each.items()
    }
    groups = {name: pages for each in sections["Operators"] for name, pages in each.items()}
    listed = {
        name.lower(): [title for page in pages for title in page]
        for name, pages in groups.items()
        if isinstance(pages, list)
    }
    # methods of windows, which have a table of their own
    del listed["results of windows"]
    return listed


TABLES = read_tables()


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return a call of a function as the page shows it: names, without types and defaults."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    taken = [
        stars.get(each.kind, "") + each.name
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    text = f"`{name}({', '.join(taken)})`"
    return f"[{text}](operators/{name}.md)" if (PAGES / f"{name}.md").exists() else text


def summary(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring, in Markdown."""
    first, *_ = (inspect.getdoc(function) or "").split("\n")
    return first.removesuffix(".").replace("``", "`")


def rules(name: str, compose: Compose) -> tuple[str, str]:
    """Return the CTI rule of an operator that is composed on a stream, and what it holds."""
    stream = rxt.from_events([], schema=SCHEMA)
    composed = [node.operator for node in compose(stream)._node.list_nodes() if node.operator]
    own = {name, *MADE_OF.get(name, ())}
    composed = [each for each in composed if each.name.partition("(")[0] in own]
    ctis = [each.cti_rule for each in composed if each.cti_rule != "t"]
    held = [each.holds for each in composed if each.holds != "nothing"]
    assert len(ctis) < 2, "a rule of rules"
    return "".join(ctis) or "t", "; ".join(held) or "nothing"


def described(name: str) -> tuple[str, str]:
    """Return an operator's CTI rule and what it holds, with those of its variant."""
    if name not in PLANS:
        branch = getattr(ops, name)(lambda stream: stream)
        return branch.cti_rule, branch.holds
    plain, (condition, variant) = rules(name, PLANS[name]), VARIANTS.get(name, ("", PLANS[name]))
    other = rules(name, variant)
    cti, held = (
        one if one == two else f"{one}; with {condition}: {two}"
        for one, two in zip(plain, other, strict=True)
    )
    return cti, held


def table(names: list[str]) -> Iterator[str]:
    """Yield the lines of a table of operators."""
    yield "| operator | result | output CTI | held |"
    yield "|---|---|---|---|"
    for name in names:
        operator = getattr(ops, name)
        cti, held = described(name)
        yield f"| {signature(name, operator)} | {summary(operator)} | {cti} | {held} |"


def table_of_results() -> Iterator[str]:
    """Yield the lines of the table of what is made of windows."""
    yield "| on a window | result |"
    yield "|---|---|"
    for name in ("aggregate", "top_k", "apply"):
        function = getattr(Windowed, name)
        yield f"| {signature(name, function)} | {summary(function)} |"


def check_operators() -> None:
    """Raise ``LookupError`` unless each operator has a plan and is in one table."""
    listed = Counter(name for names in TABLES.values() for name in names)
    for name in ops.__all__:
        if name not in PLANS and name not in OF_OTHERS:
            raise LookupError(f"{name} has no plan. Hint: add a case to the table of the laws.")
        if listed[name] != 1:
            raise LookupError(
                f"{name} stands in {listed[name]} tables, not in one. "
                "Hint: add its page to docs/zensical.toml."
            )


def generate(page: str) -> str:
    """Return the page with its tables made anew."""
    check_operators()
    tables = {name: list(table(names)) for name, names in TABLES.items()}
    tables["results"] = list(table_of_results())
    for name, lines in tables.items():
        begin = f"<!-- table: {name} -->\n"
        page, times = re.subn(
            re.escape(begin) + r".*?(?=<!-- end -->)",
            lambda _: begin + "\n".join(lines) + "\n",  # noqa: B023 (called at once)
            page,
            flags=re.S,
        )
        assert times == 1, f"docs/algebra.md has {times} tables of {name}"
    return page


if __name__ == "__main__":
    PAGE.write_text(generate(PAGE.read_text("utf-8")), "utf-8")
