"""The command ``plan``: what a changed application keeps of the folder of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = (
    "Shows, as a table, what a changed application would keep of the folder of a service or of a "
    "run with resume=: inputs, operators and outputs that are kept, that begin, and that are given "
    "up. Nothing is changed, and nothing runs; the service must be stopped. "
    "rxtemporal serve --evolve then makes the change."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder of resume=")
    parser.add_argument(
        "application", metavar="FILE.py:NAME",
        help="the application as it is now, as serve takes it (or MODULE:NAME)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="settings of the service, a TOML file"
    )


def run(options: argparse.Namespace) -> int:
    """Print the table; return the exit status."""
    from rxtemporal.cli.serve import find_application
    from rxtemporal.serve import Settings

    settings = None if options.config is None else Settings.load(options.config)
    service = find_application(options.application, settings).service
    evolution = service.plan_change(options.folder)
    print(evolution)
    if evolution.is_addition:
        print("\nnothing is lost: the application resumes from the folder without a flag")
    else:
        print("\nrxtemporal serve --evolve, or run(..., evolve=True), makes this change")
    return 0
