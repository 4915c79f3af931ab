"""The command ``explain``: the plan of a query as text."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rxtemporal.cli.options import add_file_options, list_file_options

if TYPE_CHECKING:
    from rxtemporal.query.streamable import Streamable


DESCRIPTION = (
    "Prints the plan of a query, or of each query of an application: for each operator its "
    "fields, the CTI that it passes on, and what it holds. Without --input the fields of the "
    "streams are unknown."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "query", metavar="MODULE:NAME",
        help="a function of streams, a stream or an application (or FILE.py:NAME)",
    )  # fmt: skip
    parser.add_argument(
        "--input", type=Path, nargs="+", default=[], metavar="PATH",
        help="folder of a recording, or a file (.csv, .json, .jsonl, .ndjson, .parquet)",
    )  # fmt: skip
    add_file_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.inputs import FileOptions, find_query, open_streams
    from rxtemporal.query.application import Application
    from rxtemporal.query.bound_query import bind_query
    from rxtemporal.query.streamable import Streamable

    query = find_query(options.query, "the query", kinds=(Streamable, Application))
    if isinstance(query, Application):
        print("\n\n".join(f"{name}:\n{each.explain()}" for name, each in query.queries.items()))
        return 0
    streams = open_streams(options.input, FileOptions(*list_file_options(options)))
    if not streams and not isinstance(query, Streamable):
        streams = _make_streams(query)
    print(bind_query(query, streams or None).stream.explain())
    return 0


def _make_streams(query: Callable[..., Any]) -> dict[str, Streamable]:
    """Return a stream of unknown fields for each parameter that needs one."""
    from rxtemporal.query.inputs import from_events

    parameters = inspect.signature(query).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty]
    return {name: from_events([], name=name) for name in needed}
