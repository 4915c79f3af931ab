"""Short texts of values of unknown origin: making one never raises, whatever the value's code does.

A ``KeyboardInterrupt`` and its kind pass through.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import reprlib
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from rxtemporal.core.record_classes import find_record

# an int of more bits is described by its size: Python refuses to write it out beyond 4,300 digits
MOST_BITS = 256
# values nested deeper, longer collections and longer texts are described, not written out
MOST_LEVELS = 8
MOST_ITEMS = 1_000
MOST_CHARACTERS = 65_536
_TYPE_NAME = type.__dict__["__name__"]
# with escapes, which take up to four characters each, such a text is still short
_PLAIN = 16
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 80, 80
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 6


def type_name(value: Any) -> str:
    """Return the name of a value's type, as its class statement gave it.

    >>> type_name(2.5)
    'float'
    """
    return encodable(_TYPE_NAME.__get__(type(value)))


def encodable(text: str) -> str:
    """Return a text with its lone surrogates escaped: UTF-8 has no form for them."""
    return str.encode(text, "utf-8", "backslashreplace").decode()


def brief(value: Any) -> str:
    """Return a short ``repr`` of any value; the name of its type if it has none.

    >>> brief([1, "two"]), brief(10**5000)
    ("[1, 'two']", '<int of 16610 bits>')
    """
    kind = type(value)
    if kind is int and value.bit_length() > MOST_BITS:
        return f"<int of {value.bit_length()} bits>"
    if kind is str and len(value) <= _PLAIN and value.isascii():
        return repr(value)
    try:
        return encodable(_SHORT.repr(value))
    except Exception:
        return f"<{type_name(value)}>"


def hide_user(url: Any) -> str:
    """Return the brief text of a url that may be none, without user and password.

    >>> hide_user("mqtt://bob:secret@house:1883"), hide_user(None)
    ("'…@house:1883'", 'None')
    """
    return brief(f"…@{url.rpartition('@')[2]}" if isinstance(url, str) and "@" in url else url)


def show(value: Any) -> str:
    """Return the whole ``repr`` of any value; its ``brief`` text if it has none."""
    try:
        return encodable(repr(value))
    except Exception:
        return brief(value)


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception; the type alone if it has no message."""
    try:
        message = encodable(str(error))[:200]
    except Exception:
        message = ""
    return f"{type_name(error)}: {message}" if message else type_name(error)


def describe_failure(error: BaseException) -> str:
    """Return the type, the whole message and the notes of the exception that ended something.

    >>> describe_failure(KeyError("room"))
    "KeyError: 'room'"
    """
    try:
        text = str(error)
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        return encodable(f"{type_name(error)}: {text}{notes}" if text else type_name(error) + notes)
    except Exception:
        return describe_error(error)


def json_text(value: Any) -> str:
    """Return any value as JSON text.

    What JSON has no form for is written as a string: its ``brief`` text. So are NaN and infinity,
    and what is nested deeper than 8 levels.

    >>> json_text({"temp": float("nan"), "tags": ("a", {1})})
    '{"temp": "nan", "tags": ["a", "{1}"]}'
    """
    try:
        text = json.dumps(_plain(value, MOST_LEVELS), allow_nan=False)
        if len(text) <= MOST_CHARACTERS:
            return text
    except Exception:  # the value's own code
        pass
    return json.dumps(brief(value))


def _plain(value: Any, levels: int) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return encodable(value) if len(value) <= MOST_CHARACTERS else brief(value)
    if kind is int:
        return value if value.bit_length() <= MOST_BITS else brief(value)
    if kind is float:
        return value if math.isfinite(value) else repr(value)
    if kind in (datetime, date):
        return value.isoformat()
    if kind is timedelta:
        return value.total_seconds()
    if kind in (dict, list, tuple) and levels and len(value) <= MOST_ITEMS:
        if kind is dict:
            return {_key_text(key): _plain(each, levels - 1) for key, each in value.items()}
        return [_plain(each, levels - 1) for each in value]
    return brief(value)


def _key_text(key: Any) -> str:
    return encodable(key) if type(key) is str else brief(key)


_START_NAMES = frozenset({"start_time", "end_time", "start", "end", "time"})


def hint_time(value: Any) -> str:
    """Return the hint for a value that is not a time."""
    if isinstance(value, timedelta):
        return "Hint: a span is not a time; an end is the start plus a timedelta."
    if isinstance(value, date):
        return "Hint: datetime(year, month, day, tzinfo=UTC) is the instant at which a day begins."
    if isinstance(value, float):
        return "Hint: for Unix seconds datetime.fromtimestamp(seconds, UTC)."
    if type_name(value) == "datetime64":
        return "Hint: for UTC value.item().replace(tzinfo=UTC)."
    return "Hint: rxt.PointEvent(time, payload) has the time first."


def hint_event(value: Any) -> str:
    """Return the hint for a value that is not an event."""
    if isinstance(value, Mapping):
        return (
            "Hint: rxt.PointEvent(time, {…}) makes an event of a payload; for rows with a field "
            "of times use rxt.from_polars(pl.DataFrame(rows), start=…)."
        )
    if find_record(type(value)) is not None:
        return (
            "Hint: rxt.PointEvent(time, record) makes an event of a record, whose time is a field "
            "too; rxt.PushSource(…, start=…) takes records that have their time in a field."
        )
    return (
        "Hint: rxt.PointEvent(time, payload) or rxt.IntervalEvent(start, end, payload) makes one."
    )


def hint_events(value: Any) -> str:
    """Return the hint for a value that is not an iterable of events; empty if there is none."""
    if hasattr(value, "to_events"):
        return ". Hint: it is a stream already."
    if hasattr(value, "__aiter__"):
        return ". Hint: rxt.from_async takes an async generator."
    if hasattr(value, "columns") or hasattr(value, "collect_schema"):
        return ". Hint: rxt.from_polars, rxt.from_pandas and rxt.from_arrow take frames: start=…."
    if callable(value) and not isinstance(value, type):
        return ". Hint: call it: from_events(function())."
    if hasattr(value, "start_time"):
        return ". Hint: a list of one event: [event]."
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
    """Return the hint for a value that is not a sink, without its full stop."""
    if isinstance(value, str | os.PathLike):
        return f"rxt.File({os.fspath(value)!r}) writes a file"
    if isinstance(value, type):
        return f"pass an instance: {value.__name__}(…)"
    return "derive a class from rxtemporal.Sink, and pass an instance of it to run()"


def hint_field(missing: str, fields: Iterable[str]) -> str:
    """Return the hint for a name that is not a field; empty if there is none."""
    if missing in _START_NAMES:
        return (
            ". Hint: lifetimes are not fields of the payload; alter_event_lifetime and its like "
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
