"""previous: each row with fields of a row before of its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import check_added, check_field
from rxtemporal.core.spans import Span, span
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step

_BEFORE, _TIME = "_before", "time_before"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PreviousFields(Operator):
    """Each row with fields of the ``n``-th row before of its key, and the time of that row.

    ``ticks``: times are numbers; otherwise they are datetimes.
    """

    name = "previous"
    fields: tuple[str, ...]
    n: int
    max_gap: int | None
    ticks: bool = False

    @property
    def holds(self) -> str:
        """The rows that wait, and those that later ones look back at."""
        rows = "row" if self.n == 1 else f"{self.n} rows"
        return f"rows not yet committed, rows that are open, and the last {rows} of each key"

    @property
    def reads_times(self) -> bool:  # type: ignore[override]
        """True if it has no span, which would say the form of the times."""
        return self.max_gap is None

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times and fields."""
        known = self.time or form or "datetime"
        return dataclasses.replace(self, ticks=known == "ticks", time=known)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields, then those of the row before."""
        added = {f"{name}{_BEFORE}": schema[name] for name in self.list_fields(schema, keys)}
        added[_TIME] = pl.Int64() if self.ticks else pl.Datetime("us", "UTC")
        if _TIME in (f"{name}{_BEFORE}" for name in self.list_fields(schema, keys)):
            raise SchemaError(
                f"previous adds the field {_TIME!r} with the start of the row before, so it cannot "
                "take the field 'time' from it. Hint: rename that first with select(); or name the "
                "fields that you need, as in previous('x')."
            )
        check_added(added, schema, "previous")
        return pl.Schema({**schema, **added})

    def list_fields(self, schema: pl.Schema, keys: Keys) -> list[str]:
        """Return the fields that are taken from the row before, by default all but the keys."""
        for name in self.fields:
            check_field(name, schema, "previous")
        return list(self.fields) or [name for name in schema if name not in keys]

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.previous.step import PreviousStep

        fields, output = self.list_fields(schema, keys), self.output(schema, keys)
        return PreviousStep(fields, self.n, self.max_gap, output, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return for each row that row, and those at which it looks back."""
        return find_rows_before(self, inputs, output, rows)


def previous(*fields: str, n: int = 1, max_gap: Span | None = None) -> PreviousFields:
    """Add to each row fields of the row before of its key, for differences and slopes.

    A field ``x`` gives ``x_before``, and ``time_before`` is the start of the row before: a datetime
    in UTC, over ticks a number. Without names all fields but the keys are taken. They are null for
    the first row of a key, and with ``max_gap`` where the row before began earlier than that. With
    ``n`` it is the n-th row before.

    Rows of a key are in order of (start, payload), and of their ends if equal in both. They leave
    with their lifetimes when the CTI has passed their start; the CTI passes unchanged. Held: rows
    whose start the CTI has not passed, rows that are open, and the last ``n`` rows of each key, for
    good; with ``max_gap``, a key is forgotten some time after its last row is longer ago than that.

    ``SchemaError``: a field is missing, or one of such a name exists.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in ((1, 5), (4, 7))])
    >>> readings.previous("v").to_polars().rows()
    [(1, 2, 5, None, None), (4, 5, 7, 5, 1)]
    """
    for field in fields:
        if not isinstance(field, str):
            raise ArgumentError(f"previous takes names of fields, got {field!r}")
    if len({*fields}) < len(fields):
        raise ArgumentError(f"previous names a field twice: {list(fields)}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"n says which row before is meant, from 1 on, got {n!r}")
    gap = None if max_gap is None else span(max_gap, "max_gap", least=1)
    form = None if max_gap is None else find_span_form(max_gap)
    return PreviousFields(fields=fields, n=n, max_gap=gap, time=form)


def find_rows_before(
    operator: PreviousFields, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row that row, and all n rows before it of its key.

    Without those between, another row would be the n-th one before. They are causes even if they
    are longer ago than ``max_gap``: the fields are null because of them.
    """
    from rxtemporal.operators.scan.ordered_rows import OrderedRows

    ordered = OrderedRows.of(inputs[0])
    of, row, own = ordered.match_output(output, rows)
    return Causes.concat([Causes.of_pairs(of, own), ordered.find_before(of, row, operator.n)])
