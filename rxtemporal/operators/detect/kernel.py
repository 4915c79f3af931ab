"""Matching: threads through the states of an automaton, row by row, in order of preference.

A *thread* is a way in which rows of a key match a beginning of the pattern (R. Pike's machine, as
in R. Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009). It has the number of
its state and a *node*, the last row of its way, which leads to the row before (``ways``). Threads
are in order of preference, so the first that reaches the end of the pattern ends all behind it, and
those before it may still beat it. A row costs the threads alive, whatever comes later: nothing is
tried twice (``threads``).

Matches wait in *slots* until nothing can beat them (``decisions``).

- ``chain``, where the next match begins behind the last row of the one before: a thread that begins
  behind a match that may still be beaten goes on from that slot, and ends with it. So all threads
  are in one order, and two in one state have one future: the second is dropped.
- Otherwise each row at which a match may begin has a slot and threads of its own, and slots are
  decided in order of their rows.

A kernel allocates nothing and gets all arrays as one tuple, ``t``: counting the references to an
array costs more than a step. What it needs for the next row and has not, it asks of its caller, and
then goes on.
"""

from __future__ import annotations

import numpy as np

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.holdings import KEY
from rxtemporal.engine.kernels.compiled import borrow, jit
from rxtemporal.operators.detect.automaton import WAIT
from rxtemporal.operators.detect.decisions import decide
from rxtemporal.operators.detect.layout import (
    AT,
    CROWDED,
    FIRST,
    HAVE,
    KIND,
    LAST_ROW,
    LATER,
    LEFT,
    LEFT_ROOM,
    LINE,
    LIVE,
    LOADED,
    NODE,
    NODE_ROOM,
    NODE_ROW,
    NODES,
    NONE,
    PLACE,
    RECENT,
    ROW_BEFORE,
    ROW_POSITION,
    ROW_START,
    SIDE,
    SLOT,
    SLOT_COMPLETE,
    SLOT_COUNT,
    SLOT_NODE,
    SLOT_ROOM,
    SLOTS,
    SLOTS_GONE,
    SLOTS_UPTO,
    STATE,
    THREAD_COLUMNS,
    THREAD_COUNT,
    THREAD_ROOM,
    THREADS,
    THREADS_GONE,
    THREADS_UPTO,
    WAKE,
    WAKES,
    WORK_ROOM,
    Ints,
    MatchTables,
)
from rxtemporal.operators.detect.threads import expire, is_crowded, step_row
from rxtemporal.operators.detect.ways import release_row


@jit
def group_rows(
    rows: Ints, by_key: Ints, due: Ints, more: Ints, seen: Ints, keys: Ints, rows_at: Ints
) -> tuple[Ints, int]:
    """Return the rows that are due by key, and the number of keys; set the place of each row.

    Rows of a key stay in their order. ``keys`` and ``rows_at`` are filled with the keys, also
    ``more`` of them, and with where the rows of each begin and end. ``seen`` are zeros by key,
    before and after. O(rows and keys that are given).
    """
    count = 0
    rows_at[: len(due) + len(more) + 1] = 0
    for i in range(len(due) + len(more)):
        key = rows[due[i], KEY] if i < len(due) else more[i - len(due)]
        if not seen[key]:
            keys[count] = key
            count += 1
            seen[key] = count
        rows_at[seen[key]] += int(i < len(due))
    for i in range(count):
        rows_at[i + 1] += rows_at[i]
        seen[keys[i]] = rows_at[i]
    ordered = np.empty(len(due), np.int64)
    for i in range(len(due)):
        row, key = due[i], rows[due[i], KEY]
        ordered[seen[key]] = row
        seen[key] += 1
        rows[row, ROW_POSITION] = by_key[key, PLACE]
        rows[row, ROW_BEFORE] = by_key[key, LAST_ROW] if by_key[key, RECENT] else NONE
        by_key[key, LAST_ROW] = row
        by_key[key, PLACE] += 1
        by_key[key, RECENT] += 1
    for i in range(count):
        seen[keys[i]] = 0
    return ordered, count


@borrow
def has_room(t: MatchTables, live: int) -> bool:
    """Return True if there is room for what one row makes of so many threads; note how much."""
    t.counts[WORK_ROOM] = (live + 1) * t.rules.fan
    t.counts[SLOT_ROOM] = t.counts[HAVE] + 2
    t.counts[NODE_ROOM] = t.counts[NODES] + (live + 1) * t.rules.tries
    t.counts[LEFT_ROOM] = t.counts[LEFT] + t.counts[HAVE] + 2
    # each new thread may be one of a queue
    threads = t.counts[WORK_ROOM] if t.rules.queues else live
    t.counts[THREAD_ROOM] = t.counts[THREADS_UPTO] + threads
    return bool(
        t.counts[WORK_ROOM] <= t.work.shape[1]
        and t.counts[SLOT_ROOM] <= t.slots.shape[0]
        and t.counts[NODE_ROOM] <= t.nodes.shape[0]
        and t.counts[LEFT_ROOM] <= t.left.shape[0]
        and t.counts[THREAD_ROOM] <= t.threads.shape[0]
    )


@borrow
def load_key(t: MatchTables, key: int) -> bool:
    """Take the threads and slots of a key to where they are worked on; False if they have no room.

    ``held`` are the slots of all keys.
    """
    first, count = t.by_key[key, THREADS], t.by_key[key, THREAD_COUNT]
    t.counts[WORK_ROOM], t.counts[SLOT_ROOM] = count, t.by_key[key, SLOT_COUNT]
    if count > t.work.shape[1] or t.counts[SLOT_ROOM] > t.slots.shape[0]:
        return False
    for i in range(count):
        for column in range(STATE, THREAD_COLUMNS):
            t.work[0, i, column] = t.threads[first + i, column]
    first = t.by_key[key, SLOTS]
    for i in range(t.counts[SLOT_ROOM]):
        for column in range(SLOT_COMPLETE + 1):
            t.slots[i, column] = t.held[first + i, column]
    t.counts[SIDE], t.counts[LIVE], t.counts[HAVE] = 0, count, t.counts[SLOT_ROOM]
    t.counts[LOADED] = 1
    return True


@borrow
def replace_block(
    t: MatchTables, records: Ints, first: int, old: int, new: int, upto: int, gone: int
) -> int:
    """Return where so many records of a key are put: in place of its old ones, or behind all.

    ``upto`` and ``gone`` are where the numbers of records in use and of those released are counted.
    """
    stay = new if new <= old else 0
    for i in range(stay, old):
        records[first + i, KEY] = NONE
    t.counts[gone] += old - stay
    if new > old:
        first = t.counts[upto]
        t.counts[upto] += new
    return first


@borrow
def store_key(t: MatchTables, key: int) -> None:
    """Take the threads and slots of a key back, for which there is room."""
    side, live, have = t.counts[SIDE], t.counts[LIVE], t.counts[HAVE]
    first = replace_block(
        t, t.threads, t.by_key[key, THREADS], t.by_key[key, THREAD_COUNT], live,
        THREADS_UPTO, THREADS_GONE,
    )  # fmt: skip
    t.by_key[key, THREADS], t.by_key[key, THREAD_COUNT] = first, live
    for i in range(live):
        t.threads[first + i, KEY] = key
        for column in range(STATE, THREAD_COLUMNS):
            t.threads[first + i, column] = t.work[side, i, column]
    first = replace_block(
        t, t.held, t.by_key[key, SLOTS], t.by_key[key, SLOT_COUNT], have, SLOTS_UPTO, SLOTS_GONE
    )
    t.by_key[key, SLOTS], t.by_key[key, SLOT_COUNT] = first, have
    for i in range(have):
        t.held[first + i, KEY] = key
        for column in range(KEY + 1, SLOT_COMPLETE + 1):
            t.held[first + i, column] = t.slots[i, column]


@borrow
def match_rows(t: MatchTables, due: Ints, end: int, pair: int) -> bool:
    """Match the rows of one key up to line ``end``; return False if there is no room.

    The row at which there are too many threads is set among the counts.
    """
    expires = t.rules.within >= 0 or t.rules.max_gap >= 0
    live, side = t.counts[LIVE], t.counts[SIDE]
    has = True
    for line in range(t.counts[LINE], end):
        has = has_room(t, live)
        if not has:
            break
        row = due[line]
        t.counts[LINE] = line + 1
        if expires and live:
            live = expire(t, side, live, t.rows[row, ROW_START])
        step_row(t, side, live, row, line, pair)
        live, side = t.counts[LATER], 1 - side
        if t.rules.budget and is_crowded(t, side, live, t.rules.budget):
            t.counts[CROWDED] = row
            break
        if t.counts[HAVE] and (not live or t.work[side, 0, SLOT]):
            live = decide(t, side, live)
    t.counts[LIVE], t.counts[SIDE] = live, side
    return has


@borrow
def finish_key(t: MatchTables, key: int, cti: int) -> None:
    """Advance a key to a CTI; note when it wakes up, what holds the CTI, and its last rows."""
    live, side = t.counts[LIVE], t.counts[SIDE]
    expires = t.rules.within >= 0 or t.rules.max_gap >= 0
    if live and (expires or cti == MAX_TIME):
        live = expire(t, side, live, cti)
    live = decide(t, side, live)
    t.counts[LIVE] = live
    wake, held = MAX_TIME, MAX_TIME
    for i in range(live):
        waits = t.states[t.work[side, i, STATE], KIND] == WAIT
        first = t.rows[t.work[side, i, FIRST], ROW_START]
        last = t.rows[t.nodes[t.work[side, i, NODE], NODE_ROW], ROW_START]
        if t.rules.within >= 0:
            wake = min(wake, first + t.rules.within)
        if t.rules.max_gap >= 0 and not waits:
            wake = min(wake, last + t.rules.max_gap + 1)
        if not t.rules.at_last:
            held = min(held, first)
        elif waits:
            held = min(held, last)
    for slot in range(t.counts[HAVE]):
        if t.rules.at_last and t.slots[slot, SLOT_NODE] >= 0:
            held = min(held, t.rows[t.nodes[t.slots[slot, SLOT_NODE], NODE_ROW], ROW_START])
    t.hold[key] = held
    if wake < t.by_key[key, WAKE]:
        t.by_key[key, WAKE] = wake
        t.wakes[t.counts[WAKES]] = key
        t.counts[WAKES] += 1
    keep_recent(t, key, t.rules.recent if live else t.rules.kept)


@borrow
def keep_recent(t: MatchTables, key: int, size: int) -> None:
    """Let a key need so many of its last rows, and no others."""
    row = t.by_key[key, LAST_ROW]
    for back in range(t.by_key[key, RECENT]):
        before = t.rows[row, ROW_BEFORE]
        if back >= size:
            release_row(t, row)
        row = before
    t.by_key[key, RECENT] = min(t.by_key[key, RECENT], size)


@jit
def match_keys(
    t: MatchTables, keys: Ints, rows_at: Ints, due: Ints, pair: int, cti: int, finishes: bool
) -> bool:
    """Match the rows of several keys, in order of each; False if there is no room to go on.

    ``due`` are the rows by key, those of ``keys[i]`` from number ``rows_at[i]`` on; ``mask[line,
    variable]`` says which of them satisfy which variables. By pair, ``pairs`` has the tests of each
    thread, and from number ``pair`` on those of the initial states for each key. If it
    ``finishes``, keys are advanced to the CTI. Costs for each row the threads of its key, which are
    as many as the states if threads merge across starts.
    """
    begins = t.rules.end - t.rules.begin
    while t.counts[AT] < len(keys) and t.counts[CROWDED] < 0:
        at = t.counts[AT]
        key = keys[at]
        if not t.counts[LOADED]:
            if not load_key(t, key):
                return False
            t.counts[LINE] = rows_at[at]
        if not match_rows(t, due, rows_at[at + 1], pair + at * begins):
            return False
        if not has_room(t, t.counts[LIVE]) or (
            t.counts[SLOTS_UPTO] + t.counts[HAVE] > t.held.shape[0]
        ):
            return False
        if finishes:
            finish_key(t, key, cti)
        store_key(t, key)
        t.counts[LOADED] = 0
        t.counts[AT] += 1
    return True
