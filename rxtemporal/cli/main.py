"""Entry point of the command line, with the list of its commands."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from rxtemporal import __version__
from rxtemporal.cli import tap, top
from rxtemporal.cli.commands import (
    bench,
    debug,
    demo,
    doctor,
    inspect,
    rehearse,
    replay,
    serve,
)
from rxtemporal.errors import RxTemporalError

# in the order of the help
COMMANDS = (
    demo.add_command,
    replay.add_command,
    debug.add_command,
    rehearse.add_command,
    bench.add_command,
    inspect.add_command,
    doctor.add_command,
    serve.add_command,
    top.add_command,
    tap.add_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    _configure_logging(options.verbose)
    try:
        return int(options.run(options))
    except RxTemporalError as error:
        print(f"rxtemporal: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        print(
            f"rxtemporal: {error.strerror or error}{where}. Hint: check that the path exists, that "
            "you may write to it and that its disk has room, or use another path.",
            file=sys.stderr,
        )
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rxtemporal",
        description="Temporal queries over late and out-of-order events, with final results.",
    )
    parser.add_argument("--version", action="version", version=f"rxtemporal {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "-v", "--verbose", action="count", default=0, help="log more: -v for steps, -vv for details"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add_command in COMMANDS:
        add_command(commands, shared)
    return parser


def _configure_logging(verbose: int) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("rxtemporal").setLevel(level)


if __name__ == "__main__":
    sys.exit(main())
