"""Hints for values of the wrong kind: what to write instead."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from rxtemporal.core.safe_text import type_name

_START_NAMES = frozenset({"start_time", "end_time", "start", "end", "time"})


def hint_time(value: Any) -> str:
    """Return the hint for a value that is no time."""
    if isinstance(value, timedelta):
        return "Hint: a span is no time; an end is the start plus a timedelta."
    if isinstance(value, date):
        return "Hint: datetime(year, month, day, tzinfo=UTC) is the instant at which a day begins."
    if isinstance(value, float):
        return "Hint: for Unix seconds datetime.fromtimestamp(seconds, UTC)."
    if type_name(value) == "datetime64":
        return "Hint: for UTC value.item().replace(tzinfo=UTC)."
    return "Hint: rxt.PointEvent(time, payload) has the time first."


def hint_event(value: Any) -> str:
    """Return the hint for a value that is no event."""
    if isinstance(value, Mapping):
        return (
            "Hint: rxt.PointEvent(time, {…}) makes an event of a payload; for rows with a field "
            "of times use rxt.from_polars(pl.DataFrame(rows), start=…)."
        )
    if hasattr(value, "model_dump"):
        return "Hint: rxt.PointEvent(time, model.model_dump(exclude={'time'})) makes one."
    return (
        "Hint: rxt.PointEvent(time, payload) or rxt.IntervalEvent(start, end, payload) makes one."
    )


def hint_events(value: Any) -> str:
    """Return the hint for a value that is no iterable of events; empty if there is none."""
    if hasattr(value, "__aiter__"):
        return ". Hint: rxt.from_async takes an async generator."
    if hasattr(value, "columns") or hasattr(value, "collect_schema"):
        return ". Hint: rxt.from_polars, rxt.from_pandas and rxt.from_arrow take frames: start=…."
    if callable(value) and not isinstance(value, type):
        return ". Hint: call it: from_events(function())."
    if hasattr(value, "start_time"):
        return ". Hint: a list of one event: [event]."
    if hasattr(value, "to_events"):
        return ". Hint: it is a stream already."
    if isinstance(value, str):
        return ". Hint: rxt.read_csv(path, start=…) reads a file."
    return ". Hint: from_events([rxt.PointEvent(time, payload)])."


def hint_column(name: str, dtype: object) -> str:
    """Return the hint for a column of a frame that has no times; empty if there is none."""
    kind = str(dtype)
    if kind == "String":
        return f"Hint: pl.col({name!r}).str.to_datetime(time_zone='UTC')."
    if kind == "Date":
        return f"Hint: pl.col({name!r}).cast(pl.Datetime('us', 'UTC')), for UTC."
    return ""


def hint_sink(value: Any) -> str:
    """Return the hint for a value that is no sink, without its full stop."""
    if isinstance(value, str | os.PathLike):
        return f"rxt.File({os.fspath(value)!r}) writes a file"
    if isinstance(value, type):
        return f"pass an instance: {value.__name__}(…)"
    return "derive a class from rxtemporal.Sink, and pass an instance of it to run()"


def hint_field(missing: str, fields: Iterable[str]) -> str:
    """Return the hint for a name that is no field; empty if there is none."""
    if missing in _START_NAMES:
        return (
            ". Hint: lifetimes are no fields of the payload; alter_event_lifetime and its like "
            "change them, and a window's apply(…, time_sensitive=True) sees them."
        )
    text = f". Hint: a text names a field; pl.lit({missing!r}) is the text itself."
    return hint_near(missing, fields) or text


def hint_near(missing: str, names: Iterable[str]) -> str:
    """Return the hint for a name that does not exist and is like one that does; else nothing."""
    near = difflib.get_close_matches(str(missing), list(names), 1)
    return f". Hint: did you mean {near[0]!r}?" if near else ""


def hint_polars(reason: str) -> tuple[str, str]:
    """Return why polars refuses an expression, in short, and the hint, empty if there is none."""
    if reason.startswith("cannot compare"):
        return reason, (
            ". Hint: compare a field with a value of its type, or convert it: "
            "pl.col('x').cast(pl.Float64)."
        )
    if "duplicate output name" in reason:
        name = reason.partition("'")[2].partition("'")[0]
        return f"two fields are named {name!r}", (
            ". Hint: give one another name: new_name=pl.col('x') * 2."
        )
    return reason, ""


def hint_name(name: str, known: Iterable[str], others: Mapping[str, str]) -> str:
    """Return the hint for a public name that does not exist; empty if there is none."""
    if name in others:
        return f" Hint: {others[name]}."
    near = difflib.get_close_matches(name, list(known), 1)
    return f" Hint: did you mean {near[0]!r}?" if near else ""
