"""Rows of a recording that one time, and a clock for each device, would have lost."""

from __future__ import annotations

import os
from collections.abc import Sequence

import polars as pl

from rxtemporal.core.spans import UNITS, Span, describe_span, span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.ingress.clock_settings import ClockFields, list_fields
from rxtemporal.storage.event_log.reader import Recording, StreamRecords

# the spans that are compared, if none are given
_SPANS = tuple(n * UNITS[unit] for n, unit in (
    (1, "m"), (5, "m"), (15, "m"), (1, "h"), (3, "h"), (6, "h"), (12, "h"), (1, "d"), (7, "d")
))  # fmt: skip


def find_clock_losses(
    recording: str | os.PathLike[str],
    stream: str | None = None,
    *,
    clock: ClockFields,
    spans: Sequence[Span] | None = None,
) -> pl.DataFrame:
    """Return how many rows of a recorded stream one time and clocks of devices would have lost.

    ``stream`` is the name of the stream, if there are several; ``clock`` the field, or the fields,
    that name the device. The delay is that of the stream. Returns a row for each setting: ``one
    time``; ``clock`` alone; ``behind`` and ``synchronize`` with each of ``spans``; with the
    ``span``, the number ``lost`` and their ``share``. With ``synchronize`` the rows count that are
    further behind than ``within``, as if it came first in the query. The time of the fleet is that
    of its most advanced device. Complete rows and start edges count; CTIs of the source do not.

    ``SpoolError``: there is no recording. ``SchemaError``: the stream has no such field.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows = [("a", 0), ("a", 90), ("b", 5), ("b", 50), ("a", 100), ("b", 20)]
    >>> events = [rxt.PointEvent(time, {"device": name}) for name, time in rows]
    >>> with rxt.from_events(events, advance_time=0).run(rxt.Collect(), record=folder.name):
    ...     pass
    >>> find_clock_losses(folder.name, clock="device", spans=[60]).select("setting", "lost").rows()
    [('one time', 3), ('clock', 1), ('behind 60 ticks', 2), ('synchronize 60 ticks', 2)]
    """
    there = Recording(recording)
    found = _choose_stream(there, stream)
    settings = found.facts.settings
    generation = None if settings is None else settings.generation
    delay = 0 if generation is None else max(generation.delay_ticks, 0)
    rows = _read_rows(found, list_fields(clock), clock)
    before = pl.col("start").cum_max().shift(1)
    rows = rows.with_columns(
        all=before.fill_null(MIN_TIME + delay),
        own=before.over("device").fill_null(MIN_TIME + delay),
    )
    start, by_own = pl.col("start"), pl.col("start") < pl.col("own") - delay
    lost = {"one time": start < pl.col("all") - delay, "clock": by_own}
    given = [span(each, "spans", least=1) for each in (_SPANS if spans is None else spans)]
    for each in given:
        lost[f"behind {describe_span(each)}"] = by_own | (start < pl.col("all") - each)
    for each in given:
        lost[f"synchronize {describe_span(each)}"] = by_own | (start < pl.col("all") - delay - each)
    counts = rows.select(**{name: condition.sum() for name, condition in lost.items()}).row(0)
    spans_of = [None, None, *given, *given]
    return pl.DataFrame(
        {
            "setting": [*lost],
            "span": spans_of,
            "lost": counts,
            "share": [count / max(rows.height, 1) for count in counts],
        },
        schema={"setting": str, "span": int, "lost": int, "share": float},
    )


def _choose_stream(there: Recording, name: str | None) -> StreamRecords:
    names = [each.facts.name for each in there.streams]
    if name is None and len(names) == 1:
        return there.streams[0]
    if name not in names:
        raise BindingError(
            f"the recording {there.path} has the streams {', '.join(map(repr, names))}, got "
            f"{name!r}. Hint: stream= is the name of one."
        )
    return there.streams[names.index(name)]


def _read_rows(stream: StreamRecords, fields: tuple[str, ...], clock: ClockFields) -> pl.DataFrame:
    """Return the start and the device of each row, in order of arrival."""
    schema = stream.schema or pl.Schema()
    if not fields:
        raise ArgumentError(f"clock is the name of a field, or a list of some, got {clock!r}")
    for name in fields:
        if name not in schema:
            raise SchemaError(
                f"clock={clock!r}: stream {stream.facts.name!r} has no field {name!r}; it has "
                f"{', '.join(schema)}."
            )
    device = pl.struct([pl.col("payload").struct.field(name) for name in fields])
    is_row = pl.col("kind").cast(pl.String).is_in(["point", "interval", "start", "row"])
    frames = [
        frame.filter(is_row).select(pl.col("start_time").alias("start"), device.alias("device"))
        for frame in stream.segments()
        if "payload" in frame.columns
    ]
    if not frames:
        return pl.DataFrame(schema={"start": pl.Int64, "device": pl.String})
    return pl.concat(frames, how="vertical_relaxed")
