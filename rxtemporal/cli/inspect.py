"""The command ``inspect``: the content and the damage of a folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rxtemporal.errors import ArgumentError
from rxtemporal.storage.salvage import Inspection


def describe(found: Inspection, out: Path | None) -> Iterator[str]:
    """Yield the lines about a folder, and about the copy ``out`` of what is whole in it."""
    yield found.title
    yield from (f"  {fact}" for fact in found.facts)
    yield f"  {found.records:,} records are whole"
    if found.damage:
        yield f"DAMAGED: {found.damage.partition(' Hint: ')[0]}"
        yield from (f"  lost: {each}" for each in found.lost)
        if not found.lost:
            yield "  lost: nothing"
    if out is not None:
        yield f"copied to {out}: {found.records:,} records"


DESCRIPTION = (
    "Reads all of a folder of log=, resume= or record=, or of a SparkSink. Says "
    "what it has, what is damaged and what is lost. Changes nothing there. The exit status is "
    "1 if a run would refuse the folder."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("path", type=Path, metavar="PATH", help="the folder")
    parser.add_argument(
        "--salvage", type=Path, metavar="OUT", help="copy what is whole into a new folder"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
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
