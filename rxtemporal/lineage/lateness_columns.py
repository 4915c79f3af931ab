"""Records of one stream as columns, and how far each row is behind those before it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import conform
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.door_rules import NEVER, is_due
from rxtemporal.ingress.cti_generator import CtiGenerator
from rxtemporal.ingress.settings import (
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    WhenAhead,
)
from rxtemporal.operators.causes.equal_rows import match_codes
from rxtemporal.storage.event_log.reader import StreamRecords

Flags = npt.NDArray[np.bool_]

# the distance of a row that is late with any delay
ALWAYS = MAX_TIME - MIN_TIME
_SCHEMA = {
    "kind": pl.String, "start": pl.Int64, "end": pl.Int64, "ahead": pl.Boolean,
    "input": pl.String, "key": pl.UInt64,
}  # fmt: skip
_KIND = pl.col("kind").cast(pl.String)


def read_records(stream: StreamRecords) -> pl.DataFrame:
    """Return the records of a stream: ``kind``, ``start``, ``end``, ``ahead``, ``input``, ``key``.

    ``kind`` is "row", "start", "end", "cti", or "outside" for a CTI that the source has not sent.
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
        yield frame.with_columns(keys).filter(~_KIND.is_in(["completed", "failed"])).select(
            named.alias("kind"), pl.col("start_time").alias("start"), ends.alias("end"),
            ahead.alias("ahead"), _get(frame, "input", pl.String).alias("input"), "key",
        )  # fmt: skip


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
    distance = np.where(high == MIN_TIME, -ALWAYS, high - time)
    distance[sent > time] = ALWAYS
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
    generation = None if settings is None else settings.generation
    due = CtiGenerator(generation)
    if generation is None or due.every == 1:
        return rows
    if due.every:
        each: Flags = rows & (np.cumsum(rows) % due.every == 0)
        return each
    found, last = np.zeros(len(rows), np.bool_), NEVER
    for place in np.flatnonzero(rows).tolist():
        time = int(start[place])
        if is_due(time, 0, 0, due.span, last):
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
