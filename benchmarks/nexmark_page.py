"""Page on NEXMark: ``docs/nexmark.md``, from the queries, their SQL, and a file of results.

The code of the page is the source of ``nexmark_queries.py``; each query runs over the few events
below, and the page shows what it prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

from figures import Figure
from nexmark_sql import SQL, TITLES

HERE = Path(__file__).parent
CHANGING = "changing_"
SETUP = """\
from datetime import UTC, datetime, timedelta

import polars as pl
import rxtemporal as rxt
from rxtemporal import agg

noon = datetime(2026, 5, 1, 12, tzinfo=UTC)


def stream(label, seconds, **fields):
    times = [noon + timedelta(seconds=second) for second in seconds]
    frame = pl.DataFrame({"time": times, **fields})
    return rxt.from_polars(frame, start="time", advance_time="2s", name=label)


persons = stream(
    "persons",
    (0, 4),
    id=[1, 2],
    name=["Kate Smith", "Luke White"],
    city=["Bend", "Kent"],
    state=["OR", "WA"],
)
auctions = stream(
    "auctions",
    (1, 3, 6),
    id=[1107, 1108, 1109],
    item=["lamp", "vase", "clock"],
    seller=[1, 1, 2],
    category=[10, 10, 11],
    expires=[noon + timedelta(seconds=second) for second in (8, 20, 13)],
)
made = {
    "auction": [1107, 1108, 1107, 1107, 1109, 1108, 1107],
    "bidder": [3, 4, 4, 3, 3, 3, 4],
    "price": [9_000, 2_000_000, 12_000, 11_000, 1_500_000, 2_500_000, 50_000],
    "channel": ["Google", "channel-7", "Google", "Apple", "channel-8", "channel-7", "Google"],
    "url": [
        f"https://www.nexmark.com/a/b/{page}"
        for page in ("g", "c?q=1&channel_id=7", "g", "h", "d?q=1", "c?q=1&channel_id=7", "g")
    ],
    "extra": ["accc", "b", "cab", "", "d", "cc", "e"],
}
bids = stream("bids", (2, 5, 4, 7, 9, 19, 18), **made)
arrivals = stream("arrivals", (2, 5, 5.5, 7, 9, 19, 19.5), **made)
# a table: its rows never end
side = stream("side", (0, 0), key=[1107, 1108], value=["seven", "eight"]).never_ends()
"""
COUNTS = '"total_bids", "rank2_bids", "total_bidders", "rank2_bidders"'
MOST = 6
# what the page shows of results that have many fields
SHOWN = {
    "q9": '.select("auction", "bidder", "price", "item", "bid_time")',
    "q15": f".select({COUNTS})",
    "q16": f'.select("channel", "minute", {COUNTS})',
    "q17": '.select("auction", "total_bids", "min_price", "max_price", "avg_price")',
    "q18": '.select("bidder", "auction", "price")',
    "q19": '.select("auction", "bidder", "price", "rank_number")',
    "q20": '.select("bidder", "price", "auction", "item", "bid_time")',
    f"{CHANGING}q15": f".select({COUNTS})",
    f"{CHANGING}q19": '.select("auction", "bidder", "price", "rank_number")',
}


class Query(NamedTuple):
    """A query of the page: a sentence about it, its code, and the names of its streams."""

    name: str
    sentence: str
    code: str
    streams: tuple[str, ...]


def read_queries() -> tuple[str, list[Query]]:
    """Return the code before the queries, and the queries with the functions that they need."""
    source = (HERE / "nexmark_queries.py").read_text("utf-8")
    lines = source.splitlines()
    module = ast.parse(source)
    functions = [each for each in module.body if isinstance(each, ast.FunctionDef)]
    imports = [each for each in module.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    before = "\n".join(lines[imports[-1].end_lineno or 0 : functions[0].lineno - 1]).strip()
    queries, begun = [], functions[0].lineno - 1
    for each in functions:
        end = each.end_lineno or 0
        if each.name.removeprefix(CHANGING) in SQL:
            sentence = ast.get_docstring(each) or ""
            code = "\n".join(lines[begun:end]).strip().replace(f'    """{sentence}"""\n', "")
            streams = tuple(argument.arg for argument in each.args.args)
            queries.append(Query(each.name, sentence, code, streams))
            begun = end
    return before, queries


class Shell:
    """Runs the code of the page, as its test does."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, code: str) -> str:
        """Return what some code prints."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "nexmark.md", "exec", dont_inherit=True), self._names)
        return out.getvalue()


def show(query: Query, shell: Shell) -> str:
    """Return the section of a query."""
    name = query.name.removeprefix(CHANGING)
    call = f"{query.name}({', '.join(query.streams)}){SHOWN.get(query.name, '')}.show({MOST})"
    code = f"{query.code}\n\n\n{call}\n"
    printed = shell.run(code)
    title = f"{name}, {TITLES[name]}"
    sql = f"```\n{SQL[name].strip()}\n```\n\n"
    if query.name != name:
        title, sql = f"{name}, as it changes", ""
    shown = f"```python\n{code}```\n```text\n{printed}```"
    return f"### {title}\n\n{query.sentence}\n\n{sql}{shown}"


def make_page(machine: str, figures: list[Figure]) -> str:
    """Return the text of the page."""
    before, queries = read_queries()
    shell = Shell()
    setup = f"{SETUP}\n{before}"
    shell.run(setup)
    sections = {query.name: show(query, shell) for query in queries}
    changing = [name for name in sections if name.startswith(CHANGING)]
    plain = [name for name in sections if name not in changing]
    parts = {
        "machine": machine,
        "rates": tabulate(plain, figures),
        "setup": setup,
        "queries": "\n\n".join(sections[name] for name in plain),
        "changing": "\n\n".join(sections[name] for name in changing),
        "changing_rates": tabulate(changing, figures),
    }
    template = (HERE / "nexmark.template").read_text("utf-8")
    return re.sub(r"@(\w+)@", lambda match: parts[match[1]], template)


def tabulate(names: list[str], figures: list[Figure]) -> str:
    """Return the table of the rates of queries here and in DuckDB."""
    found = {(each.table, each.what): each for each in figures}
    lines = ["| | million events/s | range | DuckDB | ratio |", "|---|---|---|---|---|"]
    for name in names:
        try:
            ours = found["NEXMark", name]
            theirs = found["NEXMark, DuckDB", f"{name}, DuckDB"]
            ratio = found["NEXMark, ratio", f"{name} / DuckDB"]
        except KeyError:
            continue
        short = name.removeprefix(CHANGING)
        what = f"{short}, {TITLES[short]}" if short == name else f"{short}, as it changes"
        span = f"{format_number(ours.low)} to {format_number(ours.high)}"
        rates = f"{format_number(ours.value)} | {span} | {format_number(theirs.value)}"
        lines.append(f"| {what} | {rates} | {format_number(ratio.value)} × |")
    return "\n".join(lines) if len(lines) > 2 else "*Not measured in this run.*"


def format_number(value: float | None) -> str:
    """Return a figure with three digits."""
    assert value is not None
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
