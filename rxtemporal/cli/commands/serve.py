"""The command ``serve``: an application over HTTP."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "serve",
        parents=[shared],
        help="serve an application over HTTP, with a receipt for pushed rows",
        description="Serves the streams and queries of an application over HTTP. Devices send rows "
        "to POST /streams/NAME and get a receipt once the rows are on disk. Readers get results "
        "from GET /queries/NAME/events. Without tokens only this machine may connect. SIGTERM "
        "stops the service without loss, after saving a checkpoint; a second one ends it at once.",
    )
    command.add_argument(
        "application", nargs="?", metavar="FILE.py:NAME",
        help="the application: a name in a file or a module (MODULE:NAME), which is an "
        "rxt.Application, the result of serve.app(…), or a function that returns one of them",
    )  # fmt: skip
    command.add_argument("--config", type=Path, metavar="FILE", help="settings, a TOML file")
    command.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    command.add_argument(
        "--port", type=int, metavar="N", help="port; 0 takes a free one (default: 8000)"
    )
    command.add_argument(
        "--state", type=Path, metavar="FOLDER",
        help="folder of the event log and the checkpoints; without one nothing is durable",
    )  # fmt: skip
    command.add_argument(
        "--check", action="store_true",
        help="print the effective settings without secrets, and do not serve",
    )  # fmt: skip
    command.add_argument(
        "--new-token", metavar="NAME",
        help="print a new token on standard error, and its section for the settings",
    )  # fmt: skip
    demo = command.add_argument_group("demonstration")
    demo.add_argument("--demo", action="store_true", help="serve a house of sensors, with a page")
    demo.add_argument("--no-devices", action="store_true", help="start no simulated devices")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.serve import serve

    return serve(options)
