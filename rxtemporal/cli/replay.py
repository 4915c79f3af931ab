"""The command ``replay``: a query over a recording or over files."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import rxtemporal as rxt
from rxtemporal.cli.options import (
    add_file_options,
    add_query_options,
    parse_speed,
)

DESCRIPTION = (
    "Runs a query over a recording (made with run(sink, record=PATH)) or over "
    "files of rows, and prints the results as a table or writes a file. Over a recording "
    "the query gives the same results and the same late events as in the recorded run."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    add_query_options(parser)
    parser.add_argument(
        "--speed", type=parse_speed, default=math.inf, metavar="N|max",
        help="seconds of application time per second; 1 is real time (default: max)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write the results to a file: .csv, .parquet, or .json, .jsonl, .ndjson (JSON lines)",
    )  # fmt: skip
    add_file_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command, and print at the end what was late."""
    from rxtemporal.cli.inputs import FileOptions, find_query, open_streams
    from rxtemporal.cli.progress import is_watched, report_once, summarize, wait_visibly
    from rxtemporal.query.bound_query import apply_query
    from rxtemporal.query.replay import at_speed

    files = FileOptions.of(options)
    query = apply_query(find_query(options.query), open_streams(options.paths, files))
    quiet = options.out is not None or not sys.stdout.isatty()
    sink = rxt.Print() if options.out is None else rxt.File(options.out)
    with report_once():
        process = at_speed(query, options.speed).run(sink, name="replay")
        try:
            with process:
                wait_visibly(process, show=quiet and is_watched())
        finally:
            for line in summarize(process):
                print(line, file=sys.stderr)
    return 0
