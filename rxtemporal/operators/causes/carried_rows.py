"""An operator run again over the rows it had, with row numbers carried along in the payload."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import NEVER, History, close_rows, code_rows, match_codes

# the fields that have the row numbers of the first and the second input; no field has such a name
NUMBERS = ("\0left", "\0right")
_START, _END = "\0start", "\0end"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CarriedRows:
    """Rows of an operator's output, each with the number of its row in each input."""

    start: Int64s
    end: Int64s
    payload: pl.DataFrame
    numbers: tuple[Int64s, ...]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Any) -> CarriedRows:
        """Return some of them: by a mask, or by row numbers."""
        at = np.flatnonzero(rows) if np.asarray(rows).dtype == np.bool_ else rows
        numbers = tuple(each[at] for each in self.numbers)
        return CarriedRows(self.start[at], self.end[at], self.payload[at], numbers)


def get_cti(history: History) -> int:
    """Return the last CTI of a node."""
    return int(history.ctis[-1]) if len(history.ctis) else MIN_TIME


def to_batch(history: History, number: str | None = None) -> EventBatch:
    """Return all rows of a node as one batch with its last CTI; rows that are open as start edges.

    ``number`` is the name of a field with the row numbers, which is added then.
    """
    n = len(history)
    payload = history.payload
    if number is not None:
        numbers = pl.Series(number, np.arange(n), pl.Int64)
        payload = payload.with_columns(numbers) if payload.width else pl.DataFrame([numbers])
    edge = np.where(history.closed == NEVER, np.arange(1, n + 1), 0)
    return EventBatch(history.start, history.end, edge, payload, get_cti(history), history.keys)


def carry(operator: Any, inputs: Sequence[History], upto: int = MAX_TIME) -> CarriedRows:
    """Run an operator again over all rows of its inputs, each with its number in the payload.

    For operators whose output has the fields of their inputs. Time advances to the last CTI of the
    inputs, but not beyond ``upto``.
    """
    names = NUMBERS[: len(inputs)]
    batches = [to_batch(each, name) for each, name in zip(inputs, names, strict=True)]
    batches = [batch.replace(cti=min(batch.cti, upto)) for batch in batches]
    schemas = [batch.payload.schema for batch in batches]
    step = operator.make(*schemas, inputs[0].keys)
    if len(batches) == 1:
        return split_numbers(step.on_batch(batches[0]))
    return split_numbers(EventBatch.concat([step.on_left(batches[0]), step.on_right(batches[1])]))


def split_numbers(batch: EventBatch) -> CarriedRows:
    """Return the rows of a batch with the ends that it has for them; take the numbers out."""
    rows = close_rows(batch, np.zeros(len(batch), np.int64))
    payload = batch.payload[rows.begins]
    names = [name for name in NUMBERS if name in payload.columns]
    numbers = tuple(payload.get_column(name).to_numpy() for name in names)
    return CarriedRows(batch.start[rows.begins], rows.end, payload.drop(names), numbers)


def match_output(
    output: History, made: CarriedRows | History, rows: Int64s
) -> tuple[Int64s, Int64s]:
    """Return pairs of a wanted row of the output, and the place of the equal row among ``made``.

    They are equal in their lifetimes and in the fields of ``made``. Of several equal rows the first
    is the first's, and so on.
    """
    times = output.start[rows]
    near = np.flatnonzero(np.isin(output.start, times))
    far = np.flatnonzero(np.isin(made.start, times))
    names = made.payload.columns
    of, at = match_codes(
        *code_rows(
            _to_frame(output.start[near], output.end[near], output.payload[near], names),
            _to_frame(made.start[far], made.end[far], made.payload[far], names),
        )
    )
    of, at = near[of], far[at]
    wanted = np.isin(of, rows)
    return of[wanted], at[wanted]


def _to_frame(start: Int64s, end: Int64s, payload: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    times = [pl.Series(_START, start), pl.Series(_END, end)]
    return pl.DataFrame([*times, *(payload.get_column(name) for name in names)])


def match_rows(
    operator: Any, inputs: Sequence[History], output: History, rows: Int64s
) -> tuple[Int64s, Int64s]:
    """Return pairs of a wanted row of the output, and the row of the first input it is made of."""
    made = carry(operator, inputs)
    of, at = match_output(output, made, rows)
    return of, made.numbers[0][at]


def find_carried_rows(
    operator: Any, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the causes of an operator of one input that makes each row out of one alone."""
    return Causes.of_pairs(*match_rows(operator, inputs, output, rows))


def find_same_rows(inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
    """Return for each row the input row of the same number: every row passes, in order."""
    return Causes.of_pairs(rows, rows)
