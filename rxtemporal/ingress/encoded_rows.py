"""Rows as bytes: JSON lines and Arrow's format for messages and files."""

from __future__ import annotations

import dataclasses
import io
from base64 import b64decode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from types import GenericAlias
from typing import Any, TypeAlias

import polars as pl

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.verdict import ReadRows, Rejected

# dicts, the place of each, and the texts that are not objects
Objects: TypeAlias = tuple[list[Any], Sequence[int], list[Rejected]]
# so much of a line that cannot be read is kept
_MOST_KEPT = 1_024
_FILE = b"ARROW1"
_SPACE = b" \t\r\n"
# types for which JSON has no value of its own, and how their texts are read
_TEXTS: dict[type[pl.DataType], Callable[[str], Any]] = {
    pl.Date: date.fromisoformat,
    pl.Datetime: datetime.fromisoformat,
    pl.Decimal: Decimal,
    pl.Binary: partial(b64decode, validate=True),
}


class _Encoded:
    """Rows as bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ArgumentError(
                f"{type(self).__name__} takes bytes, got {type_name(data)}. "
                "Hint: text.encode(), or path.read_bytes()."
            )
        self.data = bytes(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.data)} bytes)"


class JsonLines(_Encoded):
    """Rows as JSON lines: an object on each line, in UTF-8.

    They are pushed, or read with ``make_batch``, as the dicts that they are in JSON; a line that is
    no object is a rejected row, and so is one with a NaN, an infinity, or a number beyond the
    floats. Empty lines are not rows. Of fields for which JSON has no type, dates and datetimes are
    ISO 8601 texts, decimals texts, and bytes base64; a duration has no form.

    About a million rows per second. Needs msgspec, which ``rxtemporal[json]`` brings; without it
    this raises ``BindingError``.

    >>> import rxtemporal as rxt
    >>> body = b'{"ts": 5, "temp": 20}\\n{"ts": 6, "temp": NaN}'
    >>> source = rxt.PushSource("readings", schema={"temp": float}, start="ts")
    >>> process = source.stream.run(rxt.Collect())
    >>> verdict = source.push(rxt.JsonLines(body))
    >>> verdict.accepted, verdict.rejected[0].reason
    (1, 'line 2: it is not a JSON object: JSON is malformed: invalid character (byte 18)')
    >>> source.close()
    """

    __slots__ = ()

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        super().__init__(data)
        _load_msgspec()

    def read(self, read: Callable[[list[Any]], ReadRows], schema: pl.Schema) -> ReadRows:
        """Return what ``read`` makes of the lines that are objects, and the rejected lines."""
        rows, places, bad = _decode_lines(self.data.strip(_SPACE).split(b"\n"))
        convert_texts(rows, schema)
        found = read(rows)
        return _place(found, places, bad, self.data) if bad or found.rejected else found


class ArrowIpc(_Encoded):
    """Rows as Arrow IPC: a stream of messages, or a file.

    They are pushed, or read with ``make_batch``, as the polars frame of the same columns. Bytes
    that cannot be read are one rejected row.

    >>> import io, polars as pl, rxtemporal as rxt
    >>> file = io.BytesIO()
    >>> _ = pl.DataFrame({"ts": [5, 6], "temp": [20.5, 21.0]}).write_ipc_stream(file)
    >>> rows = rxt.ArrowIpc(file.getvalue())
    >>> batch, rejected = rxt.make_batch(rows, schema={"temp": float}, start="ts")
    >>> batch.to_dicts()[0], rejected
    ({'start_time': 5, 'end_time': 6, 'temp': 20.5}, ())
    """

    __slots__ = ()

    def read_frame(self) -> pl.DataFrame:
        """Return the rows as a frame; raise if they cannot be read."""
        read = pl.read_ipc if self.data.startswith(_FILE) else pl.read_ipc_stream
        return read(io.BytesIO(self.data))


class JsonMessages:
    """Rows as messages of a broker: each is a JSON object, an array of objects, or JSON lines.

    Each object is read as a line of ``JsonLines``. A message that cannot be read is one rejected
    row; of an array, and of JSON lines, each bad one is. An empty message has no rows.

    >>> import rxtemporal as rxt
    >>> messages = JsonMessages([b'{"ts": 5, "temp": 20}', b'[{"ts": 6, "temp": 21}]', b"?"])
    >>> batch, rejected = rxt.make_batch(messages, schema={"temp": float}, start="ts")
    >>> len(batch), rejected[0].index
    (2, 2)
    """

    __slots__ = ("payloads",)

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.payloads = payloads
        _load_msgspec()

    def __repr__(self) -> str:
        return f"JsonMessages({len(self.payloads)} messages)"

    def read(self, read: Callable[[list[Any]], ReadRows], schema: pl.Schema) -> ReadRows:
        """Return what ``read`` makes of the objects, together with the rejected rows."""
        rows, places, bad = _decode_messages(self.payloads)
        convert_texts(rows, schema)
        found = read(rows)
        return _merge(found, places, bad) if bad else found

    def list_rows(self) -> list[Any]:
        """Return the objects, each at the index that a verdict has for it; None for the others."""
        rows, places, bad = _decode_messages(self.payloads)
        listed: list[Any] = [None] * (len(rows) + len(bad))
        for place, row in zip(places, rows, strict=True):
            listed[place] = row
        return listed


class MessageReader:
    """Reader of single messages of one stream, most of which are an object.

    >>> MessageReader(pl.Schema({"temp": pl.Float64})).read(b'{"ts": 5, "temp": 20}')
    {'ts': 5, 'temp': 20}
    """

    def __init__(self, schema: pl.Schema) -> None:
        self._decode = _load_msgspec().json.Decoder(dict).decode
        self._schema = schema if has_texts(schema) else None

    def read(self, payload: bytes) -> dict[str, Any] | JsonMessages:
        """Return the row that a message is; anything else is for the reader of rows."""
        # this runs once for each message
        try:
            row: dict[str, Any] = self._decode(payload)
        except Exception:
            return JsonMessages([payload])
        if self._schema is not None:
            convert_texts([row], self._schema)
        return row


def _decode_messages(
    payloads: Sequence[bytes],
) -> tuple[list[Any], Sequence[int], list[Rejected]]:
    """Return the objects of all messages, their places among all rows, and the rejected rows."""
    json = _load_msgspec().json
    decode = json.Decoder(dict).decode
    with suppress(Exception):  # found one by one
        return [decode(payload) for payload in payloads], range(len(payloads)), []
    rows: list[Any] = []
    places: list[int] = []
    bad: list[Rejected] = []
    for payload in payloads:
        for item in _list_objects(payload, json.Decoder().decode):
            place = len(rows) + len(bad)
            if isinstance(item, Rejected):
                bad.append(dataclasses.replace(item, index=place))
            else:
                rows.append(item)
                places.append(place)
    return rows, places, bad


def _list_objects(payload: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    """Return the objects of one message, each of its other values as a rejected row."""
    if not payload.strip(_SPACE):
        return []
    try:
        value = decode(payload)
    except Exception as error:
        whole = Rejected(0, f"it is not JSON: {explain(error)}", payload[:_MOST_KEPT])
        parts = [_read_part(part, decode) for part in _split_parts(payload)]
        has_objects = any(isinstance(part, dict) for part in parts)
        return parts if has_objects else [whole]
    return (
        [_check_object(item) for item in value]
        if isinstance(value, list)
        else [_check_object(value)]
    )


def _split_parts(payload: bytes) -> list[bytes]:
    """Return the items of an array that has a value out of range, or else the lines."""
    msgspec = _load_msgspec()
    raws = GenericAlias(list, msgspec.Raw)
    with suppress(Exception):
        return list(map(bytes, msgspec.json.Decoder(raws).decode(payload)))
    return [line for line in payload.split(b"\n") if line.strip(_SPACE)]


def _read_part(part: bytes, decode: Callable[[bytes], Any]) -> Any:
    try:
        return _check_object(decode(part))
    except Exception as error:
        return Rejected(0, f"it is not JSON: {explain(error)}", part[:_MOST_KEPT])


def _check_object(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    return Rejected(0, f"it is not a JSON object: {brief(value)}", value)


def _load_msgspec() -> Any:
    try:
        import msgspec
    except ImportError as error:
        raise BindingError(
            "JSON lines are read with msgspec. Hint: pip install 'rxtemporal[json]'."
        ) from error
    return msgspec


def _decode_lines(lines: Sequence[bytes]) -> Objects:
    """Return the objects of lines; empty lines have no place."""
    objects = decode_objects(lines)
    full = [line for line in lines if line.strip(_SPACE)] if objects[2] else lines
    return objects if len(full) == len(lines) else decode_objects(full)


def decode_objects(texts: Sequence[bytes], kept: int | None = _MOST_KEPT) -> Objects:
    """Return the objects, the place of each among the texts, and the texts that are not objects.

    Of such a text ``kept`` bytes are kept; None: all.
    """
    decode = _load_msgspec().json.Decoder(dict).decode
    with suppress(Exception):  # found text by text
        return [decode(text) for text in texts], range(len(texts)), []
    rows, places, bad = [], [], []
    for place, text in enumerate(texts):
        try:
            rows.append(decode(text))
            places.append(place)
        except Exception as error:
            reason = f"it is not a JSON object: {explain(error)}"
            bad.append(Rejected(place, reason, text[:kept]))
    return rows, places, bad


def explain(error: Exception) -> str:
    """Return why JSON could not be decoded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if is_not_utf8(error):
        return "it is not written in UTF-8"
    message = str(error).partition(" - at `")[0]
    return message if message.isprintable() and message else type_name(error)


def is_not_utf8(error: Exception) -> bool:
    """Return True if JSON could not be decoded since a text is not UTF-8.

    msgspec has an error of its own for that from version 0.23 on.
    """
    return isinstance(error, UnicodeDecodeError) or str(error).startswith("Invalid UTF-8")


def has_texts(schema: pl.Schema) -> bool:
    """Return True if a field has a type for which JSON has no value."""
    return any(type(dtype) in _TEXTS for dtype in schema.values())


def convert_texts(rows: Sequence[dict[str, Any]], schema: pl.Schema) -> None:
    """Replace texts by values of types that JSON lacks; leave texts that do not fit."""
    for name, dtype in schema.items():
        convert = _TEXTS.get(type(dtype))
        if convert is None:
            continue
        for row in rows:
            value = row.get(name)
            if type(value) is str:
                with suppress(ValueError, ArithmeticError):  # rejected by its field
                    row[name] = convert(value)


def _place(
    found: ReadRows, places: Sequence[int], bad: Sequence[Rejected], data: bytes
) -> ReadRows:
    """Return rows with their places among all lines, and the lines that are not objects."""
    misfits = [dataclasses.replace(each, index=places[each.index]) for each in found.rejected]
    numbers = [n for n, line in enumerate(data.split(b"\n"), 1) if line.strip(_SPACE)]
    rejected = [
        dataclasses.replace(each, reason=f"line {numbers[each.index]}: {each.reason}")
        for each in sorted([*misfits, *bad], key=attrgetter("index"))
    ]
    return dataclasses.replace(
        found,
        index=[places[index] for index in found.index],
        rejected=tuple(rejected),
        rows=found.rows + len(bad),
    )


def _merge(found: ReadRows, places: Sequence[int], bad: Sequence[Rejected]) -> ReadRows:
    """Return rows with their places among all rows, and what is not an object."""
    misfits = [dataclasses.replace(each, index=places[each.index]) for each in found.rejected]
    return dataclasses.replace(
        found,
        index=[places[index] for index in found.index],
        rejected=tuple(sorted([*misfits, *bad], key=attrgetter("index"))),
        rows=found.rows + len(bad),
    )
