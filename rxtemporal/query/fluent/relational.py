"""where, select, union and grouping: what does not look at time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import polars as pl

from rxtemporal import operators as ops
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.group import Ungroup
from rxtemporal.query.fluent.composing import Composing


class Relational(Composing):
    """Relational operators: payloads change and lifetimes stay."""

    def where(self, *predicates: pl.Expr | Callable[[dict[str, Any]], Any]) -> Self:
        """Keep the rows whose payload satisfies every predicate; null is false.

        Rows and lifetimes pass unchanged and at once; so does the CTI. Nothing is held. A predicate
        is a polars expression computed row by row (aggregations, windows and shifts are refused),
        or a Python function of the payload as a dict, which costs about a microsecond a row.
        Of an edge row the start edge's verdict counts.
        """
        return self._then(ops.where(*predicates))

    def select(
        self, *expressions: str | pl.Expr | Callable[[dict[str, Any]], Any], **named: Any
    ) -> Self:
        """Give every row a new payload, as polars' ``select``; lifetimes and CTIs pass unchanged.

        Expressions are computed row by row; one that gives a list of scalars makes a field for
        ``explode``. A grouped stream keeps its keys, first. Nothing is held.

        ``select(fn, schema=…)`` takes a Python function instead, which gets the payload as a dict
        and returns the new one: a dict, or the dataclass or NamedTuple that its annotation names.
        ``schema`` (a mapping of names to types, a dataclass or a NamedTuple type) may be left out
        where there is such an annotation. It costs some microseconds for each row, and has to give
        the same for the same payload. Of an edge row the start edge's payload counts. A result
        that does not fit the schema is a ``SchemaError`` that shows the row.

        >>> import rxtemporal as rxt
        >>> readings = rxt.from_events([rxt.PointEvent(1, {"fahrenheit": 212})])
        >>> def celsius(row):
        ...     return {"celsius": (row["fahrenheit"] - 32) / 1.8}
        >>> readings.select(celsius, schema={"celsius": float}).to_polars().rows()
        [(1, 2, 100.0)]
        """
        return self._then(ops.select(*expressions, **named))

    def with_columns(self, *expressions: str | pl.Expr, **named: Any) -> Self:
        """Add fields to the payload, or replace some; otherwise as ``select``.

        Lifetimes and CTIs pass unchanged, rows at once. Nothing is held.
        """
        return self._then(ops.with_columns(*expressions, **named))

    def drop(self, *fields: str) -> Self:
        """Take fields out of the payload; otherwise as ``select``.

        Rows, lifetimes and CTIs pass unchanged and at once. Nothing is held.
        """
        return self._then(ops.drop(*fields))

    def explode(self, field: str) -> Self:
        """Give each row once for each element of a list field; the element takes the list's place.

        An empty or null list gives none. Lists live inside a query only: ``select`` and
        ``with_columns`` make them. Lifetimes and CTIs pass unchanged, an open row's rows are open
        and end with it. Held: the ids of open rows, until they end. A field that is no list is a
        ``SchemaError``.

        >>> import polars as pl
        >>> import rxtemporal as rxt
        >>> notes = rxt.from_events([rxt.PointEvent(1, {"text": "to be or"})])
        >>> notes.select(word=pl.col("text").str.split(" ")).explode("word").to_polars().rows()
        [(1, 2, 'to'), (1, 2, 'be'), (1, 2, 'or')]
        """
        return self._then(ops.explode(field))

    def group_by(self, *keys: str) -> Self:
        """Group the stream by fields: everything after it is computed for each key.

        Rows, lifetimes and CTIs pass unchanged. Null is a key like any other, NaN equals NaN.
        ``aggregate`` ends the grouping and puts the keys first in the payload. Every key seen is
        held.
        """
        return self._then(ops.group_by(*keys))

    def ungroup(self) -> Self:
        """End a grouping; rows, fields, lifetimes and CTIs stay as they are."""
        return self._then(ops.ungroup())

    def apply(self, fn: Callable[[Self], Self]) -> Self:
        """Run a whole branch for each key of a grouped stream, and end the grouping.

        ``fn`` gets the grouped stream and returns one; whatever it does is done for each key. The
        keys come first in the payload. What is held, and the CTI, are those of the branch: one key
        that holds something back holds the CTI of all.

        >>> import rxtemporal as rxt
        >>> from rxtemporal import agg
        >>> sales = rxt.from_events([rxt.IntervalEvent(1, 4, {"k": "a", "x": 2})])
        >>> def total(group):
        ...     return group.snapshot_window().aggregate(total=agg.sum("x"))
        >>> sales.group_by("k").apply(total).to_events()
        [IntervalEvent(1, 4, {'k': 'a', 'total': 2})]
        """
        if not self.keys:
            raise ArgumentError("apply runs a branch for each key. Hint: group_by(…) comes first.")
        result = self._branch(fn, "apply")
        return result._then(Ungroup(keys_first=True)) if result.keys else result

    def multicast(self, fn: Callable[[Self], Self]) -> Self:
        """Return what ``fn`` makes of this stream, which it may use several times.

        A stream that a plan uses twice is computed once, so this is ``fn(stream)``; in a ``pipe``
        ``operators.multicast`` does what needs doing there. Rows and CTIs pass unchanged to each
        use, and nothing is held.
        """
        return self._branch(fn, "multicast")

    def distinct(self, *fields: str) -> Self:
        """Return one row for each maximal stretch of time in which a value is alive.

        The value is that of the named fields, of all fields if none is named; null equals null, NaN
        equals NaN and -0.0 equals 0.0. A stretch leaves as a start edge when the CTI passes its
        start, and is closed when the CTI passes its end; the CTI passes unchanged. Held: starts and
        ends ahead of the CTI, and every value seen.
        """
        return self._then(ops.distinct(*fields))

    def _branch(self, fn: Callable[[Self], Self], name: str) -> Self:
        if not callable(fn):
            raise ArgumentError(f"{name} takes a function from a stream to a stream, got {fn!r}")
        result = fn(self)
        if not isinstance(result, Composing):
            raise ArgumentError(f"the branch of {name} has to return a stream, got {result!r}")
        return result
