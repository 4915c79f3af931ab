"""Rows followed forward through a query, from an event to where its way ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.lineage.candidates import Wanted
from rxtemporal.lineage.ends import End, choose_ways, find_nearest_end
from rxtemporal.lineage.flow import Flow
from rxtemporal.operators.causes.causes import BOUNDARY
from rxtemporal.operators.causes.fate import Fate, make_frame
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import LostRow
from rxtemporal.operators.causes.row_text import write_lifetime, write_time, write_values

# rows of an operator's output that are looked at in one go, and in all
FEW_ROWS, MOST_ROWS = 16, 1 << 20
# results of one row that are followed
MOST_BRANCHES = 4

NO_ROWS = np.empty(0, np.int64)


class Forward:
    """Search for the ends of rows of one run, for one missing row."""

    def __init__(self, flow: Flow, wanted: Wanted) -> None:
        self._flow, self._wanted = flow, wanted
        self._readers: dict[int, list[tuple[History, int]]] = defaultdict(list)
        for history in _list_ancestors(flow):
            for side, below in enumerate(history.inputs):
                self._readers[below].append((history, side))
        self._giving = _list_giving(flow)
        self._ends: dict[tuple[int, int], list[End]] = {}

    def find_fate(self, number: int, row: int) -> Fate:
        """Return the end of a row's way; of several that nearest to the missing row.

        Of the ways of a stream that is read twice, one into the result counts before one that ends,
        unless only the latter is alive at the time asked about.
        """
        return find_nearest_end(self._follow(number, row))[1]

    def _follow(self, number: int, row: int) -> list[End]:
        if (number, row) not in self._ends:
            ways = [list(self._go_on(*reads, row)) for reads in self._readers[number]]
            if number == self._flow.output:
                ways.append([self._arrive(row)])
            self._ends[number, row] = choose_ways([each for each in ways if each])
        return self._ends[number, row]

    def _arrive(self, row: int) -> End:
        """Return the end of a row that is in the result."""
        distance = self._measure(self._flow.result, np.array([row])).tolist()[0]
        return (False, distance, True, 0), self._tell_result(self._flow.result, row)

    def _go_on(self, reader: History, side: int, row: int) -> Iterator[End]:
        """Return the ends of a row's ways through one of the operators that read it."""
        inputs = tuple(self._flow.histories[each] for each in reader.inputs)
        lost = LostRow(reader, inputs, side, row, self._wanted.at, self._flow.time)
        removes = _only_removes(reader, side)
        gives = reader.number in self._giving and not removes
        distance = self._measure(lost.source, np.array([row])).tolist()[0]
        effects = NO_ROWS if removes else self._find_effects(reader, lost)
        if not len(effects) or self._is_missing(reader, effects, distance):
            steps = self._flow.output - reader.number
            yield (not gives, distance, False, steps), self._explain(reader, lost)
        for each in effects.tolist():
            for rank, fate in self._follow(reader.number, each):
                yield (not gives or rank[0], *rank[1:]), fate

    def _explain(self, reader: History, lost: LostRow) -> Fate:
        """Return why a row has not come out; a predicate may not have seen it before an error."""
        if self._flow.error is not None and reader.node.operator.filters:
            passed = int(reader.ctis[-1]) if len(reader.ctis) else MIN_TIME
            if lost.start >= passed:
                return lost.tell("ended", f"the run ended before {lost.place} gave a row for it")
        fate: Fate = reader.node.operator.explain_loss(lost)
        return fate

    def _is_missing(self, reader: History, effects: Int64s, distance: int) -> bool:
        """Return True if a row alive at the time is in no row of a join at that time."""
        if self._wanted.at is None or distance:
            return False
        return reader.node.operator.pairs_rows and bool(self._measure(reader, effects).min())

    def _measure(self, history: History, rows: Int64s) -> Int64s:
        return self._wanted.measure(history.start[rows], history.end[rows])

    def _find_effects(self, reader: History, lost: LostRow) -> Int64s:
        """Return the rows of an operator that stand on a row, those nearest to the time first.

        Rows near the row in time are looked at first, and as many at once as have few causes.
        """
        order = lost.order_by_distance(reader, np.arange(len(reader)))
        done, size = 0, FEW_ROWS
        while done < min(len(order), MOST_ROWS):
            some = order[done : done + size]
            causes = self._flow.causes(reader.number, some)
            hit = (causes.side == lost.side) & (causes.row == lost.row)
            if hit.any():
                inside = hit & (causes.role != BOUNDARY)
                found = np.unique(causes.of[inside if inside.any() else hit])
                near = np.argsort(self._measure(reader, found), kind="stable")
                return found[near[:MOST_BRANCHES]]
            done += len(some)
            size *= 4 if len(causes) < 8 * size else 1
        return NO_ROWS

    def _tell_result(self, history: History, row: int) -> Fate:
        """Return that a row is in a result, and in what this one differs from the missing one."""
        form, at = self._flow.time, self._wanted.at
        start, end = int(history.start[row]), int(history.end[row])
        lifetime = write_lifetime(start, end, form)
        text = f"in the result {lifetime} {write_values(history.payload.row(row, named=True))}"
        differs = []
        if at is not None and not start <= at < end:
            differs.append(f"which does not contain {write_time(at, form)}")
        rows = history.payload[[row]]
        if self._wanted.count_mismatches(rows, history.start[[row]], history.end[[row]])[0]:
            differs.append("whose fields differ")
        message = ", ".join([text, *differs[:1]]) + "".join(f" and {each}" for each in differs[1:])
        others = make_frame(history, np.array([row]), form)
        return Fate("elsewhere", message, history.name, history.line, others=others)


def _only_removes(reader: History, side: int) -> bool:
    """Return True if the rows of an input only end or remove those of the other one."""
    return bool(reader.node.operator.only_removes(side))


def _list_giving(flow: Flow) -> set[int]:
    """Return the numbers of the histories whose rows may be in the result."""
    found, waiting = {flow.output}, [flow.output]
    while waiting:
        reader = flow.histories[waiting.pop()]
        for side, below in enumerate(reader.inputs):
            if below not in found and not _only_removes(reader, side):
                found.add(below)
                waiting.append(below)
    return found


def _list_ancestors(flow: Flow) -> list[History]:
    """Return the histories on which the result may stand, itself included."""
    found, waiting = {flow.output}, [flow.output]
    while waiting:
        for below in flow.histories[waiting.pop()].inputs:
            if below not in found:
                found.add(below)
                waiting.append(below)
    return [flow.histories[each] for each in sorted(found)]
