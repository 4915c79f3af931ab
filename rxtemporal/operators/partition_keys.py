"""Rules of partition: the rows an operator has to see together, the fields it leaves unchanged.

That is all that splitting a plan into buckets asks of an operator: rows that it does not see
together may be computed in different places, and the results united.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

Fields = tuple[str | None, ...]
"""A field of each input; None where any will do."""


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionRule:
    """A rule that says which rows of an operator's inputs have to be in one bucket.

    ``together``: the operator sees rows together only if they agree in all of these fields (of two
    inputs: pairs, the left's and the right's). None: it looks at each row by itself. Empty: it sees
    all rows together.

    ``keeps``: an output field, and the input fields whose value it has. Of two inputs, where one
    is None, the other's value is that of every row that comes out.
    """

    together: tuple[Fields, ...] | None
    keeps: tuple[tuple[str, Fields], ...]


def partition_by_row(fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that sees each row by itself, and leaves these fields."""
    return PartitionRule(None, _same(fields))


def partition_by_keys(keys: Iterable[str], fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that sees rows of equal keys together, and leaves fields."""
    return PartitionRule(tuple((key,) for key in keys), _same(fields))


def _same(fields: Iterable[str]) -> tuple[tuple[str, Fields], ...]:
    return tuple((field, (field,)) for field in fields)
