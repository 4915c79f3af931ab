"""Which rows an operator has to see together, and which fields it hands on unchanged.

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
    """How far the rows of an operator's inputs may be kept apart.

    ``together``: the operator sees rows together only if they agree in all of these fields (of two
    inputs: pairs, the left's and the right's). None: it looks at each row by itself. Empty: it sees
    all rows together.

    ``keeps``: an output field, and the input fields whose value it has. Of two inputs, where one
    is None, the other's value is that of every row that comes out.
    """

    together: tuple[Fields, ...] | None
    keeps: tuple[tuple[str, Fields], ...]


def partition_by_row(fields: Iterable[str]) -> PartitionRule:
    """Each row is looked at by itself, and these of its fields stay as they are."""
    return PartitionRule(None, _same(fields))


def partition_by_keys(keys: Iterable[str], fields: Iterable[str]) -> PartitionRule:
    """Rows of equal keys are seen together, and these fields of theirs stay as they are."""
    return PartitionRule(tuple((key,) for key in keys), _same(fields))


def _same(fields: Iterable[str]) -> tuple[tuple[str, Fields], ...]:
    return tuple((field, (field,)) for field in fields)
