"""The command ``backup``: a copy of the folder of a run that goes on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = (
    "Copies the folder of a service, or of a run with log= or resume=, while the run goes on. A "
    "service or a run that is started with the copy continues as if it had been killed at one "
    "moment of this command: it has all rows with a receipt from before. The copy is verified, and "
    "appears when it is complete. Results in files and tables are not copied."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of the run")
    parser.add_argument("target", type=Path, metavar="TARGET", help="a new folder for the copy")


def run(options: argparse.Namespace) -> int:
    """Make the copy; return the exit status."""
    from rxtemporal.storage.event_log.backup import back_up

    show = _print_progress if sys.stderr.isatty() else None
    records = back_up(options.folder, options.target, show)
    if show is not None:
        print(file=sys.stderr)
    print(f"copied {options.folder} to {options.target}: {records:,} records so far")
    return 0


def _print_progress(done: int, size: int) -> None:
    print(f"\r{done / 1e6:,.0f} of {size / 1e6:,.0f} MB", end="", file=sys.stderr, flush=True)
