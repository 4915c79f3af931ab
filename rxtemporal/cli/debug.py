"""The command ``debug``: the event-flow page of a query over a recording or over files."""

from __future__ import annotations

import argparse
from pathlib import Path

from rxtemporal.cli.options import (
    INTERRUPTED,
    add_file_options,
    add_query_options,
)

DESCRIPTION = (
    "Runs a query over a recording (made with run(sink, record=PATH)) or over "
    "files of rows, and writes one HTML page: the plan, a timeline of all rows, the causes and "
    "effects of each, what came late. The page needs no network and can be shared; it contains "
    "the rows."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    add_query_options(parser)
    parser.add_argument(
        "--out", type=Path, metavar="PAGE.html",
        help="the page (default: the name of the function, with .html)",
    )  # fmt: skip
    add_file_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C ends it."""
    from rxtemporal.cli.inputs import FileOptions, find_query, open_streams
    from rxtemporal.query.bound_query import apply_query
    from rxtemporal.query.event_flow import write_event_flow

    files = FileOptions.of(options)
    streams = open_streams(options.paths, files)
    query = apply_query(find_query(options.query), streams)
    name = options.query.rpartition(":")[2]
    named = {each: stream._node for each, stream in streams.items()}
    out = options.out or Path(f"{name}.html")
    try:
        written = write_event_flow(query._node, out, title=name, named=named)
    except KeyboardInterrupt:
        return INTERRUPTED
    print(written)
    print(written.sentence)
    return 1 if written.failed else 0
