"""Lateness of the rows of recorded streams, and the delay that loses no more than you choose."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.events import find_late_bound
from rxtemporal.core.schema import conform
from rxtemporal.core.spans import Span, describe_span, format_delay, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import NEVER, is_due
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.batch_verdicts import Rules
from rxtemporal.ingress.settings import (
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    WhenAhead,
)
from rxtemporal.operators.causes.history import match_codes
from rxtemporal.operators.plan import number_names
from rxtemporal.storage.event_log.reader import Recording, StreamRecords

Flags = npt.NDArray[np.bool_]
# the distance of a row that is late with any delay
ALWAYS = MAX_TIME - MIN_TIME
_SCHEMA = {
    "kind": pl.String, "start": pl.Int64, "end": pl.Int64, "ahead": pl.Boolean,
    "input": pl.String, "key": pl.UInt64, "device": pl.String,
}  # fmt: skip
_KIND = pl.col("kind").cast(pl.String)


def read_records(stream: StreamRecords) -> pl.DataFrame:
    """Return the records of a stream: ``kind``, ``start``, ``end``, ``ahead``, ``input``, ``key``.

    And ``device``, a text for each device if each has its own time, else null. ``kind`` is "row",
    "start", "end", "cti", or "outside" for a CTI that the source has not sent.
    An end edge has the same number ``key`` as the start edge of its row.
    """
    return pl.concat([pl.DataFrame(schema=_SCHEMA), *_read(stream)])


def _read(stream: StreamRecords) -> Iterator[pl.DataFrame]:
    schema = stream.schema or pl.Schema()
    for frame in stream.segments():
        keys = _make_keys(frame, schema)
        ends, edge = _get(frame, "end_time", pl.Int64), _get(frame, "edge", pl.Int64)
        own = (_KIND == "row") & (edge.fill_null(0) != 0)
        named = (
            pl.when(own & (ends == MAX_TIME)).then(pl.lit("start"))
            .when(own).then(pl.lit("end"))
            .when(_KIND.is_in(["start", "end", "cti", "outside"])).then(_KIND)
            .otherwise(pl.lit("row"))
        )  # fmt: skip
        ahead = _get(frame, "ahead", pl.Boolean).fill_null(value=False)
        has_time = ~_KIND.is_in(["completed", "failed"]) & pl.col("start_time").is_not_null()
        yield frame.with_columns(keys).filter(has_time).select(
            named.alias("kind"), pl.col("start_time").alias("start"), ends.alias("end"),
            ahead.alias("ahead"), _get(frame, "input", pl.String).alias("input"), "key",
            _name_device(stream, frame).alias("device"),
        )  # fmt: skip


def _name_device(stream: StreamRecords, frame: pl.DataFrame) -> pl.Expr:
    clock = stream.facts.clock
    if clock is None or "payload" not in frame.columns:
        return pl.lit(None, pl.String)
    fields = [pl.col("payload").struct.field(name).cast(pl.String) for name in clock.fields]
    return pl.concat_str(fields, separator="\0")


def _get(frame: pl.DataFrame, name: str, of: type[pl.DataType]) -> pl.Expr:
    return pl.col(name) if name in frame.columns else pl.lit(None, of)


def _make_keys(frame: pl.DataFrame, schema: pl.Schema) -> pl.Series:
    """Return the number of the row of each edge: by its id, or by its start and payload."""
    none = pl.Series("key", [None], pl.UInt64).new_from_index(0, frame.height)
    if "edge" in frame.columns:
        return frame.select(pl.col("edge").hash().alias("key")).to_series()
    if not frame.select(_KIND.is_in(["start", "end"]).any()).item():
        return none
    fields = frame.select("start_time")
    if schema and "payload" in frame.columns:
        payload = conform(frame.get_column("payload").struct.unnest(), schema)
        fields = payload.insert_column(0, frame.get_column("start_time").alias(" start"))
    return fields.hash_rows().alias("key")


def measure_rows(
    records: pl.DataFrame, settings: AdvanceTimeSettings | None, *, delays_ctis: bool = False
) -> pl.DataFrame:
    """Return ``distance`` and ``input`` of each row: how many ticks it is behind those before it.

    The row is late with a delay below its distance, and with any if that is ``ALWAYS``. With
    ``delays_ctis`` a CTI that the source sent counts less the delay, as that of a row does.
    """
    kind = records.get_column("kind")
    ctis, ends = kind.is_in(["cti", "outside"]).to_numpy(), (kind == "end").to_numpy()
    starts = (kind == "start").to_numpy()
    begin = records.get_column("start").to_numpy()
    stop = records.get_column("end").fill_null(0).to_numpy()
    ahead = records.get_column("ahead").to_numpy()
    time = np.where(ends, stop, begin)
    due, sent_ctis = _find_due(begin, ~ctis & ~ends & ~ahead, settings), ctis & ~ahead
    if delays_ctis:
        delayed = (kind == "cti").to_numpy() & sent_ctis & (begin < MAX_TIME)
        due, sent_ctis = due | delayed, sent_ctis & ~delayed
    high = _reach(np.where(due, begin, MIN_TIME))
    sent = _reach(np.where(sent_ctis, begin, MIN_TIME))
    bound, sent_bound = (np.where(ends, cti, find_late_bound(cti)) for cti in (high, sent))
    distance = np.where(high == MIN_TIME, -ALWAYS, bound - time)
    distance[time < sent_bound] = ALWAYS
    if settings is not None and settings.when_ahead is WhenAhead.LATE:
        distance[ahead] = ALWAYS
    if ends.any():
        adjusts = settings is not None and settings.policy is AdvanceTimePolicy.ADJUST
        _match_edges(distance, high, records.get_column("key"), starts, ends, adjusts=adjusts)
    rows = records.select("input").with_columns(pl.Series("distance", distance))
    return rows.filter(pl.Series(~ctis))


def _reach(times: Int64s) -> Int64s:
    """Return the highest of the times before each place."""
    reached: Int64s = np.full(len(times), MIN_TIME)
    if len(times):
        np.maximum.accumulate(times[:-1], out=reached[1:])
    return reached


def _find_due(start: Int64s, rows: Flags, settings: AdvanceTimeSettings | None) -> Flags:
    """Return the mask of the rows that make a CTI due; all of them without settings for that."""
    every, span, _, _, _ = Rules.of(settings)
    if every == 1 or (not every and not span):
        return rows
    if every:
        each: Flags = rows & (np.cumsum(rows) % every == 0)
        return each
    found, last = np.zeros(len(rows), np.bool_), NEVER
    for place in np.flatnonzero(rows).tolist():
        time = int(start[place])
        if is_due(time, 0, 0, span, last):
            found[place], last = True, time
    return found


def _match_edges(
    distance: Int64s, high: Int64s, keys: pl.Series, starts: Flags, ends: Flags, *, adjusts: bool
) -> None:
    """Let end edges be late where the start edges of their rows make them so."""
    codes = keys.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    at, until = np.flatnonzero(starts), np.flatnonzero(ends)
    left, right = match_codes(codes[at], codes[until])
    first, second = at[left], until[right]
    distance[np.setdiff1d(until, second)] = ALWAYS
    if adjusts:
        # a row whose start was moved to the CTI ends a tick after it at least
        moved = (high[first] == high[second]) & (np.abs(distance[second]) != ALWAYS)
        distance[second[moved]] += 1
    else:
        # the end of a row that was dropped
        distance[second] = np.maximum(distance[second], distance[first])


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
    there = Recording(recording)
    names = number_names(stream.facts.name for stream in there.streams)
    streams = zip(names, there.streams, strict=True)
    return {name: _measure(name, stream) for name, stream in streams}


def _measure(name: str, stream: StreamRecords) -> Delays:
    records = read_records(stream)
    settings = stream.facts.settings
    # of a device its own records count, and those that hold for all
    parts = [records]
    if stream.facts.clock is not None:
        names = records.get_column("device").drop_nulls().unique(maintain_order=True)
        of = pl.col("device")
        parts = [records.filter(of.is_null() | (of == name)) for name in names] or parts
    distances = pl.concat(
        [measure_rows(each, settings, delays_ctis=stream.facts.delays_ctis) for each in parts]
    )
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
