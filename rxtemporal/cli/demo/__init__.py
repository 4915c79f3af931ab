"""The command ``demo``: flight feeds, merged, counted and written into Spark."""

from __future__ import annotations

import argparse
from pathlib import Path

from rxtemporal.cli.options import INTERRUPTED, parse_rate
from rxtemporal.errors import RxTemporalError

DESCRIPTION = (
    "Merges the flight feeds of New York's three airports in January 2013 into one "
    "stream, computes the number of departures and their mean delay in hopping windows, and "
    "writes the results into a Spark table. A second run adds no row a second time."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "--out", type=Path, default=Path("rxtemporal-demo"), metavar="DIR",
        help="folder for the table, the picture and the event-flow page (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--no-spark",
        action="store_true",
        help="write the results into one Parquet file, without Spark",
    )
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument(
        "--fast", action="store_true", help="send events as fast as the query takes them (default)"
    )
    speed.add_argument(
        "--rate", type=parse_rate, metavar="N", help="send N events a second, to watch it work"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C ends it."""
    try:
        from rxtemporal.cli.demo.display import Display, stopped_text
    except ImportError as error:
        raise RxTemporalError(
            f"the demonstration needs packages beyond the library: {error}. "
            "Hint: pip install 'rxtemporal[demo]'."
        ) from error
    from rxtemporal.cli.demo.main import demo

    display = Display()
    try:
        report = demo(options.out, spark=not options.no_spark, rate=options.rate, display=display)
    except KeyboardInterrupt:
        display.say(stopped_text(options.out, spark=not options.no_spark))
        return INTERRUPTED
    display.summary(report)
    return 0
