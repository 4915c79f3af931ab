"""Stores of a step of detect: rows, nodes, threads and slots, and a record for each key."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.holdings import KEY, ByKey, KeyRecords, StoredRows
from rxtemporal.engine.key_store import follow_in_place
from rxtemporal.engine.record_store import RecordStore
from rxtemporal.engine.rows import grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.detect import layout
from rxtemporal.operators.detect.conditions import Registers
from rxtemporal.operators.detect.layout import (
    BRANCH_COLUMNS,
    FIRST,
    LAST_ROW,
    LONGEST,
    NODE,
    NODE_JUMP,
    NODE_PARENT,
    NODE_ROW,
    QUEUE_HEAD,
    QUEUE_TAIL,
    REGISTERS,
    ROW_BEFORE,
    SLOT_COLUMNS,
    SLOT_COUNT,
    SLOT_FIRST,
    SLOT_NODE,
    SLOTS,
    THREAD_COLUMNS,
    THREAD_COUNT,
    THREADS,
)

_BY_KEY = KeyRecords(
    (-1, 0, 0, MAX_TIME, -1, 0, -1, 0), {LAST_ROW: "row", THREADS: "thread", SLOTS: "slot"}
)


def list_ranges(first: Int64s, count: Int64s) -> Int64s:
    """Return the numbers first, first + 1 … of each range, one range after the other."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Int64s = np.arange(total) + np.repeat(first - (ends - count), count)
    return numbers


class MatchStores(Stateful):
    """The records that kernels read and write, as ``layout`` describes them.

    ``by_key`` has a record for each key, and ``hold`` the time above which the CTI must not go
    because of it. Threads and slots of a key are one behind the other, but for the threads in
    queues.
    """

    def __init__(self, rows: RecordStore, registers: Registers, *, queues: bool) -> None:
        # a condition about the rows matched so far, which needs registers, keeps all ways apart
        assert not queues or not len(registers)
        branch = BRANCH_COLUMNS if queues else 0
        self.rows, self.nodes = rows, RecordStore(REGISTERS + len(registers) + branch)
        self.threads, self.slots = RecordStore(THREAD_COLUMNS), RecordStore(SLOT_COLUMNS)
        self.by_key = np.zeros((0, SLOT_COUNT + 1), np.int64)
        self.hold = np.zeros(0, np.int64)
        jumps = {NODE_JUMP: "node"} if queues else {}
        nodes = {NODE_ROW: "row", NODE_PARENT: "node", **registers.refs, **jumps}
        threads = {FIRST: "row", NODE: "node", LONGEST: "node"}
        threads |= {QUEUE_HEAD: "thread", QUEUE_TAIL: "thread"}
        slots = {SLOT_FIRST: "row", SLOT_NODE: "node"}
        self._stored = {
            "rows": StoredRows(KEY, {ROW_BEFORE: "row"}),
            "nodes": StoredRows(KEY, nodes, "node"),
            "threads": StoredRows(KEY, threads, "thread"),
            "slots": StoredRows(KEY, slots, "slot"),
        }
        self.held = MappingProxyType({**self._stored, "by_key": _BY_KEY, "hold": ByKey(MAX_TIME)})

    def grow(self, keys: int) -> None:
        """Make room for so many keys."""
        self.by_key = _BY_KEY.grow(self.by_key, keys)
        self.hold = grow(self.hold, keys, MAX_TIME)

    def list_live(self) -> Int64s:
        """Return the keys that have threads."""
        return np.flatnonzero(self.by_key[:, THREAD_COUNT])

    def count(self, counts: Int64s) -> None:
        """Count the records that a kernel has made and released."""
        self.rows.count(self.rows.height, int(counts[layout.ROWS_GONE]))
        self.nodes.count(*(int(counts[n]) for n in (layout.NODES, layout.NODES_GONE)))
        upto = layout.THREADS_UPTO, layout.THREADS_GONE
        self.threads.count(*(int(counts[number]) for number in upto))
        self.slots.count(*(int(counts[n]) for n in (layout.SLOTS_UPTO, layout.SLOTS_GONE)))

    def compact(self) -> Int64s | None:
        """Renumber the records of which most are gone; return the new numbers of rows, or None."""
        found = None
        for name, stored in self._stored.items():
            new = getattr(self, name).compact()
            if new is None:
                continue
            self._renumber(stored.space, new)
            if name == "rows":
                found = new
        return found

    def _renumber(self, space: str, new: Int64s) -> None:
        """Give new numbers to all that refers to the records of a space."""
        owners = [(getattr(self, name).records, each.refs) for name, each in self._stored.items()]
        for records, refs in [*owners, (self.by_key, _BY_KEY.refs)]:
            columns = [column for column, of in refs.items() if of == space]
            if columns:
                follow_in_place(new, records, columns)
