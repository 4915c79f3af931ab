"""Rows of the matches that results are of, and why a row is in no match."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import (
    NUMBERS,
    CarriedRows,
    match_output,
    to_batch,
)
from rxtemporal.operators.causes.causes import HISTORY, ROW, Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_expression
from rxtemporal.operators.detect.layout import FIRST
from rxtemporal.operators.detect.plan import Detect
from rxtemporal.operators.detect.results import Matches
from rxtemporal.operators.detect.step import DetectStep
from rxtemporal.operators.scan.ordered_step import sort_rows

_NUMBER = NUMBERS[0]
# a way is followed no further
_MOST = 1_000


class _TracedStep(DetectStep):
    """Step over rows that carry their numbers in the input, which notes the rows of matches."""

    def __init__(self, operator: Detect, source: History) -> None:
        schema = to_batch(source, _NUMBER).schema
        super().__init__(operator.make_settings(schema, source.keys))
        self.found: list[Matches] = []

    def _make_payload(self, matches: Matches) -> pl.DataFrame:
        row = self._rows.payload(matches.row).frame[_NUMBER].to_numpy()
        self.found.append(dataclasses.replace(matches, row=row))
        return super()._make_payload(matches)

    def list_open(self) -> Int64s:
        """Return the numbers of the rows at which ways begin that are not decided."""
        threads = self._stores.threads
        first = threads.records[threads.alive, FIRST]
        numbers: Int64s = self._rows.payload(first).frame[_NUMBER].to_numpy()
        return numbers


def _fit_times(operator: Detect, source: History, output: History) -> Detect:
    """Return the operator with starts in the form in which the output has them."""
    other = dataclasses.replace(operator, ticks=not operator.ticks)
    fits = other.output(source.payload.schema, source.keys) == output.payload.schema
    return other if fits else operator


def _order_rows(source: History, codes: Int64s) -> Int64s:
    """Return the rows of a history by key, and in the order of each."""
    never = source.end == MAX_TIME
    order = sort_rows(source.start, source.end, never, source.payload)
    ordered: Int64s = order[np.argsort(codes[order], kind="stable")]
    return ordered


def find_matched_rows(
    operator: Detect, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows of the match that each result is of, and those before at which it looks.

    Of a result that is one row of a match, the others are history.
    """
    (source,) = inputs
    operator = _fit_times(operator, source, output)
    step = _TracedStep(operator, source)
    made = step.on_batch(to_batch(source, _NUMBER))
    payload = made.payload.drop(_NUMBER, strict=False)
    of, at = match_output(output, CarriedRows(made.start, made.end, payload, ()), rows)
    if not len(of):
        return Causes.none()
    (matches,) = step.found
    own = matches.row[at] if operator.rows == "all" else np.full(len(at), -1)
    way = matches.way[at] if operator.rows == "all" else at
    begin = matches.end - matches.length
    count = matches.length[way]
    numbers = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    row = matches.row[np.repeat(begin[way], count) + numbers]
    result, mine = np.repeat(of, count), np.repeat(own, count)
    role = np.where((mine < 0) | (row == mine), ROW, HISTORY)
    before = _find_before(operator.count_recent(), source, output, result, row)
    return Causes.concat([Causes.of_pairs(result, row, role=role), *before])


def _find_before(
    count: int, source: History, output: History, of: Int64s, row: Int64s
) -> list[Causes]:
    """Return so many rows before each row in its key."""
    codes, _ = code_fields(source, output, source.keys)
    order = _order_rows(source, codes)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    found = []
    for back in range(1, count + 1):
        at = place[row] - back
        there = at >= 0
        there[there] = codes[order[at[there]]] == codes[row[there]]
        found.append(Causes.of_pairs(of[there], order[at[there]], role=HISTORY))
    return found


def explain_no_match(operator: Detect, lost: LostRow) -> Fate:
    """Return where the ways end that begin at a row."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    source = lost.source
    operator = _fit_times(operator, source, lost.output)
    step = _TracedStep(operator, source)
    step.on_batch(to_batch(source, _NUMBER))
    if lost.row in step.list_open():
        return lost.wait(MAX_TIME if operator.within is None else lost.start + operator.within)
    codes, _ = code_fields(source, source, source.keys)
    order = _order_rows(source, codes)
    order = order[codes[order] == codes[lost.row]]
    place = int(np.flatnonzero(order == lost.row)[0])
    return _follow(operator, lost, order, place)


def _follow(operator: Detect, lost: LostRow, order: Int64s, place: int) -> Fate:
    """Follow the ways that begin at a row of its key, row by row."""
    source = lost.source
    step = _TracedStep(dataclasses.replace(operator, skip="next"), source)
    rows = to_batch(source, _NUMBER).replace(edge=np.zeros(len(source), np.int64))
    begin = max(0, place - operator.count_recent())
    for number in _list_ends(source, order[: place + _MOST], begin, place):
        upto = order[begin:number]
        begin, last = number, int(source.start[upto[-1]])
        step.on_batch(rows.take(upto).replace(cti=last + 1))
        is_open = lost.row in step.list_open()
        if any(lost.row in found.first for found in step.found):
            return lost.tell(
                "dropped",
                f"begins no match in {lost.place}: it lies before the row at which skip="
                f"{operator.skip!r} lets the next match begin",
            )
        if not is_open:
            return _tell_end(operator, lost, int(upto[-1]))
    return lost.tell("ended", f"the rows behind it complete no match in {lost.place}")


def _list_ends(source: History, order: Int64s, begin: int, place: int) -> list[int]:
    """Return where runs of rows of one start end, from that with the row on."""
    start = source.start[order]
    ends = np.append(np.flatnonzero(np.diff(start)) + 1, len(start))
    return [int(end) for end in ends if end > place]


def _tell_end(operator: Detect, lost: LostRow, row: int) -> Fate:
    """Return the fate of a row whose ways end at a row."""
    source = lost.source
    variables = operator.automaton.variables
    conditions = [
        f"{name}: {write_expression(operator.conditions[name])}"
        for name in variables
        if name in operator.conditions
    ]
    over = operator.within is not None and source.start[row] >= lost.start + operator.within
    reason = "the time of within has passed" if over else "no way goes on with it"
    if row == lost.row:
        reason = "no match begins with it"
    return lost.tell(
        "dropped",
        f"in no match of {lost.place}: what begins at it ends at {lost.write_row(source, row)}, "
        f"since {reason} ({'; '.join(conditions) or 'no conditions'})",
        others=lost.frame(source, np.array([row])),
    )
