"""Open rows: rows with a start edge that wait for their end edge.

An end edge names its row by (start, payload). Among identical open rows the oldest is closed first.
Null equals null, NaN equals NaN and -0.0 equals 0.0, as in every key.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")

_NAN = object()


def make_hashable(payload: Any) -> Hashable:
    """Return a key that two payloads share if and only if the end edge of one closes the other.

    Dicts, lists, sets and dataclasses with generated ``==`` compare by content; objects of other
    classes by their own ``==`` and ``hash``, or by identity if they have no hash.
    """
    if isinstance(payload, float) and payload != payload:
        return _NAN
    if isinstance(payload, Mapping):
        return frozenset((name, make_hashable(value)) for name, value in payload.items())
    if isinstance(payload, (list, tuple)):
        return (type(payload), *map(make_hashable, payload))
    if isinstance(payload, (set, frozenset)):
        return frozenset(map(make_hashable, payload))
    parameters = getattr(payload, "__dataclass_params__", None)
    if parameters is not None and parameters.eq and not isinstance(payload, type):
        compared = [field.name for field in dataclasses.fields(payload) if field.compare]
        return (type(payload), *(make_hashable(getattr(payload, name)) for name in compared))
    try:
        hash(payload)
    except TypeError:
        return (type(payload), id(payload))
    return payload  # type: ignore[no-any-return]


class OpenRows(Generic[Row]):
    """Rows with a start edge that wait for their end edge.

    ``fields`` returns the part of a payload that start and end edge have in common and that is
    saved with an open row; by default it is the payload itself. Holds one entry for each open row
    until it is closed. Every call costs the hash of a payload. Not thread-safe: its owner
    serialises calls.
    """

    __slots__ = ("_count", "_rows", "fields", "opened", "owner")

    def __init__(self, fields: Callable[[Any], Any] | None = None) -> None:
        self.fields = fields
        # the input that the next edges are of: an end edge closes a row of its own input
        self.owner = ""
        self._rows: dict[tuple[str, int, Hashable], deque[Row]] = {}
        self._count = 0
        # the number of rows ever opened
        self.opened = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        # copies: another thread may open rows while this one iterates to close a source's rows
        for rows in list(self._rows.values()):
            yield from list(rows)

    def list_rows(self) -> list[Row]:
        """Return all rows; the caller sees to it that no other thread opens or closes one."""
        return [*chain.from_iterable(self._rows.values())]

    def set_owner(self, owner: str) -> None:
        """Take the next edges as those of an input."""
        self.owner = owner

    def resume(self, opened: int) -> None:
        """Go on counting from a number of rows that have been opened before."""
        self.opened = opened

    def open(self, start: int, payload: Any, row: Row) -> None:
        """Remember ``row`` under the start and payload that its end edge will name."""
        self._rows.setdefault(self._key(start, payload), deque()).append(row)
        self._count += 1
        self.opened += 1

    def saved_payload(self, payload: Any) -> Any:
        """Return the part of a payload that is saved with an open row."""
        return payload if self.fields is None else self.fields(payload)

    def _key(self, start: int, payload: Any) -> tuple[str, int, Hashable]:
        return self.owner, start, make_hashable(self.saved_payload(payload))

    def close(self, start: int, payload: Any) -> Row | None:
        """Remove and return the oldest row opened under this start and payload; None if none is."""
        key = self._key(start, payload)
        rows = self._rows.get(key)
        if rows is None:
            return None
        row = rows.popleft()
        if not rows:
            del self._rows[key]
        self._count -= 1
        return row
