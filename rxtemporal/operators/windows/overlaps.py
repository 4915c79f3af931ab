"""Overlaps of rows with their windows, as fields of the rows."""

from __future__ import annotations

import dataclasses
import enum

import polars as pl

# fields that are added for aggregates by time: from when on a row overlaps the windows that hold
# it, and for how long, and for how much of that no other row does before it
AT, OVERLAP, COVER = "__at__", "__overlap__", "__cover__"


def add_overlap(schema: pl.Schema) -> pl.Schema:
    """Return the fields of rows with those that aggregates by time read."""
    return pl.Schema({**schema, **dict.fromkeys((AT, OVERLAP, COVER), pl.Int64())})


class Overlaps(enum.Enum):
    """Rows of which the overlap with a window is known.

    ``PIECES``: rows that are cut at the bounds of windows, which hold each piece for its whole
    length. ``PAIRS``: each row once for each window that holds it, with the field ``OVERLAP``; it
    stays there until the window is final.
    ``WHOLE``: all rows of a window are alive as long as that, whose end is not known yet.
    """

    PIECES = "pieces"
    PAIRS = "pairs"
    WHOLE = "whole"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class WindowSum:
    """A sum over the rows of a window.

    ``weighed``: of values times the lengths of their overlaps. ``mean``: divided by the sum of
    these, or by the number of values.
    """

    value: pl.Expr
    weighed: bool = False
    mean: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SlicePlan:
    """Plan of how rows are cut at the bounds of their windows.

    ``beside``: the rows themselves come, too, and all aggregates but those by time read these.
    ``cover``: pieces of the time in which any row is alive come, too.
    """

    beside: bool
    cover: bool

    @property
    def marks(self) -> list[str]:
        """The fields that are null in the rows that count for the other aggregates."""
        return [OVERLAP] * self.beside + [COVER] * self.cover
