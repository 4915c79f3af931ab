"""Rows of a body: JSON, JSON lines, Arrow or CloudEvents, held to the limits of a service."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import numpy as np
import polars as pl
from starlette.types import Scope

from rxtemporal.core.safe_text import json_text
from rxtemporal.errors import EventError
from rxtemporal.ingress.cloud_events import CloudEvent, read_cloud_event
from rxtemporal.ingress.encoded_rows import decode_objects, explain, is_not_utf8
from rxtemporal.ingress.verdict import Rejected
from rxtemporal.query.push_source import RowLayout
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits

_INT, _PAIR = struct.Struct("<i"), struct.Struct("<qq")
_UNSIGNED, _SHORT, _LONG = struct.Struct("<I"), struct.Struct("<H"), struct.Struct("<q")
_CONTINUATION = 0xFFFF_FFFF
_SCHEMA, _RECORD_BATCH = 1, 3
# numbers, texts, bytes, bools and times; their numbers in the format
_FLAT_TYPES = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 19, 20, 23, 24})
# types of an extension, and of polars itself, are decoded by other code
_EXTENSIONS = (b"ARROW:extension", b"_PL_", b"POLARS")


class ArrowError(Exception):
    """Bytes that cannot be read as an Arrow IPC stream; ``at`` is the place of the message."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


class _Table:
    """FlatBuffers table in some bytes."""

    __slots__ = ("_at", "_data", "_fields", "_slots")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._slots = at - _read(_INT, data, at)
        self._fields = (_read(_SHORT, data, self._slots) - 4) // 2

    @classmethod
    def read_root(cls, data: bytes) -> _Table:
        return cls(data, _read(_UNSIGNED, data, 0))

    def find(self, field: int) -> int:
        """Return the place of a field; 0 if it is not there."""
        if field >= self._fields:
            return 0
        offset = _read(_SHORT, self._data, self._slots + 4 + 2 * field)
        return self._at + offset if offset else 0

    def read(self, field: int, kind: struct.Struct) -> int:
        at = self.find(field)
        return _read(kind, self._data, at) if at else 0

    def read_byte(self, field: int) -> int:
        at = self.find(field)
        return self._data[at] if at else 0

    def read_table(self, field: int) -> _Table:
        at = self.find(field)
        if not at:
            raise ValueError("a table is missing")
        return _Table(self._data, at + _read(_UNSIGNED, self._data, at))

    def find_vector(self, field: int, width: int) -> tuple[int, int]:
        """Return the place and the length of a vector, whose items have so many bytes."""
        at = self.find(field)
        if not at:
            return 0, 0
        begin = at + _read(_UNSIGNED, self._data, at)
        count = _read(_UNSIGNED, self._data, begin)
        if begin + 4 + count * width > len(self._data):
            raise ValueError("a vector is too long")
        return begin + 4, count

    def list_tables(self, field: int) -> Iterator[_Table]:
        begin, count = self.find_vector(field, 4)
        for at in range(begin, begin + 4 * count, 4):
            yield _Table(self._data, at + _read(_UNSIGNED, self._data, at))

    def list_pairs(self, field: int) -> list[tuple[int, int]]:
        begin, count = self.find_vector(field, 16)
        return list(_PAIR.iter_unpack(self._data[begin : begin + 16 * count]))


def _read(kind: struct.Struct, data: bytes, at: int) -> int:
    if at < 0:  # it would count from the end
        raise ValueError("an offset is negative")
    return int(kind.unpack_from(data, at)[0])


def check_stream(data: bytes, most_fields: int, most_rows: int) -> int:
    """Return the number of rows of a stream of messages. ``ArrowError``: it cannot be taken.

    A count above ``most_rows`` is returned as soon as it is found.
    """
    at, rows, columns = 0, 0, -1
    while at < len(data):
        try:
            size, meta = _read_frame(data, at)
            if meta is None:
                break
            message = _Table.read_root(meta)
            kind, body = message.read_byte(1), message.read(3, _LONG)
            begin = at + 8 + size
            if not 0 <= body <= len(data) - begin:
                raise ValueError("a message is cut off")
            if columns < 0:
                columns = _check_schema(kind, message, meta, most_fields)
            else:
                rows += _check_batch(kind, message, columns, body, most_rows)
        except (ValueError, IndexError, struct.error, OverflowError) as error:
            reason = str(error) if type(error) is ValueError else "a message is damaged"
            raise ArrowError(reason, at) from error
        if rows > most_rows:
            return rows
        at = begin + body
    if columns < 0:
        raise ArrowError("there is no schema", at)
    return rows


def _read_frame(data: bytes, at: int) -> tuple[int, bytes | None]:
    """Return the size of a message's description, and its bytes; None at the end of the stream."""
    if data.startswith(b"ARROW1"):
        raise ValueError("it is an Arrow file. Hint: send the format of streams.")
    if _read(_UNSIGNED, data, at) != _CONTINUATION:
        raise ValueError("it is not an Arrow IPC stream")
    size = _read(_INT, data, at + 4)
    if not size:
        return 0, None
    if not 8 <= size <= len(data) - at - 8:
        raise ValueError("a message is cut off")
    return size, data[at + 8 : at + 8 + size]


def _check_schema(kind: int, message: _Table, meta: bytes, most_fields: int) -> int:
    """Return the number of columns."""
    if kind != _SCHEMA:
        raise ValueError("there is no schema")
    schema = message.read_table(2)
    if schema.read(0, _SHORT):
        raise ValueError("its numbers are big-endian")
    if any(name in meta for name in _EXTENSIONS):
        raise ValueError("it has a column of an extension type. Hint: cast it to a plain type.")
    if schema.find_vector(1, 4)[1] > most_fields:
        raise ValueError(f"it has more than {most_fields} columns")
    fields = list(schema.list_tables(1))
    for field in fields:
        if field.read_byte(2) not in _FLAT_TYPES or field.find(4) or field.find_vector(5, 4)[1]:
            raise ValueError(
                "a column is neither number, text, bytes, bool nor time. "
                "Hint: cast categories to texts; send nested values as JSON."
            )
    return len(fields)


def _check_batch(kind: int, message: _Table, columns: int, body: int, most_rows: int) -> int:
    """Return the number of rows of a record batch."""
    if kind != _RECORD_BATCH:
        raise ValueError("a message is not a record batch")
    batch = message.read_table(2)
    if batch.find(3):
        raise ValueError("it is compressed. Hint: use Content-Encoding: gzip.")
    rows = batch.read(0, _LONG)
    if rows < 0:
        raise ValueError("a record batch has a negative length")
    if rows > most_rows:
        return rows
    nodes, buffers = batch.list_pairs(1), batch.list_pairs(2)
    if len(nodes) != columns or any(n != rows or not 0 <= nulls <= rows for n, nulls in nodes):
        raise ValueError("a column has another length than its record batch")
    if any(at < 0 or size < 0 or at + size > body for at, size in buffers):
        raise ValueError("a column lies outside of its message")
    begin, count = batch.find_vector(4, 8)
    variadic = struct.unpack_from(f"<{count}q", batch._data, begin) if count else ()
    if any(not 0 <= each <= len(buffers) for each in variadic):
        raise ValueError("a column has more parts than its record batch")
    return rows


_SPACE = b" \t\r\n"
_ARROW = b"\xff\xff\xff\xff"
# a value in memory takes about so many bytes
_VALUE_BYTES = 64
_ANY, _OBJECT = msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Any])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_RAW = msgspec.json.Decoder(msgspec.Raw)
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
    """Return the form of a body by its content type. ``RequestError``: the type is unknown."""
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
    check_values(body, limits)
    read = _read_lines if form == LINES else _read_json if form == JSON else _read_either
    return refuse_long(body, read(body, limits), limits)


def check_values(body: bytes, limits: Limits) -> None:
    """Refuse a body whose values would take many times its bytes. ``RequestError``: 413."""
    if len(body) <= limits.text:
        return
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
    """Read an array in which a value is out of range, or a text is not valid, item by item."""
    whole = BodyError(explain(error), **find_place(body, error))
    try:
        items = _RAWS.decode(body)
    except Exception:
        raise whole from None
    if len(items) > limits.rows:
        raise _make_too_many(limits)
    texts = list(map(bytes, items))
    rows, places, bad = decode_objects(texts, kept=None)
    if not rows:
        raise whole
    return BodyRows(JSON, rows, len(texts), bad, places)


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
    lines = {n: line for n, line in enumerate(body.split(b"\n"), 1) if line.strip(_SPACE)}
    numbers = list(lines)
    rows, places, bad = decode_objects(list(lines.values()), kept=None)
    refused = [replace(each, reason=f"line {numbers[each.index]}: {each.reason}") for each in bad]
    if refused and not rows:
        raise BodyError(refused[0].reason, line=numbers[0])
    return BodyRows(LINES, rows, len(lines), refused, places)


def _split_lines(body: bytes) -> list[bytes]:
    """Return the bytes of each row: an object, or if one of them is faulty, a line."""
    try:
        _OBJECT.decode_lines(body)
    except Exception:
        return [line for line in body.split(b"\n") if line.strip(_SPACE)]
    return list(map(bytes, _RAW.decode_lines(body)))


def find_place(body: bytes, error: Exception) -> dict[str, int]:
    """Return the line and the byte at which JSON could not be decoded, as far as they are known."""
    if is_not_utf8(error):
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


def refuse_long(body: bytes, read: BodyRows, limits: Limits) -> BodyRows:
    """Return the rows of a body without those that have too many fields or too long texts."""
    if not _may_be_long(body, read, limits):
        return read
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
        texts = _split_lines(body)
        return lambda row, place: texts[place]
    if form == JSON and body.strip(_SPACE)[:1] == b"[":
        raws = _RAWS.decode(body)
        return lambda row, place: bytes(raws[place])
    if form == JSON:
        return lambda row, place: body
    return lambda row, place: json_text(row.row).encode()


EVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_PREFIX = b"ce-"
_decode = msgspec.json.Decoder().decode


class CloudBody(NamedTuple):
    """The rows of a body, their common source, their numbers if all have one, and the trace."""

    rows: BodyRows
    source: str | None
    numbers: list[int] | None
    traceparent: str | None


def read_attributes(scope: Scope) -> dict[str, str]:
    """Return the attributes that are headers; empty if the body is not one event."""
    return {
        name[len(_PREFIX) :].decode("latin-1"): unquote(value.decode("latin-1"))
        for name, value in scope["headers"]
        if name.startswith(_PREFIX)
    }


def is_cloud_body(kind: str, attributes: Mapping[str, str]) -> bool:
    """Return True if a body of this content type, or with these attributes, has CloudEvents."""
    return kind in (EVENT, BATCH) or "specversion" in attributes


def read_cloud_body(
    body: bytes, kind: str, attributes: Mapping[str, str], layout: RowLayout, limits: Limits
) -> CloudBody:
    """Return the rows of a body; an event that is wrong is a refused row.

    ``BodyError``: the body is not JSON. ``RequestError``: it has events of several sources (400),
    or too many (413).
    """
    check_values(body, limits)
    try:
        value = _decode(body)
    except Exception as error:
        raise BodyError(explain(error), **find_place(body, error)) from None
    if kind == BATCH and not isinstance(value, list):
        raise BodyError("a batch of CloudEvents is a JSON array", byte=0)
    if kind not in (EVENT, BATCH):
        value = {**attributes, "data": value}
    events = value if kind == BATCH else [value]
    if len(events) > limits.rows:
        raise RequestError(413, f"a body has at most {limits.rows} rows")
    return _read_events(events, layout, lambda rows: refuse_long(body, rows, limits))


def _read_events(
    events: list[Any], layout: RowLayout, refuse: Callable[[BodyRows], BodyRows]
) -> CloudBody:
    read: dict[int, CloudEvent] = {}
    refused: list[Rejected] = []
    for place, event in enumerate(events):
        try:
            read[place] = read_cloud_event(event, layout.start, layout.seq)
        except EventError as error:
            refused.append(Rejected(place, str(error), event))
    sources = list(dict.fromkeys(each.source for each in read.values()))
    if len(sources) > 1:
        raise RequestError(
            400,
            f"a batch has events of one source, got {sources[0]!r} and {sources[1]!r}. "
            "Hint: send a batch for each source.",
        )
    items = [each.row for each in read.values()]
    rows = refuse(BodyRows(JSON, items, len(events), refused, [*read]))
    # of a stream with a field for the number each row has its own
    numbers = [read[place].number for place in rows.places or ()]
    is_numbered = layout.seq is None and None not in numbers
    first = events[0] if events and isinstance(events[0], dict) else {}
    return CloudBody(
        rows,
        sources[0] if sources else None,
        numbers if is_numbered and numbers else None,  # type: ignore[arg-type]
        first.get("traceparent"),
    )
