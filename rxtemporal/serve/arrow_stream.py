"""Check of an Arrow IPC stream from anybody, before it is decoded.

A decoder believes the lengths that stand in the messages, and allocates as much; a lie ends the
whole process. So each message is held to what the bytes can have. Columns are flat and
uncompressed: what comes out is about as large as what came in.

The layout is that of the Arrow columnar format 1.5, whose messages are FlatBuffers tables:
https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_INT, _PAIR = struct.Struct("<i"), struct.Struct("<qq")
_UNSIGNED, _SHORT, _LONG = struct.Struct("<I"), struct.Struct("<H"), struct.Struct("<q")
_CONTINUATION = 0xFFFF_FFFF
_SCHEMA, _RECORD_BATCH = 1, 3
# numbers, texts, bytes, bools and times; their numbers in the format
_FLAT_TYPES = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 19, 20, 23, 24})
# types of an extension, and of polars itself, are decoded by other code
_EXTENSIONS = (b"ARROW:extension", b"_PL_", b"POLARS")


class ArrowError(Exception):
    """Bytes that are no Arrow IPC stream that can be taken; ``at`` is the place of the message."""

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
        raise ValueError("it is no Arrow IPC stream")
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
        raise ValueError("a message is no record batch")
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
