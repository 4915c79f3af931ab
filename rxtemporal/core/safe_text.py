"""Short texts of values of unknown origin: making one never raises, whatever the value's code does.

A ``KeyboardInterrupt`` and its kind pass through.
"""

from __future__ import annotations

import json
import math
import reprlib
from datetime import date, datetime, timedelta
from typing import Any

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
