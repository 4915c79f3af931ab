"""Kernels of slots: the match of each start, and when nothing can change it any more."""

from __future__ import annotations

from rxtemporal.engine.kernels.compiled import borrow
from rxtemporal.operators.detect.layout import (
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
    STATE,
    THREAD_COLUMNS,
    TO_FIRST,
    MatchTables,
)
from rxtemporal.operators.detect.queues import release_queue
from rxtemporal.operators.detect.ways import release_way


@borrow
def set_match(t: MatchTables, slot: int, first: int, node: int) -> None:
    """Put a match into a slot, in place of a less preferred one and all that follow from that."""
    t.nodes[node, NODE_REFS] += 1
    while t.rules.chain and t.counts[HAVE] > slot:
        t.counts[HAVE] -= 1
        release_way(t, t.slots[t.counts[HAVE], SLOT_NODE])
    if t.counts[HAVE] > slot:
        release_way(t, t.slots[slot, SLOT_NODE])
    t.slots[slot, SLOT_FIRST], t.slots[slot, SLOT_NODE] = first, node
    t.slots[slot, SLOT_COMPLETE] = 1
    t.counts[HAVE] = max(t.counts[HAVE], slot + 1)


@borrow
def note_part(t: MatchTables, slot: int, node: int) -> None:
    """Put a way that is no match into a slot, if it is the longest one of its start so far."""
    have = t.slots[slot, SLOT_NODE]
    if t.slots[slot, SLOT_COMPLETE] or (
        have >= 0 and t.nodes[have, NODE_LENGTH] >= t.nodes[node, NODE_LENGTH]
    ):
        return
    t.nodes[node, NODE_REFS] += 1
    t.slots[slot, SLOT_NODE] = node
    release_way(t, have)


@borrow
def find_next_position(t: MatchTables, first: int, node: int) -> int:
    """Return the position in its key at which the next match may begin after a match."""
    begin, last = t.rows[first, ROW_POSITION], t.rows[t.nodes[node, NODE_ROW], ROW_POSITION]
    if t.rules.skip == PAST_LAST:
        return int(last + 1)
    found = NONE
    while node >= 0:
        if t.nodes[node, NODE_VARIABLE] == t.rules.skip_variable and (
            t.rules.skip == TO_FIRST or found < 0
        ):
            found = t.rows[t.nodes[node, NODE_ROW], ROW_POSITION]
        node = t.nodes[node, NODE_PARENT]
    if found < 0:
        t.counts[NOT_THERE] += 1
        return int(last + 1)
    if found == begin:
        t.counts[SAME_START] += 1
        return int(begin + 1)
    return int(found)


@borrow
def leave(t: MatchTables, slot: int) -> None:
    """Let the match of a slot leave."""
    i = t.counts[LEFT]
    t.left[i, LEFT_NODE], t.left[i, LEFT_COMPLETE] = (
        t.slots[slot, SLOT_NODE],
        t.slots[slot, SLOT_COMPLETE],
    )
    t.counts[LEFT] += 1


@borrow
def move_slots(t: MatchTables, gone: int) -> None:
    """Drop so many slots from the head."""
    for i in range(gone, t.counts[HAVE]):
        t.slots[i - gone, SLOT_FIRST] = t.slots[i, SLOT_FIRST]
        t.slots[i - gone, SLOT_NODE] = t.slots[i, SLOT_NODE]
        t.slots[i - gone, SLOT_COMPLETE] = t.slots[i, SLOT_COMPLETE]
    t.counts[HAVE] -= gone


@borrow
def decide_chain(t: MatchTables, side: int, live: int) -> None:
    """Let the matches leave from which all threads go on."""
    final = t.work[side, 0, SLOT] if live else t.counts[HAVE]
    for slot in range(final):
        leave(t, slot)
    for i in range(live):
        t.work[side, i, SLOT] -= final
    move_slots(t, final)


@borrow
def decide_in_order(t: MatchTables, side: int, live: int) -> int:
    """Decide slots from the first on, as far as they have no threads; return the threads left."""
    slot, dropped = 0, 0
    while slot < t.counts[HAVE] and not (dropped < live and t.work[side, dropped, SLOT] == slot):
        first, node = t.slots[slot, SLOT_FIRST], t.slots[slot, SLOT_NODE]
        if node < 0:
            slot += 1
            continue
        leave(t, slot)
        target = t.rows[first, ROW_POSITION] + 1
        if t.slots[slot, SLOT_COMPLETE]:
            target = find_next_position(t, first, node)
        slot += 1
        while slot < t.counts[HAVE] and t.rows[t.slots[slot, SLOT_FIRST], ROW_POSITION] < target:
            release_way(t, t.slots[slot, SLOT_NODE])
            while dropped < live and t.work[side, dropped, SLOT] == slot:
                release_thread(t, side, dropped)
                dropped += 1
            slot += 1
    move_slots(t, slot)
    for i in range(dropped, live):
        move_thread(t, side, i, i - dropped)
        t.work[side, i - dropped, SLOT] -= slot
    return live - dropped


@borrow
def decide_each(t: MatchTables, side: int, live: int) -> None:
    """Decide the slots that have no threads, each by itself."""
    stay, at = 0, 0
    for slot in range(t.counts[HAVE]):
        begin = at
        while at < live and t.work[side, at, SLOT] == slot:
            t.work[side, at, SLOT] = stay
            at += 1
        if begin < at:
            t.slots[stay, SLOT_FIRST], t.slots[stay, SLOT_NODE] = (
                t.slots[slot, SLOT_FIRST],
                t.slots[slot, SLOT_NODE],
            )
            t.slots[stay, SLOT_COMPLETE] = t.slots[slot, SLOT_COMPLETE]
            stay += 1
        elif t.slots[slot, SLOT_NODE] >= 0:
            leave(t, slot)
    t.counts[HAVE] = stay


@borrow
def decide(t: MatchTables, side: int, live: int) -> int:
    """Let final matches of a key leave; return how many threads are left."""
    if t.rules.chain:
        decide_chain(t, side, live)
    elif t.rules.skip == NEXT:
        decide_each(t, side, live)
    else:
        return decide_in_order(t, side, live)
    return live


@borrow
def release_thread(t: MatchTables, side: int, i: int) -> None:
    """Release what a thread needs."""
    release_way(t, t.work[side, i, NODE])
    if t.rules.timeouts:
        release_way(t, t.work[side, i, LONGEST])
    if t.rules.queues:
        release_queue(t, side, i)


@borrow
def move_thread(t: MatchTables, side: int, i: int, to: int) -> None:
    """Move a thread to another place."""
    for column in range(STATE, THREAD_COLUMNS):
        t.work[side, to, column] = t.work[side, i, column]
