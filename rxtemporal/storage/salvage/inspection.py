"""Result of an inspection, and the stretches of records that are lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True)
class Inspection:
    """Facts about a folder, its damage, what of it is lost, and how many records are whole.

    ``damage`` is the reason why a run or a replay refuses the folder; empty if they take it.
    """

    title: str
    facts: list[str]
    damage: str
    lost: list[str]
    records: int


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """Records that are lost: their numbers, and of which stream; ``end`` is that after the last."""

    whose: str
    first: int
    end: int

    def __str__(self) -> str:
        """Return the loss in words."""
        return f"records {self.first:,} to {self.end - 1:,} of {self.whose}"


def merge_losses(losses: Iterable[Loss]) -> list[Loss]:
    """Return the losses with those that follow one another as one.

    >>> [str(each) for each in merge_losses([Loss("'a'", 0, 5), Loss("'a'", 5, 9)])]
    ["records 0 to 8 of 'a'"]
    """
    merged: list[Loss] = []
    for loss in losses:
        if merged and (merged[-1].whose, merged[-1].end) == (loss.whose, loss.first):
            merged[-1] = dataclasses.replace(merged[-1], end=loss.end)
        else:
            merged.append(loss)
    return merged
