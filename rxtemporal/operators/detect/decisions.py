"""Kernels of slots: the match of each start, and when nothing can change it any more."""

from __future__ import annotations

from rxtemporal.engine.kernels.compiled import borrow
from rxtemporal.operators.detect.layout import (
    FIRST,
    HAVE,
    LEFT,
    LEFT_COMPLETE,
    LEFT_NODE,
    LONGEST,
    NEXT,
    NODE,
    NODE_LENGTH,
    NODE_PARENT,
    NODE_REFS,
    NODE_ROW,
    NODE_VARIABLE,
    NONE,
    NOT_THERE,
    PAST_LAST,
    ROW_POSITION,
    SAME_START,
    SLOT,
    SLOT_COMPLETE,
    SLOT_FIRST,
    SLOT_NODE,
    TO_FIRST,
    Ints,
    MatchRules,
)
from rxtemporal.operators.detect.ways import release_way


@borrow
def set_match(
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    slots: Ints,
    counts: Ints,
    slot: int,
    first: int,
    node: int,
) -> None:
    """Put a match into a slot, in place of a less preferred one and all that follow from that."""
    nodes[node, NODE_REFS] += 1
    while rules.chain and counts[HAVE] > slot:
        counts[HAVE] -= 1
        release_way(rows, nodes, counts, slots[counts[HAVE], SLOT_NODE], rules.before)
    if counts[HAVE] > slot:
        release_way(rows, nodes, counts, slots[slot, SLOT_NODE], rules.before)
    slots[slot, SLOT_FIRST], slots[slot, SLOT_NODE] = first, node
    slots[slot, SLOT_COMPLETE] = 1
    counts[HAVE] = max(counts[HAVE], slot + 1)


@borrow
def note_part(
    rows: Ints, nodes: Ints, slots: Ints, counts: Ints, slot: int, node: int, before: int
) -> None:
    """Put a way that is no match into a slot, if it is the longest one of its start so far."""
    have = slots[slot, SLOT_NODE]
    if slots[slot, SLOT_COMPLETE] or (
        have >= 0 and nodes[have, NODE_LENGTH] >= nodes[node, NODE_LENGTH]
    ):
        return
    nodes[node, NODE_REFS] += 1
    slots[slot, SLOT_NODE] = node
    release_way(rows, nodes, counts, have, before)


@borrow
def find_next_position(
    rules: MatchRules, rows: Ints, nodes: Ints, counts: Ints, first: int, node: int
) -> int:
    """Return the position in its key at which the next match may begin after a match."""
    begin, last = rows[first, ROW_POSITION], rows[nodes[node, NODE_ROW], ROW_POSITION]
    if rules.skip == PAST_LAST:
        return int(last + 1)
    found = NONE
    while node >= 0:
        if nodes[node, NODE_VARIABLE] == rules.skip_variable and (
            rules.skip == TO_FIRST or found < 0
        ):
            found = rows[nodes[node, NODE_ROW], ROW_POSITION]
        node = nodes[node, NODE_PARENT]
    if found < 0:
        counts[NOT_THERE] += 1
        return int(last + 1)
    if found == begin:
        counts[SAME_START] += 1
        return int(begin + 1)
    return int(found)


@borrow
def leave(slots: Ints, left: Ints, counts: Ints, slot: int) -> None:
    """Let the match of a slot leave."""
    i = counts[LEFT]
    left[i, LEFT_NODE], left[i, LEFT_COMPLETE] = slots[slot, SLOT_NODE], slots[slot, SLOT_COMPLETE]
    counts[LEFT] += 1


@borrow
def move_slots(slots: Ints, counts: Ints, gone: int) -> None:
    """Drop so many slots from the head."""
    for i in range(gone, counts[HAVE]):
        slots[i - gone, SLOT_FIRST] = slots[i, SLOT_FIRST]
        slots[i - gone, SLOT_NODE] = slots[i, SLOT_NODE]
        slots[i - gone, SLOT_COMPLETE] = slots[i, SLOT_COMPLETE]
    counts[HAVE] -= gone


@borrow
def decide_chain(work: Ints, side: int, slots: Ints, left: Ints, counts: Ints, live: int) -> None:
    """Let the matches leave from which all threads go on."""
    final = work[side, 0, SLOT] if live else counts[HAVE]
    for slot in range(final):
        leave(slots, left, counts, slot)
    for i in range(live):
        work[side, i, SLOT] -= final
    move_slots(slots, counts, final)


@borrow
def decide_in_order(
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    left: Ints,
    counts: Ints,
    live: int,
) -> int:
    """Decide slots from the first on, as far as they have no threads; return the threads left."""
    slot, dropped = 0, 0
    while slot < counts[HAVE] and not (dropped < live and work[side, dropped, SLOT] == slot):
        first, node = slots[slot, SLOT_FIRST], slots[slot, SLOT_NODE]
        if node < 0:
            slot += 1
            continue
        leave(slots, left, counts, slot)
        target = rows[first, ROW_POSITION] + 1
        if slots[slot, SLOT_COMPLETE]:
            target = find_next_position(rules, rows, nodes, counts, first, node)
        slot += 1
        while slot < counts[HAVE] and rows[slots[slot, SLOT_FIRST], ROW_POSITION] < target:
            release_way(rows, nodes, counts, slots[slot, SLOT_NODE], rules.before)
            while dropped < live and work[side, dropped, SLOT] == slot:
                release_thread(rules, rows, nodes, work, side, counts, dropped)
                dropped += 1
            slot += 1
    move_slots(slots, counts, slot)
    for i in range(dropped, live):
        move_thread(work, side, i, i - dropped)
        work[side, i - dropped, SLOT] -= slot
    return live - dropped


@borrow
def decide_each(work: Ints, side: int, slots: Ints, left: Ints, counts: Ints, live: int) -> None:
    """Decide the slots that have no threads, each by itself."""
    stay, at = 0, 0
    for slot in range(counts[HAVE]):
        begin = at
        while at < live and work[side, at, SLOT] == slot:
            work[side, at, SLOT] = stay
            at += 1
        if begin < at:
            slots[stay, SLOT_FIRST], slots[stay, SLOT_NODE] = (
                slots[slot, SLOT_FIRST],
                slots[slot, SLOT_NODE],
            )
            slots[stay, SLOT_COMPLETE] = slots[slot, SLOT_COMPLETE]
            stay += 1
        elif slots[slot, SLOT_NODE] >= 0:
            leave(slots, left, counts, slot)
    counts[HAVE] = stay


@borrow
def decide(
    rules: MatchRules,
    rows: Ints,
    nodes: Ints,
    work: Ints,
    side: int,
    slots: Ints,
    left: Ints,
    counts: Ints,
    live: int,
) -> int:
    """Let final matches of a key leave; return how many threads are left."""
    if rules.chain:
        decide_chain(work, side, slots, left, counts, live)
    elif rules.skip == NEXT:
        decide_each(work, side, slots, left, counts, live)
    else:
        return decide_in_order(rules, rows, nodes, work, side, slots, left, counts, live)
    return live


@borrow
def release_thread(
    rules: MatchRules, rows: Ints, nodes: Ints, work: Ints, side: int, counts: Ints, i: int
) -> None:
    """Release what a thread needs."""
    release_way(rows, nodes, counts, work[side, i, NODE], rules.before)
    if rules.timeouts:
        release_way(rows, nodes, counts, work[side, i, LONGEST], rules.before)


@borrow
def move_thread(work: Ints, side: int, i: int, to: int) -> None:
    """Move a thread to another place."""
    for column in range(FIRST - 1, LONGEST + 1):
        work[side, to, column] = work[side, i, column]
