"""A door's verdicts for a run of rows, the same as for single events in arrival order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.door_rules import (
    ADJUSTED,
    AHEAD,
    CTI,
    DROP_AHEAD,
    DROPPED,
    END_EDGE,
    END_MOVED,
    KEEP_AHEAD,
    NO_OPEN_ROW,
    NOWHERE,
    ROW,
    START_EDGE,
    admit_end,
    admit_start,
    is_due,
    make_cti,
    make_sent_cti,
)

# the same rules as for events, compiled
_admit_start, _admit_end = jit(admit_start), jit(admit_end)
_is_due, _make_cti, _make_sent_cti = jit(is_due), jit(make_cti), jit(make_sent_cti)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]


@jit
def admit(
    start: Ints,
    end: Ints,
    kind: Bytes,
    row: Ints,
    moved: Ints,
    every: int,
    span: int,
    delay: int,
    adjust: bool,
    cti_delay: int,
    state: Ints,
) -> tuple[Ints, Ints, Bytes, Ints]:
    """Judge items; return starts and ends to pass on, each item's verdict, and the CTI before it.

    ``start``, ``end`` ``int64[n]`` ticks in arrival order. ``kind`` ``int8[n]``, or empty where
    all items are complete rows; a CTI's time is its start; KEEP_AHEAD or DROP_AHEAD is added where
    an item is ahead of the wall clock. ``row`` ``int64[n]``: for each edge the number of its row,
    -1 where none is open; empty without edges. ``moved`` ``int64[r]``, updated in place: the start
    that each open row was given, NOWHERE before its start edge and after that was dropped.
    ``every`` N or, where that is 0, ``span`` T ticks; ``cti_delay`` ticks by which CTIs among the
    items count less. ``state`` ``int64[7]``, updated in place: the CTI, what it would be without
    imports, the count of events, the start that last made a CTI due, the number of events that are
    late only by an import, the highest time that made a CTI, without any delay, and the largest
    distance of an event behind that. O(n), one pass.
    """
    n = len(start)
    starts, ends = start.copy(), end.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    cti, own, count, last, by_import = state[0], state[1], state[2], state[3], state[4]
    high, largest = state[5], state[6]
    for i in range(n):
        what = kind[i] if len(kind) else ROW
        s = start[i]
        before[i] = cti
        if what >= DROP_AHEAD:
            reason[i] = AHEAD
            continue
        ahead = what >= KEEP_AHEAD
        if ahead:
            what -= KEEP_AHEAD
        if what == CTI:
            if not ahead:
                time = _make_sent_cti(s, cti_delay)
                cti, own = max(cti, time), max(own, time)
                if s < MAX_TIME:
                    high = max(high, s)
            continue
        if what == END_EDGE:
            largest = max(largest, high - end[i])
            given = moved[row[i]] if row[i] >= 0 else NOWHERE
            if given == NOWHERE:
                reason[i] = NO_OPEN_ROW
                continue
            starts[i] = given
            ends[i] = _admit_end(end[i], cti, given)
            if ends[i] != end[i]:
                reason[i] = END_MOVED
                by_import += end[i] < cti and end[i] >= own
            continue
        largest = max(largest, high - s)
        if s < cti:
            starts[i] = _admit_start(s, end[i], cti, adjust)
            reason[i] = DROPPED if starts[i] == NOWHERE else ADJUSTED
            by_import += s >= own
        if what == START_EDGE:
            moved[row[i]] = starts[i]
        if ahead:
            continue
        count += 1
        if _is_due(s, count, every, span, last):
            last, high = s, max(high, s)
            time = _make_cti(s, delay)
            cti, own = max(cti, time), max(own, time)
    state[0], state[1], state[2], state[3], state[4] = cti, own, count, last, by_import
    state[5], state[6] = high, largest
    return starts, ends, reason, before


@jit
def find_due(start: Ints, span: int, last: int) -> int:
    """Return the number of the row that last makes a CTI due, by a span of ticks; -1 for none.

    ``start`` ``int64[n]`` in order; ``last`` is the start that made the last CTI due. O(n).
    """
    due = -1
    for i in range(len(start)):
        if _is_due(start[i], 0, 0, span, last):
            due, last = i, start[i]
    return due


@jit
def advance_sent(
    start: Ints, kind: Bytes, cti: int, own: int, count: int, high: int, largest: int
) -> tuple[bool, int, int, int, int, int]:
    """Return the state after complete rows and CTIs of a source, if all of them come in time.

    A short cut for ``admit`` where rows make no CTIs and CTIs are not delayed, with the same
    arguments and the same outcome. The first result is False if a row is late, a CTI goes back, or
    an item is an edge or ahead of the wall clock; the others are of no use then. O(n), one pass.
    """
    for i in range(len(start)):
        time, what = start[i], kind[i]
        if time < cti or (what != ROW and what != CTI):
            return False, cti, own, count, high, largest
        if what == CTI:
            cti, own = time, max(own, time)
            if time < MAX_TIME:
                high = max(high, time)
        else:
            largest = max(largest, high - time)
            count += 1
    return True, cti, own, count, high, largest


@jit
def admit_merged(
    order: Ints,
    stream: Ints,
    start: Ints,
    end: Ints,
    settings: Ints,
    first: Ints,
    importer: Ints,
    state: Ints,
) -> tuple[Ints, Bytes, Ints]:
    """Judge rows of several streams; return starts to pass on, verdicts, and the CTI before each.

    ``order`` ``int64[n]``: the rows' numbers in the order in which they are accepted; ``stream``
    the number of each row's stream, ``start``, ``end`` ticks of complete rows. For each of m
    streams ``settings`` ``int64[m, 5]`` has N or 0, T, the delay, and 1 if late rows are adjusted;
    ``state`` ``int64[m, 7]`` has the state of ``admit``, updated in place. The importers of stream
    s are ``importer[first[s]:first[s + 1]]``.

    A CTI that advances a stream, unless it is the end of time, goes to its importers before the
    next row is accepted, and from them to theirs. Loops of any size terminate: a stream passes on
    only a CTI that has advanced it, so each CTI at most once. O(n + CTIs * m), one pass.
    """
    n = len(order)
    starts = start.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    waiting = np.empty(len(state), np.int64)
    for at in range(n):
        i = order[at]
        s = stream[i]
        cti, time = state[s, 0], start[i]
        before[i] = cti
        state[s, 6] = max(state[s, 6], state[s, 5] - time)
        if time < cti:
            starts[i] = _admit_start(time, end[i], cti, settings[s, 3] != 0)
            reason[i] = DROPPED if starts[i] == NOWHERE else ADJUSTED
            state[s, 4] += time >= state[s, 1]
        state[s, 2] += 1
        if not _is_due(time, state[s, 2], settings[s, 0], settings[s, 1], state[s, 3]):
            continue
        state[s, 3] = time
        state[s, 5] = max(state[s, 5], time)
        reached = _make_cti(time, settings[s, 2])
        state[s, 1] = max(state[s, 1], reached)
        if reached <= cti:
            continue
        state[s, 0] = reached
        waiting[0] = s
        left = 1 if reached < MAX_TIME else 0
        while left:
            left -= 1
            source = waiting[left]
            for k in range(first[source], first[source + 1]):
                each = importer[k]
                if state[each, 0] < reached:
                    state[each, 0] = reached
                    waiting[left] = each
                    left += 1
    return starts, reason, before


@jit
def measure_rows(start: Ints, end: Ints) -> tuple[int, int, int, int]:
    """Return the lowest and highest start of rows, their least and most length.

    ``start``, ``end`` ``int64[n]`` as in a batch, n > 0. O(n), one look at each row.
    """
    low = high = start[0]
    shortest = longest = end[0] - start[0]
    for i in range(len(start)):
        s = start[i]
        length = end[i] - s
        low, high = min(low, s), max(high, s)
        shortest, longest = min(shortest, length), max(longest, length)
    return low, high, shortest, longest


@jit
def admit_run(
    start: Ints, kind: Bytes, cti: int, high: int, delay: int, drops: bool
) -> tuple[bool, int, int, int, int, int, int]:
    """Take complete rows and CTIs through a subject, in the order in which they have come.

    ``start`` ``int64[n]`` ticks, updated in place: NOWHERE for a late row, which is dropped, and
    for a CTI that does not advance; the CTI to pass on for one that does. ``kind`` ``int8[n]``, or
    empty without CTIs; ``cti`` and ``high`` are the last CTI that was passed on, and the highest
    that has come. Returns the new ``cti`` and ``high``, the highest time of all items, the largest
    distance of a row behind the highest CTI, and the numbers of late rows and of CTIs that do not
    advance. Before them, False if a CTI is an end of time, or if a row is late and not
    ``drops``: then the rest, and ``start``, is of no use. O(n), one pass.
    """
    reached, behind, late, stays = MIN_TIME, 0, 0, 0
    for i in range(len(start)):
        time = start[i]
        if len(kind) and kind[i] == CTI:
            if time <= MIN_TIME or time >= MAX_TIME:
                return False, cti, high, reached, behind, late, stays
            high = max(high, time)
            passed = max(time - delay, MIN_TIME)
            if passed > cti:
                start[i] = cti = passed
            else:
                start[i] = NOWHERE
                stays += 1
        else:
            behind = max(behind, high - time)
            if time < cti:
                if not drops:
                    return False, cti, high, reached, behind, late, stays
                start[i] = NOWHERE
                late += 1
        reached = max(reached, time)
    return True, cti, high, reached, behind, late, stays


@jit
def admit_rows(
    start: Ints,
    end: Ints,
    ahead: npt.NDArray[np.bool_],
    cti: int,
    adjust: bool,
    named: bool,
) -> tuple[Ints, Ints, Ints, Bytes, int, int]:
    """Judge complete rows at one CTI, none of which makes another.

    ``start``, ``end`` ``int64[n]`` ticks; ``ahead`` ``bool[n]``, or empty: the rows dropped since
    they are ahead of the wall clock. Returns the numbers of the accepted rows, their starts and
    ends; if ``named``, the verdict on each row, otherwise nothing; and how many late rows are
    dropped and how many adjusted. O(n), one pass.
    """
    n = len(start)
    kept, starts, ends = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    reason = np.zeros(n if named else 0, np.int8)
    passed = dropped = adjusted = 0
    for i in range(n):
        verdict, given = 0, start[i]
        if len(ahead) and ahead[i]:
            verdict, given = AHEAD, NOWHERE
        elif given < cti:
            given = _admit_start(given, end[i], cti, adjust)
            verdict = DROPPED if given == NOWHERE else ADJUSTED
            dropped += verdict == DROPPED
            adjusted += verdict == ADJUSTED
        if named:
            reason[i] = verdict
        if given != NOWHERE:
            kept[passed], starts[passed], ends[passed] = i, given, end[i]
            passed += 1
    return kept[:passed], starts[:passed], ends[:passed], reason, dropped, adjusted
