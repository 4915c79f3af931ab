"""detect: rows of a key in order, and the matches of a pattern among them."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, PART, ByKey, Entries, Held, StoredRows
from rxtemporal.engine.key_store import follow
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.detect import kernel
from rxtemporal.operators.detect.automaton import WAIT
from rxtemporal.operators.detect.conditions import Conditions
from rxtemporal.operators.detect.matcher import (
    NODE_KEY,
    NODE_PARENT,
    NODE_ROW,
    NODE_VARIABLE,
    REGISTERS,
    MatchOutcome,
    PatternMatcher,
    find_bounds,
    find_least,
    list_ranges,
)
from rxtemporal.operators.detect.registers import Registers
from rxtemporal.operators.detect.results import Matches, Results
from rxtemporal.operators.detect.row_values import (
    ROW_BEFORE,
    ROW_KEY,
    ROW_POSITION,
    ROW_RECENT,
    ROW_REFS,
    ROW_START,
    RowValues,
)
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.scan.ordered_step import sort_rows

# how many columns a thread and a slot have
_THREAD_COLUMNS, _SLOT_COLUMNS = 6, 3
# by key: what the step knows of it, and of a new one
_LAST_ROW, _PLACE, _WAKE, _HOLD = range(4)
_FILLS = (-1, 0, MAX_TIME, MAX_TIME)


class Blocks(Stateful):
    """Entries of keys: a run of consecutive entries for each key, replaced as a whole.

    Of ``columns`` columns, ``row`` has numbers of rows and ``node`` those of nodes. The key is
    behind them.
    """

    def __init__(self, columns: int, space: str, row: int, node: int) -> None:
        self._entries = RowStore([np.int64] * (columns + 1))
        self._first, self._count = np.zeros(0, np.int64), np.zeros(0, np.int64)
        kinds: dict[str, Held] = {
            "_entries": StoredRows(key=columns, refs={row: "row", node: "node"}, space=space),
            "_first": ByKey(-1, refs=space),
            "_count": ByKey(0),
        }
        self.held = MappingProxyType(kinds)

    def grow(self, keys: int) -> None:
        """Make room for so many keys."""
        self._first, self._count = grow(self._first, keys, -1), grow(self._count, keys, 0)

    def list_keys(self) -> Int64s:
        """Return the keys that have entries."""
        return np.flatnonzero(self._count)

    def list_entries(self) -> Int64s:
        """Return the numbers of all entries, by key."""
        keys = self.list_keys()
        return list_ranges(self._first[keys], self._count[keys])

    @property
    def columns(self) -> list[Int64s]:
        """The columns of all entries."""
        return self._entries.columns

    def pop(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Remove and return the entries of keys, ``int64[n, columns]``, and the bounds of each."""
        count = self._count[keys]
        numbers = list_ranges(self._first[keys], count)
        *columns, _ = self._entries.columns
        entries = np.empty((len(numbers), len(columns)), np.int64)
        for place, column in enumerate(columns):
            entries[:, place] = column[numbers]
        self._entries.release(numbers)
        self._count[keys] = 0
        return entries, find_bounds(count)

    def put(self, keys: Int64s, entries: Int64s, bounds: Int64s) -> None:
        """Add the entries of keys that have none."""
        count = np.diff(bounds)
        first = self._entries.extend([*entries.T, np.repeat(keys, count)])
        self._first[keys] = first + bounds[:-1]
        self._count[keys] = count

    def compact(self) -> None:
        """Renumber the entries if most are gone."""
        new = self._entries.compact()
        if new is not None:
            self._first = np.where(self._count > 0, follow(new, self._first), -1)

    def renumber(self, column: int, new: Int64s) -> None:
        """Give entries the new numbers of what they refer to in a column."""
        numbers = self._entries.columns[column]
        numbers[:] = follow(new, numbers)


class DetectStep(Stateful):
    """Finds the matches of a pattern in the rows of each key, and lets them leave when final.

    Rows of a key come in order of (start, payload), when the CTI has passed their start. Holds the
    rows that wait for it, the rows of ways that may become a match or may be beaten, and the last
    rows of a key where a condition looks back.
    """

    def __init__(self, settings: DetectSettings) -> None:
        schema = settings.schema
        self._coder = KeyCoder({key: schema[key] for key in settings.keys})
        self._settings = settings
        self._rows = RowStore([np.int64] * 6, schema)
        self._starts = Queue()
        values = RowValues(self._rows, schema, settings.time)
        self._results = Results(settings, values)
        self._registers = Registers(settings, values, REGISTERS)
        self._nodes = RowStore([np.int64] * REGISTERS + self._registers.dtypes)
        conditions = Conditions(settings, values)
        self._matcher = PatternMatcher(
            settings, conditions, self._registers, self._rows, self._nodes
        )
        self._threads = Blocks(_THREAD_COLUMNS, "thread", kernel.FIRST, kernel.NODE)
        self._slots = Blocks(_SLOT_COLUMNS, "slot", kernel.SLOT_FIRST, kernel.SLOT_NODE)
        # by key: the last row, the place of the next one, the next wake-up, what holds the CTI
        self._by_key = [np.zeros(0, np.int64) for _ in range(4)]
        # times at which a thread of a key ends without a row
        self._wakes = Queue()
        self.held = MappingProxyType(self._list_held())

    def _list_held(self) -> dict[str, Held]:
        refs = {NODE_ROW: "row", NODE_PARENT: "node", **self._registers.refs}
        return {
            "_coder": KEYS,
            "_rows": StoredRows(key=ROW_KEY, refs={ROW_BEFORE: "row"}),
            "_starts": Entries(),
            "_nodes": StoredRows(key=NODE_KEY, refs=refs, space="node"),
            "_threads": PART,
            "_slots": PART,
            "_by_key": ByKey(fills=_FILLS, refs="row", listed=(_LAST_ROW,)),
            "_wakes": Entries("key"),
        }

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return len(self._rows)

    @property
    def counts(self) -> dict[str, int]:
        """Matches after which ``skip`` could not lead to its variable, by reason.

        That is the first row of the match itself, or not in it.
        """
        found = {
            "skips to the same start": self._matcher.same_start,
            "skips to a variable that is not in the match": self._matcher.not_there,
        }
        return {name: int(count) for name, count in found.items() if count}

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows; return the matches that are final."""
        self._keep(batch.take_begins())
        due = self._pop_due(batch.cti)
        keys = self._find_keys(due, batch.cti)
        made = EventBatch.empty(self._settings.output, batch.cti, batch.keys)
        if len(keys):
            made = self._match(keys, due, batch)
            self._compact()
        if self._coder.is_full:
            self._forget_keys()
        holds = self._by_key[_HOLD]
        return made.replace(cti=int(min(batch.cti, holds.min(initial=MAX_TIME))))

    def _keep(self, batch: EventBatch) -> None:
        key = self._coder.encode(batch.columns)
        count = len(self._coder)
        self._by_key = [
            grow(column, count, fill) for column, fill in zip(self._by_key, _FILLS, strict=True)
        ]
        self._threads.grow(count)
        self._slots.grow(count)
        numbers = self._rows.append([batch.start, key, -1, 0, 0, 0], batch.columns)
        self._starts.push(batch.start, numbers)

    def _pop_due(self, cti: int) -> Int64s:
        """Return the rows that start before the CTI, by key, and in the order of each."""
        _, due = self._starts.pop_due(cti)
        if not len(due):
            return due
        start, key = (self._rows.columns[place][due] for place in (ROW_START, ROW_KEY))
        none = np.zeros(len(due), np.bool_)
        order = sort_rows(start, start, none, self._rows.payload(due).frame)
        order = order[np.argsort(key[order], kind="stable")]
        due = due[order]
        self._place(due, key[order])
        return due

    def _place(self, due: Int64s, key: Int64s) -> None:
        """Set the place of the rows that are due in their keys, and the row before each."""
        first = np.flatnonzero(np.diff(key, prepend=-1))
        count = np.diff(first, append=len(key))
        keys = key[first]
        columns, last = self._rows.columns, self._by_key[_LAST_ROW]
        places = self._by_key[_PLACE]
        columns[ROW_POSITION][due] = list_ranges(places[keys], count)
        places[keys] += count
        if not self._settings.recent:
            return
        before = np.concatenate([[-1], due[:-1]])
        old = last[keys]
        is_recent = columns[ROW_RECENT][np.maximum(old, 0)] == 1
        before[first] = np.where((old >= 0) & is_recent, old, -1)
        columns[ROW_BEFORE][due] = before
        columns[ROW_RECENT][due] = 1
        last[keys] = due[first + count - 1]

    def _find_keys(self, due: Int64s, cti: int) -> Int64s:
        """Return the keys in which something happens, in order."""
        _, wakes = self._wakes.pop_due(cti + 1)
        self._by_key[_WAKE][wakes] = MAX_TIME
        found = [self._rows.columns[ROW_KEY][due], wakes]
        if cti == MAX_TIME:
            found.append(self._threads.list_keys())
        return np.unique(np.concatenate(found))

    def _match(self, keys: Int64s, due: Int64s, batch: EventBatch) -> EventBatch:
        """Match the rows of keys; return the matches that leave."""
        key = self._rows.columns[ROW_KEY][due]
        bounds = np.searchsorted(key, np.append(keys, len(self._coder)))
        threads, slots = self._threads.pop(keys), self._slots.pop(keys)
        outcome = self._matcher.run(keys, due, bounds, threads, slots, batch.cti)
        made = EventBatch.empty(self._settings.output, batch.cti, batch.keys)
        if len(outcome.left):
            made = self._make_results(outcome.left, batch)
            self._matcher.drop_matches(outcome)
        self._threads.put(keys, *outcome.threads)
        self._slots.put(keys, *outcome.slots)
        self._note_wakes(keys, *outcome.threads)
        self._note_holds(keys, outcome.threads, outcome.slots)
        self._release(keys, due, outcome)
        return made

    def _make_results(self, left: Int64s, batch: EventBatch) -> EventBatch:
        node, complete = left[:, 1], left[:, 2]
        columns = self._nodes.columns
        found, length = kernel.list_ways(node, columns[NODE_PARENT])
        matches = Matches(columns[NODE_ROW][found], columns[NODE_VARIABLE][found], length, complete)
        start = self._rows.columns[ROW_START]
        if self._settings.all_rows:
            begin = start[matches.row]
            end = begin + TICK
        else:
            end = start[matches.last] + TICK
            begin = end - TICK if self._settings.at_last else start[matches.first]
        payload = self._make_payload(matches)
        return EventBatch.of_rows(begin, end, payload, batch.cti, batch.keys)

    def _make_payload(self, matches: Matches) -> pl.DataFrame:
        """Return the fields of the results."""
        return self._results.make(matches)

    def _note_wakes(self, keys: Int64s, threads: Int64s, bounds: Int64s) -> None:
        """Queue each key for the time at which its first thread ends without a row."""
        settings = self._settings
        if not len(threads) or (settings.within < 0 and settings.max_gap < 0):
            return
        time = np.full(len(threads), MAX_TIME)
        if settings.within >= 0:
            start = self._rows.columns[ROW_START][threads[:, kernel.FIRST]]
            time = np.minimum(time, start + settings.within)
        if settings.max_gap >= 0:
            waits = self._matcher.states.kind[threads[:, kernel.STATE]] == WAIT
            end = threads[:, kernel.LAST] + settings.max_gap + 1
            time = np.where(waits, time, np.minimum(time, end))
        first = find_least(time, bounds)
        wake = self._by_key[_WAKE]
        earlier = first < wake[keys]
        wake[keys[earlier]] = first[earlier]
        self._wakes.push(first[earlier], keys[earlier])

    def _note_holds(
        self, keys: Int64s, threads: tuple[Int64s, Int64s], slots: tuple[Int64s, Int64s]
    ) -> None:
        """Note for each key the time above which the CTI must not go."""
        start = self._rows.columns[ROW_START]
        hold = self._by_key[_HOLD]
        if not self._settings.at_last:
            hold[keys] = find_least(start[threads[0][:, kernel.FIRST]], threads[1])
            return
        node = slots[0][:, kernel.SLOT_NODE]
        row = self._nodes.columns[NODE_ROW]
        time = np.full(len(node), MAX_TIME)
        time[node >= 0] = start[row[node[node >= 0]]]
        may_leave = self._matcher.states.kind[threads[0][:, kernel.STATE]] == WAIT
        may_leave |= self._settings.timeouts
        last = np.where(may_leave, threads[0][:, kernel.LAST], MAX_TIME)
        hold[keys] = np.minimum(find_least(time, slots[1]), find_least(last, threads[1]))

    def _release(self, keys: Int64s, due: Int64s, outcome: MatchOutcome) -> None:
        """Release the rows that nothing needs."""
        columns = self._rows.columns
        rows = [due, *outcome.freed_rows]
        if self._settings.recent:
            rows += self._note_recent(keys, due, np.diff(outcome.threads[1]) > 0)
        found = np.unique(np.concatenate(rows))
        gone = (columns[ROW_REFS][found] == 0) & (columns[ROW_RECENT][found] == 0)
        self._rows.release(found[gone])

    def _note_recent(self, keys: Int64s, due: Int64s, is_live: Bools) -> list[Int64s]:
        """Note the last rows of keys as recent, and no others; return those that may be over."""
        settings, columns = self._settings, self._rows.columns
        before, recent = columns[ROW_BEFORE], columns[ROW_RECENT]
        size = np.where(is_live, settings.recent, settings.kept)
        row, rows = self._by_key[_LAST_ROW][keys], []
        walked = list[tuple[Int64s, Bools]]()
        # rows that were recent are up to so many behind the first one that is due
        for back in range(settings.recent):
            row = np.where((row >= 0) & (recent[np.maximum(row, 0)] == 1), row, -1)
            walked.append((row, size > back))
            row = np.where(row >= 0, before[np.maximum(row, 0)], -1)
        old = before[due[np.flatnonzero(np.diff(columns[ROW_KEY][due], prepend=-1))]]
        for _ in range(settings.recent):
            old = old[old >= 0]
            old = old[recent[old] == 1]
            rows.append(old)
            old = before[old]
        recent[due] = 0
        for each in rows:
            recent[each] = 0
        for each, stays in walked:
            rows.append(each[each >= 0])
            recent[each[each >= 0]] = stays[each >= 0]
        return rows

    def _compact(self) -> None:
        """Renumber rows, nodes, threads and slots if most are gone."""
        self._threads.compact()
        self._slots.compact()
        new = self._nodes.compact()
        if new is not None:
            self._threads.renumber(kernel.NODE, new)
            self._slots.renumber(kernel.SLOT_NODE, new)
            self._renumber_nodes("node", new)
        new = self._rows.compact()
        if new is not None:
            self._starts.renumber(new)
            self._threads.renumber(kernel.FIRST, new)
            self._slots.renumber(kernel.SLOT_FIRST, new)
            self._renumber_nodes("row", new)
            for column in (self._rows.columns[ROW_BEFORE], self._by_key[_LAST_ROW]):
                column[:] = follow(new, column)

    def _renumber_nodes(self, space: str, new: Int64s) -> None:
        refs = {NODE_ROW: "row", NODE_PARENT: "node", **self._registers.refs}
        for place, of in refs.items():
            if of == space:
                numbers = self._nodes.columns[place]
                numbers[:] = follow(new, numbers)

    def _forget_keys(self) -> None:
        """Forget the keys of which no row is held."""
        held = np.zeros(len(self._coder), np.bool_)
        self._rows.mark_keys(ROW_KEY, held)
        self.drop_keys(self._coder.forget(held))
