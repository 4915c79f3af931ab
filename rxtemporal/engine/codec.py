"""Codec of saved states: plain values, numpy arrays, frames and batches as bytes, and back.

====== ========== ==========================================================================
bytes  type       content
====== ========== ==========================================================================
4      ``RXTS``   magic number
2      uint16     version of this layout
4      uint32     CRC-32 of all that follows
8 + n  uint64, n  parts, each after its length: a JSON tree, then the bytes that it refers to
====== ========== ==========================================================================

Numbers are little-endian. Frames are Arrow IPC streams; arrays are their elements in C order, those
of bools as bits. Nothing in a state is code, and loading one executes nothing.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.errors import CheckpointError

MAGIC, VERSION = b"RXTS", 3
_HEAD = struct.Struct("<4sHI")
_LENGTH = struct.Struct("<Q")
_START_AGAIN = "or start without it"

Default = Callable[[Any], Any]


def dumps(kind: str, value: Any, default: Default | None = None) -> bytes:
    """Return a value as bytes, with its kind, a version and a checksum.

    ``value`` is a tree of None, bools, numbers, strings, bytes, times, lists, tuples, dicts, sets,
    arrays, frames, batches and key coders. ``default`` returns such a tree for any other object.
    """
    encoder = _Encoder(default)
    tree = json.dumps([kind, encoder.encode(value)], separators=(",", ":")).encode()
    chunks = [chunk for part in (tree, *encoder.parts) for chunk in (_LENGTH.pack(len(part)), part)]
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    return b"".join([_HEAD.pack(MAGIC, VERSION, checksum), *chunks])


def loads(
    kind: str, data: bytes, what: str = "the saved state", otherwise: str = _START_AGAIN
) -> Any:
    """Return the value that ``dumps`` was given.

    ``CheckpointError`` if the bytes are damaged, of another version or of another kind. ``what``
    names them in its message; ``otherwise`` ends its hint with an alternative: "or begin with …".
    """
    tree, *parts = _split(_check(data, what, otherwise))
    saved_kind, encoded = json.loads(bytes(tree))
    if saved_kind != kind:
        raise CheckpointError(
            f"{what} is the state of a {saved_kind}, not of a {kind}. "
            f"Hint: load what was saved there, {otherwise}."
        )
    return _decode(encoded, parts)


def dump_frame(frame: pl.DataFrame, *, compress: bool = False) -> bytes:
    """Return a frame as an Arrow IPC stream; ``compress``: by LZ4, which costs less than a sync."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="lz4" if compress else "uncompressed")
    return buffer.getvalue()


def load_frame(data: bytes) -> pl.DataFrame:
    """Return the frame in an Arrow IPC stream."""
    return pl.read_ipc_stream(data)


def _check(data: bytes, what: str, otherwise: str) -> memoryview:
    """Return the bytes after the head; raise unless version and checksum are right."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CheckpointError(f"{what} must be bytes, got {type(data).__name__}")
    if len(data) < _HEAD.size:
        raise CheckpointError(
            f"{what} is damaged: it has only {len(data)} bytes. "
            f"Hint: restore it from a copy, {otherwise}."
        )
    magic, version, checksum = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise CheckpointError(
            f"{what} was not saved in version {VERSION} of the format: "
            f"it begins with {bytes(data[:6])!r}. "
            f"Hint: continue with the release that saved it, {otherwise}."
        )
    rest = memoryview(data)[_HEAD.size :]
    if zlib.crc32(rest) != checksum:
        raise CheckpointError(
            f"{what} is damaged: its checksum does not match. "
            f"Hint: restore it from a copy, {otherwise}."
        )
    return rest


def _split(data: memoryview) -> list[memoryview]:
    """Return the parts, without their lengths."""
    parts, at = [], 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        parts.append(data[at : at + size])
        at += size
    return parts


Parts = Sequence[memoryview]


class _Encoder:
    """Collects the parts of one value while its tree is made."""

    __slots__ = ("default", "parts")

    def __init__(self, default: Default | None) -> None:
        self.parts: list[bytes] = []
        self.default = default

    def encode(self, value: Any) -> Any:
        """Return a JSON tree: plain scalars and lists as they are, others as ``{tag: …}``."""
        kind = type(value)
        if kind in _NATIVE:
            return value
        if kind is list:
            return [self.encode(each) for each in value]
        # exact types only: a subclass would come back as its base class
        form = _FORMS.get(kind)
        if form is not None:
            return {form.tag: form.encode(value, self)}
        return self._encode_other(value)

    def add(self, part: bytes) -> int:
        """Add a part and return its number."""
        self.parts.append(part)
        return len(self.parts) - 1

    def _encode_other(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return self.encode(value.item())
        made = None if self.default is None else self.default(value)
        if made is None:
            raise CheckpointError(
                f"a state that holds {value!r} ({type(value).__name__}) cannot be saved. Hint: a "
                "user's state is made of numbers, strings, times, lists, tuples, dicts and sets of "
                "those."
            )
        return self.encode(made)


def _decode(tree: Any, parts: Parts) -> Any:
    """Return the value of a tree."""
    if isinstance(tree, list):
        return [_decode(each, parts) for each in tree]
    if not isinstance(tree, dict):
        return tree
    ((tag, encoded),) = tree.items()
    return _DECODERS[tag](encoded, parts)


class _Form(NamedTuple):
    """A type's tag, and the functions that encode and decode its values."""

    tag: str
    encode: Callable[[Any, _Encoder], Any]
    decode: Callable[[Any, Parts], Any]


def _encode_array(array: Any, encoder: _Encoder) -> Any:
    if array.dtype == object:
        return [encoder.encode(each) for each in array.ravel().tolist()], "O", array.shape
    elements = np.packbits(array) if array.dtype == np.bool_ else array
    return encoder.add(elements.tobytes()), array.dtype.str, array.shape


def _decode_array(encoded: Any, parts: Parts) -> np.ndarray[Any, Any]:
    content, dtype, shape = encoded
    if dtype == "O":
        objects = np.empty(len(content), object)
        objects[:] = [_decode(each, parts) for each in content]
        return objects.reshape(shape)
    if np.dtype(dtype) == np.bool_:
        bits = np.frombuffer(parts[content], np.uint8)
        return np.unpackbits(bits, count=math.prod(shape)).view(np.bool_).reshape(shape)
    return np.frombuffer(parts[content], dtype).reshape(shape).copy()


def _encode_frame(frame: pl.DataFrame, encoder: _Encoder) -> Any:
    return encoder.add(dump_frame(frame)), frame.height


def _decode_frame(encoded: Any, parts: Parts) -> pl.DataFrame:
    part, height = encoded
    frame = load_frame(bytes(parts[part]))
    return frame if frame.width else pl.DataFrame(height=height)


def _encode_batch(batch: EventBatch, encoder: _Encoder) -> Any:
    fields = batch.start, batch.end, batch.edge, batch.payload, batch.cti, batch.keys
    return [encoder.encode(each) for each in fields]


def _decode_batch(encoded: Any, parts: Parts) -> EventBatch:
    return EventBatch(*(_decode(each, parts) for each in encoded))


def _encode_dict(value: dict[Any, Any], encoder: _Encoder) -> Any:
    return [[encoder.encode(key) for key in value], [encoder.encode(v) for v in value.values()]]


def _decode_dict(encoded: Any, parts: Parts) -> dict[Any, Any]:
    keys, values = encoded
    return {_decode(k, parts): _decode(v, parts) for k, v in zip(keys, values, strict=True)}


def _encode_datetime(value: datetime, encoder: _Encoder) -> Any:
    if not isinstance(value.tzinfo, (NoneType, timezone, ZoneInfo)):
        raise CheckpointError(
            f"a state that holds {value!r} cannot be saved. "
            "Hint: time zones are those of datetime.timezone and zoneinfo."
        )
    return value.isoformat(), value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None


def _decode_datetime(encoded: Any, parts: Parts) -> datetime:
    text, zone = encoded
    moment = datetime.fromisoformat(text)
    return moment if zone is None else moment.astimezone(ZoneInfo(zone))


def _make_collection(tag: str, kind: type) -> _Form:
    """Return the form of collections of one type other than lists."""
    return _Form(
        tag,
        lambda value, encoder: [encoder.encode(each) for each in value],
        lambda encoded, parts: kind(_decode(each, parts) for each in encoded),
    )


_NATIVE = frozenset({NoneType, bool, int, float, str})
_FORMS: dict[type, _Form] = {
    tuple: _make_collection("tuple", tuple),
    set: _make_collection("set", set),
    frozenset: _make_collection("frozenset", frozenset),
    dict: _Form("dict", _encode_dict, _decode_dict),
    bytes: _Form("bytes", lambda v, encoder: encoder.add(v), lambda n, parts: bytes(parts[n])),
    datetime: _Form("datetime", _encode_datetime, _decode_datetime),
    date: _Form("date", lambda v, _: v.isoformat(), lambda v, _: date.fromisoformat(v)),
    timedelta: _Form(
        "timedelta",
        lambda v, _: (v.days, v.seconds, v.microseconds),
        lambda v, _: timedelta(*v),
    ),
    Decimal: _Form("decimal", lambda v, _: str(v), lambda v, _: Decimal(v)),
    np.ndarray: _Form("array", _encode_array, _decode_array),
    pl.DataFrame: _Form("frame", _encode_frame, _decode_frame),
    Columns: _Form(
        "columns",
        lambda columns, encoder: _encode_frame(columns.frame, encoder),
        lambda encoded, parts: Columns.from_frame(_decode_frame(encoded, parts)),
    ),
    EventBatch: _Form("batch", _encode_batch, _decode_batch),
    KeyCoder: _Form(
        "keys",
        lambda coder, encoder: _encode_frame(coder.state(), encoder),
        lambda encoded, parts: KeyCoder.restore(_decode_frame(encoded, parts)),
    ),
}
_DECODERS = {form.tag: form.decode for form in _FORMS.values()}
