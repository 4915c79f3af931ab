"""Rehearsal of a changed query: a recording through the old and the new one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.query.bound_query import BoundQuery, Query, bind_query
from rxtemporal.testing.frame_difference import END, START, Difference, compare_frames
from rxtemporal.testing.rehearsal_text import as_html, as_text

# points in time of a table by time, about
MOST_SPANS = 24
_NAMES = ("both", "only old", "only new")


class Rehearsal:
    """The results of two queries over one recording, and the rows in which they differ.

    ``both``, ``only_old`` and ``only_new`` are frames with ``start_time``, ``end_time`` and the
    payload, in order of time; a row of ``both`` is as the old query gave it. ``fields_only_old``
    and ``fields_only_new`` are fields that one of the queries does not have, or has with another
    type: they are not compared. A rehearsal is true if the results are the same. It prints as a
    table, and shows as one in a notebook.
    """

    def __init__(
        self, found: Difference, names: tuple[str, str], queries: tuple[BoundQuery, BoundQuery]
    ) -> None:
        self._found = found
        self._old, self._new = queries
        self.names = names
        self.both, self.only_old, self.only_new = found.both, found.only_old, found.only_new
        self.fields_only_old = found.fields_only_old
        self.fields_only_new = found.fields_only_new

    @property
    def same(self) -> bool:
        """True if both queries have the same fields and give the same rows."""
        fields = self.fields_only_old or self.fields_only_new
        return not (fields or len(self.only_old) or len(self.only_new))

    def __bool__(self) -> bool:
        return self.same

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as one frame, in order of time; the column ``rows`` says whose each is.

        It is ``both``, ``only old`` or ``only new``. A field of one query alone is null in the
        rows of the other.
        """
        frames = zip(_NAMES, (self.both, self.only_old, self.only_new), strict=True)
        whose = [
            frame.insert_column(0, pl.Series("rows", [name] * frame.height, pl.String))
            for name, frame in ((name, frame.clone()) for name, frame in frames)
        ]
        return pl.concat(whose, how="diagonal_relaxed").sort(START, END, maintain_order=True)

    def by_time(self, every: Any = None) -> pl.DataFrame:
        """Return the numbers of rows ``both``, ``only old`` and ``only new`` by time of start.

        ``every`` is the length of a span (a timedelta, a text such as "1h", or ticks), by default
        one that gives up to about 24 spans. Spans without any row are left out.
        """
        return self._found.count_by_time(every, MOST_SPANS)

    def debug(self, path: str | os.PathLike[str], *, old: bool = False) -> None:
        """Write the event-flow page of the new query over the recording, or of the old one.

        There each row of ``only_new`` (or ``only_old``) has its causes.
        """
        from rxtemporal.query.event_flow import write_event_flow

        query, name = (self._old, self.names[0]) if old else (self._new, self.names[1])
        write_event_flow(query.stream._node, path, title=name, named=query.named)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts, a timeline and the first rows of each side into an HTML file."""
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Rehearsal</title>'
            "<style>:root{color-scheme:light dark}body{font:15px/1.5 system-ui;margin:2em}"
            "td,th{padding:.1em .7em}svg{max-width:100%;height:auto}</style>"
        )
        Path(path).write_text(f"{page}<main>{self._repr_html_()}</main></html>\n", "utf-8")

    def __str__(self) -> str:
        """Return the counts, then the first rows of each side, as text."""
        return as_text(self._found, self.names)

    def __repr__(self) -> str:
        return (
            f"<Rehearsal: {len(self.both):,} rows in both, {len(self.only_old):,} only old, "
            f"{len(self.only_new):,} only new>"
        )

    def _repr_html_(self) -> str:
        """Return the counts and the first rows of each side as HTML."""
        return as_html(self._found, self.names)


def rehearse(
    recording: str | os.PathLike[str], *, old: Query, new: Query, tolerance: float = 1e-9
) -> Rehearsal:
    """Run a recording through two queries, and return the difference of their results.

    ``recording`` is a folder of ``run(sink, record=…)`` or ``log=``. ``old`` and ``new`` are
    queries: functions of streams, whose parameters are the names of the recorded streams, or
    streams whose sources have these names. Both get the same events in the same order, and the same
    events are late, unless the query itself sets another time.

    The results are compared as rows with their lifetimes: the order in which they came out does not
    count. Rows that were not final at the end of the recording do not take part. Two floats are
    equal if they differ by at most ``tolerance`` times the larger one; NaN equals NaN. Each of
    several equal rows needs a partner of its own. All results are held in memory.

    ``BindingError``: a stream is missing. ``SpoolError``: there is no recording, or it is damaged.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> from rxtemporal.testing import rehearse
    >>> folder = tempfile.TemporaryDirectory()
    >>> events = [rxt.PointEvent(time, {"x": time}) for time in (1, 2, 7)]
    >>> with rxt.from_events(events, name="readings").run(rxt.Collect(), record=folder.name):
    ...     pass
    >>> def sums(readings):
    ...     return readings.tumbling_window(5).aggregate(x=agg.sum("x"))
    >>> def positive(readings):
    ...     return sums(readings.where(lambda row: row["x"] > 1))
    >>> print(rehearse(folder.name, old=sums, new=positive))
    old: sums, 2 rows. new: positive, 2 rows. 1 row is in both.
    only in old: 1 row
      start_time  end_time      x
           ticks     ticks  Int64
               0         5      3
    only in new: 1 row
      start_time  end_time      x
           ticks     ticks  Int64
               0         5      2
    """
    if not isinstance(recording, (str, os.PathLike)):
        raise ArgumentError(f"a recording is the path of its folder, got {recording!r}")
    queries = bind_query(old, recording), bind_query(new, recording)
    frames = [each.stream.to_polars() for each in queries]
    found = compare_frames(frames[0], frames[1], tolerance)
    return Rehearsal(found, (_get_name(old, "old"), _get_name(new, "new")), queries)


def _get_name(query: Any, otherwise: str) -> str:
    return str(getattr(query, "__name__", otherwise))
