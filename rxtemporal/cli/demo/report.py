"""Report of one run of the demonstration."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import polars as pl

from rxtemporal.cli.demo.query import Merge
from rxtemporal.run.diagnostics import Diagnostics


class Stopwatch:
    """Stopwatch for the parts of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the part of this name."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclasses.dataclass(frozen=True)
class Report:
    """Counts and results of one run of the demonstration."""

    events: dict[str, int]
    late_at_door: dict[str, int]
    late_at_subject: dict[str, int]
    largest_lag: dict[str, timedelta]
    fates: dict[str, int]
    cti: int
    batches: int
    rows_out: int
    rows_in_table: int
    table: pl.DataFrame
    picture: Path
    page: Path
    seconds: dict[str, float]


def make_report(
    merge: Merge,
    ran: Diagnostics,
    ended: dict[str, int],
    table: pl.DataFrame,
    picture: Path,
    page: Path,
    watch: Stopwatch,
) -> Report:
    """Gather the counts of a run."""
    stats = merge.subject.stats()
    lags = {
        name: max(door.largest_lateness, stats.sources[name].largest_lateness)
        for name, door in merge.doors.items()
    }
    return Report(
        events={name: door.events for name, door in merge.doors.items()},
        late_at_door={name: door.late.total() for name, door in merge.doors.items()},
        late_at_subject={name: stats.sources[name].late for name in merge.doors},
        largest_lag={name: timedelta(microseconds=lag) for name, lag in lags.items()},
        fates=ended,
        cti=ran.cti,
        batches=ran.batches_out,
        rows_out=ran.rows_out,
        rows_in_table=table.height,
        table=table,
        picture=picture,
        page=page,
        seconds=watch.seconds,
    )
