"""Lateness of the rows of recorded streams, and the delay that loses no more than you choose."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.spans import Span, describe_span, span
from rxtemporal.errors import ArgumentError
from rxtemporal.lineage.lateness_columns import ALWAYS, measure_rows, read_records
from rxtemporal.operators.causes.row_text import format_delay
from rxtemporal.storage.event_log.reader import Recording, StreamRecords

# points of a curve
POINTS = 50


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Delays:
    """The rows that a recorded stream loses with each delay of its advance-time settings.

    ``rows`` counts its rows and edges, ``delay`` is the recorded delay in ticks (None: its settings
    make no CTIs from its rows; it is judged as if each row made one), ``always`` counts those that
    are late with any delay: they break a CTI that the source itself has sent, or end a row that is
    not open. ``distances`` has one number for each of the others, ascending: how many ticks it is
    behind the rows before it. A row is lost with a delay below its distance: it is late, so it is
    dropped or adjusted, as the policy says. ``senders`` has for each sender of the stream its
    ``rows`` and its ``largest`` distance.

    The numbers are those of the stream's door in a replay with that delay. CTIs imported from other
    streams are not counted, for they come with the delay of the other stream.
    """

    name: str
    rows: int
    delay: int | None
    always: int
    distances: Int64s
    senders: pl.DataFrame

    def count_lost(self, delay: Span) -> int:
        """Return the number of rows that are late with a delay."""
        least = span(delay, "delay")
        kept = int(np.searchsorted(self.distances, least, side="right"))
        return self.always + len(self.distances) - kept

    def propose(self, loss: float = 0.0) -> int:
        """Return the smallest delay, in ticks, that loses at most this share of the rows.

        ``loss`` is from 0 to 1. Rows that are late with any delay are lost in any case; if they
        are more than the share, the delay is the one that loses no others.

        >>> import numpy as np
        >>> import polars as pl
        >>> delays = Delays("readings", 4, 0, 0, np.array([0, 0, 2, 60_000_000]), pl.DataFrame())
        >>> delays.propose(), delays.propose(0.25), delays.count_lost(2)
        (60000000, 2, 1)
        """
        if isinstance(loss, bool) or not isinstance(loss, (int, float)) or not 0 <= loss <= 1:
            raise ArgumentError(f"loss is a share of the rows, from 0 to 1, got {loss!r}")
        spare = max(0, math.floor(loss * self.rows + 1e-9) - self.always)
        if spare >= len(self.distances):
            return 0
        return max(0, int(self.distances[len(self.distances) - 1 - spare]))

    def curve(self) -> pl.DataFrame:
        """Return the number (``lost``) and ``share`` of rows that delays (``delay``, ticks) lose.

        The delays are those at which the number changes, at most 50 of them, 0 and the one that
        loses nothing more among them.
        """
        late = np.unique(self.distances[self.distances > 0])
        if len(late) > POINTS - 1:
            late = late[np.linspace(0, len(late) - 1, POINTS - 1).astype(np.int64)]
        delays = [0, *late.tolist()]
        lost = [self.count_lost(delay) for delay in delays]
        frame = pl.DataFrame({"delay": delays, "lost": lost})
        return frame.with_columns((pl.col("lost") / max(1, self.rows)).alias("share"))

    def __str__(self) -> str:
        """Return a sentence: the loss now, and the delay without one."""
        now = 0 if self.delay is None else self.delay
        lost = self.count_lost(now)
        text = f"{self.name}: {lost:,} of {self.rows:,} late with a delay of {describe_span(now)}"
        needed = self.propose()
        if needed > now:
            text += f"; a delay of {format_delay(needed)} would have lost {self._rest(needed)}"
        return text

    def _rest(self, delay: int) -> str:
        lost = self.count_lost(delay)
        return f"{lost:,}, which break CTIs that the source sent" if lost else "nothing"


def find_delays(recording: str | os.PathLike[str]) -> dict[str, Delays]:
    """Return how late the rows of each stream of a recording are, by the name of the stream.

    Reads each stream once, its rows as columns. Of several streams of one name the second is called
    ``name 2``, as in ``replay``. ``SpoolError``: there is no recording, or it is damaged.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> events = [rxt.PointEvent(t, {}) for t in (1, 9, 4, 12, 11)]
    >>> with rxt.from_events(events, advance_time=2).run(rxt.Collect(), record=folder.name):
    ...     pass
    >>> delays = find_delays(folder.name)["events"]
    >>> print(delays)
    events: 1 of 5 late with a delay of 2 ticks; a delay of 5 ticks would have lost nothing
    >>> delays.propose(loss=0.2)
    1
    """
    if not isinstance(recording, (str, os.PathLike)):
        raise ArgumentError(f"a recording is the path of its folder, got {recording!r}")
    there = Recording(recording)
    found: dict[str, Delays] = {}
    seen: dict[str, int] = {}
    for stream in there.streams:
        name = stream.facts.name
        seen[name] = seen.get(name, 0) + 1
        again = name if seen[name] == 1 else f"{name} {seen[name]}"
        found[again] = _measure(again, stream)
    return found


def _measure(name: str, stream: StreamRecords) -> Delays:
    records = read_records(stream)
    settings = stream.facts.settings
    distances = measure_rows(records, settings, delays_ctis=stream.facts.delays_ctis)
    late = distances.filter(pl.col("distance") == ALWAYS).height
    others = distances.filter(pl.col("distance") != ALWAYS)
    made = settings.generation if settings is not None else None
    senders = others.group_by("input").agg(
        pl.len().alias("rows"), pl.col("distance").max().clip(0).alias("largest")
    )
    return Delays(
        name,
        distances.height,
        None if made is None else made.delay_ticks,
        late,
        np.sort(others.get_column("distance").to_numpy()),
        senders.sort("largest", "input", descending=[True, False], nulls_last=True),
    )


def list_lines(delays: Mapping[str, Delays], loss: float) -> list[str]:
    """Return a line for each stream: the loss now, and the delay for a chosen share."""
    lines = []
    for each in delays.values():
        lines.append(str(each))
        if loss:
            delay = each.propose(loss)
            lines.append(
                f"  for a loss of at most {loss:.2%}: a delay of {format_delay(delay)} "
                f"({each.count_lost(delay):,} late)"
            )
    return lines
