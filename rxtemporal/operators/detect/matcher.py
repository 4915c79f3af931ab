"""Calls of the kernel: the rows of keys in, and the matches that leave out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.rows import grow_rows
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.detect import kernel, layout
from rxtemporal.operators.detect import ways as kernel_ways
from rxtemporal.operators.detect.automaton import ANY, GAP, WAIT, Automaton
from rxtemporal.operators.detect.conditions import Conditions, Registers, Ways
from rxtemporal.operators.detect.layout import (
    FIRST,
    NODE,
    NONE,
    PAIR,
    SLOT_COLUMNS,
    STATE,
    THREAD_COLUMNS,
    THREAD_COUNT,
    THREADS,
    MatchRules,
    MatchTables,
)
from rxtemporal.operators.detect.programs import Programs
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.detect.stores import MatchStores, list_ranges

_SKIPS = {
    "next": layout.NEXT,
    "past_last": layout.PAST_LAST,
    "first": layout.TO_FIRST,
    "last": layout.TO_LAST,
}
_NO_PAIRS = np.zeros(0, np.bool_)
_NO_NUMBERS = np.zeros(0, np.int64)


class MatchOutcome(NamedTuple):
    """Output of a run: the matches that leave, and the keys that have a new time to wake up."""

    left: Int64s
    wakes: Int64s


def find_bounds(count: Int64s) -> Int64s:
    """Return where each of some ranges of these lengths begins, and where the last one ends."""
    bounds: Int64s = np.concatenate([[0], np.cumsum(count)])
    return bounds


def make_states(automaton: Automaton) -> tuple[Int64s, Int64s]:
    """Return an automaton as records of states, and the lists of states to which they lead.

    Behind these are the states that take the first row, and the lists of variables.
    """
    records, lists = list[list[int]](), list[int]()
    for each in automaton.states:
        begin, middle = len(lists), len(lists) + len(each.enter)
        lists += [*each.enter, *each.out]
        bounds = [begin, middle, middle, len(lists)]
        records.append([each.kind, each.variable, *bounds])
    lists += automaton.begins
    # saved runs have places in the lists above, which are those of every version
    for record, each in zip(records, automaton.states, strict=True):
        record += [len(lists), len(lists) + len(each.ends)]
        lists += each.ends
    states = np.array(records, np.int64).reshape(len(records), layout.STATE_COLUMNS)
    return states, np.array(lists, np.int64)


def _count_most(automaton: Automaton) -> tuple[int, int]:
    """Return how many threads one thread becomes at most, and how many nodes it makes."""
    states = automaton.states
    leads = [max(1, len(each.out)) for each in states]
    begins = sum(leads[each] for each in automaton.begins)
    fans = [begins, *(1 + sum(leads[each] for each in its.enter) for its in states)]
    return max(fans), max([len(automaton.begins), *(1 + len(each.enter) for each in states)])


def make_rules(settings: DetectSettings, look_back: bool, *, by_pair: bool) -> MatchRules:
    """Return the rules by which a pattern is matched."""
    automaton = settings.automaton
    kinds = {each.kind for each in automaton.states}
    begin = sum(len(each.enter) + len(each.out) for each in automaton.states)
    # the longest ways end at times of their own, so with timeouts threads are kept apart
    skips = settings.max_gap >= 0 and bool(kinds & {GAP, ANY})
    queues = skips and not look_back and not settings.timeouts
    chain = settings.skip == "past_last" and WAIT not in kinds and not settings.timeouts
    variable = -1
    if settings.skip_variable is not None:
        variable = automaton.variables.index(settings.skip_variable)
    fan, tries = _count_most(automaton)
    return MatchRules(
        within=settings.within,
        max_gap=settings.max_gap,
        chain=chain,
        across=chain and settings.within < 0,
        merges=not look_back,
        queues=queues,
        skip=_SKIPS[settings.skip],
        skip_variable=variable,
        timeouts=settings.timeouts,
        at_last=settings.at_last,
        budget=settings.budget if look_back else 0,
        by_pair=by_pair,
        before=settings.before,
        recent=settings.recent,
        kept=settings.kept,
        fan=fan,
        # the longest way of a thread may be another one than the preferred
        tries=2 * tries if settings.timeouts else tries,
        begin=begin,
        end=begin + len(automaton.begins),
    )


class _Tested:
    """The variables that each state tests, one state after the other; the last is the beginning."""

    def __init__(self, automaton: Automaton) -> None:
        states, variable = automaton.states, [each.variable for each in automaton.states]
        lists = [[*(variable[target] for target in each.enter), *each.ends] for each in states]
        lists.append([variable[each] for each in automaton.begins])
        self.count = np.array([len(each) for each in lists])
        self.first = find_bounds(self.count)[:-1]
        self.variable = np.array([each for its in lists for each in its], np.int64)


class PatternMatcher:
    """Matcher of the rows of keys, in the stores of the step; it owns the room for one key's work.

    A condition about the rows matched so far is a program of the kernel. If it cannot be one, it is
    tested by columns for a thread and a row, and the rows of all keys are matched in rounds: the
    first row of each, then the second.
    """

    def __init__(
        self,
        settings: DetectSettings,
        rules: MatchRules,
        programs: Programs,
        conditions: Conditions,
        registers: Registers,
        stores: MatchStores,
    ) -> None:
        automaton = settings.automaton
        self._by_pair = rules.by_pair
        self._programs = programs.tables
        self._states, self._lists = make_states(automaton)
        self._rules = rules
        self._tested = _Tested(automaton)
        self._settings = settings
        self._conditions, self._registers = conditions, registers
        self._stores = stores
        self._work = np.empty((2, 16, THREAD_COLUMNS), np.int64)
        self._slots = np.empty((16, SLOT_COLUMNS), np.int64)
        self._left = np.empty((64, 2), np.int64)
        self._marks = np.zeros((len(automaton.states), 2), np.int64)
        self._counts = np.zeros(layout.COUNTS, np.int64)
        self._no_mask = np.zeros((0, len(automaton.variables)), np.bool_)
        self.same_start = self.not_there = 0

    def run(self, keys: Int64s, rows_at: Int64s, due: Int64s, cti: int) -> MatchOutcome:
        """Match the rows that are due, by key and in order of each, and advance keys to the CTI."""
        if len(due):
            self._conditions.set_inputs(due)
        if not self._by_pair:
            mask = self._conditions.make_mask(due)
            return self._match(keys, rows_at, due, mask, _NO_PAIRS, 0, cti)
        count = np.diff(rows_at)
        left = []
        # the keys with the most rows are in all rounds
        order = np.argsort(-count, kind="stable")
        many = np.searchsorted(-count[order], -np.arange(count.max(initial=0)))
        for number, size in enumerate(many):
            some = order[:size]
            left.append(self._match_round(keys[some], due[rows_at[some] + number]))
        nothing = np.zeros(len(keys) + 1, np.int64)
        outcome = self._match(keys, nothing, due[:0], self._no_mask, _NO_PAIRS, 0, cti)
        return outcome._replace(left=np.concatenate([*left, outcome.left]))

    def _match_round(self, keys: Int64s, row: Int64s) -> Int64s:
        """Match one row of each key; return the matches that leave."""
        stores = self._stores
        first, count = (stores.by_key[keys, each] for each in (THREADS, THREAD_COUNT))
        numbers = list_ranges(first, count)
        threads = stores.threads.records[numbers]
        none = np.full(len(keys), NONE)
        state = np.concatenate([threads[:, STATE], none])
        next_row = np.concatenate([np.repeat(row, count), row])
        node = np.concatenate([threads[:, NODE], none])
        begin = np.concatenate([threads[:, FIRST], row])
        tests = self._tested.count[state]
        of = np.repeat(np.arange(len(state)), tests)
        variable = self._tested.variable[list_ranges(self._tested.first[state], tests)]
        ways = Ways(node[of], variable, next_row[of], begin[of])
        self._start()
        stores.nodes.make_room(1)
        t = self._bind(_NO_NUMBERS, self._no_mask, _NO_PAIRS)
        pairs = self._conditions.test_ways(self._registers, t, ways)
        self._check_sums()
        bounds = find_bounds(tests)
        stores.threads.records[numbers, PAIR] = bounds[: len(threads)]
        at, initial = np.arange(len(keys) + 1), int(bounds[len(threads)])
        return self._match(keys, at, row, self._no_mask, pairs, initial, None).left

    def _match(
        self,
        keys: Int64s,
        rows_at: Int64s,
        due: Int64s,
        mask: Bools,
        pairs: Bools,
        pair: int,
        cti: int | None,
    ) -> MatchOutcome:
        """Call the kernel until it is through; count what it has made."""
        stores, counts = self._stores, self._start()
        wakes = np.empty(len(keys), np.int64)
        finishes, time = cti is not None, MIN_TIME if cti is None else cti
        # if nothing is compiled, numbers wrap and are divided by zero as in machine code
        with np.errstate(all="ignore"):
            while not kernel.match_keys(
                self._bind(wakes, mask, pairs), keys, rows_at, due, pair, time, finishes
            ):
                self._make_room()
        self._check_sums()
        if counts[layout.CROWDED] >= 0:
            raise self._make_error(int(counts[layout.CROWDED]))
        stores.count(counts)
        self.same_start += int(counts[layout.SAME_START])
        self.not_there += int(counts[layout.NOT_THERE])
        left = self._left[: counts[layout.LEFT]].copy()
        return MatchOutcome(left, wakes[: counts[layout.WAKES]])

    def _bind(self, wakes: Int64s, mask: Bools, pairs: Bools) -> MatchTables:
        """Return the arrays of a call, as they are now."""
        stores = self._stores
        registers, code, programs, cells = self._programs
        return MatchTables(
            states=self._states,
            lists=self._lists,
            rules=self._rules,
            rows=stores.rows.array,
            nodes=stores.nodes.array,
            threads=stores.threads.array,
            held=stores.slots.array,
            by_key=stores.by_key,
            hold=stores.hold,
            work=self._work,
            slots=self._slots,
            left=self._left,
            marks=self._marks,
            wakes=wakes,
            counts=self._counts,
            mask=mask,
            pairs=pairs,
            registers=registers,
            code=code,
            programs=programs,
            cells=cells,
            row_floats=stores.rows.array.view(np.float64),
            node_floats=stores.nodes.array.view(np.float64),
            cell_floats=cells.view(np.float64),
        )

    def _start(self) -> Int64s:
        """Return the counts at the beginning of a call."""
        stores, counts = self._stores, self._counts
        stamp = counts[layout.STAMP]
        counts[:] = 0
        counts[layout.STAMP] = stamp
        counts[layout.FREE] = counts[layout.FREE_THREAD] = counts[layout.CROWDED] = NONE
        counts[layout.NODES] = stores.nodes.height
        counts[layout.THREADS_UPTO] = stores.threads.height
        counts[layout.SLOTS_UPTO] = stores.slots.height
        return counts

    def _make_room(self) -> None:
        """Make the room that the kernel needs, and more."""
        stores, counts = self._stores, self._counts
        room = int(counts[layout.WORK_ROOM])
        if room > self._work.shape[1]:
            work = np.empty((2, 2 * room, THREAD_COLUMNS), np.int64)
            work[:, : self._work.shape[1]] = self._work
            self._work = work
        self._slots = grow_rows(self._slots, int(counts[layout.SLOT_ROOM]))
        self._left = grow_rows(self._left, int(counts[layout.LEFT_ROOM]))
        upto = layout.NODE_ROOM, layout.THREAD_ROOM, layout.SLOTS_UPTO
        more = 0, 0, counts[layout.HAVE]
        made = stores.nodes, stores.threads, stores.slots
        for store, number, count in zip(made, upto, more, strict=True):
            store.make_room(int(counts[number] + count) - store.height)

    def take_ways(self, outcome: MatchOutcome) -> tuple[Int64s, Int64s, Int64s]:
        """Return the rows and variables of the matches that have left, and their lengths."""
        last = np.ascontiguousarray(outcome.left[:, layout.LEFT_NODE])
        return kernel_ways.list_ways(self._stores.nodes.array, last)

    def release_matches(self, outcome: MatchOutcome) -> None:
        """Release what only the matches that have left need."""
        counts = self._start()
        last = np.ascontiguousarray(outcome.left[:, layout.LEFT_NODE])
        kernel_ways.release_ways(self._bind(_NO_NUMBERS, self._no_mask, _NO_PAIRS), last)
        self._stores.count(counts)

    def _check_sums(self) -> None:
        """Raise if a sum of integers has overflowed."""
        if self._counts[layout.OVERFLOWED]:
            raise SchemaError(
                f"detect: a sum in a condition of {self._settings.text!r} overflows Int64. Hint: "
                "cast its field to Float64 first with with_columns()."
            )

    def _make_error(self, row: int) -> ArgumentError:
        """Return the error for more ways than the budget allows."""
        values = self._stores.rows.payload(np.array([row])).frame.row(0, named=True)
        key = {name: values[name] for name in self._settings.keys}
        return ArgumentError(
            f"the pattern {self._settings.text!r} has more than {self._settings.budget:,} ways to "
            f"go on from one row{f' of the key {key}' if key else ''}, at {values}: its conditions "
            "depend on the rows matched so far, so that each way has to be followed by itself. "
            "Hint: let fewer variables match one row, or give within= or a bound such as {1,9}."
        )
