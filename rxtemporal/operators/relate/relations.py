"""Names and numbers of Allen's relations: exactly one of the thirteen holds between two lifetimes.

Source: J. F. Allen, "Maintaining knowledge about temporal intervals", CACM 26 (1983). The numbers
of inverse relations add up to that of the last one of their group: 3, or 16 from ``SHARING`` on.
"""

from __future__ import annotations

from collections.abc import Sequence

NAMES = (
    "before", "meets", "met_by", "after",
    # these share time: in three rows the left one starts earlier, together or later, and in three
    # columns it ends earlier, together or later
    "overlaps", "finished_by", "contains",
    "starts", "equals", "started_by",
    "during", "finishes", "overlapped_by",
)  # fmt: skip
BEFORE, MEETS, MET_BY, AFTER, SHARING = range(5)
OVERLAPS, FINISHED_BY, CONTAINS = range(SHARING, SHARING + 3)

Flags = tuple[bool, ...]


def flag_relations(names: Sequence[str]) -> Flags:
    """Return for each relation whether it is named.

    >>> flag_relations(["meets"])[:4]
    (False, True, False, False)
    """
    return tuple(name in names for name in NAMES)


def invert(wanted: Flags) -> Flags:
    """Return the flags of the inverse relations: those that the right row has to the left one.

    >>> NAMES[invert(flag_relations(["during"])).index(True)]
    'contains'
    """
    return wanted[:SHARING][::-1] + wanted[SHARING:][::-1]
