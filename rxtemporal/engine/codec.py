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

A run is saved while it continues: to make a ``Captured`` copies what may change, which is short;
encoding it is long.
"""

from __future__ import annotations

import functools
import io
import json
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, NamedTuple, Self, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.errors import CheckpointError

MAGIC, VERSION = b"RXTS", 4
_HEAD = struct.Struct("<4sHI")
_LENGTH = struct.Struct("<Q")
# bytes
_COPIED_AT_ONCE = 2**20
_START_AGAIN = "or start without it"

Default = Callable[[Any], Any]
Chunk = bytes | memoryview


class Captured:
    """A value as it was when this was made, to be encoded later, by any thread.

    ``value`` is a tree of None, bools, numbers, strings, bytes, times, lists, tuples, dicts, sets,
    arrays, frames, batches, key coders and captured values, which are encoded as bytes, and of
    deferred values. ``default`` returns such a tree for any other object. What may be changed in
    place is copied, at the cost of its memory; frames are shared. ``CheckpointError`` for an object
    of no such type.
    """

    __slots__ = ("_value", "kind")

    def __init__(self, kind: str, value: Any, default: Default | None = None) -> None:
        self.kind, self._value = kind, _capture(value, default)

    def release(self) -> Any:
        """Return the value, whose arrays are the receiver's own: to be called once, and alone.

        Frames and payloads, which nobody writes, are shared.
        """
        return _release(self._value)

    def list_chunks(self) -> list[Chunk]:
        """Return the bytes, with kind, version and checksum, in chunks that are not joined.

        ``CheckpointError`` if a deferred value holds an object that cannot be saved.
        """
        encoder = _Encoder()
        tree = json.dumps([self.kind, encoder.encode(self._value)], separators=(",", ":"))
        chunks: list[Chunk] = []
        for part in ([tree.encode()], *encoder.parts):
            chunks += [_LENGTH.pack(sum(map(len, part))), *part]
        checksum = 0
        for chunk in chunks:
            checksum = zlib.crc32(chunk, checksum)
        return [_HEAD.pack(MAGIC, VERSION, checksum), *chunks]

    def dumps(self) -> bytes:
        """Return the bytes, with kind, version and checksum."""
        return b"".join(self.list_chunks())


class Deferred:
    """Part of a state that nobody changes, and that becomes plain values when it is written.

    To capture it costs nothing. If it is loaded without being written, the same object is returned.
    """

    __slots__ = ()

    def make_plain(self) -> Any:
        """Return it as a tree that can be captured, always the same."""
        raise NotImplementedError

    @classmethod
    def restore(cls, plain: Any) -> Self:
        """Return an object from the result of its ``make_plain``."""
        raise NotImplementedError

    @classmethod
    def read(cls, saved: Any) -> Self:
        """Return the object that was saved, whether it was written or not."""
        return saved if isinstance(saved, cls) else cls.restore(saved)


Saved: TypeAlias = bytes | Captured


def dumps(kind: str, value: Any, default: Default | None = None) -> bytes:
    """Return a value as bytes; see ``Captured``, errors included."""
    return Captured(kind, value, default).dumps()


def loads(
    kind: str, data: Saved, what: str = "the saved state", otherwise: str = _START_AGAIN
) -> Any:
    """Return the value that ``dumps`` was given, or that was captured.

    A captured value is read without becoming bytes, and cannot be read again; of a value in it that
    was captured by itself this returns the ``Captured``, not its bytes, and of a deferred one the
    ``Deferred``, not its plain value.

    ``CheckpointError`` if the bytes are damaged, of another version or of another kind. ``what``
    names them in its message; ``otherwise`` ends its hint with an alternative: "or begin with …".
    """
    if isinstance(data, Captured):
        saved_kind, read = data.kind, data.release
    else:
        tree, *parts = _split(_check(data, what, otherwise))
        saved_kind, encoded = json.loads(bytes(tree))
        read = functools.partial(_decode, encoded, parts)
    if saved_kind != kind:
        raise CheckpointError(
            f"{what} is the state of a {saved_kind}, not of a {kind}. "
            f"Hint: load what was saved there, {otherwise}."
        )
    return read()


def read_kind(data: bytes) -> str:
    """Return the kind of a value that ``dumps`` was given; errors are those of ``loads``."""
    tree, *_ = _split(_check(data, "the saved state", _START_AGAIN))
    return str(json.loads(bytes(tree))[0])


def dump_frame(frame: pl.DataFrame, *, compress: bool = False) -> bytes:
    """Return a frame as an Arrow IPC stream; ``compress``: by LZ4, which costs less than a sync."""
    buffer = io.BytesIO()
    # polars locks a frame while it writes, for which it needs the interpreter, and others wait for
    # the frame with the interpreter in hand: so nobody else may have the one that is written
    frame.clone().write_ipc_stream(buffer, compression="lz4" if compress else "uncompressed")
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


# Capturing ----------------------------------------------------------------------------------------


class _Keys(NamedTuple):
    """The keys of a coder."""

    state: pl.DataFrame


def _capture(value: Any, default: Default | None) -> Any:
    """Return a value that no change of the given one changes.

    It is of the types of ``_FORMS`` and deferred values.
    """
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    # exact types only: a subclass would come back as its base class
    copy = _COPIES.get(kind)
    if copy is not None:
        return copy(value, default)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Deferred):
        return value
    made = None if default is None else default(value)
    if made is None:
        raise CheckpointError(
            f"a state that holds {value!r} ({kind.__name__}) cannot be saved. Hint: a user's "
            "state is made of numbers, strings, times, lists, tuples, dicts and sets of those."
        )
    return _capture(made, default)


def _copy_array(array: Any, default: Default | None) -> Any:
    if array.dtype == object:
        copied = array.copy()
        elements = copied.reshape(-1)
        for number, each in enumerate(elements):
            elements[number] = _capture(each, default)
        return copied
    return _copy_numbers(array) if array.flags.c_contiguous else array.copy()


def _copy_numbers(array: Any) -> Any:
    """Return a copy, in which zeros take no memory: to fill fresh memory takes longer than to read.

    A state has room for the keys and rows to come, and counts of what is rare.
    """
    copied = np.zeros(array.shape, array.dtype)
    source, target = (each.reshape(-1).view(np.bool_) for each in (array, copied))
    for begin in range(0, len(source), _COPIED_AT_ONCE):
        part = source[begin : begin + _COPIED_AT_ONCE]
        if part.any():
            target[begin : begin + len(part)] = part
    return copied


def _copy_batch(batch: EventBatch, default: Default | None) -> EventBatch:
    # the payload is never modified; a step may still set the ends of its rows
    times = batch.start.copy(), batch.end.copy(), batch.edge.copy()
    return EventBatch(*times, batch.columns.share(), batch.cti, batch.keys)


def _copy_items(items: Any, default: Default | None) -> Any:
    if _NATIVE.issuperset(map(type, items)):  # many numbers are copied at once
        return type(items)(items)
    return type(items)([_capture(each, default) for each in items])


def _copy_dict(items: dict[Any, Any], default: Default | None) -> dict[Any, Any]:
    items = items.copy()  # a user may change the payload of a row while it is written
    keys = _copy_items([*items], default)
    return dict(zip(keys, _copy_items([*items.values()], default), strict=True))


def _release(value: Any) -> Any:
    """Return a captured value as decoding its bytes would, with the same arrays and frames.

    Deferred values are the same, too.
    """
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        # a list of plain values need not be copied
        return value if _NATIVE.issuperset(map(type, value)) else kind(map(_release, value))
    if kind is dict:
        return dict(zip(_release([*value]), _release([*value.values()]), strict=True))
    if kind is _Keys:
        return KeyCoder.restore(value.state)
    if kind is np.ndarray and value.dtype == object:
        elements = value.reshape(-1)
        elements[:] = [_release(each) for each in elements]
    return value


# Encoding -----------------------------------------------------------------------------------------

Parts = Sequence[memoryview]


class _Encoder:
    """Collects the parts of one captured value while its tree is made."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Sequence[Chunk]] = []

    def encode(self, value: Any) -> Any:
        """Return a JSON tree: plain scalars and lists as they are, others as ``{tag: …}``."""
        kind = type(value)
        if kind in _NATIVE:
            return value
        if kind is list:
            return [self.encode(each) for each in value]
        if isinstance(value, Deferred):
            return self.encode(_capture(value.make_plain(), None))
        form = _FORMS[kind]
        return {form.tag: form.encode(value, self)}

    def add(self, *part: Chunk) -> int:
        """Add a part, given in chunks, and return its number."""
        self.parts.append(part)
        return len(self.parts) - 1


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
    content = elements.reshape(-1).view(np.uint8).data
    return encoder.add(content), array.dtype.str, array.shape


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


def _decode_bytes(number: Any, parts: Parts) -> bytes:
    return bytes(parts[number])


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
    bytes: _Form("bytes", lambda v, encoder: encoder.add(v), _decode_bytes),
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
    _Keys: _Form(
        "keys",
        lambda keys, encoder: _encode_frame(keys.state, encoder),
        lambda encoded, parts: KeyCoder.restore(_decode_frame(encoded, parts)),
    ),
    Captured: _Form("bytes", lambda v, encoder: encoder.add(*v.list_chunks()), _decode_bytes),
}
_COPIES: dict[type, Callable[[Any, Default | None], Any]] = {
    **dict.fromkeys((list, tuple, set, frozenset), _copy_items),
    dict: _copy_dict,
    np.ndarray: _copy_array,
    EventBatch: _copy_batch,
    # the numbers of their keys belong to a coder that goes on
    Columns: lambda columns, _: columns.share(),
    KeyCoder: lambda coder, _: _Keys(coder.state()),
}
_UNCHANGING = (_NATIVE | _FORMS.keys()) - _COPIES.keys()
_DECODERS = {form.tag: form.decode for form in _FORMS.values()}
