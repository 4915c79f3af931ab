"""Progress of a process on the terminal, and its summary."""

from __future__ import annotations

import sys

from rxtemporal.runtime.process import Process


def wait_visibly(process: Process, *, show: bool) -> None:
    """Wait for a process; with ``show`` report its progress on standard error."""
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        show = False
    if not show:
        process.wait()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=None)
        while not process.wait(0.2):
            progress.update(task, description=summarize(process))


def summarize(process: Process) -> str:
    """Return one line with the numbers of events in, of late events and of rows out."""
    counts = process.diagnostics()
    late = ", ".join(f"{n:,} {reason.value}" for reason, n in counts.late.items())
    return f"{counts.events_in:,} events in, {late or 'none'} late, {counts.rows_out:,} rows out"


def is_watched() -> bool:
    """Return True if standard error is a terminal."""
    return sys.stderr.isatty()
