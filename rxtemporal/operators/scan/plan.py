"""scan: a user-defined stream operator, a function over consecutive rows with a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import payload_schema
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.causes import HISTORY, ROW, Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step

ScanFunction = Callable[[Any, int, dict[str, Any]], tuple[Any, Any]]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Scan(Operator):
    """Results of a function of each row and the current state; ``fields`` is their schema."""

    name = "scan"
    seed: Any
    fn: ScanFunction
    fields: pl.Schema
    holds = "rows not yet committed, what open rows gave, and the function's state for each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the fields of the results."""
        for key in keys:
            if key in self.fields:
                raise SchemaError(
                    f"scan: {key!r} is a group key, which a grouped stream puts in front of the "
                    "results. Hint: leave it out of schema= and of the function's results."
                )
        return pl.Schema({**{key: schema[key] for key in keys}, **self.fields})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together, and no field is known to be kept."""
        return partition_by_keys(keys, keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.scan.step import ScanStep

        return ScanStep(self.seed, self.fn, self.fields, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_rows_up_to_then(self, inputs, output, rows)


def scan(seed: Any, fn: ScanFunction, *, schema: Any) -> Scan:
    """Apply a function with a state to the rows in order: a user-defined stream operator.

    ``fn(state, start, payload)`` is called once for each row, when the CTI has passed its start, in
    order of (start, payload), nulls first; of rows equal in both, the one that ends first is first.
    ``start`` is in ticks and ``payload`` is a dict; ``fn`` does not get the end of the row. It
    returns the next state and a result: None, a payload or a list of payloads with the fields of
    ``schema``. The result lives as long as the row; that of an open row is emitted as a start edge.
    The CTI passes unchanged.

    Each group key has a state of its own, which begins as a copy of ``seed``. In the results the
    fields of the key come first. A state must consist of numbers, strings, times, lists, tuples,
    dicts and sets, so that it can be saved. Held: rows whose start the CTI has not passed, the
    results of open rows, and a state for each key. A key is forgotten once its state is ``seed``
    again, for example None, 0 or an empty dict. If ``fn`` raises, the query fails. A call for each
    row is slow: prefer an operator that computes over columns.

    >>> import rxtemporal as rxt
    >>> def total(state, start, payload):
    ...     state += payload["x"]
    ...     return state, {"total": state}
    >>> numbers = rxt.from_events([rxt.PointEvent(t, {"x": t}) for t in (1, 2, 3)])
    >>> numbers.scan(0, total, schema={"total": int}).to_polars()["total"].to_list()
    [1, 3, 6]
    """
    if not callable(fn):
        raise ArgumentError(
            f"scan takes a seed and a function fn(state, start, payload), got {fn!r}. "
            "Hint: scan(0, fn, schema={…})."
        )
    return Scan(seed=seed, fn=fn, fields=payload_schema(schema))


def find_rows_up_to_then(
    operator: Scan, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row all rows of its key that start no later.

    The row with its lifetime is the one that the function got last; the rows before it are its
    history, since the state may depend on each of them.
    """
    (given,) = inputs
    keys, key = code_fields(given, output, given.keys)
    order = np.lexsort((given.start, keys))
    place = {code: np.flatnonzero(keys[order] == code) for code in np.unique(key[rows]).tolist()}
    parts = []
    for number in rows.tolist():
        mine = order[place[int(key[number])]]
        upto = int(np.searchsorted(given.start[mine], output.start[number], side="right"))
        seen = mine[:upto]
        own = (given.start[seen] == output.start[number]) & (given.end[seen] == output.end[number])
        of = np.full(len(seen), number)
        parts.append(Causes.of_pairs(of, seen, role=np.where(own, ROW, HISTORY)))
    return Causes.concat(parts)
