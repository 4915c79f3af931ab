"""Entry point of the command line, with the list of its commands."""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import sys
from collections.abc import Iterable, Sequence

from rxtemporal import __version__
from rxtemporal.cli.messages import describe_error_of_user, describe_os_error, name_options
from rxtemporal.cli.options import INTERRUPTED
from rxtemporal.errors import RxTemporalError

# each is a module of this package, loaded when it is asked for
COMMANDS = {
    "demo": "merge the flight feeds of three airports and write the results into a Spark table",
    "query": "look at files or a recording: their first rows, or those of an expression",
    "replay": "run a query over a recording, or over CSV, JSON lines and Parquet files",
    "explain": "print the plan of a query: its operators, what they hold, and the sources of time",
    "compile": "compile the kernels of a query, for an environment that is packed or copied",
    "debug": "write the event-flow page of a query: which events each row comes from, as HTML",
    "rehearse": "compare the results of two queries over a recording, and find a better delay",
    "bench": "measure a query: rows per second, share of each operator, latency",
    "inspect": "check an event log, a checkpoint, a recording or a spool, and copy what is whole",
    "backup": "copy the folder of a run, or of a service, while it goes on",
    "doctor": "check Python, Java, the disk and a spool",
    "serve": "serve an application over HTTP, with a receipt for pushed rows",
    "plan": "show what a changed application keeps of a folder, what begins, and what is lost",
    "top": "watch a server live: its streams, late events, and stalled queries",
    "tap": "print new results of a server's query, or new rows of its stream",
    "completion": "print the completion of commands and options for bash, zsh or fish",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser([each for each in arguments if each in COMMANDS][:1])
    if not arguments:
        parser.print_help()
        return 0
    options = _parse(parser, arguments)
    _configure_logging(options.verbose)
    status = _run(options)
    if status == INTERRUPTED:
        # Ctrl-C within exec(), as dataclasses and named tuples call it on import, leaves a mark by
        # which Python ends itself with SIGINT after this status; the next exec() removes it
        exec("")
    return status


def _run(options: argparse.Namespace) -> int:
    """Run the command of the options and return its status; an error of the user is one line."""
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except RxTemporalError as error:
        message = name_options(str(error)) if hasattr(options, "time_zone") else str(error)
    except OSError as error:
        message = describe_os_error(error)
    except Exception as error:
        described = None if options.verbose else describe_error_of_user(error)
        if described is None:
            raise
        message = described
    print(f"rxtemporal: {message}", file=sys.stderr)
    return 1


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; paths may stand before, between and behind the options."""
    options, rest = parser.parse_known_args(arguments)
    if rest:
        # argparse gives a list of paths only those that stand together
        if not hasattr(options, "paths") or any(each.startswith("-") for each in rest):
            parser.error(
                f"unrecognized arguments: {' '.join(rest)}{_hint_option(parser, arguments)}"
            )
        options.paths += map(type(options.paths[0]), rest)
    return options


def _hint_option(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> str:
    """Return the hint for an option that a command does not have; empty if there is none."""
    choices = [each.choices for each in parser._actions if isinstance(each.choices, dict)]
    command = next((each[name] for each in choices for name in arguments if name in each), parser)
    known = command._option_string_actions
    for given in arguments:
        near = difflib.get_close_matches(given, known, 1) if given.startswith("--") else []
        if near and given not in known:
            return f". Hint: did you mean {near[0]}?"
    return ""


def make_parser(commands: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of these commands."""
    parser = argparse.ArgumentParser(
        prog="rxtemporal",
        description="Temporal queries over late and out-of-order events, with final results.",
    )
    parser.add_argument("--version", action="version", version=f"rxtemporal {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "-v", "--verbose", action="count", default=0, help="log more: -v for steps, -vv for details"
    )
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = parsers.add_parser(name, parents=[shared], help=summary)
        if name in commands:
            module = importlib.import_module(f"rxtemporal.cli.{name}")
            command.description = module.DESCRIPTION
            command.set_defaults(run=module.run)
            module.add_arguments(command)
    return parser


def _configure_logging(verbose: int) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("rxtemporal").setLevel(level)


if __name__ == "__main__":
    sys.exit(main())
