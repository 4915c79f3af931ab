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
from rxtemporal.operators.detect.layout import (
    ABSENT,
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
    NODE_ROW,
    NONE,
    OUT,
    OUT_END,
    PAIR,
    ROW_START,
    SLOT,
    SLOT_COMPLETE,
    SLOT_FIRST,
    SLOT_NODE,
    STAMP,
    STATE,
    VARIABLE,
    Bools,
    Ints,
    MatchRules,
)
from rxtemporal.operators.detect.ways import add_node, release_way


@borrow
def add_thread(
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    marks: Ints,
    counts: Ints,
    state: int,
    first: int,
    node: int,
    longest: int,
    slot: int,
    landed: bool,
) -> None:
    """Add a thread for the next row, unless a preferred one is in its state and has its future.

    That one then has the longer of both ways. With a limit for gaps, threads that have skipped a
    row have pasts of their own.
    """
    i = counts[LATER]
    if rules.merges and (landed or rules.max_gap < 0):
        if marks[state, 0] == counts[STAMP]:
            if rules.timeouts:
                lengthen(rules, rows, nodes, work, side, counts, marks[state, 1], longest)
            return
        marks[state, 0], marks[state, 1] = counts[STAMP], i
    work[side, i, STATE], work[side, i, FIRST], work[side, i, NODE] = state, first, node
    work[side, i, SLOT], work[side, i, PAIR], work[side, i, LONGEST] = slot, 0, longest
    counts[LATER] += 1
    nodes[node, NODE_REFS] += 1
    if rules.timeouts:
        nodes[longest, NODE_REFS] += 1


@borrow
def lengthen(
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    counts: Ints,
    i: int,
    longest: int,
) -> None:
    """Give a thread a way that has its future, if that is longer than the one it has."""
    have = work[side, i, LONGEST]
    if nodes[longest, NODE_LENGTH] > nodes[have, NODE_LENGTH]:
        nodes[longest, NODE_REFS] += 1
        work[side, i, LONGEST] = longest
        release_way(rows, nodes, counts, have, rules.before)


@borrow
def take_row(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    marks: Ints,
    counts: Ints,
    state: int,
    row: int,
    first: int,
    parent: int,
    longest: int,
    slot: int,
) -> bool:
    """Let a state take a row; return True if the pattern ends there, by preference."""
    variable = states[state, VARIABLE]
    node = add_node(rows, nodes, counts, row, variable, parent, rules.before)
    length = node
    if rules.timeouts:
        if longest != parent:
            length = add_node(rows, nodes, counts, row, variable, longest, rules.before)
        note_part(rows, nodes, slots, counts, slot, length, rules.before)
    ends = False
    for place in range(states[state, OUT], states[state, OUT_END]):
        target = lists[place]
        if target == ACCEPT:
            set_match(rules, rows, nodes, slots, counts, slot, first, node)
            ends = True
            break
        add_thread(
            rules, rows, nodes, work, side, marks, counts, target, first, node, length, slot, True
        )
    release_way(rows, nodes, counts, node, rules.before)
    if length != node:
        release_way(rows, nodes, counts, length, rules.before)
    return ends


@borrow
def step_thread(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    marks: Ints,
    counts: Ints,
    mask: Bools,
    pairs: Bools,
    i: int,
    row: int,
    line: int,
) -> bool:
    """Let a thread take or skip a row; return True if the pattern ends there, by preference."""
    state, pair = work[side, i, STATE], work[side, i, PAIR]
    first, slot = work[side, i, FIRST], work[side, i, SLOT]
    node, longest = work[side, i, NODE], work[side, i, LONGEST]
    kind, begin, end = states[state, KIND], states[state, ENTER], states[state, ENTER_END]
    skips = kind != ROW
    for place in range(begin, end):
        target = lists[place]
        if rules.by_pair:
            passes = pairs[pair + place - begin]
        else:
            passes = mask[line, states[target, VARIABLE]]
        if passes:
            if kind == GAP:
                skips = False
            if take_row(
                states, lists, rules, rows, nodes, work, 1 - side, slots, marks, counts,
                target, row, first, node, longest, slot,
            ):  # fmt: skip
                return True
    absent = states[state, ABSENT]
    if skips and absent >= 0:
        skips = not (pairs[pair + end - begin] if rules.by_pair else mask[line, absent])
    if skips:
        add_thread(
            rules, rows, nodes, work, 1 - side, marks, counts,
            state, first, node, longest, slot, False,
        )  # fmt: skip
    return False


@borrow
def begin_threads(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    marks: Ints,
    counts: Ints,
    mask: Bools,
    pairs: Bools,
    row: int,
    line: int,
    pair: int,
) -> None:
    """Let a match begin at a row, behind all others."""
    slot, before = counts[HAVE], counts[LATER]
    if not rules.across:
        counts[STAMP] += 1
    if not rules.chain:
        slots[slot, SLOT_FIRST], slots[slot, SLOT_NODE] = row, NONE
        slots[slot, SLOT_COMPLETE] = 0
        counts[HAVE] += 1
    for place in range(rules.begin, rules.end):
        state = lists[place]
        if state == ACCEPT:
            break
        if rules.by_pair:
            passes = pairs[pair + place - rules.begin]
        else:
            passes = mask[line, states[state, VARIABLE]]
        if passes and take_row(
            states, lists, rules, rows, nodes, work, 1 - side, slots, marks, counts,
            state, row, row, NONE, NONE, slot,
        ):  # fmt: skip
            break
    if not rules.chain and counts[LATER] == before and slots[slot, SLOT_NODE] < 0:
        counts[HAVE] -= 1


@borrow
def step_row(
    states: Ints,
    lists: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    marks: Ints,
    counts: Ints,
    mask: Bools,
    pairs: Bools,
    live: int,
    row: int,
    line: int,
    pair: int,
) -> None:
    """Let all ``live`` threads of a key take or skip its next row; the others are made behind."""
    counts[LATER] = 0
    counts[STAMP] += 1
    over, ended = False, NONE
    for i in range(live):
        slot = work[side, i, SLOT]
        if not rules.across and i and work[side, i, FIRST] != work[side, i - 1, FIRST]:
            counts[STAMP] += 1
        if not over and slot != ended and step_thread(
            states, lists, rules, rows, nodes, work, side, slots, marks, counts,
            mask, pairs, i, row, line,
        ):  # fmt: skip
            # less preferred threads end: all, or those of the same start
            over, ended = rules.chain, slot
        release_thread(rules, rows, nodes, work, side, counts, i)
    if not over:
        begin_threads(
            states, lists, rules, rows, nodes, work, side, slots, marks, counts,
            mask, pairs, row, line, pair,
        )  # fmt: skip


@borrow
def expire(
    states: Ints,
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    counts: Ints,
    live: int,
    time: int,
) -> int:
    """End the threads that no row at a time or later can continue; return how many are left.

    Those that wait for an absence are matches then. O(threads).
    """
    left, ended = 0, NONE
    for i in range(live):
        first, node, slot = work[side, i, FIRST], work[side, i, NODE], work[side, i, SLOT]
        waits = states[work[side, i, STATE], KIND] == WAIT
        over = time == MAX_TIME
        if rules.within >= 0:
            over = over or time - rows[first, ROW_START] >= rules.within
        too_far = rules.max_gap >= 0 and not waits
        if too_far:
            too_far = time - rows[nodes[node, NODE_ROW], ROW_START] > rules.max_gap
        if not over and not too_far:
            move_thread(work, side, i, left)
            left += 1
            continue
        if over and waits and slot != ended:
            set_match(rules, rows, nodes, slots, counts, slot, first, node)
            ended = slot
        release_thread(rules, rows, nodes, work, side, counts, i)
    return left


@borrow
def is_crowded(work: Ints, side: int, count: int, budget: int) -> bool:
    """Return True if one start has more threads than the budget allows."""
    many = 0
    for i in range(count):
        if not i or work[side, i, FIRST] != work[side, i - 1, FIRST]:
            many = 0
        many += 1
        if many > budget:
            return True
    return False
