"""Matching: threads through the states of an automaton, row by row, in order of preference.

A *thread* is a way in which rows of a key match a beginning of the pattern (R. Pike's machine, as
in R. Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009). It has the number of
its state and a *node*, the last row of its way, which leads to the row before. Threads are in order
of preference, so the first that reaches the end of the pattern ends all behind it, and those before
it may still beat it. A row costs the threads alive, whatever comes later: nothing is tried twice.

Matches wait in *slots* until nothing can beat them.

- ``chain``, where the next match begins behind the last row of the one before: a thread that begins
  behind a match that may still be beaten goes on from that slot, and ends with it. So all threads
  are in one order, and two in one state have one future: the second is dropped.
- Otherwise each row at which a match may begin has a slot and threads of its own, and slots are
  decided in order of their rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import inline, jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# columns of a thread: the state, the first row and the last node of its way, the start of the last
# row, its slot, and where its tests are among the pairs
STATE, FIRST, NODE, LAST, SLOT, PAIR = range(6)
# columns of a slot, the first two as those of a match that has left: the first row; the last node
# of the match (-1: none); 1 if it is complete
SLOT_FIRST, SLOT_NODE, SLOT_COMPLETE = range(3)
# columns of a new node
NODE_ROW, NODE_VARIABLE, NODE_PARENT, NODE_REFS = range(4)
# where the kernel counts
THREADS, NODES, FREE, FREED, SLOTS, LEFT, STAMP, SAME_START, NOT_THERE, CROWDED = range(10)
COUNTS = 10
# the end of a pattern, and no node
ACCEPT = NONE = -1
# kinds of states, as in the automaton
_ROW, _GAP, _ANY, _WAIT = range(4)
# skips
NEXT, PAST_LAST, TO_FIRST, TO_LAST = range(4)


# numba's cache on disk has the names of the classes below: an older cache is no longer readable if
# one is renamed


class States(NamedTuple):
    """The automaton as arrays; the lists of state i are those from ``…_at[i]`` to ``…_at[i + 1]``.

    ``fan`` is how many threads one thread becomes at most, and ``tries`` how many nodes it makes.
    """

    kind: Ints
    variable: Ints
    absent: Ints
    enter_at: Ints
    enter: Ints
    out_at: Ints
    out: Ints
    initial: Ints
    fan: int
    tries: int


class MatchRules(NamedTuple):
    """The settings of a pattern; spans in ticks, -1 for none.

    ``merges``: two threads in one state, and of one start unless ``chain``, have one future.
    ``budget``: the most threads of one start, 0 without a limit. ``by_pair``: tests are those of a
    thread and a variable. ``before``: how many rows before a matched one are needed.
    """

    within: int
    max_gap: int
    chain: bool
    across: bool
    merges: bool
    skip: int
    skip_variable: int
    timeouts: bool
    budget: int
    by_pair: bool
    before: int


class MatchRows(NamedTuple):
    """Columns of all rows held, by row number; ``refs`` counts the nodes that need a row."""

    start: Ints
    position: Ints
    before: Ints
    refs: Ints


class MatchNodes(NamedTuple):
    """Columns of all nodes held, by number; ``refs`` counts what needs a node."""

    row: Ints
    variable: Ints
    parent: Ints
    refs: Ints


class Work(NamedTuple):
    """Arrays of the key that is computed, which have room for the next row."""

    threads: Ints
    later: Ints
    slots: Ints
    made: Ints
    left: Ints
    marks: Ints
    counts: Ints


class Tests(NamedTuple):
    """Rows that satisfy variables: ``mask[row, variable]``, or ``pairs`` by number."""

    mask: Bools
    pairs: Bools


class Given(NamedTuple):
    """Input of a call: rows and threads and slots of several keys, each as one array.

    Those of key i are from number ``…_at[i]`` to ``…_at[i + 1]``; ``first_pair`` is where the
    tests of the initial states of its row are among the pairs.
    """

    rows: Ints
    rows_at: Ints
    threads: Ints
    threads_at: Ints
    slots: Ints
    slots_at: Ints
    first_pair: Ints


class Made(NamedTuple):
    """Output of a call: threads and slots of each key, new nodes, matches that leave.

    ``left`` has the key's number in this call, the node, whether it is complete, and the first row.
    ``freed`` begins the list of old nodes that nothing needs, and ``free`` that of new ones: each
    leads to the next as its parent. ``crowded`` is the number of the key that has more threads than
    the budget allows, and ``row`` the row.
    """

    threads: Ints
    threads_at: Ints
    slots: Ints
    slots_at: Ints
    nodes: Ints
    left: Ints
    freed: int
    free: int
    same_start: int
    not_there: int
    crowded: int
    row: int


@jit
def grow_rows(array: Ints, size: int) -> Ints:
    """Return the array ``[n, columns]`` with room for so many rows. O(n) if it has none."""
    if size <= array.shape[0]:
        return array
    larger = np.empty((max(size, 2 * array.shape[0]), array.shape[1]), np.int64)
    larger[: array.shape[0]] = array
    return larger


class Setup(NamedTuple):
    """Parts of a call that are the same for all keys; ``base`` is the number of the first new node.

    ``refs`` of rows and nodes, and the parents of nodes that are freed, are changed in place.
    """

    states: States
    rules: MatchRules
    tests: Tests
    rows: MatchRows
    nodes: MatchNodes
    base: int


@inline
def count_row(rows: MatchRows, row: int, more: int, before: int) -> None:
    """Count that a node needs a row, and ``before`` rows before it, once more or less."""
    for _ in range(before + 1):
        if row < 0:
            return
        rows.refs[row] += more
        row = rows.before[row]


@inline
def hold(setup: Setup, work: Work, node: int) -> None:
    """Count that something needs a node."""
    if node >= setup.base:
        work.made[node - setup.base, NODE_REFS] += 1
    elif node >= 0:
        setup.nodes.refs[node] += 1


@inline
def drop(setup: Setup, work: Work, node: int, before: int) -> None:
    """Count that something needs a node no more; free it, and what it led to, if nothing does."""
    counts = work.counts
    while node >= 0:
        if node >= setup.base:
            place = node - setup.base
            work.made[place, NODE_REFS] -= 1
            if work.made[place, NODE_REFS] > 0:
                return
            row, parent = work.made[place, NODE_ROW], work.made[place, NODE_PARENT]
            work.made[place, NODE_PARENT] = counts[FREE]
            counts[FREE] = place
        else:
            setup.nodes.refs[node] -= 1
            if setup.nodes.refs[node] > 0:
                return
            row, parent = setup.nodes.row[node], setup.nodes.parent[node]
            setup.nodes.parent[node] = counts[FREED]
            counts[FREED] = node
        count_row(setup.rows, row, -1, before)
        node = parent


@inline
def make_node(setup: Setup, work: Work, row: int, variable: int, parent: int, before: int) -> int:
    """Make a node that nothing needs yet; return its number."""
    counts = work.counts
    place = counts[FREE]
    if place >= 0:
        counts[FREE] = work.made[place, NODE_PARENT]
    else:
        place = counts[NODES]
        counts[NODES] += 1
    work.made[place, NODE_ROW], work.made[place, NODE_VARIABLE] = row, variable
    work.made[place, NODE_PARENT], work.made[place, NODE_REFS] = parent, 0
    hold(setup, work, parent)
    count_row(setup.rows, row, 1, before)
    return int(setup.base + place)


@inline
def set_match(setup: Setup, work: Work, slot: int, first: int, node: int, complete: int) -> None:
    """Put a match into a slot, in place of a less preferred one and all that follow from that."""
    counts, slots = work.counts, work.slots
    hold(setup, work, node)
    while setup.rules.chain and counts[SLOTS] > slot:
        counts[SLOTS] -= 1
        drop(setup, work, slots[counts[SLOTS], SLOT_NODE], setup.rules.before)
    if counts[SLOTS] > slot:
        drop(setup, work, slots[slot, SLOT_NODE], setup.rules.before)
    slots[slot, SLOT_FIRST], slots[slot, SLOT_NODE] = first, node
    slots[slot, SLOT_COMPLETE] = complete
    counts[SLOTS] = max(counts[SLOTS], slot + 1)


@inline
def add_thread(
    setup: Setup, work: Work, state: int, first: int, node: int, last: int, slot: int, landed: bool
) -> None:
    """Add a thread for the next row, unless a preferred one is in its state and has its future."""
    counts = work.counts
    if setup.rules.merges and (landed or setup.rules.max_gap < 0):
        # with a limit for gaps, threads that have skipped a row have pasts of their own
        if work.marks[state] == counts[STAMP]:
            return
        work.marks[state] = counts[STAMP]
    # no view of the row: references to arrays cost more than the entries
    i = counts[THREADS]
    work.later[i, STATE], work.later[i, FIRST], work.later[i, NODE] = state, first, node
    work.later[i, LAST], work.later[i, SLOT], work.later[i, PAIR] = last, slot, 0
    counts[THREADS] += 1
    hold(setup, work, node)


@inline
def take_row(
    setup: Setup, work: Work, state: int, row: int, first: int, parent: int, slot: int
) -> bool:
    """Let a state take a row; return True if the pattern ends there, by preference."""
    variable = setup.states.variable[state]
    node = make_node(setup, work, row, variable, parent, setup.rules.before)
    hold(setup, work, node)
    ends = False
    for place in range(setup.states.out_at[state], setup.states.out_at[state + 1]):
        target = setup.states.out[place]
        if target == ACCEPT:
            set_match(setup, work, slot, first, node, 1)
            ends = True
            break
        add_thread(setup, work, target, first, node, setup.rows.start[row], slot, True)
    drop(setup, work, node, setup.rules.before)
    return ends


@inline
def step_thread(setup: Setup, work: Work, i: int, row: int, line: int) -> bool:
    """Let a thread take or skip a row; return True if the pattern ends there, by preference."""
    state, pair = work.threads[i, STATE], work.threads[i, PAIR]
    first, node, slot = work.threads[i, FIRST], work.threads[i, NODE], work.threads[i, SLOT]
    kind, begin, end = (
        setup.states.kind[state],
        setup.states.enter_at[state],
        setup.states.enter_at[state + 1],
    )
    skips = kind != _ROW
    for place in range(begin, end):
        target = setup.states.enter[place]
        if setup.rules.by_pair:
            passes = setup.tests.pairs[pair + place - begin]
        else:
            passes = setup.tests.mask[line, setup.states.variable[target]]
        if passes:
            if kind == _GAP:
                skips = False
            if take_row(setup, work, target, row, first, node, slot):
                return True
    absent = setup.states.absent[state]
    if skips and absent >= 0:
        if setup.rules.by_pair:
            skips = not setup.tests.pairs[pair + end - begin]
        else:
            skips = not setup.tests.mask[line, absent]
    if skips:
        add_thread(setup, work, state, first, node, work.threads[i, LAST], slot, False)
    return False


@inline
def begin_threads(setup: Setup, work: Work, row: int, line: int, pair: int) -> None:
    """Let a match begin at a row, behind all others."""
    counts, slot = work.counts, work.counts[SLOTS]
    before = counts[THREADS]
    if not setup.rules.across:
        counts[STAMP] += 1
    if not setup.rules.chain:
        work.slots[slot, SLOT_FIRST], work.slots[slot, SLOT_NODE] = row, NONE
        work.slots[slot, SLOT_COMPLETE] = 0
        counts[SLOTS] += 1
    ends = False
    for place in range(len(setup.states.initial)):
        state = setup.states.initial[place]
        if state == ACCEPT:
            break
        if setup.rules.by_pair:
            passes = setup.tests.pairs[pair + place]
        else:
            passes = setup.tests.mask[line, setup.states.variable[state]]
        if passes and take_row(setup, work, state, row, row, NONE, slot):
            ends = True
            break
    if not setup.rules.chain and not ends and counts[THREADS] == before:
        counts[SLOTS] -= 1


@inline
def step_row(setup: Setup, work: Work, live: int, row: int, line: int, pair: int) -> None:
    """Let all ``live`` threads of a key take or skip its next row; the others are in ``later``."""
    counts = work.counts
    counts[THREADS] = 0
    counts[STAMP] += 1
    over, ended = False, NONE
    for i in range(live):
        first, slot = work.threads[i, FIRST], work.threads[i, SLOT]
        if not setup.rules.across and (i == 0 or first != work.threads[i - 1, FIRST]):
            counts[STAMP] += 1
        if not over and slot != ended and step_thread(setup, work, i, row, line):
            # less preferred threads end: all, or those of the same start
            over, ended = setup.rules.chain, slot
        drop(setup, work, work.threads[i, NODE], setup.rules.before)
    if not over:
        begin_threads(setup, work, row, line, pair)


@jit
def count_rows(setup: Setup, work: Work, node: int) -> int:
    """Return the number of rows of a way."""
    count = 0
    while node >= 0:
        count += 1
        node = (
            work.made[node - setup.base, NODE_PARENT]
            if node >= setup.base
            else setup.nodes.parent[node]
        )
    return count


@jit
def expire(setup: Setup, work: Work, live: int, time: int) -> int:
    """End the threads that no row at a time or later can continue; return how many are left.

    Those that wait for an absence are matches then. O(threads).
    """
    left, ended = 0, NONE
    for i in range(live):
        thread = work.threads[i]
        state, slot, node = thread[STATE], thread[SLOT], thread[NODE]
        waits = setup.states.kind[state] == _WAIT
        over = time == MAX_TIME
        if setup.rules.within >= 0:
            over = over or time - setup.rows.start[thread[FIRST]] >= setup.rules.within
        too_far = (
            setup.rules.max_gap >= 0 and time - thread[LAST] > setup.rules.max_gap and not waits
        )
        # a step of time may pass both, and what ends the way is the one that comes first
        gap_was_first = too_far and (
            setup.rules.within < 0
            or thread[LAST] + setup.rules.max_gap
            < setup.rows.start[thread[FIRST]] + setup.rules.within
        )
        if not over and not too_far:
            work.threads[left] = thread
            left += 1
            continue
        if over and slot != ended and waits:
            set_match(setup, work, slot, thread[FIRST], node, 1)
            ended = slot
        elif over and slot != ended and setup.rules.timeouts and not gap_was_first:
            have = count_rows(setup, work, work.slots[slot, SLOT_NODE])
            is_longer = count_rows(setup, work, node) > have
            if is_longer and not work.slots[slot, SLOT_COMPLETE]:
                set_match(setup, work, slot, thread[FIRST], node, 0)
        drop(setup, work, node, setup.rules.before)
    return left


@jit
def find_next_position(setup: Setup, work: Work, slot: int) -> int:
    """Return the position in its key at which the next match may begin after that of a slot."""
    first, node = work.slots[slot, SLOT_FIRST], work.slots[slot, SLOT_NODE]
    begin, found, last = setup.rows.position[first], NONE, NONE
    while node >= 0:
        if node >= setup.base:
            made = work.made[node - setup.base]
            row, variable, parent = made[NODE_ROW], made[NODE_VARIABLE], made[NODE_PARENT]
        else:
            row, variable, parent = (
                setup.nodes.row[node],
                setup.nodes.variable[node],
                setup.nodes.parent[node],
            )
        last = max(last, setup.rows.position[row])
        if variable == setup.rules.skip_variable and (setup.rules.skip == TO_FIRST or found < 0):
            found = setup.rows.position[row]
        node = parent
    if setup.rules.skip == PAST_LAST:
        return int(last + 1)
    if found < 0:
        work.counts[NOT_THERE] += 1
        return int(last + 1)
    if found == begin:
        work.counts[SAME_START] += 1
        return int(begin + 1)
    return int(found)


@inline
def leave(work: Work, key: int, slot: int) -> None:
    """Let the match of a slot leave."""
    i = work.counts[LEFT]
    work.left[i, 0], work.left[i, 1] = key, work.slots[slot, SLOT_NODE]
    work.left[i, 2], work.left[i, 3] = work.slots[slot, SLOT_COMPLETE], work.slots[slot, SLOT_FIRST]
    work.counts[LEFT] += 1


@jit
def decide_chain(work: Work, live: int, key: int) -> None:
    """Let the matches leave from which all threads go on."""
    counts = work.counts
    final = work.threads[0, SLOT] if live else counts[SLOTS]
    if not final:
        return
    for slot in range(final):
        leave(work, key, slot)
    for slot in range(final, counts[SLOTS]):
        work.slots[slot - final] = work.slots[slot]
    for i in range(live):
        work.threads[i, SLOT] -= final
    counts[SLOTS] -= final


@jit
def decide_in_order(setup: Setup, work: Work, live: int, key: int) -> int:
    """Decide slots from the first on, as far as they have no threads; return the threads left."""
    counts, slots = work.counts, work.slots
    slot, dropped = 0, 0
    while slot < counts[SLOTS] and not (dropped < live and work.threads[dropped, SLOT] == slot):
        if slots[slot, SLOT_NODE] < 0:
            slot += 1
            continue
        leave(work, key, slot)
        target = setup.rows.position[slots[slot, SLOT_FIRST]] + 1
        if slots[slot, SLOT_COMPLETE]:
            target = find_next_position(setup, work, slot)
        slot += 1
        while slot < counts[SLOTS] and setup.rows.position[slots[slot, SLOT_FIRST]] < target:
            drop(setup, work, slots[slot, SLOT_NODE], setup.rules.before)
            while dropped < live and work.threads[dropped, SLOT] == slot:
                drop(setup, work, work.threads[dropped, NODE], setup.rules.before)
                dropped += 1
            slot += 1
    if not slot:
        return live
    for i in range(slot, counts[SLOTS]):
        slots[i - slot] = slots[i]
    counts[SLOTS] -= slot
    for i in range(dropped, live):
        work.threads[i - dropped] = work.threads[i]
        work.threads[i - dropped, SLOT] -= slot
    return live - dropped


@jit
def decide_each(work: Work, live: int, key: int) -> None:
    """Decide the slots that have no threads, each by itself."""
    counts, slots = work.counts, work.slots
    stay, at = 0, 0
    for slot in range(counts[SLOTS]):
        begin = at
        while at < live and work.threads[at, SLOT] == slot:
            at += 1
        if begin < at:
            work.threads[begin:at, SLOT] = stay
            slots[stay] = slots[slot]
            stay += 1
        elif slots[slot, SLOT_NODE] >= 0:
            leave(work, key, slot)
    counts[SLOTS] = stay


@jit
def decide(setup: Setup, work: Work, live: int, key: int) -> int:
    """Let final matches of a key leave; return how many threads are left."""
    if setup.rules.chain:
        decide_chain(work, live, key)
    elif setup.rules.skip == NEXT:
        decide_each(work, live, key)
    else:
        return decide_in_order(setup, work, live, key)
    return live


@jit
def is_crowded(setup: Setup, work: Work) -> bool:
    """Return True if one start has more threads than the budget allows."""
    many = 0
    for i in range(work.counts[THREADS]):
        if not i or work.later[i, FIRST] != work.later[i - 1, FIRST]:
            many = 0
        many += 1
        if many > setup.rules.budget:
            return True
    return False


@inline
def has_room(setup: Setup, work: Work, live: int) -> bool:
    """Return True if there is room for what one row makes of so many threads."""
    counts, threads = work.counts, (live + 1) * setup.states.fan
    return bool(
        threads <= min(work.threads.shape[0], work.later.shape[0])
        and counts[SLOTS] + 2 <= work.slots.shape[0]
        and counts[NODES] + (live + 1) * setup.states.tries <= work.made.shape[0]
        and counts[LEFT] + counts[SLOTS] + 2 <= work.left.shape[0]
    )


@jit
def make_room(setup: Setup, work: Work, live: int) -> Work:
    """Return the arrays with room for what one row makes of so many threads."""
    counts, threads = work.counts, (live + 1) * setup.states.fan
    return Work(
        grow_rows(work.threads, threads),
        grow_rows(work.later, threads),
        grow_rows(work.slots, counts[SLOTS] + 2),
        grow_rows(work.made, counts[NODES] + (live + 1) * setup.states.tries),
        grow_rows(work.left, counts[LEFT] + counts[SLOTS] + 2),
        work.marks,
        counts,
    )


@jit
def match_key(
    setup: Setup, work: Work, given: Given, key: int, cti: int, live: int
) -> tuple[Work, int]:
    """Match the rows of one key, and advance it to a CTI; return the threads left.

    The row at which there are too many threads is set among the counts.
    """
    expires = setup.rules.within >= 0 or setup.rules.max_gap >= 0
    for line in range(given.rows_at[key], given.rows_at[key + 1]):
        row = given.rows[line]
        if not has_room(setup, work, live):
            work = make_room(setup, work, live)
        if expires and live:
            live = expire(setup, work, live, setup.rows.start[row])
        pair = given.first_pair[key] if setup.rules.by_pair else 0
        step_row(setup, work, live, row, line, pair)
        if setup.rules.budget and is_crowded(setup, work):
            work.counts[CROWDED] = row
            return work, live
        live = work.counts[THREADS]
        for i in range(live):
            for column in range(PAIR + 1):
                work.threads[i, column] = work.later[i, column]
        if work.counts[SLOTS] and (not live or work.threads[0, SLOT]):
            live = decide(setup, work, live, key)
    if not has_room(setup, work, live):
        work = make_room(setup, work, live)
    if live and (expires or cti == MAX_TIME):
        live = expire(setup, work, live, cti)
    return work, decide(setup, work, live, key)


@jit
def match_keys(setup: Setup, given: Given, cti: int) -> Made:
    """Match the rows of several keys, in order of each, and advance them to a CTI.

    Costs for each row the threads of its key, which are as many as the states if threads merge
    across starts.
    """
    keys = len(given.rows_at) - 1
    counts = np.zeros(COUNTS, np.int64)
    counts[FREE] = counts[FREED] = counts[CROWDED] = NONE
    work = Work(
        np.empty((16, 6), np.int64),
        np.empty((16, 6), np.int64),
        np.empty((16, 3), np.int64),
        np.empty((64, 4), np.int64),
        np.empty((64, 4), np.int64),
        np.zeros(len(setup.states.kind), np.int64),
        counts,
    )
    threads = np.empty((max(64, len(given.threads)), 6), np.int64)
    slots = np.empty((max(64, len(given.slots)), 3), np.int64)
    threads_at, slots_at = np.zeros(keys + 1, np.int64), np.zeros(keys + 1, np.int64)
    crowded = NONE
    for key in range(keys):
        begin, end = given.threads_at[key], given.threads_at[key + 1]
        first, last = given.slots_at[key], given.slots_at[key + 1]
        work = Work(
            grow_rows(work.threads, end - begin),
            work.later,
            grow_rows(work.slots, last - first),
            work.made,
            work.left,
            work.marks,
            counts,
        )
        work.threads[: end - begin] = given.threads[begin:end]
        work.slots[: last - first] = given.slots[first:last]
        counts[SLOTS] = last - first
        work, live = match_key(setup, work, given, key, cti, end - begin)
        if counts[CROWDED] >= 0:
            crowded = key
            break
        begin, first = threads_at[key], slots_at[key]
        threads = grow_rows(threads, begin + live)
        threads[begin : begin + live] = work.threads[:live]
        slots = grow_rows(slots, first + counts[SLOTS])
        slots[first : first + counts[SLOTS]] = work.slots[: counts[SLOTS]]
        threads_at[key + 1], slots_at[key + 1] = begin + live, first + counts[SLOTS]
    return Made(
        threads[: threads_at[keys]],
        threads_at,
        slots[: slots_at[keys]],
        slots_at,
        work.made[: counts[NODES]],
        work.left[: counts[LEFT]],
        counts[FREED],
        counts[FREE],
        counts[SAME_START],
        counts[NOT_THERE],
        crowded,
        counts[CROWDED],
    )


@jit
def list_freed(parent: Ints, first: int) -> Ints:
    """Return the nodes of a list in which each leads to the next as its parent. O(result)."""
    count, node = 0, first
    while node >= 0:
        count += 1
        node = parent[node]
    found = np.empty(count, np.int64)
    node = first
    for i in range(count):
        found[i] = node
        node = parent[node]
    return found


@jit
def list_ways(last: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """Return the nodes of the ways that end with these nodes, and how many each has. O(result).

    Each way is in order, from its first node.
    """
    lengths = np.zeros(len(last), np.int64)
    for i in range(len(last)):
        node = last[i]
        while node >= 0:
            lengths[i] += 1
            node = parent[node]
    found = np.empty(lengths.sum(), np.int64)
    end = 0
    for i in range(len(last)):
        end += lengths[i]
        node, at = last[i], end
        while node >= 0:
            at -= 1
            found[at] = node
            node = parent[node]
    return found, lengths


@jit
def drop_nodes(rows: MatchRows, nodes: MatchNodes, last: Ints, before: int) -> int:
    """Count that a match needs these nodes no more; return the first of the list of freed ones."""
    freed = NONE
    for i in range(len(last)):
        node = last[i]
        while node >= 0:
            nodes.refs[node] -= 1
            if nodes.refs[node] > 0:
                break
            count_row(rows, nodes.row[node], -1, before)
            parent = nodes.parent[node]
            nodes.parent[node] = freed
            freed, node = node, parent
    return freed
