"""The command ``query``: a quick look at files and recordings."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rxtemporal.cli.messages import EXPRESSION
from rxtemporal.cli.options import add_file_options, parse_count
from rxtemporal.errors import ArgumentError, BindingError

if TYPE_CHECKING:
    from rxtemporal.query.streamable import Streamable


DESCRIPTION = (
    "Prints the first rows of a file, of a recording, or of a query over them. "
    "The query is an expression in Python, in which each stream has its name (the file's, "
    "without suffix; a single one is also called stream), for example "
    "\"readings.tumbling_window('5m').aggregate(n=agg.count())\". col, agg, pl and rxt are "
    "there, too."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH",
        help="folder of a recording, or a file; the last one may be the expression",
    )  # fmt: skip
    parser.add_argument(
        "--rows", type=parse_count, default=20, metavar="N",
        help="rows to print (default: %(default)d)",
    )  # fmt: skip
    add_file_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.inputs import SUFFIXES, FileOptions, open_streams
    from rxtemporal.core.row_text import format_frame, get_width

    *paths, last = options.paths
    is_path = Path(last).exists() or Path(last).suffix.lower() in SUFFIXES
    expression = last if paths and not is_path else None
    if expression is None:
        paths.append(last)
    files = FileOptions.of(options)
    streams = open_streams([Path(path) for path in paths], files)
    found = _choose(streams) if expression is None else evaluate(expression, streams)
    frame = found.to_polars()
    print(format_frame(frame, options.rows, get_width(), whole=True))
    return 0


def _choose(streams: Mapping[str, Streamable]) -> Streamable:
    """Return the only stream."""
    if len(streams) != 1:
        raise ArgumentError(
            f"there are {len(streams)} streams: {', '.join(streams)}. Hint: end with an expression "
            f"that begins with one of them, for example {min(streams)!r}."
        )
    return next(iter(streams.values()))


def evaluate(expression: str, streams: Mapping[str, Streamable]) -> Streamable:
    """Return the stream that an expression of the command line stands for."""
    import polars as pl

    import rxtemporal as rxt
    from rxtemporal.query.streamable import Streamable

    names: dict[str, Any] = {"rxt": rxt, "agg": rxt.agg, "ops": rxt.operators, "pl": pl}
    names["col"] = pl.col
    own = {re.sub(r"\W", "_", name): stream for name, stream in streams.items()}
    if len(own) == 1:
        names["stream"] = next(iter(own.values()))
    try:
        # the user's own code, as that of python -c
        found = eval(compile(expression, EXPRESSION, "eval"), names | own)
    except (SyntaxError, NameError) as error:
        if isinstance(error, NameError) and hasattr(Streamable, error.name or ""):
            hint = f"begin with a stream: {min(own)}.{error.name}(…)."
        else:
            hint = (
                f"the streams are {', '.join(own)}; a path that does not exist counts as an "
                "expression, too."
            )
        raise ArgumentError(
            f"cannot read the expression {expression!r}: {error}. Hint: {hint}"
        ) from error
    if not isinstance(found, Streamable):
        raise BindingError(
            f"the expression has to give a stream, and gives {found!r}. Hint: end a window with "
            ".aggregate(…)."
        )
    return found
