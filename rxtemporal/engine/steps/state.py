"""What a step holds, as bytes and back: a small header and Arrow IPC frames."""

from __future__ import annotations

import io
import json
import math
import struct
import zlib
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Groups
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.errors import CheckpointError

MAGIC, VERSION = b"RXTS", 1
_HEAD = struct.Struct("<4sHIQ")  # magic, version, checksum, length of the header
_LENGTH = struct.Struct("<Q")
_MANY: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}


class Stateful:
    """Something with state: the attributes named in ``held`` are what is saved of it.

    An attribute may be a number, string or None, an array, a frame, an event batch, a key coder,
    another ``Stateful`` (which is loaded in place), or a list, tuple, dict or set of those.
    """

    held: ClassVar[tuple[str, ...]] = ()
    made_for: str = ""
    """What its owner has made it for: the state of anything else is not loaded."""

    def save(self) -> bytes:
        """Return what is held, so that ``load`` of an object made alike goes on from here."""
        frames: list[bytes] = []
        tree = {"for": self.made_for, "state": _encode(self, frames)}
        header = json.dumps(tree).encode()
        body = b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames)
        checksum = _checksum(len(header), header + body)
        return _HEAD.pack(MAGIC, VERSION, checksum, len(header)) + header + body

    def load(self, data: bytes) -> None:
        """Go on from what ``save`` returned; nothing is changed if that does not fit."""
        tree, frames = _opened(data)
        saved_for = tree["for"]
        if saved_for and self.made_for and saved_for != self.made_for:
            raise CheckpointError(
                f"this state was saved by {saved_for}, and here it would go on as {self.made_for}. "
                "Hint: a query that has changed begins anew."
            )
        _check_fit(tree["state"], self)
        _decode(tree["state"], frames, self)


def _checksum(length: int, rest: bytes) -> int:
    return zlib.crc32(rest, zlib.crc32(_LENGTH.pack(length)))


def _check_fit(tree: Any, into: Any) -> None:
    """Refuse the state of something that is built otherwise, before anything of it is loaded."""
    if isinstance(into, Stateful):
        saved = tree.get("class") if isinstance(tree, dict) else None
        if saved != type(into).__name__ or set(tree["object"]) != set(into.held):
            raise CheckpointError(f"this is the state of a {saved}, not of a {type(into).__name__}")
        for name in into.held:
            _check_fit(tree["object"][name], getattr(into, name))
    elif isinstance(into, (list, tuple)) and any(isinstance(each, Stateful) for each in into):
        saved_parts = tree.get("list", tree.get("tuple", []))
        if len(saved_parts) != len(into):
            raise CheckpointError(f"this state has {len(saved_parts)} parts, not {len(into)}")
        for part, each in zip(saved_parts, into, strict=True):
            _check_fit(part, each)


def _opened(data: bytes) -> tuple[Any, list[pl.DataFrame]]:
    """Return a saved state's tree and its frames, if the bytes are what was saved."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CheckpointError(f"a saved state is bytes, got {type(data).__name__}")
    data = bytes(data)
    try:
        magic, version, checksum, length = _HEAD.unpack_from(data)
    except struct.error as error:
        raise CheckpointError("this is no saved state: it is too short") from error
    if magic != MAGIC or version != VERSION:
        raise CheckpointError(
            f"this is no state saved in version {VERSION}: it begins with {data[:6]!r}. "
            "Hint: load it with the release that saved it."
        )
    if _checksum(length, data[_HEAD.size :]) != checksum:
        raise CheckpointError("the saved state is damaged: its checksum does not fit")
    at = _HEAD.size + length
    tree = json.loads(data[_HEAD.size : at])
    frames = []
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        frames.append(pl.read_ipc_stream(data[at : at + size]))
        at += size
    return tree, frames


def _kept(frame: pl.DataFrame, frames: list[bytes]) -> int:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    frames.append(buffer.getvalue())
    return len(frames) - 1


def _encode(value: Any, frames: list[bytes]) -> Any:
    """Return a JSON tree for a value; what is columnar goes into ``frames``."""
    if value is None or type(value) in (bool, str, int):
        return value
    if isinstance(value, Stateful):
        held = {name: _encode(getattr(value, name), frames) for name in value.held}
        return {"object": held, "class": type(value).__name__}
    if isinstance(value, np.ndarray):
        return _encode_array(value, frames)
    if isinstance(value, pl.DataFrame):
        return {"frame": _kept(value, frames), "height": value.height}
    if isinstance(value, EventBatch):
        codes = None if value.groups is None else value.groups.codes
        parts = [value.start, value.end, value.edge, value.payload, value.cti, codes]
        return {"batch": [_encode(part, frames) for part in parts]}
    if isinstance(value, KeyCoder):
        return {"keys": _encode(value.state(), frames)}
    # of these types and no others: what is derived from them would come back as something else
    if type(value) is dict:
        return {"dict": [[_encode(k, frames), _encode(v, frames)] for k, v in value.items()]}
    if type(value) in _MANY:
        return {_MANY[type(value)]: [_encode(each, frames) for each in value]}
    return _encode_scalar(value)


def _encode_array(array: np.ndarray[Any, Any], frames: list[bytes]) -> Any:
    if array.dtype == object:
        return {"objects": [_encode(each, frames) for each in array.tolist()]}
    return {"array": _kept(pl.DataFrame({"": array.ravel()}), frames), "shape": array.shape}


def _encode_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return _encode(value.item(), [])
    kind = type(value)
    if kind is float:
        return {"float": value.hex() if math.isfinite(value) else str(value)}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is datetime and isinstance(value.tzinfo, (NoneType, timezone, ZoneInfo)):
        zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else None
        return {"datetime": [value.isoformat(), zone]}
    if kind is date:
        return {"date": value.isoformat()}
    if kind is timedelta:
        return {"timedelta": [value.days, value.seconds, value.microseconds]}
    if kind is Decimal:
        return {"decimal": str(value)}
    raise CheckpointError(
        f"a state that holds {value!r} ({type(value).__name__}) cannot be saved. Hint: a user's "
        "state is made of numbers, strings, times, lists, tuples, dicts and sets of those."
    )


def _datetime(saved: Any) -> datetime:
    text, zone = saved
    moment = datetime.fromisoformat(text)
    return moment if zone is None else moment.astimezone(ZoneInfo(zone))


_SCALARS: dict[str, Any] = {
    "float": lambda text: float(text) if "x" not in text else float.fromhex(text),
    "bytes": bytes.fromhex,
    "datetime": _datetime,
    "date": date.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "decimal": Decimal,
}


def _decode(tree: Any, frames: list[pl.DataFrame], into: Any = None) -> Any:
    """Return the value of a tree; what is loaded in place is given as ``into``."""
    if not isinstance(tree, dict):
        return tree
    kind, inner = next(iter(tree.items()))
    if kind == "object":
        for name, saved in inner.items():
            setattr(into, name, _decode(saved, frames, getattr(into, name)))
        return into
    if kind == "array":
        return frames[inner].to_series().to_numpy().reshape(tree["shape"]).copy()
    if kind == "frame":
        frame = frames[inner]
        return frame if frame.width else pl.DataFrame(height=tree["height"])
    if kind == "batch":
        start, end, edge, payload, cti, codes = (_decode(each, frames) for each in inner)
        # whoever works with saved rows takes the keys' meaning from the batch that comes next
        groups = None if codes is None else Groups(codes, KeyCoder({}))
        return EventBatch(start, end, edge, payload, cti, groups)
    if kind == "keys":
        return KeyCoder.restore(_decode(inner, frames))
    if kind == "dict":
        return _decode_dict(inner, frames, into)
    if kind in _SCALARS:
        return _SCALARS[kind](inner)
    return _decode_many(kind, inner, frames, into)


def _decode_dict(inner: Any, frames: list[pl.DataFrame], into: Any) -> Any:
    pairs = [(_decode(key, frames), value) for key, value in inner]
    old = into if isinstance(into, dict) else {}
    return {key: _decode(value, frames, old.get(key)) for key, value in pairs}


def _decode_many(kind: str, inner: Any, frames: list[pl.DataFrame], into: Any) -> Any:
    old = (
        into if isinstance(into, (list, tuple)) and len(into) == len(inner) else [None] * len(inner)
    )
    found = [_decode(each, frames, was) for each, was in zip(inner, old, strict=True)]
    if kind == "objects":
        objects = np.empty(len(found), object)
        objects[:] = found
        return objects
    return {name: of for of, name in _MANY.items()}[kind](found)
