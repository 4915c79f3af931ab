"""Kernels of threads: how the ways of a key take or skip its next row, by preference."""

from __future__ import annotations

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import borrow
from rxtemporal.operators.detect.automaton import ACCEPT, GAP, ROW, WAIT
from rxtemporal.operators.detect.decisions import (
    move_thread,
    note_part,
    release_thread,
    set_match,
)
from rxtemporal.operators.detect.evaluation import may_take
from rxtemporal.operators.detect.layout import (
    ENDS,
    ENDS_END,
    ENTER,
    ENTER_END,
    FIRST,
    HAVE,
    KIND,
    LATER,
    LONGEST,
    NODE,
    NODE_LENGTH,
    NODE_REFS,
    NONE,
    OUT,
    OUT_END,
    OUT_PLACE,
    PAIR,
    QUEUE_HEAD,
    QUEUE_TAIL,
    ROW_START,
    SLOT,
    SLOT_COMPLETE,
    SLOT_FIRST,
    SLOT_NODE,
    STAMP,
    STATE,
    VARIABLE,
    MatchTables,
)
from rxtemporal.operators.detect.queues import (
    cut_queues,
    enqueue,
    is_too_far,
    move_queue,
    replace_thread,
    set_branch,
    sort_threads,
)
from rxtemporal.operators.detect.ways import add_node, release_way


@borrow
def add_thread(
    t: MatchTables,
    side: int,
    state: int,
    first: int,
    node: int,
    longest: int,
    slot: int,
    out: int,
    landed: bool,
) -> None:
    """Add a thread for the next row, unless a preferred one is in its state and has its future.

    That one then has the longer of both ways. With queues, a thread that has ``landed`` on the row
    waits behind a preferred one that has skipped it and may end before it. Where gaps are limited
    but the longest ways are kept, threads that have skipped a row are not merged.
    """
    i = t.counts[LATER]
    if t.rules.merges and (landed or t.rules.max_gap < 0 or t.rules.queues):
        if t.marks[state, 0] == t.counts[STAMP]:
            have = t.marks[state, 1]
            if t.rules.timeouts:
                lengthen(t, side, have, longest)
            elif t.rules.queues and landed and t.states[state, KIND] != WAIT:
                enqueue(t, side, have, first, node, out)
            return
        t.marks[state, 0], t.marks[state, 1] = t.counts[STAMP], i
    t.work[side, i, STATE], t.work[side, i, FIRST], t.work[side, i, NODE] = state, first, node
    t.work[side, i, SLOT], t.work[side, i, PAIR], t.work[side, i, OUT_PLACE] = slot, 0, out
    t.work[side, i, LONGEST] = longest if t.rules.timeouts else NONE
    t.work[side, i, QUEUE_HEAD] = t.work[side, i, QUEUE_TAIL] = NONE
    t.counts[LATER] += 1
    t.nodes[node, NODE_REFS] += 1
    if t.rules.timeouts:
        t.nodes[longest, NODE_REFS] += 1


@borrow
def lengthen(t: MatchTables, side: int, i: int, longest: int) -> None:
    """Give a thread a way that has its future, if that is longer than the one it has."""
    have = t.work[side, i, LONGEST]
    if t.nodes[longest, NODE_LENGTH] > t.nodes[have, NODE_LENGTH]:
        t.nodes[longest, NODE_REFS] += 1
        t.work[side, i, LONGEST] = longest
        release_way(t, have)


@borrow
def take_row(
    t: MatchTables,
    side: int,
    enter: int,
    row: int,
    first: int,
    parent: int,
    longest: int,
    slot: int,
    out: int,
) -> bool:
    """Let a state take a row; return True if the pattern ends there, by preference.

    ``enter`` is its place in the lists of states, and ``out`` that of the thread that it follows.
    """
    state = t.lists[enter]
    variable = t.states[state, VARIABLE]
    node = add_node(t, row, variable, parent)
    if t.rules.queues:
        set_branch(t, node, out, enter)
    length = node
    if t.rules.timeouts:
        if longest != parent:
            length = add_node(t, row, variable, longest)
        note_part(t, slot, length)
    ends = False
    for place in range(t.states[state, OUT], t.states[state, OUT_END]):
        target = t.lists[place]
        if target == ACCEPT:
            set_match(t, slot, first, node)
            if t.rules.queues:
                cut_queues(t, side, t.counts[LATER], first, node, place)
            ends = True
            break
        add_thread(t, side, target, first, node, length, slot, place, True)
    release_way(t, node)
    if length != node:
        release_way(t, length)
    return ends


@borrow
def step_thread(t: MatchTables, side: int, i: int, row: int, line: int) -> bool:
    """Let a thread take or skip a row; return True if the pattern ends there, by preference."""
    state, pair = t.work[side, i, STATE], t.work[side, i, PAIR]
    first, slot = t.work[side, i, FIRST], t.work[side, i, SLOT]
    node, longest = t.work[side, i, NODE], t.work[side, i, LONGEST]
    out = t.work[side, i, OUT_PLACE]
    kind, begin, end = t.states[state, KIND], t.states[state, ENTER], t.states[state, ENTER_END]
    skips = kind != ROW
    for place in range(begin, end):
        target = t.lists[place]
        variable = t.states[target, VARIABLE]
        if may_take(t, variable, node, row, first, line, pair + place - begin):
            if kind == GAP:
                skips = False
            if take_row(t, 1 - side, place, row, first, node, longest, slot, out):
                return True
    if skips:
        ends = t.states[state, ENDS]
        for place in range(ends, t.states[state, ENDS_END]):
            at = pair + end - begin + place - ends
            if may_take(t, t.lists[place], node, row, first, line, at):
                skips = False
                break
    if skips:
        later = t.counts[LATER]
        add_thread(t, 1 - side, state, first, node, longest, slot, out, False)
        if t.rules.queues and t.counts[LATER] > later:
            move_queue(t, side, i, 1 - side, later)
    return False


@borrow
def begin_threads(t: MatchTables, side: int, row: int, line: int, pair: int) -> None:
    """Let a match begin at a row, behind all others."""
    slot, before = t.counts[HAVE], t.counts[LATER]
    if not t.rules.across:
        t.counts[STAMP] += 1
    if not t.rules.chain:
        t.slots[slot, SLOT_FIRST], t.slots[slot, SLOT_NODE] = row, NONE
        t.slots[slot, SLOT_COMPLETE] = 0
        t.counts[HAVE] += 1
    for place in range(t.rules.begin, t.rules.end):
        state = t.lists[place]
        variable = t.states[state, VARIABLE]
        if may_take(t, variable, NONE, row, row, line, pair + place - t.rules.begin) and take_row(
            t, 1 - side, place, row, row, NONE, NONE, slot, NONE
        ):
            break
    if not t.rules.chain and t.counts[LATER] == before and t.slots[slot, SLOT_NODE] < 0:
        t.counts[HAVE] -= 1


@borrow
def step_row(t: MatchTables, side: int, live: int, row: int, line: int, pair: int) -> None:
    """Let all ``live`` threads of a key take or skip its next row; the others are made behind."""
    t.counts[LATER] = 0
    t.counts[STAMP] += 1
    over, ended = False, NONE
    for i in range(live):
        slot = t.work[side, i, SLOT]
        if not t.rules.across and i and t.work[side, i, FIRST] != t.work[side, i - 1, FIRST]:
            t.counts[STAMP] += 1
        if not over and slot != ended and step_thread(t, side, i, row, line):
            # less preferred threads end: all, or those of the same start
            over, ended = t.rules.chain, slot
        release_thread(t, side, i)
    if not over:
        begin_threads(t, side, row, line, pair)


@borrow
def expire(t: MatchTables, side: int, live: int, time: int) -> int:
    """End the threads that no row at a time or later can continue; return how many are left.

    Those that wait for an absence are matches then. O(threads).
    """
    left, ended, replaced = 0, NONE, False
    for i in range(live):
        first, node, slot = t.work[side, i, FIRST], t.work[side, i, NODE], t.work[side, i, SLOT]
        waits = t.states[t.work[side, i, STATE], KIND] == WAIT
        over = time == MAX_TIME
        if t.rules.within >= 0:
            over = over or time - t.rows[first, ROW_START] >= t.rules.within
        stays = not over and (t.rules.max_gap < 0 or waits or not is_too_far(t, node, time))
        if not over and not stays and t.rules.queues:
            stays = replace_thread(t, side, i, time)
            replaced = replaced or stays
        if stays:
            move_thread(t, side, i, left)
            left += 1
            continue
        if over and waits and slot != ended:
            set_match(t, slot, first, node)
            ended = slot
        release_thread(t, side, i)
    if replaced:
        sort_threads(t, side, left)
    return left


@borrow
def is_crowded(t: MatchTables, side: int, count: int, budget: int) -> bool:
    """Return True if one start has more threads than the budget allows."""
    many = 0
    for i in range(count):
        if not i or t.work[side, i, FIRST] != t.work[side, i - 1, FIRST]:
            many = 0
        many += 1
        if many > budget:
            return True
    return False
