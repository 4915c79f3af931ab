"""Rehearsal of a changed query: a recording through the old and the new one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.row_text import format_frame
from rxtemporal.core.spans import UNITS, span
from rxtemporal.core.timeline_lanes import make_lane
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.history import code_rows, match_codes
from rxtemporal.query.bound_query import BoundQuery, Query, bind_query
from rxtemporal.text import html
from rxtemporal.text.plain_text import count_noun, format_value
from rxtemporal.text.timeline import Lane, Timeline
from rxtemporal.text.timeline_svg import timeline_svg

START, END = "start_time", "end_time"
# lengths of spans that people choose
_NICE = [
    size * unit for unit, sizes in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (UNITS["ms"], (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (UNITS["s"], (1, 2, 5, 10, 15, 30)),
        (UNITS["m"], (1, 2, 5, 10, 15, 30)),
        (UNITS["h"], (1, 2, 3, 6, 12)),
        (UNITS["d"], (1, 2, 7, 14, 30, 90, 365, 3_650, 36_500)),
    ) for size in sizes
]  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The rows of two frames: those of both, and those of one alone, in order of time."""

    both: pl.DataFrame
    only_old: pl.DataFrame
    only_new: pl.DataFrame
    fields_only_old: tuple[str, ...]
    fields_only_new: tuple[str, ...]

    def count_by_time(self, every: Any, most: int) -> pl.DataFrame:
        """Return the numbers of rows by span of time of their starts."""
        frames = {"both": self.both, "only old": self.only_old, "only new": self.only_new}
        starts = pl.concat(
            [frame.select(START, pl.lit(name).alias("rows")) for name, frame in frames.items()],
            how="vertical_relaxed",
        )
        length = _choose_span(starts.get_column(START), most) if every is None else span(
            every, "every", least=1
        )  # fmt: skip
        is_time = starts.schema[START].is_temporal()
        start = pl.col(START)
        begin = start.dt.truncate(f"{length}us") if is_time else start // length * length
        counts = [(pl.col("rows") == name).sum().alias(name) for name in frames]
        return starts.group_by(begin.alias("time")).agg(counts).sort("time")


def _choose_span(starts: pl.Series, most: int) -> int:
    if not len(starts):
        return 1
    ticks = starts.to_physical()
    extent = int(ticks.max()) - int(ticks.min())  # type: ignore[arg-type]
    return next((each for each in _NICE if extent // each < most), _NICE[-1])


def compare_frames(old: pl.DataFrame, new: pl.DataFrame, tolerance: float) -> Difference:
    """Compare two frames by their times and the fields that both have with types that fit."""
    shared = [name for name in old.columns if name in new.columns and _fit(old, new, name)]
    left, right = _match(old.select(shared), new.select(shared), tolerance)
    rows = [_others(old.height, left), _others(new.height, right)]
    return Difference(
        old[np.sort(left)],
        old[rows[0]],
        new[rows[1]],
        tuple(name for name in old.columns if name not in shared),
        tuple(name for name in new.columns if name not in shared),
    )


def _fit(old: pl.DataFrame, new: pl.DataFrame, name: str) -> bool:
    """Return True if the values of a field can be compared."""
    one, other = old.schema[name], new.schema[name]
    return one == other or (one.is_numeric() and other.is_numeric()) or pl.Null in (one, other)


def _others(height: int, rows: Int64s) -> Int64s:
    return np.setdiff1d(np.arange(height), rows)


def _match(old: pl.DataFrame, new: pl.DataFrame, tolerance: float) -> tuple[Int64s, Int64s]:
    """Return pairs of equal rows, then pairs of rows whose floats are close."""
    left, right = match_codes(*code_rows(old, new))
    floats = [
        name for name in old.columns if old.schema[name].is_float() or new.schema[name].is_float()
    ]
    if not floats or not tolerance:
        return left, right
    rest = _others(old.height, left), _others(new.height, right)
    near = _match_near(old[rest[0]], new[rest[1]], floats, tolerance)
    return np.append(left, rest[0][near[0]]), np.append(right, rest[1][near[1]])


def _match_near(
    old: pl.DataFrame, new: pl.DataFrame, floats: list[str], tolerance: float
) -> tuple[Int64s, Int64s]:
    """Return pairs of rows that are equal but for floats, which are within the tolerance.

    Each old row, in order of the float that has most values, takes the first new row that is free
    and close to it in all floats.
    """
    exact = [_mark_special(frame, floats) for frame in (old, new)]
    codes = code_rows(*exact)
    values = [
        frame.select(pl.col(floats).cast(pl.Float64).fill_null(0.0).replace(_SPECIAL, 0.0))
        for frame in (old, new)
    ]
    floats = sorted(floats, key=lambda name: -values[0].get_column(name).n_unique())
    rows = [frame.select(floats).rows() for frame in values]
    waiting = _group(codes[1], rows[1])
    left, right = [], []
    for code, members in _group(codes[0], rows[0]).items():
        for one, other in _pair_close(members, waiting.get(code, []), tolerance):
            left.append(one)
            right.append(other)
    return np.array(left, np.int64), np.array(right, np.int64)


# the values of a float that equal nothing but themselves; null is another
_SPECIAL = [float("nan"), float("inf"), float("-inf")]


def _mark_special(frame: pl.DataFrame, floats: list[str]) -> pl.DataFrame:
    """Return the rows with floats that are null, NaN or infinite as they are, and others as 0."""
    value = pl.col(floats).cast(pl.Float64)
    return frame.with_columns(pl.when(value.is_finite()).then(0.0).otherwise(value).name.keep())


_Member = tuple[tuple[float, ...], int]


def _group(codes: Int64s, rows: Sequence[tuple[float, ...]]) -> dict[int, list[_Member]]:
    """Return the values and numbers of rows by their codes, in order of the values."""
    groups: dict[int, list[_Member]] = {}
    for number, (code, values) in enumerate(zip(codes.tolist(), rows, strict=True)):
        groups.setdefault(code, []).append((values, number))
    for members in groups.values():
        members.sort()
    return groups


def _pair_close(
    old: list[_Member], new: list[_Member], tolerance: float
) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the rows of each pair."""
    free, first = new, 0
    for values, number in old:
        # what lies below this row lies below all that follow
        while first < len(free) and free[first][0][0] < values[0]:
            if _is_close(free[first][0][:1], values[:1], tolerance):
                break
            first += 1
        for place in range(first, len(free)):
            other, partner = free[place]
            if other[0] > values[0] and not _is_close(other[:1], values[:1], tolerance):
                break
            if _is_close(other, values, tolerance):
                del free[place]
                yield number, partner
                break


def _is_close(one: tuple[float, ...], other: tuple[float, ...], tolerance: float) -> bool:
    return all(
        abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True)
    )


# rows of a lane that are drawn
MOST_BARS = 60


def draw_difference(found: Difference) -> str:
    """Return the timeline as SVG; empty if both queries give the same rows.

    It has the first rows of one query alone, and those of both that start between them.
    """
    if not len(found.only_old) and not len(found.only_new):
        return ""
    frames = {"only in old": found.only_old, "only in new": found.only_new}
    shown = pl.concat(
        [frame.select(START).head(MOST_BARS) for frame in frames.values()], how="vertical_relaxed"
    )
    around = pl.col(START).is_between(shown[START].min(), shown[START].max())
    frames["in both"] = found.both.filter(around)
    lanes = [_make_lane(name, frame) for name, frame in frames.items()]
    is_time = found.both.schema[START].is_temporal()
    return timeline_svg(Timeline(tuple(lanes), "datetime" if is_time else "ticks"))


def _make_lane(name: str, frame: pl.DataFrame) -> Lane:
    batch = EventBatch.from_polars(frame, start=START, end=END)
    lane = make_lane(name, [batch], most=MOST_BARS, result=name == "in both")
    # the end of time, which the batch of a frame has no say in
    return Lane(name, lane.bars, note=lane.note, more=lane.more, result=lane.result)


# rows shown of each side
MOST_ROWS = 10


def as_text(found: Difference, names: tuple[str, str]) -> str:
    """Return the counts, then the first rows of each side."""
    lines = [_count(found, names), *_describe_fields(found)]
    for whose, frame in (("old", found.only_old), ("new", found.only_new)):
        if len(frame):
            lines.append(f"only in {whose}: {count_noun(len(frame), 'row')}")
            table = format_frame(frame, MOST_ROWS, whole=True)
            lines += [f"  {line}" for line in table.splitlines()]
    return "\n".join(lines)


def as_html(found: Difference, names: tuple[str, str]) -> str:
    """Return the counts, a timeline of the difference, then a table of each side."""
    tables = [
        html.table(
            frame.columns, _cells(frame, MOST_ROWS), total=len(frame), most=MOST_ROWS,
            caption=f"only in {whose}: {count_noun(len(frame), 'row')}",
        )
        for whose, frame in (("old", found.only_old), ("new", found.only_new)) if len(frame)
    ]  # fmt: skip
    notes = [f"<p>{html.escape(line)}</p>" for line in _describe_fields(found)]
    return html.section(_count(found, names), *notes, draw_difference(found), *tables)


def _count(found: Difference, names: tuple[str, str]) -> str:
    both, old, new = len(found.both), len(found.only_old), len(found.only_new)
    rows = [count_noun(both + each, "row") for each in (old, new)]
    text = f"old: {names[0]}, {rows[0]}. new: {names[1]}, {rows[1]}. "
    if not old and not new:
        return f"{text}All are in both."
    return f"{text}{count_noun(both, 'row')} {'is' if both == 1 else 'are'} in both."


def _describe_fields(found: Difference) -> Iterator[str]:
    for whose, names in (("old", found.fields_only_old), ("new", found.fields_only_new)):
        if names:
            yield f"not compared, since only {whose} has this field and type: {', '.join(names)}"


def _cells(frame: pl.DataFrame, most: int) -> list[list[str]]:
    return [
        ["never ends" if name == "end_time" and value is None else format_value(value)
         for name, value in row.items()]
        for row in frame.head(most).to_dicts()
    ]  # fmt: skip


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

    def rename(self, old: str, new: str) -> None:
        """Give the queries these names, where they are shown."""
        self.names = old, new

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
