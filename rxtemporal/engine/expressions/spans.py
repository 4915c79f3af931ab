"""Times in whole units: truncated times, epochs, and spans as numbers of a unit."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array
from rxtemporal.engine.expressions.parts import Constant, Part, lift, require
from rxtemporal.engine.expressions.tree import Term

# microseconds of the units of fixed length
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_TOTALS = {
    "TotalDays": "d",
    "TotalHours": "h",
    "TotalMinutes": "m",
    "TotalSeconds": "s",
    "TotalMilliseconds": "ms",
    "TotalMicroseconds": "us",
}


def translate_truncate(term: Term, parts: list[Part]) -> Part:
    """Translate dt.truncate to units of fixed length, in UTC or without a zone."""
    time, every = parts
    require(isinstance(time.dtype, pl.Datetime) and isinstance(every, Constant))
    assert isinstance(every, Constant)
    require(time.dtype in (pl.Datetime("us"), pl.Datetime("us", "UTC")))
    found = re.fullmatch(r"([1-9]\d{0,8})(us|ms|s|m|h|d)", str(every.value))
    require(found is not None)
    assert found is not None
    size = np.array(int(found[1]) * _UNITS[found[2]], np.int64)

    def truncate(times: Array) -> Array:
        return np.asarray(times // size * size)

    return lift(truncate, time, term.dtype)


def translate_total(term: Term, parts: list[Part]) -> Part:
    """Translate dt.total_seconds and the like, which round towards zero."""
    (span,) = parts
    require(span.dtype == pl.Duration("us") and term.options == (False,))
    size = np.array(_UNITS[_TOTALS[term.name.removeprefix("TemporalFunction.")]], np.int64)

    def count(spans: Array) -> Array:
        return np.asarray((spans + np.where(spans < 0, size - 1, 0)) // size)

    return lift(count, span, term.dtype)


def translate_timestamp(term: Term, parts: list[Part]) -> Part:
    """Translate dt.timestamp and dt.epoch in microseconds or milliseconds."""
    (time,) = parts
    require(time.dtype in (pl.Datetime("us"), pl.Datetime("us", "UTC")))
    (unit,) = term.options
    require(unit in ("us", "ms"))
    size = np.array(_UNITS[unit], np.int64)
    return lift(lambda times: times // size, time, term.dtype)


def translate_physical(term: Term, parts: list[Part]) -> Part:
    """Translate to_physical, which changes no value."""
    return lift(lambda values: values, parts[0], term.dtype, fresh=False)
