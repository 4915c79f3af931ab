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
        "disk and the spool there. Says what to do about each problem. Spark and the other extras "
        "are optional; with PATH Spark is not.",
    )
    doctor.add_argument("path", type=Path, nargs="?", metavar="PATH", help="path of a SparkSink")
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.doctor import examine

    findings = examine(options.path)
    for finding in findings:
        mark = "ok " if finding.ok else "BAD" if finding.bad else "no "
        print(f"{mark}  {finding.name:<12} {finding.detail}")
        if not finding.ok and finding.advice:
            for_whom = "if you need it: " if finding.optional else ""
            print(f"     {'':<12} {for_whom}{finding.advice}")
    return 1 if any(finding.bad for finding in findings) else 0
