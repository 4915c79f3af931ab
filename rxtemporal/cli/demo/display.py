"""Display of the demonstration: progress while it runs, and a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from rxtemporal.cli.demo.report import Report
from rxtemporal.core.ticks import describe


class Display:
    """Writes to a terminal, or plain lines without bars if there is none."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def say(self, text: str) -> None:
        """Write a line."""
        self.console.print(text, soft_wrap=True)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Show a bar while the block runs; it yields a function to call for each of ``total``."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(what, total=total)
            count = 0

            def advance() -> None:
                nonlocal count
                count += 1
                if count % 100 == 0 or count == total:
                    progress.update(task, completed=count)

            yield advance

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show a spinner while the block runs; without a terminal print what is done."""
        if not self.console.is_terminal:
            self.say(f"{what} …")
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            progress.add_task(what, total=None)
            yield

    def summary(self, report: Report) -> None:
        """Print the report of a run."""
        self.console.print()
        self.console.print(_sources(report))
        fates = ", ".join(f"{count:,} {fate}" for fate, count in report.fates.items())
        self.say(f"Flights         {sum(report.fates.values()):,} in the month: {fates}.")
        self.say(
            "                Cancelled flights never departed, so they are not counted at all."
        )
        self.say(
            "                Diverted flights never landed, so they are not counted in the air."
        )
        self.say(f"CTI reached     {describe(report.cti)}")
        self.say(f"Results         {report.rows_out:,} rows in {report.batches:,} batches")
        self.say(f"Rows in table   {report.rows_in_table:,}")
        spent = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in report.seconds.items())
        self.say(f"Time            {sum(report.seconds.values()):.1f} s: {spent}")
        self.say(f"Picture         {report.picture}")
        self.say(f"Event-flow page {report.page}")
        self.console.print()
        self.console.print(_busiest(report.table))


def _sources(report: Report) -> Table:
    table = Table(title="Three feeds, merged", title_justify="left", box=None)
    for heading in ("source", "departures", "late at its door", "late at the merge", "largest lag"):
        table.add_column(heading, justify="left" if heading == "source" else "right")
    for name, count in report.events.items():
        table.add_row(
            name,
            f"{count:,}",
            str(report.late_at_door[name]),
            str(report.late_at_subject[name]),
            str(report.largest_lag[name]),
        )
    table.add_row(
        "all",
        f"{sum(report.events.values()):,}",
        str(sum(report.late_at_door.values())),
        str(sum(report.late_at_subject.values())),
        str(max(report.largest_lag.values())),
        style="bold",
    )
    return table


def _busiest(frame: pl.DataFrame, rows: int = 6) -> Table:
    """Return a table of the windows with the most departures."""
    table = Table(
        title="The busiest hours in the table (the hour before each quarter)",
        title_justify="left",
        box=None,
    )
    for heading in ("from", "to", "origin", "departures", "mean delay"):
        table.add_column(
            heading, justify="left" if heading in ("from", "to", "origin") else "right"
        )
    top = frame.sort("departures", "start_time", descending=[True, False]).head(rows)
    for row in top.iter_rows(named=True):
        table.add_row(
            _minute(row["start_time"]),
            _minute(row["end_time"]),
            row["origin"],
            str(row["departures"]),
            f"{row['mean_delay']:.1f} min",
        )
    return table


def _minute(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def stopped_text(out: Path, *, spark: bool) -> str:
    """Return the message after Ctrl-C: which results are safe, and how to continue."""
    if not spark:
        return "\nStopped. Without Spark nothing is kept. The same command starts again."
    return (
        f"\nStopped. Committed results are safe in {out}; the same command continues from there "
        "and writes no row twice."
    )
