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

A kernel allocates nothing and binds each array once: counting the references to an array costs more
than a step. What it needs for the next row and has not, it asks of its caller, and then goes on.
"""

from __future__ import annotations

import numpy as np

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import borrow, jit
from rxtemporal.engine.records import KEY
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
    LONGEST,
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
    THREAD_COUNT,
    THREADS,
    THREADS_GONE,
    THREADS_UPTO,
    WAKE,
    WAKES,
    WORK_ROOM,
    Bools,
    Ints,
    MatchRules,
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
def has_room(
    rules: MatchRules, nodes: Ints, work: Ints, slots: Ints, left: Ints, counts: Ints, live: int
) -> bool:
    """Return True if there is room for what one row makes of so many threads; note how much."""
    counts[WORK_ROOM] = (live + 1) * rules.fan
    counts[SLOT_ROOM] = counts[HAVE] + 2
    counts[NODE_ROOM] = counts[NODES] + (live + 1) * rules.tries
    counts[LEFT_ROOM] = counts[LEFT] + counts[HAVE] + 2
    return bool(
        counts[WORK_ROOM] <= work.shape[1]
        and counts[SLOT_ROOM] <= slots.shape[0]
        and counts[NODE_ROOM] <= nodes.shape[0]
        and counts[LEFT_ROOM] <= left.shape[0]
    )


@borrow
def load_key(
    by_key: Ints, threads: Ints, held: Ints, work: Ints, slots: Ints, counts: Ints, key: int
) -> bool:
    """Take the threads and slots of a key to where they are worked on; False if they have no room.

    ``held`` are the slots of all keys.
    """
    first, count = by_key[key, THREADS], by_key[key, THREAD_COUNT]
    counts[WORK_ROOM], counts[SLOT_ROOM] = count, by_key[key, SLOT_COUNT]
    if count > work.shape[1] or counts[SLOT_ROOM] > slots.shape[0]:
        return False
    for i in range(count):
        for column in range(STATE, LONGEST + 1):
            work[0, i, column] = threads[first + i, column]
    first = by_key[key, SLOTS]
    for i in range(counts[SLOT_ROOM]):
        for column in range(SLOT_COMPLETE + 1):
            slots[i, column] = held[first + i, column]
    counts[SIDE], counts[LIVE], counts[HAVE] = 0, count, counts[SLOT_ROOM]
    counts[LOADED] = 1
    return True


@borrow
def replace_block(
    records: Ints, counts: Ints, first: int, old: int, new: int, upto: int, gone: int
) -> int:
    """Return where so many records of a key are put: in place of its old ones, or behind all.

    ``upto`` and ``gone`` are where the numbers of records in use and of those released are counted.
    """
    stay = new if new <= old else 0
    for i in range(stay, old):
        records[first + i, KEY] = NONE
    counts[gone] += old - stay
    if new > old:
        first = counts[upto]
        counts[upto] += new
    return first


@borrow
def store_key(
    by_key: Ints, threads: Ints, held: Ints, work: Ints, slots: Ints, counts: Ints, key: int
) -> None:
    """Take the threads and slots of a key back, for which there is room."""
    side, live, have = counts[SIDE], counts[LIVE], counts[HAVE]
    first = replace_block(
        threads, counts, by_key[key, THREADS], by_key[key, THREAD_COUNT], live,
        THREADS_UPTO, THREADS_GONE,
    )  # fmt: skip
    by_key[key, THREADS], by_key[key, THREAD_COUNT] = first, live
    for i in range(live):
        threads[first + i, KEY] = key
        for column in range(STATE, LONGEST + 1):
            threads[first + i, column] = work[side, i, column]
    first = replace_block(
        held, counts, by_key[key, SLOTS], by_key[key, SLOT_COUNT], have, SLOTS_UPTO, SLOTS_GONE
    )
    by_key[key, SLOTS], by_key[key, SLOT_COUNT] = first, have
    for i in range(have):
        held[first + i, KEY] = key
        for column in range(KEY + 1, SLOT_COMPLETE + 1):
            held[first + i, column] = slots[i, column]


@borrow
def match_rows(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    slots: Ints,
    left: Ints,
    marks: Ints,
    counts: Ints,
    due: Ints,
    mask: Bools,
    pairs: Bools,
    end: int,
    pair: int,
) -> bool:
    """Match the rows of one key up to line ``end``; return False if there is no room.

    The row at which there are too many threads is set among the counts.
    """
    expires = rules.within >= 0 or rules.max_gap >= 0
    live, side = counts[LIVE], counts[SIDE]
    has = True
    for line in range(counts[LINE], end):
        has = has_room(rules, nodes, work, slots, left, counts, live)
        if not has:
            break
        row = due[line]
        counts[LINE] = line + 1
        if expires and live:
            live = expire(
                states, rules, rows, nodes, work, side, slots, counts, live, rows[row, ROW_START]
            )
        step_row(
            states, lists, rules, rows, nodes, work, side, slots, marks, counts,
            mask, pairs, live, row, line, pair,
        )  # fmt: skip
        live, side = counts[LATER], 1 - side
        if rules.budget and is_crowded(work, side, live, rules.budget):
            counts[CROWDED] = row
            break
        if counts[HAVE] and (not live or work[side, 0, SLOT]):
            live = decide(rules, rows, nodes, work, side, slots, left, counts, live)
    counts[LIVE], counts[SIDE] = live, side
    return has


@borrow
def finish_key(
    states: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    by_key: Ints,
    hold: Ints,
    work: Ints,
    slots: Ints,
    left: Ints,
    wakes: Ints,
    counts: Ints,
    key: int,
    cti: int,
) -> None:
    """Advance a key to a CTI; note when it wakes up, what holds the CTI, and its last rows."""
    live, side = counts[LIVE], counts[SIDE]
    expires = rules.within >= 0 or rules.max_gap >= 0
    if live and (expires or cti == MAX_TIME):
        live = expire(states, rules, rows, nodes, work, side, slots, counts, live, cti)
    live = decide(rules, rows, nodes, work, side, slots, left, counts, live)
    counts[LIVE] = live
    wake, held = MAX_TIME, MAX_TIME
    for i in range(live):
        waits = states[work[side, i, STATE], KIND] == WAIT
        first = rows[work[side, i, FIRST], ROW_START]
        last = rows[nodes[work[side, i, NODE], NODE_ROW], ROW_START]
        if rules.within >= 0:
            wake = min(wake, first + rules.within)
        if rules.max_gap >= 0 and not waits:
            wake = min(wake, last + rules.max_gap + 1)
        if not rules.at_last:
            held = min(held, first)
        elif waits:
            held = min(held, last)
    for slot in range(counts[HAVE]):
        if rules.at_last and slots[slot, SLOT_NODE] >= 0:
            held = min(held, rows[nodes[slots[slot, SLOT_NODE], NODE_ROW], ROW_START])
    hold[key] = held
    if wake < by_key[key, WAKE]:
        by_key[key, WAKE] = wake
        wakes[counts[WAKES]] = key
        counts[WAKES] += 1
    keep_recent(rows, by_key, counts, key, rules.recent if live else rules.kept)


@borrow
def keep_recent(rows: Ints, by_key: Ints, counts: Ints, key: int, size: int) -> None:
    """Let a key need so many of its last rows, and no others."""
    row = by_key[key, LAST_ROW]
    for back in range(by_key[key, RECENT]):
        before = rows[row, ROW_BEFORE]
        if back >= size:
            release_row(rows, counts, row)
        row = before
    by_key[key, RECENT] = min(by_key[key, RECENT], size)


@jit
def match_keys(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    threads: Ints,
    held: Ints,
    by_key: Ints,
    hold: Ints,
    keys: Ints,
    rows_at: Ints,
    due: Ints,
    mask: Bools,
    pairs: Bools,
    pair: int,
    cti: int,
    finishes: bool,
    work: Ints,
    slots: Ints,
    left: Ints,
    marks: Ints,
    wakes: Ints,
    counts: Ints,
) -> bool:
    """Match the rows of several keys, in order of each; False if there is no room to go on.

    ``due`` are the rows by key, those of ``keys[i]`` from number ``rows_at[i]`` on; ``mask[line,
    variable]`` says which of them satisfy which variables. By pair, ``pairs`` has the tests of each
    thread, and from number ``pair`` on those of the initial states for each key. If it
    ``finishes``, keys are advanced to the CTI. Costs for each row the threads of its key, which are
    as many as the states if threads merge across starts.
    """
    begins = rules.end - rules.begin
    while counts[AT] < len(keys) and counts[CROWDED] < 0:
        at = counts[AT]
        key = keys[at]
        if not counts[LOADED]:
            if not load_key(by_key, threads, held, work, slots, counts, key):
                return False
            counts[LINE] = rows_at[at]
        if not match_rows(
            states, lists, rules, rows, nodes, work, slots, left, marks, counts,
            due, mask, pairs, rows_at[at + 1], pair + at * begins,
        ):  # fmt: skip
            return False
        if not has_room(rules, nodes, work, slots, left, counts, counts[LIVE]) or (
            counts[THREADS_UPTO] + counts[LIVE] > threads.shape[0]
            or counts[SLOTS_UPTO] + counts[HAVE] > held.shape[0]
        ):
            return False
        if finishes:
            finish_key(
                states, rules, rows, nodes, by_key, hold, work, slots, left, wakes, counts,
                key, cti,
            )  # fmt: skip
        store_key(by_key, threads, held, work, slots, counts, key)
        counts[LOADED] = 0
        counts[AT] += 1
    return True
