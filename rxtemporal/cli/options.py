"""Options that several commands share, and readers of their values."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from rxtemporal.core.spans import SECOND, span
from rxtemporal.errors import ArgumentError

INTERRUPTED = 130
_PATHS = "folder of a recording, or a file (.csv, .json, .jsonl, .ndjson, .parquet)"


def add_query_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that runs a query over recordings and files."""
    command.add_argument("paths", type=Path, nargs="+", metavar="PATH", help=_PATHS)
    command.add_argument(
        "--query",
        required=True,
        metavar="MODULE:FUNCTION",
        help="the query: a function of streams (or FILE.py:FUNCTION). Its parameters are the names "
        "of the streams: a recorded stream keeps its name, a file gives its name without suffix",
    )


def add_plan_options(command: argparse.ArgumentParser, inputs: str = _PATHS) -> None:
    """Add the arguments of a command that takes the plan of a query; ``inputs`` helps for them."""
    command.add_argument(
        "query",
        metavar="MODULE:NAME",
        help="a function of streams, a stream or an application (or FILE.py:NAME)",
    )
    add_input_options(command, inputs)


def add_input_options(
    command: argparse.ArgumentParser, inputs: str = _PATHS, *, required: bool = False
) -> None:
    """Add the option for inputs, and those for reading them if they are plain files."""
    command.add_argument(
        "--input",
        type=Path,
        nargs="+",
        default=[],
        required=required,
        metavar="PATH",
        help=inputs,
    )
    add_file_options(command)


def add_file_options(command: argparse.ArgumentParser) -> None:
    """Add the options for reading plain files."""
    files = command.add_argument_group("options for files")
    files.add_argument(
        "--start", metavar="COLUMN", help="column of times, or of the starts of rows"
    )
    files.add_argument(
        "--end", metavar="COLUMN", help="column of the ends of rows; without it rows are points"
    )
    files.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="time zone of times without an offset, for example UTC",
    )
    files.add_argument(
        "--unit",
        choices=("s", "ms", "us", "ns", "ticks"),
        help="unit of times that are numbers, since 1970-01-01T00:00:00Z",
    )
    files.add_argument(
        "--ambiguous",
        choices=("earliest", "latest"),
        help="of a time that exists twice in the zone, the one to take",
    )
    files.add_argument(
        "--nonexistent",
        choices=("forward",),
        help="move a time that does not exist in the zone forward by the length of the gap",
    )
    files.add_argument(
        "--separator",
        type=lambda text: text.replace("\\t", "\t"),
        metavar="CHARACTER",
        help="what separates the columns of a .csv file, for example ';' or '\\t'",
    )
    files.add_argument(
        "--delay",
        type=parse_delay,
        metavar="SPAN",
        help="after each row make a CTI this far behind it, and drop rows that are later, for "
        "example 5m or 1h30m; a number alone is seconds",
    )


def parse_delay(text: str) -> int:
    """Read a span such as ``5m``, or a number of seconds, and return ticks."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            return span(text, "delay", least=0)
        except ArgumentError as error:
            raise argparse.ArgumentTypeError(str(error).replace("%", "%%")) from error
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a delay is not negative, got {text}")
    return round(seconds * SECOND)


def parse_rate(text: str) -> float:
    """Read a number of events per second."""
    rate = float(text)
    if not rate > 0:
        raise argparse.ArgumentTypeError(
            f"the rate is a positive number of events per second, got {text}"
        )
    return rate


def parse_speed(text: str) -> float:
    """Read a speed, a positive number or ``max``."""
    speed = math.inf if text == "max" else float(text)
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"the speed is a positive number or max, got {text}")
    return speed


def parse_seconds(text: str) -> float:
    """Read a positive number of seconds."""
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a positive number of seconds, got {text}")
    return seconds


def parse_share(text: str) -> float:
    """Read a share: a number from 0 to 1, or a percentage."""
    number = text.strip().removesuffix("%")
    try:
        share = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"a share such as 0.1%% or 0.001, got {text}")
    return share


def parse_count(text: str) -> int:
    """Read a number of rows, at least 1."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"a positive number of rows, got {text}")
    return count
