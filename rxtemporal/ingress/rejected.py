"""Rows that do not fit a stream: the record of one, and what is done about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.events import Event
from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError


class Rejects(Enum):
    """Policy for rows that do not fit: kept apart, or an error for whoever pushes."""

    KEEP = "keep"
    """The row is in the verdict and in the source's ``rejects``; the others are accepted."""

    RAISE = "raise"
    """The push raises a ``SchemaError``, and nothing of it is accepted."""


class Extra(Enum):
    """Policy for fields of a row that the schema does not name."""

    IGNORE = "ignore"
    """The field is left out, counted by its name and logged once."""

    REFUSE = "refuse"
    """The row is rejected."""


Choice = TypeVar("Choice", Rejects, Extra)


def choose(kind: type[Choice], value: Any, name: str) -> Choice:
    """Return a policy given as a member or as its value; ``name`` is the argument's."""
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(f"{kind.__name__}.{each.name}" for each in kind)
        raise ArgumentError(f"{name} is one of {allowed}, got {brief(value)}") from None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rejected:
    """A row that does not fit: its number in the push, the reason, and the row as it was pushed.

    Where rejected rows are published, ``source`` and ``input`` name where it was pushed, and
    ``arrived`` is the time of the wall clock at which it was.

    >>> Rejected(2, "field 'temp' is missing", {"device": "a"})
    Rejected(2, "field 'temp' is missing", {'device': 'a'})
    """

    index: int
    reason: str
    row: Any
    source: str = ""
    input: str = ""
    arrived: datetime | None = None

    def __repr__(self) -> str:
        return f"Rejected({self.index}, {self.reason!r}, {brief(self.row)})"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ReadRows:
    """Many pushed rows as they go on to the door, and those that do not.

    ========= ================================================================================
    items     events and CTIs in order, or one batch of rows that fit the schema
    index     the number in the push of each item, or of each row of the batch
    seq       the sequence number of each, -1 for a CTI and a row without one; None: none has one
    rejected  the rows that do not fit
    rows      the number of rows pushed, rejected ones included; CTIs are not counted
    time      the form in which a batch's times were given, if known
    ========= ================================================================================
    """

    items: Sequence[Event] | EventBatch
    index: Sequence[int]
    seq: Sequence[int] | Int64s | None
    rejected: tuple[Rejected, ...]
    rows: int
    time: TimeForm | None = None
