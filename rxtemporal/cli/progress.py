"""Progress of a process on the terminal, and its summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rxtemporal.core.spans import format_delay
from rxtemporal.run.diagnostics import StreamDiagnostics
from rxtemporal.run.process import Process

# senders of a stream that are named
MOST_SENDERS = 5


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
            progress.update(task, description=_describe_counts(process))


def summarize(process: Process) -> Iterator[str]:
    """Yield a line with the counts, then one for each stream that had late events."""
    yield _describe_counts(process)
    for stream in process.diagnostics().streams:
        if sum(stream.late.values()):
            yield _describe_late(stream)


def _describe_counts(process: Process) -> str:
    counts = process.diagnostics()
    late = ", ".join(f"{n:,} {reason.value}" for reason, n in counts.late.items())
    return f"{counts.events_in:,} events in, {late or 'none'} late, {counts.rows_out:,} rows out"


def _describe_late(stream: StreamDiagnostics) -> str:
    """Return how many events of a stream were late, of which senders, and the delay to choose."""
    late = sum(stream.late.values())
    text = f"  {stream.name}: {late:,} of {stream.events_in:,} late"
    senders = sorted(
        ((each.late, name) for name, each in stream.inputs.items() if each.late), reverse=True
    )
    if senders:
        named = ", ".join(f"{name} {count:,}" for count, name in senders[:MOST_SENDERS])
        text += f" (of {named}{', …' if len(senders) > MOST_SENDERS else ''})"
    if stream.late_by_import:
        text += f", {stream.late_by_import:,} of them by CTIs of other streams"
    if stream.largest_lateness > 0:
        delay = format_delay(stream.largest_lateness)
        what = "no more" if stream.late_by_import else "nothing"
        text += f"; a delay of {delay} would have lost {what}"
    return text


@contextmanager
def report_once() -> Iterator[None]:
    """Keep the log from telling of the error of a process, which the command itself reports."""
    log = logging.getLogger("rxtemporal.run.process")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def is_watched() -> bool:
    """Return True if standard error is a terminal."""
    return sys.stderr.isatty()
