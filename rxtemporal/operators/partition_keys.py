"""Rules of partition: the rows an operator needs together, and the fields it leaves unchanged.

Splitting a plan into buckets needs nothing else: rows that an operator does not need together may
be computed in different places, and the results united.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

Fields = tuple[str | None, ...]
"""A field of each input; None where any will do."""


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionRule:
    """Rule that says which rows of an operator's inputs have to be in one bucket.

    ``together``: the operator needs rows together only if they agree in all of these fields (for
    two inputs: pairs of a left and a right field). None: it computes each row by itself. Empty: it
    needs all rows together.

    ``keeps``: an output field, and for each input the field whose value it has. If one of two is
    None, the other input's field alone has the value, in every output row.
    """

    together: tuple[Fields, ...] | None
    keeps: tuple[tuple[str, Fields], ...]


def partition_by_row(fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that computes each row by itself and leaves these fields."""
    return PartitionRule(None, _same(fields))


def partition_by_keys(keys: Iterable[str], fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that needs rows of equal keys together, and leaves fields."""
    return PartitionRule(tuple((key,) for key in keys), _same(fields))


def _same(fields: Iterable[str]) -> tuple[tuple[str, Fields], ...]:
    return tuple((field, (field,)) for field in fields)
