"""The command ``inspect``: the content and the damage of a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from rxtemporal.errors import ArgumentError


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    inspect = commands.add_parser(
        "inspect",
        parents=[shared],
        help="check an event log, a checkpoint, a recording or a spool, and copy what is whole",
        description="Reads all of a folder of log=, resume= or record=, or of a SparkSink. Says "
        "what it has, what is damaged and what is lost. Changes nothing there. The exit status is "
        "1 if a run would refuse the folder.",
    )
    inspect.add_argument("path", type=Path, metavar="PATH", help="the folder")
    inspect.add_argument(
        "--salvage", type=Path, metavar="OUT", help="copy what is whole into a new folder"
    )
    inspect.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.inspection import describe
    from rxtemporal.storage.salvage import find_spool, inspect, inspect_spool, salvage

    spool = find_spool(options.path)
    if spool is not None and options.salvage is not None:
        raise ArgumentError(
            f"{options.path} is a spool, which is not copied: a SparkSink refuses a damaged one. "
            "Hint: --salvage is for event logs, checkpoints and recordings."
        )
    if spool is not None:
        found = inspect_spool(spool)
    elif options.salvage is None:
        found = inspect(options.path)
    else:
        found = salvage(options.path, options.salvage)
    for line in describe(found, options.salvage):
        print(line)
    return 1 if found.damage else 0
