"""Layout of the records that kernels share with the step: what each column holds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.holdings import KEY

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# a row: its start; the row before in its key (-1: none), which holds only as long as that is held;
# how many need the row: the nodes, and its key while it is one of the last; its place in the key
ROW_START, ROW_BEFORE, ROW_REFS, ROW_POSITION = range(KEY + 1, KEY + 5)
# behind are the inputs of programs: the bits of a value, and 0 if it is null
ROW_VALUES = KEY + 5
# a node: the row, its variable, the node before, how many need the node, and how many rows lead up
# to it; registers are behind
NODE_ROW, NODE_VARIABLE, NODE_PARENT, NODE_REFS, NODE_LENGTH = range(KEY + 1, KEY + 6)
REGISTERS = KEY + 6
# with queues, where nothing has registers: its place in the list of states behind the node before;
# its place in the list of states that take the next row; a node further up its way
NODE_OUT, NODE_ENTER, NODE_JUMP = range(REGISTERS, REGISTERS + 3)
BRANCH_COLUMNS = 3
# a thread: its state; the first row and the last node of its way; its slot; where its tests are
# among the pairs; the last node of the longest way that has its future (of ``timeouts`` alone); the
# place of its state in the list of states behind its node; the first and the last of its queue
STATE, FIRST, NODE, SLOT, PAIR, LONGEST, OUT_PLACE, QUEUE_HEAD, QUEUE_TAIL = range(
    KEY + 1, KEY + 10
)
THREAD_COLUMNS = KEY + 10
# of a thread in a queue: the one behind it and the one before
QUEUE_NEXT, QUEUE_BEFORE = QUEUE_HEAD, QUEUE_TAIL
# a slot: the first row; the last node of its match (-1: none); 1 if that is complete
SLOT_FIRST, SLOT_NODE, SLOT_COMPLETE = range(KEY + 1, KEY + 4)
SLOT_COLUMNS = KEY + 4

# a register: its kind, the variable whose rows it is of, the column of the rows that has its value
# (-1: none), and what it is before the first one
REGISTER_KIND, REGISTER_VARIABLE, REGISTER_COLUMN, EMPTY = range(4)
# kinds of registers: as many of floats, of the next number; a number of rows, or of values; a row
# or a node
COUNT, SUM, LEAST, GREATEST, FIRST_ROW, LAST_NODE = range(0, 12, 2)
REGISTER_KINDS = {
    "count": COUNT, "sum": SUM, "min": LEAST, "max": GREATEST, "first": FIRST_ROW,
    "last": LAST_NODE,
}  # fmt: skip
# an instruction: what it does, the slot of its result, and on what; and how many rows to go back
OPERATION, TARGET, LEFT_SLOT, RIGHT_SLOT, FURTHER = range(5)
# what instructions do: of floats it is the next number
(
    OWN, OF_ROW, LAST, NUMBER, MATCH_START, MEAN, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE, ABSOLUTE,
    TO_FLOAT, EQUAL, DIFFER, LESS, NOT_ABOVE, AND, OR, NOT, IS_NULL, IS_NOT_NULL, FILL,
) = range(0, 46, 2)  # fmt: skip
# of a key: its last row, and how many of its last rows it needs; the position of its next row; its
# next wake-up; the first of its threads, which follow each other, and their count; its slots
LAST_ROW, RECENT, PLACE, WAKE, THREADS, THREAD_COUNT, SLOTS, SLOT_COUNT = range(8)
# a match that leaves: the node, whether it is complete
LEFT_NODE, LEFT_COMPLETE = range(2)

# a state of the automaton: its kind, its variable, and where the states that take the next row,
# those after its own row, and the variables that end it, begin and end in the lists
KIND, VARIABLE, ENTER, ENTER_END, OUT, OUT_END, ENDS, ENDS_END = range(8)
STATE_COLUMNS = 8
# no node, no row
NONE = -1
# skips
NEXT, PAST_LAST, TO_FIRST, TO_LAST = range(4)

# what a call of the kernel counts: where it is, the threads and slots of the key it is at, the
# numbers of records and those released, what it has found, 1 if a sum has overflowed, and how much
# room the next row needs
(
    AT, LINE, LOADED, SIDE, LIVE, LATER, HAVE, STAMP,
    ROWS_GONE, NODES, NODES_GONE, FREE, THREADS_UPTO, THREADS_GONE, FREE_THREAD,
    SLOTS_UPTO, SLOTS_GONE,
    LEFT, WAKES, SAME_START, NOT_THERE, CROWDED,
    OVERFLOWED, WORK_ROOM, SLOT_ROOM, NODE_ROOM, LEFT_ROOM, THREAD_ROOM,
) = range(28)  # fmt: skip
COUNTS = 28


class MatchRules(NamedTuple):
    """The settings of a pattern; spans in ticks, -1 for none.

    ``chain``: the next match begins behind the last row of the one before, and all threads are in
    one order; ``across``: threads in one state have one future though their starts differ.
    ``merges``: of threads in one state, and of one start unless ``across``, one is enough;
    ``queues``: one at a time, since another may be needed when that one ends.
    ``budget``: the most threads of one start, 0 without a limit. ``by_pair``: tests are those of a
    thread and a variable, made by the caller. ``before``: how many rows before a matched one are
    needed; ``recent``: how many last rows of a key while a match may go on, and ``kept`` always.
    ``fan`` is how many threads one thread becomes at most, and ``tries`` how many nodes it makes.
    ``begin`` to ``end`` are the states that take the first row, in the list of states.
    """

    within: int
    max_gap: int
    chain: bool
    across: bool
    merges: bool
    queues: bool
    skip: int
    skip_variable: int
    timeouts: bool
    at_last: bool
    budget: int
    by_pair: bool
    before: int
    recent: int
    kept: int
    fan: int
    tries: int
    begin: int
    end: int


class MatchTables(NamedTuple):
    """All that a call of the kernel reads and writes, bound once.

    ``states`` and ``lists`` are the automaton; ``rows``, ``nodes``, ``threads`` and ``held``, the
    slots, are the records of all keys, and ``by_key`` and ``hold`` those by key. ``work`` and
    ``slots`` are the threads and slots of the key at which the kernel is, and ``marks`` the last
    thread in each state. ``left`` are the matches that leave, ``wakes`` the keys with a new time to
    wake up. ``mask[line, variable]`` says which rows satisfy which variables; of those with a
    program, ``programs[variable]`` says where it begins and ends in ``code``. It computes in
    ``cells``, with ``registers``. By pair, ``pairs`` has the tests of each thread. ``row_floats``,
    ``node_floats`` and ``cell_floats`` are the same memory, to read bits as floats.
    """

    states: Ints
    lists: Ints
    rules: MatchRules
    rows: Ints
    nodes: Ints
    threads: Ints
    held: Ints
    by_key: Ints
    hold: Ints
    work: Ints
    slots: Ints
    left: Ints
    marks: Ints
    wakes: Ints
    counts: Ints
    mask: Bools
    pairs: Bools
    registers: Ints
    code: Ints
    programs: Ints
    cells: Ints
    row_floats: Floats
    node_floats: Floats
    cell_floats: Floats
