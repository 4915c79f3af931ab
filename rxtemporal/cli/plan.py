"""The command ``plan``: what a changed application keeps of the folder of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from rxtemporal.cli.serve import find_application, read_time

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
    parser.add_argument(
        "--replay-from", type=read_time, metavar="TIME",
        help="as in rxtemporal serve: what is new begins at this time, if its history was kept",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print the table; return the exit status."""
    from rxtemporal.serve import Settings

    settings = None if options.config is None else Settings.load(options.config)
    service = find_application(options.application, settings).service
    evolution = service.plan_change(options.folder, options.replay_from)
    print(evolution)
    if not evolution.needs_flag:
        print("\nnothing is lost: the application resumes from the folder without a flag")
    else:
        at = options.replay_from
        serve, run = ("", "") if at is None else (f" --replay-from {at}", f", replay_from={at!r}")
        print(
            f"\nrxtemporal serve --evolve{serve}, or run(..., evolve=True{run}), makes this change"
        )
    return 0
