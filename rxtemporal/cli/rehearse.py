"""The command ``rehearse``: a recording through two queries, and with other delays."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import rxtemporal as rxt
from rxtemporal.cli.options import parse_share
from rxtemporal.core.spans import format_delay
from rxtemporal.errors import ArgumentError

# lines of a table of --every
MOST_LINES = 1_000
DESCRIPTION = (
    "Runs a recording through two queries and prints the rows in which their "
    "results differ. For each recorded stream it says how many events were late, and which "
    "delay would have lost none, or no more than --loss. Without queries it prints only this. "
    "The exit status is 1 if the results differ."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("path", type=Path, metavar="RECORDING", help="folder of a recording")
    parser.add_argument(
        "--old", metavar="MODULE:FUNCTION", help="the query as it is (or FILE.py:FUNCTION)"
    )
    parser.add_argument("--new", metavar="MODULE:FUNCTION", help="the changed query")
    parser.add_argument(
        "--every", metavar="SPAN", help="count the rows of each span of time, for example 1h"
    )
    parser.add_argument(
        "--loss", type=parse_share, default=0.0, metavar="SHARE",
        help="share of the events that may be lost, for example 0.1%%",
    )  # fmt: skip
    parser.add_argument(
        "--clock", metavar="FIELD",
        help="compare one time with a clock for each device, which this field names",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE.html", help="write the difference to a page, too"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the status says if the results are the same."""
    if (options.old is None) != (options.new is None):
        raise ArgumentError("rehearse takes --old and --new together. Hint: name both queries.")
    if options.old is None and (options.out or options.every):
        raise ArgumentError("--out and --every are about two queries. Hint: --old and --new.")
    same = True
    if options.old is not None:
        same = _compare(options)
        print()
    delays = rxt.testing.find_delays(options.path)
    for line in _list_lines(delays, options.loss):
        print(line)
    if options.clock is not None:
        _compare_clocks(options, [*delays])
    return 0 if same else 1


def _compare_clocks(options: argparse.Namespace, streams: Sequence[str]) -> None:
    """Print for each stream what one time, and clocks of devices, would have lost."""
    from rxtemporal.core.row_text import format_frame, get_width

    for name in streams:
        found = rxt.testing.find_clock_losses(
            options.path, name if len(streams) > 1 else None, clock=options.clock
        )
        print(f"\n{name}, with a clock for each {options.clock}:")
        table = found.select("setting", "lost", "share")
        print(format_frame(table, MOST_LINES, get_width(), whole=True))


def _compare(options: argparse.Namespace) -> bool:
    from rxtemporal.cli.inputs import find_query
    from rxtemporal.core.row_text import format_frame, get_width

    old, new = find_query(options.old, "--old"), find_query(options.new, "--new")
    rehearsal = rxt.testing.rehearse(options.path, old=old, new=new)
    rehearsal.rename(options.old, options.new)
    print(rehearsal)
    if options.every is not None:
        print()
        table = rehearsal.by_time(options.every)
        print(format_frame(table, MOST_LINES, get_width(), whole=True))
    if options.out is not None:
        rehearsal.save(options.out)
    return rehearsal.same


def _list_lines(delays: Mapping[str, rxt.testing.Delays], loss: float) -> list[str]:
    """Return a line for each stream: the loss now, and the delay for a chosen share."""
    lines = []
    for each in delays.values():
        lines.append(str(each))
        if loss:
            delay = each.propose(loss)
            lines.append(
                f"  for a loss of at most {loss:.2%}: a delay of {format_delay(delay)} "
                f"({each.count_lost(delay):,} late)"
            )
    return lines
