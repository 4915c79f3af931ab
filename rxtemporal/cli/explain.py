"""The command ``explain``: the plan of a query as text."""

from __future__ import annotations

import argparse

from rxtemporal.cli.options import add_plan_options

DESCRIPTION = (
    "Prints the plan of a query, or of each query of an application: for each operator its "
    "fields, the CTI that it passes on, and what it holds. Without --input the fields of the "
    "streams are unknown."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    add_plan_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.inputs import open_plans

    plans = open_plans(options)
    print(
        "\n\n".join(
            f"{name}:\n{each.explain()}" if name else each.explain() for name, each in plans
        )
    )
    return 0
