"""Rows of the matches that results are of, and why a row is in no match."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import (
    NUMBERS,
    CarriedRows,
    match_output,
    to_batch,
)
from rxtemporal.operators.causes.causes import HISTORY, ROW, Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_expression
from rxtemporal.operators.detect.automaton import MatchState
from rxtemporal.operators.detect.layout import FIRST, STATE
from rxtemporal.operators.detect.plan import Detect
from rxtemporal.operators.detect.results import Matches
from rxtemporal.operators.detect.step import DetectStep
from rxtemporal.operators.scan.ordered_rows import OrderedRows

_NUMBER = NUMBERS[0]
# a way is followed no further
_MOST = 1_000


class _TracedStep(DetectStep):
    """Step over rows that carry their numbers in the input, which notes the rows of matches.

    ``behind``: how far the time of keys stays behind the CTI.
    """

    def __init__(self, operator: Detect, source: History) -> None:
        schema = to_batch(source, _NUMBER).schema
        settings = operator.make_settings(schema, source.keys)
        super().__init__(settings)
        self._automaton = settings.automaton
        self.found: list[Matches] = []
        self.behind = 0

    def _match(self, due: Int64s, woken: Int64s, batch: EventBatch) -> EventBatch:
        return super()._match(due, woken, batch.replace(cti=batch.cti - self.behind))

    def _make_payload(self, matches: Matches) -> pl.DataFrame:
        row = self._rows.payload(matches.row).frame[_NUMBER].to_numpy()
        self.found.append(dataclasses.replace(matches, row=row))
        return super()._make_payload(matches)

    def list_ways(self, number: int) -> list[MatchState]:
        """Return the states of the ways that begin at a row and are not decided."""
        threads = self._stores.threads.records[self._stores.threads.alive]
        begin = self._rows.payload(threads[:, FIRST]).frame[_NUMBER].to_numpy()
        mine = threads[begin == number]
        return [self._automaton.states[each] for each in mine[:, STATE].tolist()]


def find_matched_rows(
    operator: Detect, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows of the match that each result is of, and those before at which it looks.

    A row of the match has its variable as its part. Of a result that is one row of a match, the
    others are history.
    """
    (source,) = inputs
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
    place = np.repeat(begin[way], count) + numbers
    row, variable = matches.row[place], matches.variable[place]
    result, mine = np.repeat(of, count), np.repeat(own, count)
    role = np.where((mine < 0) | (row == mine), ROW, HISTORY)
    before = OrderedRows.of(source).find_before(result, row, operator.count_recent())
    return Causes.concat([Causes.of_pairs(result, row, role=role, part=variable), before])


def explain_no_match(operator: Detect, lost: LostRow) -> Fate:
    """Return where the ways end that begin at a row."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    source = lost.source
    step = _TracedStep(operator, source)
    step.on_batch(to_batch(source, _NUMBER))
    if step.list_ways(lost.row):
        return lost.wait(MAX_TIME if operator.within is None else lost.start + operator.within)
    ordered = OrderedRows.of(source)
    order = ordered.order[ordered.code[ordered.order] == ordered.code[lost.row]]
    place = int(np.flatnonzero(order == lost.row)[0])
    begins = [int(row) for found in step.found for row in found.first]
    taken = [row for row in order[:place].tolist() if row in begins]
    return _follow(operator, lost, order, place, taken[-1] if taken else None)


def _follow(operator: Detect, lost: LostRow, order: Int64s, place: int, taken: int | None) -> Fate:
    """Follow the ways that begin at a row of its key, row by row.

    ``taken`` is the row at which the last match begins before it.
    """
    source = lost.source
    step = _TracedStep(dataclasses.replace(operator, skip="next"), source)
    rows = to_batch(source, _NUMBER).replace(edge=np.zeros(len(source), np.int64))
    begin = max(0, place - operator.count_recent())
    for number in _list_ends(source, order[: place + _MOST], begin, place):
        upto = order[begin:number]
        begin, row = number, int(upto[-1])
        start = int(source.start[row])
        # time, rows and time again, each alone, to know which of them ends a way
        for taken_rows, cti in ((upto[:0], start), (upto, start + 1), (upto[:0], start + 1)):
            ways, by_time = step.list_ways(lost.row), not len(taken_rows)
            step.behind = 0 if by_time else 1
            step.on_batch(rows.take(taken_rows).replace(cti=cti))
            if any(lost.row in found.first for found in step.found):
                return _tell_skip(operator, lost, taken)
            if step.list_ways(lost.row) or (by_time and not ways):
                continue
            if by_time:
                return _tell_end(lost, row, _tell_limit(operator, lost, cti))
            last = ways if len(upto) == 1 else []
            reason = _tell_conditions(operator, last, begins=row == lost.row)
            return _tell_end(lost, row, reason)
    return lost.tell("ended", f"the rows behind it complete no match in {lost.place}")


def _list_ends(source: History, order: Int64s, begin: int, place: int) -> list[int]:
    """Return where runs of rows of one start end, from that with the row on."""
    start = source.start[order]
    ends = np.append(np.flatnonzero(np.diff(start)) + 1, len(start))
    return [int(end) for end in ends if end > place]


def _tell_skip(operator: Detect, lost: LostRow, taken: int | None) -> Fate:
    """Return the fate of a row at which a match would begin, if another did not skip it."""
    by = "" if taken is None else f" behind that of {lost.write_row(lost.source, taken)}"
    return lost.tell(
        "dropped",
        f"begins no match in {lost.place}: it lies before the row at which skip={operator.skip!r} "
        f"lets the next match begin{by}",
        others=None if taken is None else lost.frame(lost.source, np.array([taken])),
    )


def _tell_end(lost: LostRow, row: int, reason: str) -> Fate:
    """Return the fate of a row whose ways end at a row or before it, for a reason."""
    source = lost.source
    return lost.tell(
        "dropped",
        f"in no match of {lost.place}: what begins at it ends at {lost.write_row(source, row)}, "
        f"since {reason}",
        others=lost.frame(source, np.array([row])),
    )


def _tell_limit(operator: Detect, lost: LostRow, cti: int) -> str:
    """Return the limit of time that ended the ways of a row."""
    within = operator.within
    if within is not None and cti >= lost.start + within:
        return "the time of within has passed"
    return "max_gap has passed"


def _tell_conditions(operator: Detect, ways: Sequence[MatchState], *, begins: bool) -> str:
    """Return the conditions because of which no way goes on with a row, or none begins at it.

    ``ways`` are those before it, if known.
    """
    automaton = operator.automaton
    next_states = [each for way in ways for each in way.enter]
    if begins:
        next_states = [*automaton.begins]
    missed = _write_conditions(operator, [automaton.states[each].variable for each in next_states])
    came = _write_conditions(operator, [each for way in ways for each in way.ends])
    reason = "no match begins with it" if begins else "no way goes on with it"
    if missed and not came:
        return f"{reason}: it does not satisfy {' or '.join(missed)}"
    if came and not begins:
        return f"{reason}: it satisfies {' or '.join(came)}, which may not come"
    every = _write_conditions(operator, range(len(automaton.variables)))
    return f"{reason} ({'; '.join(every) or 'no conditions'})"


def _write_conditions(operator: Detect, variables: Iterable[int]) -> list[str]:
    """Return the conditions of variables as texts, each once."""
    names = [operator.automaton.variables[each] for each in dict.fromkeys(variables)]
    given = operator.conditions
    return [f"{name}: {_write_condition(given[name])}" for name in names if name in given]


def _write_condition(condition: pl.Expr) -> str:
    """Return a condition as text, with functions of a match as users write them."""
    text = write_expression(condition)
    return re.sub(r'\(?col\("(pt\.\w+\([^"]*\))"\)\)?', r"\1", text)
