"""A door's verdicts for a run of rows, the same as for single events in arrival order.

The kernels differ in how they walk through their items. What one item does is said once, by
``_take_row``, ``_make_due_cti`` and ``_take_cti``. These take the state of a door and return the
next one: the CTI, the CTI without imports, the count of events, the start that last made a
CTI due, the number of events that are late only by an import, the highest time that made a CTI,
without any delay, and the largest distance of an event behind that.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.events import find_late_bound
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.door_rules import (
    ADJUSTED,
    AHEAD,
    CTI,
    DROP_AHEAD,
    DROPPED,
    END_EDGE,
    END_MOVED,
    KEEP_AHEAD,
    NEVER,
    NO_OPEN_ROW,
    NOWHERE,
    ROW,
    START_EDGE,
    admit_end,
    admit_start,
    find_lifted_cti,
    find_sight,
    is_due,
    make_cti,
    make_sent_cti,
)
from rxtemporal.engine.kernels.compiled import jit

# rows between two tests of whether all devices have been raised: a test costs more than a few rows
_STRIDE = 512

# the same rules as for events, compiled
_admit_start, _admit_end = jit(admit_start), jit(admit_end)
_is_due, _make_cti, _make_sent_cti = jit(is_due), jit(make_cti), jit(make_sent_cti)
_find_late_bound, _find_lifted_cti = jit(find_late_bound), jit(find_lifted_cti)
_find_sight = jit(find_sight)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]
State: TypeAlias = tuple[int, int, int, int, int, int, int]


@jit
def _take_row(start: int, end: int, adjust: bool, state: State) -> tuple[int, int, State]:
    """Return the start with which a row passes, NOWHERE for none, the verdict, and the state."""
    cti, own, count, last, by_import, high, behind = state
    given, verdict = _admit_start(start, end, _find_late_bound(cti), adjust), 0
    if given != start:
        verdict = DROPPED if given == NOWHERE else ADJUSTED
        by_import += start >= _find_late_bound(own)
    return given, verdict, (cti, own, count, last, by_import, high, max(behind, high - start))


@jit
def _take_end(start: int, end: int, opened: int, state: State) -> tuple[int, int, int, State]:
    """Return the start and the end with which an end edge passes, the verdict, and the state.

    ``opened`` is the start that its row was given, NOWHERE if none is open.
    """
    cti, own, count, last, by_import, high, behind = state
    given, verdict = end, NO_OPEN_ROW
    if opened != NOWHERE:
        start, given = opened, _admit_end(end, cti, opened)
        verdict = 0 if given == end else END_MOVED
        by_import += given != end and end < cti and end >= own
    behind = max(behind, high - end)
    return start, given, verdict, (cti, own, count, last, by_import, high, behind)


@jit
def _make_due_cti(start: int, every: int, span: int, delay: int, state: State) -> State:
    """Return the state after the CTI that an event with this start makes due, if any."""
    cti, own, count, last, by_import, high, behind = state
    count += 1
    if _is_due(start, count, every, span, last):
        last, high, made = start, max(high, start), _make_cti(start, delay)
        cti, own = max(cti, made), max(own, made)
    return cti, own, count, last, by_import, high, behind


@jit
def _take_cti(time: int, cti_delay: int, state: State) -> State:
    """Return the state after a CTI that the source has sent."""
    cti, own, count, last, by_import, high, behind = state
    made = _make_sent_cti(time, cti_delay)
    if time < MAX_TIME:
        high = max(high, time)
    return max(cti, made), max(own, made), count, last, by_import, high, behind


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
    state: State,
) -> tuple[Ints, Ints, Bytes, Ints, State]:
    """Judge the items of a stream.

    Returns starts and ends to pass on, each item's verdict, the CTI before it, and the state.

    ``start``, ``end`` ``int64[n]`` ticks in arrival order. ``kind`` ``int8[n]``, or empty where
    all items are complete rows; a CTI's time is its start; KEEP_AHEAD or DROP_AHEAD is added where
    an item is ahead of the wall clock. ``row`` ``int64[n]``: for each edge the number of its row,
    -1 where none is open; empty without edges. ``moved`` ``int64[r]``, updated in place: the start
    that each open row was given, NOWHERE before its start edge and after that was dropped.
    ``every`` N or, where that is 0, ``span`` T ticks; ``cti_delay`` ticks by which CTIs among the
    items count less. O(n), one pass.
    """
    n = len(start)
    starts, ends = start.copy(), end.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    for i in range(n):
        what = kind[i] if len(kind) else ROW
        before[i] = state[0]
        if what >= DROP_AHEAD:
            reason[i] = AHEAD
            continue
        ahead = what >= KEEP_AHEAD
        if ahead:
            what -= KEEP_AHEAD
        if what == CTI:
            if not ahead:
                state = _take_cti(start[i], cti_delay, state)
            continue
        if what == END_EDGE:
            opened = moved[row[i]] if row[i] >= 0 else NOWHERE
            starts[i], ends[i], reason[i], state = _take_end(start[i], end[i], opened, state)
            continue
        starts[i], reason[i], state = _take_row(start[i], end[i], adjust, state)
        if what == START_EDGE:
            moved[row[i]] = starts[i]
        if not ahead:
            state = _make_due_cti(start[i], every, span, delay, state)
    return starts, ends, reason, before, state


@jit
def list_late(
    times: Ints, reason: Bytes, before: Ints, gone: Bools
) -> tuple[Ints, Bytes, Ints, Ints, Bools, Ints]:
    """Return the late ones of n items that have been judged, and what has become of all.

    Returns the indices of the late items; for each of these the verdict, the CTI before it, and
    how many ticks it was late by its time; the mask of the accepted items; and the number of items
    by verdict. ``reason`` and ``before`` are as from ``admit``; ``gone`` is True for each verdict
    with which an item is not accepted. O(n).
    """
    # loops alone: they compile in less time than calls of numpy
    n, m = len(reason), 0
    kept, counts = np.empty(n, np.bool_), np.zeros(len(gone), np.int64)
    for i in range(n):
        kept[i] = not gone[reason[i]]
        counts[reason[i]] += 1
    size = n - counts[0]
    late, verdicts = np.empty(size, np.int64), np.empty(size, np.int8)
    broken, by = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(n):
        if reason[i]:
            late[m], verdicts[m], broken[m] = i, reason[i], before[i]
            by[m] = max(before[i] - times[i], 0)
            m += 1
    return late, verdicts, broken, by, kept, counts


@jit
def pass_in_time(
    start: Ints, kind: Bytes, every: int, span: int, delay: int, cti_delay: int, state: State
) -> tuple[int, bool, State]:
    """Return how many complete rows and CTIs come before any other item, or a row that is late.

    Besides, True if a CTI among them goes back, and the state then. The arguments are as in
    ``admit``. O(n); a fraction of what verdicts cost.
    """
    backwards = False
    for i in range(len(start)):
        what = kind[i] if len(kind) else ROW
        if what == CTI:
            backwards |= start[i] < state[0]
            state = _take_cti(start[i], cti_delay, state)
            continue
        if what != ROW:
            return i, backwards, state
        _, verdict, after = _take_row(start[i], start[i], False, state)
        if verdict:
            return i, backwards, state
        state = _make_due_cti(start[i], every, span, delay, after)
    return len(start), backwards, state


# the columns of the state of a device: its CTI, what that would be by its own events alone, the
# count of these, the start that last made a CTI due, the highest time that made one, the time of
# the fleet when it last sent something or, with the wall clock, HEARD and the moment (NEVER: it is
# silent), the highest time that counts for others, and the reason for which the others have lifted
# it
WIDTH = 8
OWN, COUNT, LAST, HIGH, SEEN, COUNTED, WHY = range(1, WIDTH)
# the state of the fleet: the CTI that holds for all, the highest time of a device that counts, the
# number of that device, the second-highest such time of another one, and the time of the fleet
FLOOR, HIGHEST, LEADER, SECOND, FLEET = range(5)


@jit
def note_time(device: int, time: int, trusts_all: bool, own: Ints, fleet: Ints) -> None:
    """Note a time of a device that counts for others, in its state ``own`` and the fleet's.

    ``trusts_all``: the time of the fleet is the highest one; otherwise it is the second-highest of
    different devices, so that no device moves the others alone.
    """
    if time <= own[COUNTED]:
        return
    own[COUNTED] = time
    _note_highest(device, time, trusts_all, fleet)


@jit
def _note_highest(device: int, time: int, trusts_all: bool, fleet: Ints) -> None:
    """Note a time in the state of the fleet; one that the device has told before changes nothing.

    That of the leader is not above the highest, and those of others not above the second-highest.
    """
    if device == fleet[LEADER]:
        fleet[HIGHEST] = max(fleet[HIGHEST], time)
    elif time > fleet[HIGHEST]:
        fleet[SECOND], fleet[HIGHEST], fleet[LEADER] = fleet[HIGHEST], time, device
    elif time > fleet[SECOND]:
        fleet[SECOND] = time
    fleet[FLEET] = max(fleet[FLEET], fleet[HIGHEST] if trusts_all else fleet[SECOND])


@jit
def lift_device(own: Ints, fleet: Ints, behind: int, silent: int) -> None:
    """Lift a device to the CTI that the others allow at least, in its state ``own``."""
    cti, why = _find_lifted_cti(max(own[0], fleet[FLOOR]), fleet[FLEET], own[SEEN], behind, silent)
    own[0] = cti
    if why:
        own[WHY] = why


@jit
def lift_silent(device: Ints, states: Ints, fleet: Ints, behind: int, silent: int) -> None:
    """Lift devices to the CTI of silent ones, once, in ``states``. O(n)."""
    for i in range(len(device)):
        own = states[device[i]]
        seen = own[SEEN]
        own[SEEN] = NEVER
        lift_device(own, fleet, behind, silent)
        own[SEEN] = seen


@jit
def admit_by_device(
    device: Ints,
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
    behind: int,
    silent: int,
    trusts_all: bool,
    counts_ahead: bool,
    heard: int,
    states: Ints,
    fleet: Ints,
    moves: Ints,
) -> tuple[Ints, Ints, Bytes, Ints, int, int]:
    """Judge the items of a stream in which each device has its own time.

    Returns what ``admit`` returns, but in place of the state the number of items that are late only
    by a CTI that is not the device's own, and the largest distance of an item behind its device.

    ``device`` ``int64[n]``: the number of each item's device, -1 for a CTI that holds for all;
    ``start``, ``end``, ``kind``, ``row``, ``moved`` and the rules as for ``admit``; ``behind`` and
    ``silent`` as for ``find_lifted_cti``. ``counts_ahead``: an item that is ahead of the wall clock
    advances its device, and no other one; otherwise none. ``heard``: HEARD and the moment at which
    the items came; NEVER where silence follows from the fleet. ``states`` ``int64[devices, WIDTH]``
    and ``fleet`` ``int64[5]`` are updated in place, and so are ``moves`` ``int64[2, n]``, unless
    that is empty: the CTI of each item's device, and the time of the fleet, after the item. O(n),
    one pass.
    """
    n = len(start)
    starts, ends = start.copy(), end.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    by_import = furthest = 0
    for i in range(n):
        if i and moves.shape[1]:
            _note_move(device[i - 1], states, fleet, moves[:, i - 1])
        what = kind[i] if len(kind) else ROW
        if what >= DROP_AHEAD:
            reason[i], before[i] = AHEAD, max(states[device[i], 0], fleet[FLOOR])
            continue
        ahead = what >= KEEP_AHEAD
        if ahead:
            what -= KEEP_AHEAD
        if device[i] < 0:
            before[i] = fleet[FLOOR]
            if not ahead:
                fleet[FLOOR] = max(fleet[FLOOR], _make_sent_cti(start[i], cti_delay))
            continue
        own = states[device[i]]
        lift_device(own, fleet, behind, silent)
        before[i] = own[0]
        state = (own[0], own[OWN], own[COUNT], own[LAST], 0, own[HIGH], 0)
        if what == END_EDGE:
            opened = moved[row[i]] if row[i] >= 0 else NOWHERE
            starts[i], ends[i], reason[i], state = _take_end(start[i], end[i], opened, state)
        else:
            starts[i], reason[i], state = _take_row(start[i], end[i], adjust, state)
            if reason[i] == DROPPED and start[i] >= _find_late_bound(own[OWN]) and own[WHY]:
                reason[i] = own[WHY]
            if what == START_EDGE:
                moved[row[i]] = starts[i]
            if not ahead or counts_ahead:
                if not ahead and _is_due(start[i], state[2] + 1, every, span, state[3]):
                    note_time(device[i], start[i], trusts_all, own, fleet)
                state = _make_due_cti(start[i], every, span, delay, state)
        own[0], own[OWN], own[COUNT], own[LAST] = state[0], state[1], state[2], state[3]
        own[HIGH] = state[5]
        by_import += state[4]
        furthest = max(furthest, state[6])
        own[SEEN] = _find_sight(heard, fleet[FLEET], start[i])
    if n and moves.shape[1]:
        _note_move(device[n - 1], states, fleet, moves[:, n - 1])
    return starts, ends, reason, before, by_import, furthest


@jit
def _note_move(device: int, states: Ints, fleet: Ints, move: Ints) -> None:
    """Write the CTI of a device, -1 for all, and the time of the fleet, into ``move``."""
    floor = fleet[FLOOR]
    move[0] = floor if device < 0 else max(states[device, 0], floor)
    move[1] = fleet[FLEET]


@jit
def pass_in_order(
    device: Ints,
    start: Ints,
    delay: int,
    trusts_all: bool,
    states: Ints,
    fleet: Ints,
    told: Ints,
    left: int,
) -> int:
    """Take complete rows in order, none of which is before the start of one that came earlier.

    They are in time. Each makes a CTI, at its start less ``delay``, which is not negative, and no
    device lifts another. Of each device only the last row matters; so this looks from the end on,
    until it has seen ``left`` devices; it returns how many of these it has not seen. So many
    batches may be taken one by one, the last one first. The columns COUNT and SEEN stay: nobody
    asks for them where each row makes a CTI, and nobody lifts. ``told`` ``int64[devices]``: the CTI
    of each device that is told, by the rows among others. O(n).
    """
    # no part of an array is named in the loop: that would count references
    for i in range(len(start) - 1, -1, -1):
        d, time = np.uint64(device[np.uint64(i)]), start[np.uint64(i)]
        if time <= states[d, COUNTED]:
            continue
        made = _make_cti(time, delay)
        states[d, 0], states[d, OWN] = max(states[d, 0], made), max(states[d, OWN], made)
        told[d] = max(told[d], made)
        states[d, LAST], states[d, COUNTED] = time, time
        states[d, HIGH] = max(states[d, HIGH], time)
        _note_highest(device[i], time, trusts_all, fleet)
        left -= 1
        if not left:
            break
    return left


@jit
def find_ctis(device: Ints, states: Ints, fleet: Ints, behind: int, silent: int) -> Ints:
    """Return the CTI of each of n devices as the others allow it now; ``int64[n]``. O(n)."""
    ctis = np.empty(len(device), np.int64)
    for i in range(len(device)):
        own = states[device[i]]
        floor = max(own[0], fleet[FLOOR])
        ctis[i] = _find_lifted_cti(floor, fleet[FLEET], own[SEEN], behind, silent)[0]
    return ctis


@jit
def find_highest(device: Ints, states: Ints) -> int:
    """Return the highest CTI of these devices. O(n)."""
    highest = NEVER
    for i in range(len(device)):
        if device[i] >= 0 and states[device[i], 0] > highest:
            highest = states[device[i], 0]
    return highest


@jit
def raise_ctis(device: Ints, time: Ints, delay: int, ctis: Ints) -> tuple[int, int]:
    """Raise the CTIs of devices to these times less a delay, in ``ctis`` ``int64[devices]``.

    Returns the lowest CTI of one of them before, and the highest that one has now. A device may be
    there several times; no number is negative. O(n).
    """
    lowest, highest = MAX_TIME, NEVER
    for i in range(len(device)):
        d = np.uint64(device[i])  # unsigned: a signed index is tested each time
        before = ctis[d]
        cti = max(before, _make_cti(time[i], delay))
        ctis[d] = cti
        lowest, highest = min(lowest, before), max(highest, cti)
    return lowest, highest


@jit
def raise_ctis_in_order(device: Ints, time: Ints, delay: int, ctis: Ints) -> tuple[int, int, int]:
    """Raise the CTIs of devices as ``raise_ctis`` does, for times that never fall.

    ``ctis`` are those of all devices, of which there is one at least. This goes backwards from the
    last time, and stops once all have been raised. Returns the lowest CTI of one of them before,
    the CTI that the last time makes, NEVER if there is none, and the lowest CTI of all devices now,
    NEVER unless all have been raised. O(n).
    """
    lowest, left, end = MAX_TIME, len(ctis), len(device)
    while end > 0 and left > 0:
        begin = max(0, end - _STRIDE)
        for i in range(end - begin):
            row = np.uint64(end - 1 - i)
            d = np.uint64(device[row])
            before, cti = ctis[d], _make_cti(time[row], delay)
            left -= cti > before
            ctis[d] = max(before, cti)
            lowest = min(lowest, before)
        end = begin
    highest = _make_cti(time[-1], delay) if len(time) else NEVER
    return lowest, highest, NEVER if left else ctis.min()


@jit
def lower_times(device: Ints, time: Ints, lanes: Ints, earliest: Ints) -> None:
    """Lower ``earliest`` ``int64[devices]`` to the times of devices that have no lane.

    ``lanes`` ``int64[devices]``: -1 for these. O(n).
    """
    for i in range(len(device)):
        d = device[i]
        if lanes[d] < 0:
            earliest[d] = min(earliest[d], time[i])


@jit
def _find_slot(lane: int, numbers: Ints) -> int:
    """Return the place of a lane in the numbers of all, which are few."""
    # all are compared: which one it is cannot be foretold, and a wrong guess costs more
    slot = 0
    for each in range(len(numbers)):
        slot += each * (numbers[each] == lane)
    if numbers[slot] != lane:
        raise IndexError("a device has no lane")
    return slot


@jit
def raise_ctis_of_lanes(
    device: Ints, time: Ints, delay: int, ctis: Ints, lanes: Ints, numbers: Ints
) -> tuple[Ints, Ints, Ints]:
    """Raise the CTIs of devices to these times less a delay, in ``ctis`` ``int64[devices]``.

    ``lanes`` ``int64[devices]``: the lane of each device, one of the ``numbers``. Returns for each
    lane how many times concern its devices, the lowest CTI of one of these before, and the highest
    that one has now; MAX_TIME and NEVER if there are none. O(n * lanes).
    """
    counts = np.zeros(len(numbers), np.int64)
    lowest, highest = np.full(len(numbers), MAX_TIME), np.full(len(numbers), NEVER)
    for i in range(len(device)):
        d = device[i]
        slot = _find_slot(lanes[d], numbers)
        before = ctis[d]
        ctis[d] = max(before, _make_cti(time[i], delay))
        counts[slot] += 1
        lowest[slot] = min(lowest[slot], before)
        highest[slot] = max(highest[slot], ctis[d])
    return counts, lowest, highest


@jit
def group_by_lane(lane: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return the rows of the first lane, in order, then those of the next one, and so on.

    ``lane`` ``int64[n]``: that of each row, one of the ``numbers``, ``int64[lanes]``. Then where
    the rows of each lane begin, ``int64[lanes + 1]``. O(n * lanes).
    """
    slots = np.empty(len(lane), np.int64)
    begins = np.zeros(len(numbers) + 1, np.int64)
    for i in range(len(lane)):
        slots[i] = _find_slot(lane[i], numbers)
        begins[slots[i] + 1] += 1
    for slot in range(len(numbers)):
        begins[slot + 1] += begins[slot]
    rows, at = np.empty(len(lane), np.int64), begins.copy()
    for i in range(len(lane)):
        rows[at[slots[i]]] = i
        at[slots[i]] += 1
    return rows, begins


@jit
def find_lowest_starts(lane: Ints, start: Ints, numbers: Ints) -> Ints:
    """Return the lowest start of the rows of each lane, MAX_TIME if it has none.

    ``lane`` ``int64[n]``: that of each row, one of the ``numbers``. O(n * lanes).
    """
    lowest = np.full(len(numbers), MAX_TIME)
    for i in range(len(start)):
        slot = _find_slot(lane[i], numbers)
        lowest[slot] = min(lowest[slot], start[i])
    return lowest


@jit
def mark_moved(device: Ints, states: Ints, told: Ints, is_moved: Bools) -> Ints:
    """Return the devices among these whose CTI is above ``told``, and mark them.

    Each that is not marked yet is returned once. ``told`` ``int64[devices]``. O(n).
    """
    found = np.empty(len(device), np.int64)
    count = 0
    for i in range(len(device)):
        d = device[i]
        if d >= 0 and not is_moved[d] and states[d, 0] > told[d]:
            is_moved[d] = True
            found[count] = d
            count += 1
    return found[:count].copy()


@jit
def admit_merged(
    order: Ints,
    stream: Ints,
    start: Ints,
    end: Ints,
    settings: Ints,
    first: Ints,
    importer: Ints,
    states: Ints,
) -> tuple[Ints, Bytes, Ints]:
    """Judge rows of several streams; return starts to pass on, verdicts, and the CTI before each.

    ``order`` ``int64[n]``: the rows' numbers in the order in which they are accepted; ``stream``
    the number of each row's stream, ``start``, ``end`` ticks of complete rows. For each of m
    streams ``settings`` ``int64[m, 5]`` has the rules of ``admit``, from ``every`` on, and
    ``states`` ``int64[m, 7]`` the state, updated in place. The importers of stream s are
    ``importer[first[s]:first[s + 1]]``.

    A CTI that advances a stream, unless it is the end of time, goes to its importers before the
    next row is accepted, and from them to theirs. Loops of any size terminate: a stream passes on
    only a CTI that has advanced it, so each CTI at most once. O(n + CTIs * m), one pass.
    """
    n = len(order)
    starts = start.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    waiting = np.empty(len(states), np.int64)
    for at in range(n):
        i = order[at]
        s = stream[i]
        own = states[s]
        state = (own[0], own[1], own[2], own[3], own[4], own[5], own[6])
        before[i] = state[0]
        starts[i], reason[i], state = _take_row(start[i], end[i], settings[s, 3] != 0, state)
        state = _make_due_cti(start[i], settings[s, 0], settings[s, 1], settings[s, 2], state)
        own[0], own[1], own[2], own[3], own[4], own[5], own[6] = state
        reached = state[0]
        if reached == before[i]:
            continue
        waiting[0] = s
        left = 1 if reached < MAX_TIME else 0
        while left:
            left -= 1
            source = waiting[left]
            for k in range(first[source], first[source + 1]):
                each = importer[k]
                if states[each, 0] < reached:
                    states[each, 0] = reached
                    waiting[left] = each
                    left += 1
    return starts, reason, before


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
