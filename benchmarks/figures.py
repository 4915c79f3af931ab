"""Figures of a benchmark: what was measured, what was asked, and a file of results for the page."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

# units of which less is better
LESS = ("µs", "ns", "s", "× p50")


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A measured number: the median of its rounds, with the least and the greatest of them.

    ``table`` is the table of the page to which it belongs. ``asked`` is the bound to meet: at least
    that much of a rate or a ratio, at most that much of a span of time; None if nothing is asked.
    A figure of a ``curve`` has the ``size`` at which it was measured.
    """

    table: str
    what: str
    value: float
    unit: str
    asked: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    # on a curve: which one, and where
    curve: str = ""
    size: int | None = None

    @property
    def less_is_better(self) -> bool:
        """True of a span of time."""
        return self.unit in LESS

    @property
    def met(self) -> bool | None:
        """True if what was measured is what was asked; None if nothing was."""
        if self.asked is None:
            return None
        return self.value <= self.asked if self.less_is_better else self.value >= self.asked

    def __str__(self) -> str:
        line = f"{self.what:<60} {self.value:>9.3g} {self.unit:<5}"
        if self.low is not None and self.high is not None:
            line += f" ({self.low:.3g} to {self.high:.3g})"
        if self.asked is not None:
            sign, verdict = "<=" if self.less_is_better else ">=", "met" if self.met else "NOT MET"
            line += f"   asked {sign} {self.asked:g}: {verdict}"
        return line + (f"   {self.note}" if self.note else "")


def summarize(
    table: str,
    what: str,
    values: Sequence[float],
    unit: str,
    asked: float | None = None,
    **place: Any,
) -> Figure:
    """Return the figure of some rounds: their median, and how far they are apart."""
    middle = statistics.median(values)
    return Figure(table, what, middle, unit, asked, min(values), max(values), **place)


class Report:
    """Figures of one benchmark, printed as they come and saved at the end."""

    def __init__(self, benchmark: str, options: argparse.Namespace) -> None:
        self._benchmark = benchmark
        self._path: Path | None = options.json
        # without paths: the file may be kept, and those are of this machine alone
        self._options = {
            name: str(value) for name, value in vars(options).items() if not isinstance(value, Path)
        }
        self.figures: list[Figure] = []

    def keep(self, figure: Figure) -> None:
        """Keep a figure for ``save``."""
        self.figures.append(figure)

    def add(self, figure: Figure) -> None:
        """Print a figure, and keep it."""
        self.keep(figure)
        print(figure, flush=True)

    def say(self, words: str) -> None:
        """Print words that are not figures."""
        print(words, flush=True)

    def save(self) -> None:
        """Write the figures into the file of results, in place of this benchmark's earlier ones."""
        missed = [figure for figure in self.figures if figure.met is False]
        asked = [figure for figure in self.figures if figure.asked is not None]
        if asked:
            print(f"{len(asked) - len(missed)} of {len(asked)} bounds met")
        if self._path is None:
            return
        there = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        there[self._benchmark] = {
            "when": datetime.now(UTC).isoformat(timespec="minutes"),
            "machine": describe_machine(),
            "options": self._options,
            "figures": [dataclasses.asdict(figure) for figure in self.figures],
        }
        self._path.write_text(json.dumps(there, indent=1, ensure_ascii=False) + "\n", "utf-8")


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "processor": _find_processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "polars": pl.__version__,
    }


def _find_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def parse(parser: argparse.ArgumentParser, *, rounds: int) -> argparse.Namespace:
    """Return the command line, with the options that all benchmarks of the page have."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file of results for page.py")
    options = parser.parse_args()
    if options.quick:
        options.rounds = min(options.rounds, 2)
    return options
