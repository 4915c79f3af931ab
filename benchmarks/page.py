"""Pages of figures: ``docs/performance.md`` with its pictures, and ``docs/nexmark.md``.

``live.py``, ``yahoo.py``, ``nexmark.py``, ``scaling.py``, ``spark_state.py`` and others write into
the file that ``--json`` names; this script makes the pages of it. Every number on the pages is from
there.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nexmark_page
import pictures
from figures import Figure

ROOT = Path(__file__).parents[1]
UNMEASURED = "*Not measured in this run.*"


class Results:
    """A file of results."""

    def __init__(self, path: Path) -> None:
        self._runs: dict[str, Any] = json.loads(path.read_text("utf-8"))
        self._figures = [
            Figure(**each) for run in self._runs.values() for each in run["figures"]
        ]  # fmt: skip

    def describe(self, *benchmarks: str) -> str:
        """Return a paragraph about the machine and the runs, by default all of them."""
        runs = {name: self._runs[name] for name in benchmarks or self._runs}
        machine = next(iter(runs.values()))["machine"]
        loads = ", ".join(f"{name} {run['machine']['load']}" for name, run in runs.items())
        dates = sorted(run["when"][:10] for run in runs.values())
        when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
        words = (
            f"Measured on {when}: {machine['cores']} cores of {machine['processor']}, Python "
            f"{machine['python']}, polars {machine['polars']}, numpy {machine['numpy']}. "
            f"Load of the machine at the end of each benchmark: {loads}."
        )
        if any(run["options"]["quick"] == "True" for run in runs.values()):
            words += " **This was a quick run with tiny sizes: its figures say little.**"
        if any(run["machine"]["load"] > machine["cores"] for run in runs.values()):
            words += (
                " **The load was above the number of cores: other work may have lowered rates.**"
            )
        return words

    def describe_some(self, begin: str) -> str:
        """Return the same about the benchmarks whose names begin with some letters."""
        names = [name for name in self._runs if name.startswith(begin)]
        return self.describe(*names) if names else UNMEASURED

    def table(self, name: str) -> str:
        """Return one table: what was measured, the median, and the range of the rounds."""
        rows = [each for each in self._figures if each.table == name]
        if not rows:
            return UNMEASURED
        lines = ["| | median | range |", "|---|---|---|"]
        return "\n".join([*lines, *(_row(each) for each in rows)])

    def list_figures(self, begin: str) -> list[Figure]:
        """Return the figures of the tables whose names begin with some letters."""
        return [each for each in self._figures if each.table.startswith(begin)]

    def tables(self, names: Iterable[str]) -> str:
        """Return several tables, each under its name."""
        return "\n\n".join(f"**{name}**\n\n{self.table(name)}" for name in names)

    def names(self, begin: str) -> list[str]:
        """Return the names of the tables that begin with some letters, in order."""
        return [name for name in dict.fromkeys(each.table for each in self._figures)
                if name.startswith(begin)]  # fmt: skip

    def curves(self, table: str = "") -> dict[str, list[tuple[float, float]]]:
        """Return the curves of a table; without one, those over the size of batches."""
        found: dict[str, list[tuple[float, float]]] = {}
        for each in self._figures:
            wanted = (
                each.table == table if table else each.unit == "M/s" and "CPU" not in each.table
            )
            if each.size is not None and wanted:
                found.setdefault(each.curve, []).append((each.size, each.value))
        return {name: sorted(points) for name, points in found.items()}


def _row(figure: Figure) -> str:
    span = "" if figure.low is None else f"{_number(figure.low)} to {_number(figure.high)}"
    return f"| {figure.what} | {_number(figure.value)} {figure.unit} | {span} |"


def _number(value: float | None) -> str:
    assert value is not None
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def compare_micro_batches(results: Results) -> str:
    """Return a table of the cases inside Spark, here beside Spark's own operators."""
    figures = results.list_figures("Spark, ")
    found = {each.what: each for each in figures}
    seconds = [each.what for each in figures if each.table.endswith("seconds of a micro-batch")]
    cases = [what.removesuffix(", here") for what in seconds if what.endswith(", here")]
    lines = [
        "| | here | Spark's own | rate beside it | changelog | its own | checkpoint | its own |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        here, own = f"{case}, here", f"{case}, Spark's own"
        shown = [
            here, own, f"{case}, rate here beside Spark's own",
            *(f"{who}: changelog of a micro-batch beside its rows" for who in (here, own)),
            *(f"{who}: checkpoint" for who in (here, own)),
        ]  # fmt: skip
        each = [f"{_number(found[what].value)} {found[what].unit}" for what in shown]
        lines.append(f"| {' | '.join([case, *each])} |")
    return "\n".join(lines) if cases else UNMEASURED


def draw(results: Results, folder: Path) -> str:
    """Draw the curves of scaling; return the lines that show them."""
    shown = []
    for number, table in enumerate(each for each in results.names("W") if results.curves(each)):
        if "over" not in table:
            continue
        name, _, size = table.partition(", over ")
        picture = pictures.draw(name, size, "ns an event", results.curves(table))
        path = folder / f"performance-scaling-{number}.svg"
        path.write_text(picture, "utf-8")
        shown.append(f"![{table}]({path.name})")
    return "\n\n".join(shown) or UNMEASURED


def draw_batches(results: Results, folder: Path) -> str:
    """Draw the rates over the size of batches; return the line that shows them."""
    curves = {name.upper(): points for name, points in results.curves().items() if len(points) > 1}
    if not curves:
        return UNMEASURED
    path = folder / "performance-batches.svg"
    title = "Rows per second by the size of batches"
    path.write_text(pictures.draw(title, "rows in a batch", "million rows/s", curves), "utf-8")
    return f"![{title}]({path.name})"


def draw_delays(results: Results, folder: Path) -> str:
    """Draw how long results wait over the lag of a device; return the line that shows it."""
    table = next(iter(results.names("Seconds until final")), "")
    if not table:
        return UNMEASURED
    path = folder / "performance-clocks.svg"
    title = "Seconds until a window is final"
    across = "seconds by which another device is behind"
    path.write_text(pictures.draw(title, across, "seconds", results.curves(table)), "utf-8")
    return f"![{title}, over the lag of another device]({path.name})"


def draw_micro_batches(results: Results, folder: Path) -> str:
    """Draw the seconds of micro-batches over the keys; return the lines that show them."""
    shown = []
    for table in (each for each in results.names("Spark, ") if "seconds" in each):
        curves = {name: each for name, each in results.curves(table).items() if len(each) > 1}
        if not curves:
            continue
        title = table.removeprefix("Spark, ")
        path = folder / f"performance-spark-{title.partition(':')[0]}.svg"
        path.write_text(pictures.draw(title.capitalize(), "keys", "seconds", curves), "utf-8")
        shown.append(f"![{title.capitalize()}, over the number of keys]({path.name})")
    return "\n\n".join(shown) or UNMEASURED


# the groups of the picture of rates, and the lines of the page that it has
GROUPS = {
    "tumbling windows": "W2",
    "hopping windows": "W3",
    "temporal join": "W4",
    "snapshot windows": "W6",
}
_RATE = re.compile(r"^\| (.+?) \| ([\d.,]+) M/s \|", re.M)


def draw_rates(page: Path) -> Path:
    """Draw the rates that a page has of windows and joins, beside those of others."""
    text = page.read_text("utf-8")
    tiny = dict(_RATE.findall(text))
    bars: dict[str, dict[str, float]] = {}
    for group, name in GROUPS.items():
        _, _, table = text.partition(f"**{name}, ")
        rates = dict(_RATE.findall(table.partition("**\n\n")[2].partition("\n\n")[0]))
        found = {
            "rxtemporal": rates.get(f"{name.lower()}, batches of 65,536"),
            "polars, all at once": rates.get("one-shot polars"),
            "csp, event by event": next(
                (rate for each, rate in tiny.items() if each.startswith(f"{name.lower()}, csp")),
                None,
            ),
        }
        bars[group] = {who: float(rate) for who, rate in found.items() if rate is not None}
    path = page.with_name("performance-rates.svg")
    if any(bars.values()):
        path.write_text(pictures.draw_bars("Million rows per second, on one core", bars), "utf-8")
    return path


def write(results: Results, folder: Path) -> Path:
    """Write the page and its pictures into a folder; return the path of the page."""
    for old in folder.glob("performance-*.svg"):
        old.unlink()
    template = (Path(__file__).parent / "page.template").read_text("utf-8")
    once = [name for name in results.names("W") if " rows" in name]
    page = template.format(
        machine=results.describe(),
        pushed=results.table("Pushed one by one, behind a hand-off"),
        threads=results.table("Pushed by several threads"),
        latency=results.table("One event and its CTI"),
        objects=results.table("Python objects"),
        subject=results.table("W1, through a subject"),
        batches=draw_batches(results, folder),
        tiny=results.table("Batches of 64"),
        once=results.tables(once) or UNMEASURED,
        yahoo=results.table("Yahoo streaming benchmark"),
        scaling=draw(results, folder),
        delays=draw_delays(results, folder),
        clocks=results.table("Clocks of devices"),
        signals=results.table("Means by time of each minute"),
        local=results.table("Windows of local hours"),
        rises=results.table("A fall and a rise"),
        back=results.table("Conditions over the match so far"),
        patterns=results.table("Other patterns"),
        silent=results.table("Keys that fall silent"),
        signals_machine=results.describe_some("signals"),
        patterns_machine=results.describe_some("patterns"),
        spark_machine=results.describe_some("spark"),
        micro_batches=draw_micro_batches(results, folder),
        spark_cases=compare_micro_batches(results),
        spark_loading=results.table("Spark, loading a state"),
        spark_start=results.table("Spark, start of a worker"),
        spark_bounded=results.table("Spark, bounded by key"),
    )
    path = folder / "performance.md"
    path.write_text(page, "utf-8")
    draw_rates(path)
    return path


def write_nexmark(results: Results, folder: Path) -> Path:
    """Write the page on NEXMark into a folder; return its path."""
    figures = results.list_figures("NEXMark")
    machine = results.describe("nexmark") if figures else UNMEASURED
    path = folder / "nexmark.md"
    path.write_text(nexmark_page.make_page(machine, figures), "utf-8")
    return path


PAGES = {"performance": write, "nexmark": write_nexmark}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="file that the benchmarks wrote with --json")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the pages")
    parser.add_argument("--page", choices=[*PAGES, "all"], default="all")
    options = parser.parse_args()
    results = Results(options.results)
    for name in PAGES if options.page == "all" else [options.page]:
        print(PAGES[name](results, options.docs))


if __name__ == "__main__":
    main()
