"""Rules of partition: the rows an operator needs together, and the fields it leaves unchanged.

Splitting a plan into buckets needs nothing else: rows that an operator does not need together may
be computed in different places, and the results united.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

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

    def choose_names(self, known: Sequence[frozenset[str]]) -> tuple[str, ...] | None:
        """Return a field of each input by which rows that are needed together agree; None: none.

        ``known`` are the fields of each input that have the same value, of which one is asked for.
        """
        if self.together is None:
            return tuple(map(min, known)) if all(known) else None
        for given in self.together:
            if all(name in names for name, names in zip(given, known, strict=True)):
                return tuple(map(str, given))
        return None

    def keep_names(self, known: Sequence[frozenset[str]]) -> frozenset[str]:
        """Return the fields of the output that have the value of the ``known`` ones."""
        return frozenset(name for name, given in self.keeps if are_known(given, known))


def are_known(given: Fields, known: Sequence[frozenset[str]]) -> bool:
    """Return True if of each input the field is among the known ones, or any will do."""
    return all(name is None or name in names for name, names in zip(given, known, strict=True))


def partition_by_row(fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that computes each row by itself and leaves these fields."""
    return PartitionRule(None, _same(fields))


def partition_by_keys(keys: Iterable[str], fields: Iterable[str]) -> PartitionRule:
    """Return the rule of an operator that needs rows of equal keys together, and leaves fields."""
    return PartitionRule(tuple((key,) for key in keys), _same(fields))


def _same(fields: Iterable[str]) -> tuple[tuple[str, Fields], ...]:
    return tuple((field, (field,)) for field in fields)
