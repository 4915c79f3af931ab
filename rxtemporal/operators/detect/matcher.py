"""Calls of the kernel: rows of keys, their threads and slots in, and what becomes of them out."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.rows import RowStore
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.detect import kernel
from rxtemporal.operators.detect.automaton import ACCEPT, WAIT, Automaton
from rxtemporal.operators.detect.conditions import Conditions
from rxtemporal.operators.detect.kernel import (
    Given,
    Made,
    MatchNodes,
    MatchRows,
    MatchRules,
    Setup,
    States,
    Tests,
)
from rxtemporal.operators.detect.registers import Registers, Ways
from rxtemporal.operators.detect.row_values import (
    ROW_BEFORE,
    ROW_KEY,
    ROW_POSITION,
    ROW_REFS,
    ROW_START,
)
from rxtemporal.operators.detect.settings import DetectSettings

# columns of nodes: the row, its variable, the node before, how many need it, the key; registers
NODE_ROW, NODE_VARIABLE, NODE_PARENT, NODE_REFS, NODE_KEY = range(5)
REGISTERS = 5

_SKIPS = {
    "next": kernel.NEXT,
    "past_last": kernel.PAST_LAST,
    "first": kernel.TO_FIRST,
    "last": kernel.TO_LAST,
}

# entries of several keys, and the bounds of those of each
Ranges: TypeAlias = tuple[Int64s, Int64s]


@dataclasses.dataclass(slots=True, eq=False)
class MatchOutcome:
    """Output of a run: threads and slots of each key, the matches that leave, rows to look at.

    ``left`` are rows of the kernel's; ``freed_rows`` are those that a node needs no more.
    """

    threads: Ranges
    slots: Ranges
    left: Int64s
    freed_rows: list[Int64s]


def list_ranges(first: Int64s, count: Int64s) -> Int64s:
    """Return the numbers first, first + 1 … of each range, one range after the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Int64s = np.arange(total) + np.repeat(first - (ends - count), count)
    return numbers


def find_bounds(count: Int64s) -> Int64s:
    """Return where each of some ranges of these lengths begins, and where the last one ends."""
    bounds: Int64s = np.concatenate([[0], np.cumsum(count)])
    return bounds


def find_least(values: Int64s, bounds: Int64s) -> Int64s:
    """Return the least value of each range; the end of time for an empty one."""
    found = np.full(len(bounds) - 1, MAX_TIME)
    filled = np.flatnonzero(np.diff(bounds))
    if len(filled):
        found[filled] = np.minimum.reduceat(values, bounds[:-1][filled])
    return found


def make_states(automaton: Automaton) -> States:
    """Return an automaton as arrays."""
    states = automaton.states
    # a pattern that prefers to be empty has no states
    none = np.zeros(0, np.int64)
    enter = [np.array(each.enter, np.int64) for each in states]
    out = [np.array(each.out, np.int64) for each in states]
    leads = [max(1, len(each)) for each in out]
    begins = sum(leads[each] for each in automaton.initial if each != ACCEPT)
    return States(
        kind=np.array([each.kind for each in states], np.int64),
        variable=np.array([each.variable for each in states], np.int64),
        absent=np.array([each.absent for each in states], np.int64),
        enter_at=find_bounds(np.array([len(each) for each in enter], np.int64)),
        enter=np.concatenate([none, *enter]),
        out_at=find_bounds(np.array([len(each) for each in out], np.int64)),
        out=np.concatenate([none, *out]),
        initial=np.array(automaton.initial, np.int64),
        fan=max([begins, *(1 + sum(leads[each] for each in its.enter) for its in states)]),
        tries=max([len(automaton.initial), *(1 + len(each) for each in enter)]),
    )


def make_rules(settings: DetectSettings, *, by_pair: bool) -> MatchRules:
    """Return the rules by which a pattern is matched."""
    automaton = settings.automaton
    waits = any(each.kind == WAIT for each in automaton.states)
    chain = settings.skip == "past_last" and not waits and not settings.timeouts
    variable = -1
    if settings.skip_variable is not None:
        variable = automaton.variables.index(settings.skip_variable)
    return MatchRules(
        within=settings.within,
        max_gap=settings.max_gap,
        chain=chain,
        across=chain and settings.within < 0,
        merges=not by_pair,
        skip=_SKIPS[settings.skip],
        skip_variable=variable,
        timeouts=settings.timeouts,
        budget=settings.budget if by_pair else 0,
        by_pair=by_pair,
        before=settings.before,
    )


class _Tested:
    """The variables that each state tests, one state after the other; the last is the beginning."""

    def __init__(self, automaton: Automaton) -> None:
        states, variable = automaton.states, [each.variable for each in automaton.states]
        lists = [
            [variable[target] for target in each.enter] + [each.absent] * (each.absent >= 0)
            for each in states
        ]
        lists.append([variable[each] for each in automaton.initial if each != ACCEPT])
        self.count = np.array([len(each) for each in lists])
        self.first = find_bounds(self.count)[:-1]
        self.variable = np.array([each for its in lists for each in its], np.int64)


class PatternMatcher:
    """PatternMatcher of the rows of keys; ``rows`` and ``nodes`` are the stores of the step.

    A condition about the rows matched so far is tested for a thread and a row, so the rows of all
    keys are then matched in rounds: the first row of each, then the second.
    """

    def __init__(
        self,
        settings: DetectSettings,
        conditions: Conditions,
        registers: Registers,
        rows: RowStore,
        nodes: RowStore,
    ) -> None:
        automaton = settings.automaton
        self.states = make_states(automaton)
        self._by_pair = conditions.look_back
        self._rules = make_rules(settings, by_pair=self._by_pair)
        self._tested = _Tested(automaton)
        self._settings = settings
        self._conditions, self._registers = conditions, registers
        self._rows, self._nodes = rows, nodes
        self._no_mask = np.zeros((0, len(automaton.variables)), np.bool_)
        self.same_start = self.not_there = 0

    def run(
        self, keys: Int64s, due: Int64s, bounds: Int64s, threads: Ranges, slots: Ranges, cti: int
    ) -> MatchOutcome:
        """Match the rows that are due of keys, in order of each, and advance to the CTI."""
        outcome = MatchOutcome(threads, slots, np.empty((0, 4), np.int64), [])
        if not self._by_pair:
            tests = Tests(self._conditions.make_mask(due), np.zeros(0, np.bool_))
            self._apply(outcome, keys, (due, bounds), tests, bounds, cti)
            return outcome
        count = np.diff(bounds)
        for number in range(int(count.max(initial=0))):
            some = count > number
            rows = due[bounds[:-1][some] + number]
            self._run_round(outcome, keys, (rows, find_bounds(some.astype(np.int64))))
        nothing = due[:0], np.zeros(len(keys) + 1, np.int64)
        tests = Tests(self._no_mask, np.zeros(0, np.bool_))
        self._apply(outcome, keys, nothing, tests, bounds, cti)
        return outcome

    def _run_round(self, outcome: MatchOutcome, keys: Int64s, rows: Ranges) -> None:
        """Match one row at most of each key."""
        threads, bounds = outcome.threads
        row = np.full(len(keys), -1)
        row[np.diff(rows[1]) > 0] = rows[0]
        thread_row = np.repeat(row, np.diff(bounds))
        state = np.concatenate([threads[:, kernel.STATE], np.full(len(keys), -1)])
        next_row = np.concatenate([thread_row, row])
        count = np.where(next_row >= 0, self._tested.count[state], 0)
        of = np.repeat(np.arange(len(state)), count)
        node = np.concatenate([threads[:, kernel.NODE], np.full(len(keys), -1)])
        first = np.concatenate([threads[:, kernel.FIRST], row])
        variable = self._tested.variable[list_ranges(self._tested.first[state], count)]
        ways = Ways(node[of], variable, next_row[of], first[of])
        pairs = self._conditions.test_ways(self._registers, self._nodes.columns, ways)
        begin = find_bounds(count)[:-1]
        threads[:, kernel.PAIR] = begin[: len(threads)]
        tests = Tests(self._no_mask, pairs)
        self._apply(outcome, keys, rows, tests, begin[len(threads) :], MIN_TIME)

    def _apply(
        self,
        outcome: MatchOutcome,
        keys: Int64s,
        rows: Ranges,
        tests: Tests,
        first_pair: Int64s,
        cti: int,
    ) -> None:
        """Call the kernel; store what it makes."""
        given = Given(*rows, *outcome.threads, *outcome.slots, first_pair)
        parts = self._view_rows(), self._view_nodes(), self._nodes.height
        setup = Setup(self.states, self._rules, tests, *parts)
        made = kernel.match_keys(setup, given, cti)
        if made.crowded >= 0:
            raise self._make_error(made)
        outcome.threads = made.threads, made.threads_at
        outcome.slots = made.slots, made.slots_at
        outcome.left = np.concatenate([outcome.left, made.left])
        self.same_start += made.same_start
        self.not_there += made.not_there
        self._free(outcome, made.freed)
        self._add_nodes(made)

    def _view_rows(self) -> MatchRows:
        columns = self._rows.columns
        return MatchRows(*(columns[n] for n in (ROW_START, ROW_POSITION, ROW_BEFORE, ROW_REFS)))

    def _view_nodes(self) -> MatchNodes:
        columns = self._nodes.columns
        places = (NODE_ROW, NODE_VARIABLE, NODE_PARENT, NODE_REFS)
        return MatchNodes(*(columns[n] for n in places))

    def _add_nodes(self, made: Made) -> None:
        """Store new nodes with their registers; release those that nothing needs any more."""
        if not len(made.nodes):
            return
        row, variable, parent, refs = (np.ascontiguousarray(each) for each in made.nodes.T)
        base = self._nodes.height
        own = np.arange(base, base + len(row))
        alive = np.ones(len(row), np.bool_)
        free = kernel.list_freed(parent, made.free)
        alive[free] = False
        registers = list[npt.NDArray[Any]]()
        if len(self._registers):
            # nodes of a round have parents of earlier ones
            ways = Ways(np.where(alive, parent, -1), variable, row, row)
            registers = self._registers.compute(self._nodes.columns, ways, own)
        key = self._rows.columns[ROW_KEY][row]
        self._nodes.extend([row, variable, parent, refs, key, *registers])
        self._nodes.release(own[free])

    def _free(self, outcome: MatchOutcome, first: int) -> None:
        """Release the nodes of a list, and note their rows."""
        columns = self._nodes.columns
        freed = kernel.list_freed(columns[NODE_PARENT], first)
        if not len(freed):
            return
        row = columns[NODE_ROW][freed]
        self._nodes.release(freed)
        outcome.freed_rows.append(row)
        before = self._rows.columns[ROW_BEFORE]
        for _ in range(self._settings.before):
            row = before[row[row >= 0]]
            outcome.freed_rows.append(row[row >= 0])

    def drop_matches(self, outcome: MatchOutcome) -> None:
        """Release what only the matches that have left need."""
        nodes = np.ascontiguousarray(outcome.left[:, 1])
        before = self._settings.before
        self._free(outcome, kernel.drop_nodes(self._view_rows(), self._view_nodes(), nodes, before))

    def _make_error(self, made: Made) -> ArgumentError:
        """Return the error for more ways than the budget allows."""
        values = self._rows.payload(np.array([made.row])).frame.row(0, named=True)
        key = {name: values[name] for name in self._settings.keys}
        return ArgumentError(
            f"the pattern {self._settings.text!r} has more than {self._settings.budget:,} ways to "
            f"go on from one row{f' of the key {key}' if key else ''}, at {values}: its conditions "
            "depend on the rows matched so far, so that each way has to be followed by itself. "
            "Hint: let fewer variables match one row, or give within= or a bound such as {1,9}."
        )
