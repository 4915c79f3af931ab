"""start and end: the times of a row as values of expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns, Nullable
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.engine.step import Stateless
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Keys, Operator, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History

# fields with the times of a row, which are there for the operator that reads them
START_FIELD, END_FIELD = TIME_FIELDS = ("start()", "end()")
_TYPES = {"ticks": pl.Int64(), "datetime": pl.Datetime("us", "UTC")}


def start() -> pl.Expr:
    """Return the expression of the start of a row.

    In ``where``, ``select``, ``with_columns``, aggregates, ``top_k``, ``detect`` and keys by
    expression. It is a Datetime in UTC, or over ticks an Int64; selected without another name it is
    the field ``start``.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, {"x": 1}), rxt.PointEvent(8, {"x": 2})])
    >>> stays.with_columns(since=rxt.start()).to_polars().rows()
    [(3, 14, 1, 3), (8, 9, 2, 8)]
    >>> stays.where(rxt.start() > 5).to_polars().rows()
    [(8, 9, 2)]
    """
    return pl.col(START_FIELD).alias("start")


def end() -> pl.Expr:
    """Return the expression of the end of a row, null if it never ends.

    It is for rows whose end is known when they come: behind ``to_point_events``, ``point_at_end``
    and windows other than snapshots, as long as lifetimes stay as they are. Elsewhere it is an
    ``ArgumentError``. Types and places are those of ``start``, but for ``detect``.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> rows = rxt.from_events([rxt.PointEvent(t, {"x": 1}) for t in (2, 13)])
    >>> counts = rows.tumbling_window(10).aggregate(n=agg.count())
    >>> counts.with_columns(until=rxt.end()).to_polars().rows()
    [(0, 10, 1, 10), (10, 20, 1, 20)]
    """
    return pl.col(END_FIELD).alias("end")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RowTimes(RowOperator):
    """Each row with the times of it that the next operator reads, as fields."""

    keeps_lifetimes = True
    reads_times = True
    fields: tuple[str, ...]
    form: TimeForm = "datetime"

    @property
    def name(self) -> str:
        """The functions whose values it adds."""
        return " and ".join(self.fields)

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times; datetimes if nobody knows."""
        known = form or self.form
        return dataclasses.replace(self, form=known, time=known)

    def check_ends(self, *, are_known: bool) -> None:
        """Raise if the ends are read, and may not be known."""
        if END_FIELD in self.fields and not are_known:
            raise make_end_error()

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields, and the times."""
        return pl.Schema({**schema, **dict.fromkeys(self.fields, _TYPES[self.form])})

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return RowTimesStep(self.fields, self.output(schema, keys))

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.causes.carried_rows import find_same_rows

        return find_same_rows(inputs, output, rows)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WithoutFields(RowOperator):
    """Each row without fields that were added for an operator before, as far as they are there."""

    keeps_lifetimes = True
    fields: tuple[str, ...]

    @property
    def name(self) -> str:
        """The fields that it drops."""
        return f"without {', '.join(self.fields)}"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the other fields."""
        kept = {name: dtype for name, dtype in schema.items() if name not in self.fields}
        return pl.Schema(kept)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return WithoutFieldsStep(self.output(schema, keys))

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.causes.carried_rows import find_same_rows

        return find_same_rows(inputs, output, rows)


def add_times(expressions: Iterable[pl.Expr]) -> tuple[Operator, ...]:
    """Return the operator that adds the times that expressions read; nothing if they read none."""
    names = {name for expression in expressions for name in expression.meta.root_names()}
    fields = tuple(field for field in TIME_FIELDS if field in names)
    return (RowTimes(fields=fields),) if fields else ()


def surround(expressions: Iterable[pl.Expr], *operators: Operator) -> tuple[Operator, ...]:
    """Return operators with the times in front of them that their expressions read."""
    times = add_times(expressions)
    return (*times, *operators, WithoutFields(fields=TIME_FIELDS)) if times else operators


def make_end_error() -> ArgumentError:
    """Return the error for an end that may not be known yet."""
    return ArgumentError(
        "rxt.end() is the end of a row, which may not be known yet when the row comes here. Hint: "
        "it is known behind to_point_events(), point_at_end() and tumbling, hopping, session and "
        "count windows; rxt.start() always is."
    )


class RowTimesStep(Stateless):
    """Adds the times of rows as fields. Holds nothing."""

    def __init__(self, fields: Sequence[str], schema: pl.Schema) -> None:
        self._fields, self._schema = fields, schema

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, with their times."""
        times = [self._read(batch, field) for field in self._fields]
        columns = [column for name, column in zip(batch.schema, batch.columns.columns, strict=True)
                   if name not in self._fields]  # fmt: skip
        payload = Columns(self._schema, [*columns, *times], len(batch))
        return batch.replace(payload=payload)

    def _read(self, batch: EventBatch, field: str) -> Int64s | Nullable:
        if field == START_FIELD:
            return batch.start
        known = batch.end < MAX_TIME
        if (batch.edge != 0)[~known].any():
            raise make_end_error()
        return batch.end if known.all() else Nullable(batch.end, known)


class WithoutFieldsStep(Stateless):
    """Drops fields. Holds nothing."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, without the fields."""
        return batch.replace(payload=batch.columns.select(self._schema))
