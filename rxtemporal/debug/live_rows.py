"""Rows and late events of a live page as columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EdgeEvent, EdgeType, IntervalEvent, RowEvent
from rxtemporal.core.safe_text import brief
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.debug.columns import Column, encode_array, encode_series, encode_texts, encode_ticks
from rxtemporal.debug.nodes import encode_lanes, encode_steps
from rxtemporal.ingress.lateness import LateEvent, LateReason
from rxtemporal.operators.causes.history import (
    ADJUSTED,
    EDGE_END,
    EDGE_START,
    INTERVAL,
    LATE,
    NEVER,
    POINT,
)

_SMALL = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16)
_MOVED = (LateReason.ADJUSTED, LateReason.END_MOVED)


def encode_rows(
    batches: Sequence[tuple[int, EventBatch]], schema: pl.Schema, lanes: Sequence[str]
) -> dict[str, Any]:
    """Return the rows of batches, each with its step, as columns.

    A row with an ``edge`` other than 0 takes the place of the one with the same edge before it:
    its end has become known.
    """
    steps = [np.full(len(each), step) for step, each in batches]
    known = np.concatenate([np.empty(0, np.int64), *steps])
    rows = EventBatch.concat([each for _, each in batches] or [EventBatch.empty(schema, MAX_TIME)])
    is_open = (rows.edge != 0) & (rows.end == MAX_TIME)
    payload = rows.payload
    return {
        "start": encode_ticks(rows.start),
        "end": encode_ticks(rows.end),
        "known": encode_array("i32", known),
        "closed": encode_steps(np.where(is_open, NEVER, known)),
        "edge": encode_array("f64", rows.edge),
        "lane": encode_lanes(payload, lanes),
        "payload": [_encode_series(each) for each in payload],
    }


def _encode_series(series: pl.Series) -> Column:
    """Return a column whose type depends on that of the field alone, so that more can follow."""
    is_large = series.dtype.is_integer() and series.dtype not in _SMALL
    return encode_series(series.cast(pl.Float64) if is_large else series)


def encode_late(
    stream: int, name: str, late: Sequence[tuple[int, LateEvent]], schema: pl.Schema
) -> dict[str, Any]:
    """Return late events of one stream, each with its step, as columns of arrivals."""
    events = [each.event for _, each in late]
    reasons = [each.reason for _, each in late]
    verdicts = [ADJUSTED if each in _MOVED else LATE for each in reasons]
    payloads = [to_fields(each.payload) for each in events]
    return {
        "stream": stream,
        "name": name,
        "fields": [{"name": each, "type": "String"} for each in schema],
        "step": encode_array("i32", [step for step, _ in late]),
        "start": encode_ticks(np.array([each.start for each in events], np.int64)),
        "end": encode_ticks(np.array([each.end for each in events], np.int64)),
        "kind": encode_array("u8", list(map(_find_kind, events))),
        "verdict": encode_array("u8", verdicts),
        "reason": encode_texts([each.value for each in reasons]),
        "by": encode_array("f64", [each.by for _, each in late]),
        "row": encode_array("i32", [-1] * len(late)),
        "position": encode_array("f64", [-1] * len(late)),
        "input": encode_texts([each.source for _, each in late]),
        "payload": [_encode_field(payloads, field) for field in schema],
    }


def _encode_field(payloads: Sequence[dict[str, Any]], field: str) -> Column:
    return encode_texts([_write(each.get(field)) for each in payloads])


def _find_kind(event: RowEvent) -> int:
    if isinstance(event, EdgeEvent):
        return EDGE_START if event.edge_type is EdgeType.START else EDGE_END
    return INTERVAL if isinstance(event, IntervalEvent) else POINT


def _write(value: Any) -> str | None:
    """Return the text of a value that the stream has not taken, so that it may be anything."""
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, (bool, int, float, datetime)) else brief(value)
