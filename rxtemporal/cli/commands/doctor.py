"""The command ``doctor``: what a run needs on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    doctor = commands.add_parser(
        "doctor",
        parents=[shared],
        help="check Python, Java, the disk and a spool",
        description="Checks what a run needs: Python, packages, Java and, if PATH is given, the "
        "disk and the spool there. Says what to do about each problem.",
    )
    doctor.add_argument("path", type=Path, nargs="?", metavar="PATH", help="path of a SparkSink")
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.doctor import examine

    findings = examine(options.path)
    for finding in findings:
        print(f"{'ok ' if finding.ok else 'BAD'}  {finding.name:<12} {finding.detail}")
        if not finding.ok and finding.advice:
            print(f"     {'':<12} {finding.advice}")
    return 0 if all(finding.ok for finding in findings) else 1
