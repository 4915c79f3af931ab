"""What is saved of a run, as bytes and back: trees of plain values, and parts put together."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch, Groups
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.errors import CheckpointError

_LENGTH = struct.Struct("<Q")
_SEAL = struct.Struct("<4sHI")  # magic, version, checksum


class _Tree(Stateful):
    """One value of those that ``Stateful`` can hold."""

    held = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value


def told(value: Any) -> bytes:
    """Return a tree of plain values, arrays, frames and batches as bytes."""
    return _Tree(value).save()


def tree_of(data: bytes) -> Any:
    """Return what ``told`` was given."""
    tree = _Tree()
    tree.load(data)
    return tree.value


def joined(parts: Iterable[bytes]) -> bytes:
    """Return several pieces as one."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def parted(data: bytes) -> list[bytes]:
    """Return the pieces that ``joined`` was given."""
    parts, at = [], 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        parts.append(data[at : at + size])
        at += size
    return parts


def sealed(magic: bytes, version: int, data: bytes) -> bytes:
    """Return bytes with what they are in front, and a checksum."""
    return _SEAL.pack(magic, version, zlib.crc32(data)) + data


def unsealed(magic: bytes, version: int, data: bytes, what: str, hint: str) -> bytes:
    """Return what was sealed; refuse what is something else, damaged, or of another version."""
    if len(data) < _SEAL.size:
        raise CheckpointError(f"{what} is damaged: it has only {len(data)} bytes. Hint: {hint}.")
    found, of, checksum = _SEAL.unpack_from(data)
    if found != magic:
        raise CheckpointError(f"{what} is no saved state: it begins with {data[:6]!r}.")
    if of != version:
        raise CheckpointError(
            f"{what} is of version {of}, and this release knows version {version}. "
            f"Hint: go on with the release that saved it, {hint}."
        )
    rest = data[_SEAL.size :]
    if zlib.crc32(rest) != checksum:
        raise CheckpointError(
            f"{what} is damaged: its checksum does not fit. Hint: restore it from a copy, {hint}."
        )
    return rest


def refuse_changes(
    steps: tuple[Sequence[str], Sequence[str]],
    inputs: tuple[Mapping[str, str], Mapping[str, str]],
    begun: str,
    anew: str,
) -> None:
    """Refuse a saved state where its query was another one, and say what has changed.

    Each pair is what was saved and what there is; ``begun`` and ``anew`` say where, and how to
    begin again.
    """
    before, after = inputs
    # where a source goes by another name, what takes it has changed by that alone
    others = _inputs(before, after, before.keys() ^ after.keys())
    changed = _inputs(before, after, before.keys() & after.keys())
    for was, now in [*others, *itertools.zip_longest(*steps, fillvalue="nothing"), *changed]:
        if was != now:
            raise CheckpointError(
                f"the query has changed since {begun}: there was {was}, and here is {now}. "
                f"Hint: go on with the query as it was, {anew}."
            )


def _inputs(
    was: Mapping[str, str], now: Mapping[str, str], names: Iterable[str]
) -> Iterable[tuple[str, str]]:
    for name in sorted(names):
        old, new = was.get(name, "nothing"), now.get(name, "nothing")
        yield f"input {name!r} ({old})", f"input {name!r} ({new})"


def fields_of_none(batch: EventBatch | None) -> Any:
    """Return the fields and keys of a batch, for a tree; None for None."""
    return None if batch is None else [pl.DataFrame(schema=batch.schema), [*batch.keys]]


def empty_like(saved: Any) -> EventBatch | None:
    """Return a batch without rows of the fields and keys that were saved."""
    if saved is None:
        return None
    frame, keys = saved
    empty = EventBatch.empty(frame.schema, MIN_TIME)
    if not keys:
        return empty
    return empty.replace(groups=Groups(empty.start, KeyCoder({k: frame.schema[k] for k in keys})))


def batch_of(saved: EventBatch, coder: KeyCoder | None) -> EventBatch:
    """Return a batch that was saved, with the keys that its codes mean."""
    if coder is None or saved.groups is None:
        return saved
    return saved.replace(groups=Groups(saved.groups.codes, coder))
