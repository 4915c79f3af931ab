"""Kernels of queues: the threads in the state of a preferred one, which may end before them.

Two threads that skip rows in one state have one future, until the gap behind the last row of one of
them is too long. If the preferred one has the younger row, the other is never needed. Otherwise it
is needed when the preferred one has ended, so it waits in the queue of that one, which takes and
skips rows for both. Behind a thread are those less preferred with younger rows, and so on: a queue
is in order of preference and of last rows, only its head ever ends by time, and a row costs nothing
for the threads in a queue. They are records among the threads of all keys.

A way is preferred to another by where the two part. That is found by jumps, as in E. W. Myers, "An
applicative random-access stack" (1983): each node also leads to one further up its way.
"""

from __future__ import annotations

from rxtemporal.engine.holdings import KEY
from rxtemporal.engine.kernels.compiled import borrow
from rxtemporal.operators.detect.layout import (
    FIRST,
    FREE_THREAD,
    HAVE,
    LONGEST,
    NODE,
    NODE_ENTER,
    NODE_JUMP,
    NODE_LENGTH,
    NODE_OUT,
    NODE_PARENT,
    NODE_REFS,
    NODE_ROW,
    NONE,
    OUT_PLACE,
    PAIR,
    QUEUE_BEFORE,
    QUEUE_HEAD,
    QUEUE_NEXT,
    QUEUE_TAIL,
    ROW_POSITION,
    ROW_START,
    SLOT,
    SLOT_FIRST,
    STATE,
    THREAD_COLUMNS,
    THREADS_GONE,
    THREADS_UPTO,
    MatchTables,
)
from rxtemporal.operators.detect.ways import release_way


@borrow
def set_branch(t: MatchTables, node: int, out: int, enter: int) -> None:
    """Note where a new node parts from the other ways of its parent, and its jump.

    ``out`` is the place in the list of states behind the parent, and ``enter`` the one in the list
    of states that take the next row.
    """
    t.nodes[node, NODE_OUT], t.nodes[node, NODE_ENTER] = out, enter
    parent = t.nodes[node, NODE_PARENT]
    if parent < 0:
        t.nodes[node, NODE_JUMP] = node
        return
    jump = t.nodes[parent, NODE_JUMP]
    far = t.nodes[jump, NODE_JUMP]
    length = t.nodes[jump, NODE_LENGTH]
    as_long = t.nodes[parent, NODE_LENGTH] - length == length - t.nodes[far, NODE_LENGTH]
    t.nodes[node, NODE_JUMP] = far if as_long else parent


@borrow
def find_up(t: MatchTables, node: int, length: int) -> int:
    """Return the node of a way to which so many rows lead. O(log(rows of the way))."""
    while t.nodes[node, NODE_LENGTH] > length:
        jump = t.nodes[node, NODE_JUMP]
        reaches = t.nodes[jump, NODE_LENGTH] >= length
        node = jump if reaches else t.nodes[node, NODE_PARENT]
    return node


@borrow
def is_before(t: MatchTables, node: int, other: int) -> bool:
    """Return True if a way is preferred to another that is as long and ends with another node."""
    while t.nodes[node, NODE_PARENT] != t.nodes[other, NODE_PARENT]:
        parts = t.nodes[node, NODE_JUMP] != t.nodes[other, NODE_JUMP]
        up = NODE_JUMP if parts else NODE_PARENT
        node, other = t.nodes[node, up], t.nodes[other, up]
    if t.nodes[node, NODE_OUT] != t.nodes[other, NODE_OUT]:
        return bool(t.nodes[node, NODE_OUT] < t.nodes[other, NODE_OUT])
    row, other_row = t.nodes[node, NODE_ROW], t.nodes[other, NODE_ROW]
    if row != other_row:
        # of rows that may be skipped the nearest comes first
        return bool(t.rows[row, ROW_POSITION] < t.rows[other_row, ROW_POSITION])
    return bool(t.nodes[node, NODE_ENTER] < t.nodes[other, NODE_ENTER])


@borrow
def is_preferred(
    t: MatchTables,
    first: int,
    node: int,
    out: int,
    other_first: int,
    other_node: int,
    other_out: int,
) -> bool:
    """Return True if a way is preferred to another; ``out`` is where each goes on.

    O(log(rows of the ways)).
    """
    if first != other_first:
        return bool(t.rows[first, ROW_POSITION] < t.rows[other_first, ROW_POSITION])
    own, others = t.nodes[node, NODE_LENGTH], t.nodes[other_node, NODE_LENGTH]
    length = min(own, others)
    mine, its = find_up(t, node, length), find_up(t, other_node, length)
    if mine != its:
        return is_before(t, mine, its)
    # one way leads on from where the other one is
    if own > length:
        out = t.nodes[find_up(t, node, length + 1), NODE_OUT]
    if others > length:
        other_out = t.nodes[find_up(t, other_node, length + 1), NODE_OUT]
    # to take a row comes before to skip it
    return bool(out < other_out or (out == other_out and own > length))


@borrow
def free_queued(t: MatchTables, queued: int) -> int:
    """Release the record of a thread of a queue; return the one behind it.

    Released records are a list, in which each leads to the next as the one behind it.
    """
    following = t.threads[queued, QUEUE_NEXT]
    t.threads[queued, KEY], t.threads[queued, QUEUE_NEXT] = NONE, t.counts[FREE_THREAD]
    t.counts[FREE_THREAD] = queued
    t.counts[THREADS_GONE] += 1
    return int(following)


@borrow
def release_queued(t: MatchTables, queued: int) -> int:
    """Release a thread of a queue, and what it needs; return the one behind it."""
    release_way(t, t.threads[queued, NODE])
    return free_queued(t, queued)


@borrow
def release_queue(t: MatchTables, side: int, i: int) -> None:
    """Release the queue of a thread. O(its length)."""
    queued = t.work[side, i, QUEUE_HEAD]
    while queued >= 0:
        queued = release_queued(t, queued)
    t.work[side, i, QUEUE_HEAD] = t.work[side, i, QUEUE_TAIL] = NONE


@borrow
def beats_queued(t: MatchTables, first: int, node: int, out: int, queued: int) -> bool:
    """Return True if a way is preferred to that of a thread in a queue."""
    others, its_node = t.threads[queued, FIRST], t.threads[queued, NODE]
    return is_preferred(t, first, node, out, others, its_node, t.threads[queued, OUT_PLACE])


@borrow
def cut_queue(t: MatchTables, side: int, i: int, first: int, node: int, out: int) -> None:
    """Release the threads of a queue to which a way is preferred. O(released threads)."""
    tail = t.work[side, i, QUEUE_TAIL]
    while tail >= 0 and beats_queued(t, first, node, out, tail):
        before = t.threads[tail, QUEUE_BEFORE]
        release_queued(t, tail)
        tail = before
    t.work[side, i, QUEUE_TAIL] = tail
    if tail >= 0:
        t.threads[tail, QUEUE_NEXT] = NONE
    else:
        t.work[side, i, QUEUE_HEAD] = NONE


@borrow
def cut_queues(t: MatchTables, side: int, count: int, first: int, node: int, out: int) -> None:
    """Release the queued threads that end when a way is a match: those to which it is preferred.

    These are in queues of preferred threads, which have taken or skipped the row; of the others the
    threads end, and their queues with them. Queues of other starts have only threads of these,
    unless threads merge ``across`` starts. O(threads of one start, and released ones).
    """
    i = count - 1
    while i >= 0 and (t.rules.across or t.work[side, i, FIRST] == first):
        cut_queue(t, side, i, first, node, out)
        i -= 1


@borrow
def add_queued(t: MatchTables) -> int:
    """Return the number of a new record for a thread of a queue, for which there is room."""
    queued = t.counts[FREE_THREAD]
    if queued >= 0:
        t.counts[FREE_THREAD] = t.threads[queued, QUEUE_NEXT]
        t.counts[THREADS_GONE] -= 1
    else:
        queued = t.counts[THREADS_UPTO]
        t.counts[THREADS_UPTO] += 1
    return int(queued)


@borrow
def enqueue(t: MatchTables, side: int, i: int, first: int, node: int, out: int) -> None:
    """Add a way with a new row to the queue of a preferred thread in its state.

    Unless that, or the last in its queue, has the same last row: they end at the same time.
    """
    cut_queue(t, side, i, first, node, out)
    tail, last = t.work[side, i, QUEUE_TAIL], t.work[side, i, NODE]
    if tail >= 0:
        last = t.threads[tail, NODE]
    if t.nodes[last, NODE_ROW] == t.nodes[node, NODE_ROW]:
        return
    queued = add_queued(t)
    t.threads[queued, KEY], t.threads[queued, STATE] = t.rows[first, KEY], t.work[side, i, STATE]
    t.threads[queued, FIRST], t.threads[queued, NODE] = first, node
    t.threads[queued, SLOT], t.threads[queued, PAIR], t.threads[queued, LONGEST] = 0, 0, NONE
    t.threads[queued, OUT_PLACE], t.threads[queued, QUEUE_NEXT] = out, NONE
    t.threads[queued, QUEUE_BEFORE] = tail
    t.nodes[node, NODE_REFS] += 1
    if tail >= 0:
        t.threads[tail, QUEUE_NEXT] = queued
    else:
        t.work[side, i, QUEUE_HEAD] = queued
    t.work[side, i, QUEUE_TAIL] = queued


@borrow
def move_queue(t: MatchTables, side: int, i: int, other: int, to: int) -> None:
    """Give the queue of a thread to another one, which has none."""
    for column in (QUEUE_HEAD, QUEUE_TAIL):
        t.work[other, to, column], t.work[side, i, column] = t.work[side, i, column], NONE


@borrow
def is_too_far(t: MatchTables, node: int, time: int) -> bool:
    """Return True if no row at a time or later may follow the last row of a way."""
    return bool(time - t.rows[t.nodes[node, NODE_ROW], ROW_START] > t.rules.max_gap)


@borrow
def replace_thread(t: MatchTables, side: int, i: int, time: int) -> bool:
    """Put the first thread of its queue that has not ended in place of one that has ended.

    Return False if there is none. O(threads that have ended).
    """
    queued = t.work[side, i, QUEUE_HEAD]
    while queued >= 0 and is_too_far(t, t.threads[queued, NODE], time):
        queued = release_queued(t, queued)
    if queued < 0:
        t.work[side, i, QUEUE_HEAD] = t.work[side, i, QUEUE_TAIL] = NONE
        return False
    release_way(t, t.work[side, i, NODE])
    first = t.threads[queued, FIRST]
    # it goes on from the matches that were there when it began
    slot, position = t.work[side, i, SLOT], t.rows[first, ROW_POSITION]
    while slot < t.counts[HAVE] and t.rows[t.slots[slot, SLOT_FIRST], ROW_POSITION] < position:
        slot += 1
    t.work[side, i, FIRST], t.work[side, i, NODE] = first, t.threads[queued, NODE]
    t.work[side, i, SLOT], t.work[side, i, OUT_PLACE] = slot, t.threads[queued, OUT_PLACE]
    following = free_queued(t, queued)
    t.work[side, i, QUEUE_HEAD] = following
    if following >= 0:
        t.threads[following, QUEUE_BEFORE] = NONE
    else:
        t.work[side, i, QUEUE_TAIL] = NONE
    return True


@borrow
def sort_threads(t: MatchTables, side: int, live: int) -> None:
    """Put threads in order of preference again.

    Those of several starts are in order of these already, and of one start, or of all ``across``
    starts, there is one for each state. O(threads + states² for each start).
    """
    for i in range(1, live):
        at = i
        while at and is_preferred(
            t, t.work[side, at, FIRST], t.work[side, at, NODE], t.work[side, at, OUT_PLACE],
            t.work[side, at - 1, FIRST], t.work[side, at - 1, NODE],
            t.work[side, at - 1, OUT_PLACE],
        ):  # fmt: skip
            for column in range(STATE, THREAD_COLUMNS):
                t.work[side, at, column], t.work[side, at - 1, column] = (
                    t.work[side, at - 1, column],
                    t.work[side, at, column],
                )
            at -= 1
