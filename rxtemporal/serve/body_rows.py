"""Rows of a body: JSON, JSON lines or an Arrow IPC stream, held to the limits of a service."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from rxtemporal.core.safe_text import json_text
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.serve.arrow_stream import ArrowError, check_stream
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits

_SPACE = b" \t\r\n"
_ARROW = b"\xff\xff\xff\xff"
# a value in memory takes about so many bytes
_VALUE_BYTES = 64
_ANY, _OBJECT = msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Any])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])

JSON, LINES, ARROW = "JSON", "JSON lines", "Arrow"
# the form of a body by its content type; None: as it begins
FORMS: dict[str, str | None] = {
    "": None,
    "application/octet-stream": None,
    # of curl and others that are not told better
    "application/x-www-form-urlencoded": None,
    "text/plain": None,
    "application/json": JSON,
    "text/json": JSON,
    "application/x-ndjson": LINES,
    "application/ndjson": LINES,
    "application/jsonl": LINES,
    "application/jsonlines": LINES,
    "application/x-jsonlines": LINES,
    "application/vnd.apache.arrow.stream": ARROW,
}


class BodyRows(NamedTuple):
    """Rows of a body.

    ``items`` are pushed: a dict, a list or a frame; ``places`` are their numbers in the body, None
    if these are all. ``refused`` are the others, ``rows`` the number of both.
    """

    form: str
    items: Any
    rows: int
    refused: Sequence[Rejected] = ()
    places: Sequence[int] | None = None


class BodyError(RequestError):
    """A body that cannot be read at all; ``place`` has the line or the byte."""

    def __init__(self, reason: str, **place: int) -> None:
        super().__init__(400, f"the body cannot be read: {reason}")
        self.more.update(place)


def find_form(kind: str) -> str | None:
    """Return the form of a body by its content type. ``RequestError``: it is none of them."""
    try:
        return FORMS[kind]
    except KeyError:
        allowed = "application/json, application/x-ndjson, application/vnd.apache.arrow.stream"
        raise RequestError(415, f"the content type of a body is one of {allowed}") from None


def read_rows(body: bytes, form: str | None, limits: Limits) -> BodyRows:
    """Return the rows of a body; ``form`` is None if it shows only in the body.

    ``BodyError``: it cannot be read at all. ``RequestError`` (413): it has too many rows or values.
    """
    if form != LINES and not body.strip(_SPACE):
        hint = 'send a row as JSON, as in {"time": "2026-05-01T12:00:00Z", …}'
        raise BodyError(f"it is empty. Hint: {hint}", line=1, byte=0)
    if form == ARROW or (form is None and body.startswith(_ARROW)):
        return _read_arrow(body, limits)
    if len(body) > limits.text:
        _check_values(body, limits)
    read = _read_lines if form == LINES else _read_json if form == JSON else _read_either
    rows = read(body, limits)
    return _refuse_long(rows, limits) if _may_be_long(body, rows, limits) else rows


def _check_values(body: bytes, limits: Limits) -> None:
    """Refuse a body whose values would take many times its bytes."""
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values * _VALUE_BYTES > limits.waiting_bytes:
        raise RequestError(413, f"a body has too many values: about {values}")


def _make_too_many(limits: Limits) -> RequestError:
    return RequestError(413, f"a body has at most {limits.rows} rows")


# JSON ---------------------------------------------------------------------------------------------


def _read_json(body: bytes, limits: Limits) -> BodyRows:
    try:
        value = _ANY.decode(body)
    except Exception as error:
        return _read_each_item(body, error, limits)
    if type(value) is dict:
        return BodyRows(JSON, value, 1)
    if type(value) is not list:
        raise BodyError("it is neither an object nor an array of objects", byte=0)
    if len(value) > limits.rows:
        raise _make_too_many(limits)
    return BodyRows(JSON, value, len(value))


def _read_each_item(body: bytes, error: Exception, limits: Limits) -> BodyRows:
    """Read an array in which a value is out of range, or a text is none, item by item."""
    whole = BodyError(explain(error), **find_place(body, error))
    try:
        items = _RAWS.decode(body)
    except Exception:
        raise whole from None
    if len(items) > limits.rows:
        raise _make_too_many(limits)
    read = _decode_each(map(bytes, items), "it is no JSON object: ")
    if not read.items:
        raise whole
    return read


def _read_either(body: bytes, limits: Limits) -> BodyRows:
    """Read JSON, or JSON lines if it is an object with more behind it."""
    try:
        return _read_json(body, limits)
    except BodyError:
        text = body.strip(_SPACE)
        if text[:1] != b"{" or b"\n" not in text:
            raise
    return _read_lines(body, limits)


def _read_lines(body: bytes, limits: Limits) -> BodyRows:
    if body.count(b"\n") > limits.rows:
        raise _make_too_many(limits)
    try:
        rows = _OBJECT.decode_lines(body)
    except Exception:  # found line by line
        return _read_each_line(body)
    return BodyRows(LINES, rows, len(rows))


def _read_each_line(body: bytes) -> BodyRows:
    lines = [
        (number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip(_SPACE)
    ]
    read = _decode_each([line for _, line in lines], "it is no JSON object: ")
    refused = [
        Rejected(each.index, f"line {lines[each.index][0]}: {each.reason}", each.row)
        for each in read.refused
    ]
    if refused and not read.items:
        raise BodyError(refused[0].reason, line=lines[0][0])
    return read._replace(form=LINES, refused=refused)


def _decode_each(parts: Iterable[bytes], why: str) -> BodyRows:
    """Decode objects one by one."""
    rows: list[Any] = []
    places: list[int] = []
    bad: list[Rejected] = []
    for place, part in enumerate(parts):
        try:
            rows.append(_OBJECT.decode(part))
            places.append(place)
        except Exception as error:
            bad.append(Rejected(place, why + explain(error), part))
    return BodyRows(JSON, rows, len(rows) + len(bad), bad, places)


def explain(error: Exception) -> str:
    """Return why JSON could not be decoded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not written in UTF-8"
    message = str(error).partition(" - at `")[0]
    return message if message.isprintable() else type(error).__name__


def find_place(body: bytes, error: Exception) -> dict[str, int]:
    """Return the line and the byte at which JSON could not be decoded, as far as they are known."""
    if isinstance(error, UnicodeDecodeError):
        try:
            body.decode()
            byte = 0
        except UnicodeDecodeError as exact:
            byte = exact.start
    elif "truncated" in (message := str(error)):
        byte = len(body)
    else:
        digits = message.rpartition("(byte ")[2].rstrip(")")
        # a value out of range is told without its place
        byte = int(digits) if digits.isdigit() else 0
    return {"line": body.count(b"\n", 0, byte) + 1, "byte": byte}


def _may_be_long(body: bytes, read: BodyRows, limits: Limits) -> bool:
    """Return False if no row has too many fields or too long texts; it costs little."""
    # a field takes five bytes
    if len(body) > 5 * limits.fields:
        rows = [read.items] if type(read.items) is dict else read.items
        if max((len(row) for row in rows if type(row) is dict), default=0) > limits.fields:
            return True
    if len(body) <= limits.text:
        return False
    if read.form == LINES:
        return max(map(len, body.split(b"\n"))) > limits.text
    # an escaped quotation mark does not end a text
    return b"\\" in body or max(map(len, body.split(b'"'))) > limits.text


def _refuse_long(read: BodyRows, limits: Limits) -> BodyRows:
    """Refuse the rows that have too many fields or too long texts."""
    items = [read.items] if type(read.items) is dict else read.items
    reasons = [_find_excess(row, limits) for row in items]
    if not any(reasons):
        return read
    places = range(len(items)) if read.places is None else read.places
    refused = [
        Rejected(place, reason, row)
        for place, row, reason in zip(places, items, reasons, strict=True)
        if reason
    ]
    kept = [n for n, reason in enumerate(reasons) if not reason]
    return BodyRows(
        read.form,
        [items[n] for n in kept],
        read.rows,
        [*read.refused, *refused],
        [places[n] for n in kept],
    )


def _find_excess(row: Any, limits: Limits) -> str | None:
    if type(row) is dict and len(row) > limits.fields:
        return f"it has {len(row)} fields, and {limits.fields} are allowed"
    if _has_long_text(row, limits.text):
        return f"it has a text of more than {limits.text} characters"
    return None


def _has_long_text(value: Any, most: int) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) > most
    if kind is dict:
        return _has_long_text([*value, *value.values()], most)
    # the decoder has refused what is nested too deeply
    return kind is list and any(_has_long_text(each, most) for each in value)


# Arrow --------------------------------------------------------------------------------------------


def _read_arrow(body: bytes, limits: Limits) -> BodyRows:
    try:
        rows = check_stream(body, limits.fields, limits.rows)
    except ArrowError as error:
        raise BodyError(str(error), byte=error.at) from None
    if rows > limits.rows:
        raise _make_too_many(limits)
    try:
        frame = pl.read_ipc_stream(io.BytesIO(body))
    except (Exception, pl.exceptions.PanicException):
        raise BodyError("an Arrow message is damaged", byte=0) from None
    return _refuse_long_texts(frame, limits)


def _refuse_long_texts(frame: pl.DataFrame, limits: Limits) -> BodyRows:
    """Refuse the rows with too long texts; several rows may share the bytes of one text."""
    long = np.zeros(frame.height, np.bool_)
    total = 0
    for column in frame.get_columns():
        if column.dtype not in (pl.String, pl.Binary):
            continue
        is_text = column.dtype == pl.String
        sizes = column.str.len_bytes() if is_text else column.bin.size()
        lengths = sizes.fill_null(0).cast(pl.Int64).to_numpy()
        total += int(lengths.sum())
        long |= lengths > limits.text
    if total > 4 * limits.body_bytes:
        raise RequestError(413, "a body has too much text: rows share its bytes")
    if not long.any():
        return BodyRows(ARROW, frame, frame.height)
    reason = f"it has a text of more than {limits.text} bytes"
    refused = [Rejected(place, reason, {}) for place in np.flatnonzero(long).tolist()]
    kept = np.flatnonzero(~long)
    return BodyRows(ARROW, frame[kept], frame.height, refused, kept.tolist())


# Raw rows -----------------------------------------------------------------------------------------


def make_raw_reader(body: bytes, form: str) -> Callable[[Rejected, int], bytes]:
    """Return a function that gives the bytes of a refused row, by its place in the body."""
    if form == LINES:
        lines = [line for line in body.split(b"\n") if line.strip(_SPACE)]
        return lambda row, place: lines[place]
    if form == JSON and body.strip(_SPACE)[:1] == b"[":
        raws = _RAWS.decode(body)
        return lambda row, place: bytes(raws[place])
    if form == JSON:
        return lambda row, place: body
    return lambda row, place: json_text(row.row).encode()
