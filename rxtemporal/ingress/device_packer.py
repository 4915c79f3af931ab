"""Packer of a stream in which each device has its own time."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.clocks import ClockMoves, Clocks, RowClocks
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import (
    Cti,
    Event,
    RowEvent,
    ends_row,
    find_late_bound,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import (
    CTI,
    DROP_AHEAD,
    END_EDGE,
    HEARD,
    KEEP_AHEAD,
    NEVER,
    NO_LIMIT,
    NOT_HEARD,
    find_sight,
    is_due,
    make_cti,
    make_sent_cti,
    passes_in_order,
)
from rxtemporal.engine.rows import grow
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import (
    NO_KINDS,
    NO_ROWS,
    Bytes,
    EventRun,
    JudgedRun,
    LateRows,
    State,
    Verdicts,
    classify_rows,
    mark_ahead,
)
from rxtemporal.ingress.clock_guard import ClockGuard
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.device_numbers import DeviceNumbers
from rxtemporal.ingress.door import IN_TIME, Accepted, Decision
from rxtemporal.ingress.input_state import MOST_FURTHEST, QUANTILES, ClockStats, DeviceClock
from rxtemporal.ingress.lateness import REASONS, Lateness, LateReason, make_no_event_error
from rxtemporal.ingress.packer import Packer, list_columns

# a device is told to be silent after at most a further such part of the span
_PARTS = 16
# so many batches may wait until their rows advance their devices, and so many until the devices
# are numbered; and so many rows
_BATCHES, _MOST_BATCHES, _ROWS = 256, 512, 262_144
# the rows of a batch that gains nothing from being joined with others
_LARGE = 4_096
# where nobody asks for the moves of clocks
_NO_MOVES = np.empty((2, 0), np.int64)


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_Method = Callable[Concatenate["DevicePacker", _Given], _Result]


def _in_turn(method: _Method[_Given, _Result]) -> _Method[_Given, _Result]:
    """Let one thread at a time be in a method: at the door, or at the clocks."""

    @wraps(method)
    def run(packer: DevicePacker, /, *args: _Given.args, **options: _Given.kwargs) -> _Result:
        with packer._turn:
            return method(packer, *args, **options)

    return run


class DevicePacker(Packer):
    """Packer of a stream in which each device has its own time.

    An event is judged by the CTI of its device, which the device's own events make, as those of a
    stream make that of a door with one time. ``cti`` is the CTI that holds for all devices: one
    that the source has sent for all, or that comes from outside. Batches carry the CTIs of the
    devices that have advanced since the last one, as ``clocks``.

    With ``tells_moves`` they also say how the clocks have moved among their rows.

    Rows that cannot be late, whatever their devices, advance these later: many at once cost less.
    The clocks of their batch are read from them.

    The others lift a device that is too far behind, or silent, by the rule in
    ``find_lifted_cti``: when its next event comes, before that is judged. So the verdicts follow
    from the events alone, in the order in which they came. The query is told earlier: of ``behind``
    with the CTI of all, and of silence after at most a sixteenth of the span more.

    Where the wall clock says who is silent, the owner does, with ``note_silence``. The verdicts
    follow from the events and from that. ``read_moment`` returns the ticks since a fixed moment, by
    which the owner finds who has not been heard; a replay has none.
    """

    __slots__ = (
        "_clock",
        "_counts_ahead",
        "_counts_wall",
        "_devices",
        "_fleet",
        "_floor",
        "_is_moved",
        "_is_sorted",
        "_kernel",
        "_largest_lateness",
        "_latest",
        "_limits",
        "_looked",
        "_moved",
        "_moves",
        "_numbered",
        "_pass_for",
        "_pass_until",
        "_passed",
        "_passed_at",
        "_passed_since",
        "_passes",
        "_reached",
        "_row_clocks",
        "_rows_passed",
        "_states",
        "_tells_moves",
        "_told",
        "_top",
        "_turn",
        "_waiting_devices",
        "_why",
        "is_down",
        "read_moment",
    )

    by_device = True
    _largest_lateness: int

    def __init__(
        self,
        clock: ClockSettings,
        schema: pl.Schema,
        *args: Any,
        tells_moves: bool = False,
        **settings: Any,
    ) -> None:
        from rxtemporal.engine.kernels import door, order

        # the devices that have advanced beyond what the query was told
        self._moved: list[Int64s] = []
        super().__init__(*args, **settings)
        assert self.settings is not None
        self._kernel: ModuleType = door
        self._is_sorted = order.is_sorted
        self._clock = clock
        # any thread may ask for the clocks, for which rows that have passed advance their devices
        self._turn = threading.RLock()
        fields = pl.Schema({name: schema[name] for name in clock.fields})
        self._devices = DeviceNumbers(fields, self.source, self._turn)
        self._states = np.full((0, door.WIDTH), NEVER)
        # the CTI of each device that the query was told last; of a new one below all
        self._told = np.full(0, NEVER)
        # the mask of those that have advanced beyond that
        self._is_moved = np.zeros(0, np.bool_)
        # accepted rows that have not advanced their devices yet, and their number
        self._passed: list[RowClocks] = []
        self._rows_passed = 0
        # of the batch that is being accepted: its columns with the numbers of devices, and what its
        # rows say of these if they have passed
        self._numbered: Columns | None = None
        self._row_clocks: RowClocks | None = None
        # the numbers of the devices of the rows that wait
        self._waiting_devices: list[int] = []
        # the highest start of the rows that have advanced their devices, and that of all rows
        self._top = self._latest = NEVER
        self._fleet = np.full(5, NEVER)
        self._limits = (
            NO_LIMIT if clock.behind is None else clock.behind,
            NO_LIMIT if clock.quiet is None else clock.quiet,
        )
        # the time of the fleet at which silent devices have last been looked for
        self._looked = NEVER
        self._counts_wall = clock.silent_by_wall and clock.quiet is not None
        self.read_moment: Callable[[], int] | None = None
        # True if nothing has come from any device for so long that all were silent
        self.is_down = False
        # when the rows that have passed came: the first, and the last
        self._passed_since = self._passed_at = NEVER
        # True if a row ahead of the wall clock advances its own device, though no other one
        self._counts_ahead = self.settings.ahead is None
        limits = [each for each in self._limits if each != NO_LIMIT]
        # True if no CTI of a device is above the highest start less the delay
        in_time = passes_in_order(self.rules.delay)
        self._passes = self.rules.every == 1 and in_time and not tells_moves
        # rows pass up to this time; beyond it the query is told how far the others lift a device
        self._pass_until = NEVER if limits else MAX_TIME
        self._pass_for = min(limits, default=0) // _PARTS
        # a time that the CTI of no device is above
        self._reached = NEVER
        # why the others have lifted the device that is being judged
        self._why = 0
        self._tells_moves = tells_moves
        # the moves of clocks since the last batch, as columns
        self._moves: list[Int64s | tuple[int, int, int, int]] = []

    # Devices --------------------------------------------------------------------------------------

    def _grow(self) -> None:
        """Make room for the state of new devices."""
        count, have = len(self._devices), len(self._states)
        if count <= have:
            return
        room = max(count, 2 * have, 64)
        states = np.full((room, self._kernel.WIDTH), NEVER)
        states[:, self._kernel.COUNT] = states[:, self._kernel.WHY] = 0
        if self._counts_wall:
            states[:, self._kernel.SEEN] = NOT_HEARD
        states[:have] = self._states
        self._states, self._told = states, grow(self._told, room, NEVER - 1)
        self._is_moved = grow(self._is_moved, room)

    @_in_turn
    def number_devices(self, columns: Columns) -> Int64s:
        """Return the numbers of the devices of rows; raise if one has none."""
        codes = self._devices.encode(columns)
        self._grow()
        return codes

    def _find_device(self, payload: Any) -> int:
        """Return the number of the device of one event."""
        device = self._devices.find(payload)
        if device >= len(self._states):
            self._grow()
        return device

    def find_device(self, device: Any) -> int:
        """Return the number of a device that is given by its value; see ``DeviceNumbers``."""
        number = self._devices.find_value(device)
        self._grow()
        return number

    @_in_turn
    def list_ctis(self) -> tuple[Columns, Int64s]:
        """Return the devices, and their CTIs as they are now."""
        self._settle()
        devices = np.arange(len(self._devices))
        return self._devices.decode(devices), self._find_ctis(devices)

    @_in_turn
    def name_device(self, payload: Any) -> tuple[Any, ...]:
        """Return the values that name the device of a payload."""
        number = np.array([self._find_device(payload)])
        device: tuple[Any, ...] = self._devices.decode(number).frame.row(0)
        return device

    @_in_turn
    def find_cti(self, payload: Any) -> int:
        """Return the CTI of the device of a payload, as the others allow it now."""
        return int(self._find_ctis(np.array([self._find_device(payload)]))[0])

    @_in_turn
    def find_cti_of(self, device: Any) -> int:
        """Return the CTI of a device that is given by its value, as the others allow it now."""
        return int(self._find_ctis(np.array([self.find_device(device)]))[0])

    @_in_turn
    def list_highs(self) -> tuple[Columns, Int64s]:
        """Return the devices, and the highest time that each has sent."""
        self._settle()
        count = len(self._devices)
        highs = self._states[:count, self._kernel.HIGH].copy()
        return self._devices.decode(np.arange(count)), highs

    def _find_ctis(self, devices: Int64s) -> Int64s:
        """Return the CTIs of these devices, as the others allow them now."""
        self._settle()
        self._fleet[self._kernel.FLOOR] = self.cti
        found: Int64s = self._kernel.find_ctis(devices, self._states, self._fleet, *self._limits)
        return found

    def follow_clock(self, read_moment: Callable[[], int]) -> None:
        """Find by this clock who has not been heard."""
        self.read_moment = read_moment

    def finish(self) -> int:
        """Advance to the end of time as ``Door`` does; no device becomes silent after it."""
        if self.read_moment is not None:
            moment = self.read_moment()
            self.read_moment = lambda: moment
        return super().finish()

    @property
    def fleet_time(self) -> int:
        """The time of the fleet; below all times while it has none."""
        self._settle()
        return int(self._fleet[self._kernel.FLEET])

    @property
    def reached(self) -> int:
        """The highest CTI of a device."""
        return max(self.cti, self._reached)

    @_in_turn
    def get_clock_stats(self) -> ClockStats:
        """Return counters of the devices' clocks. O(devices). Any thread may call it."""
        fleet, (_, silent) = self.fleet_time, self._limits
        count = min(len(self._devices), len(self._states))
        states = self._states[:count]
        high = np.maximum(states[:, self._kernel.HIGH], MIN_TIME)
        behind = np.maximum(fleet - high, 0)
        is_silent = np.zeros(count, np.bool_)
        if self._counts_wall:
            is_silent = self._find_unheard(states, silent)
        elif silent >= 0:
            is_silent = (fleet - states[:, self._kernel.SEEN] >= silent) & (fleet > NEVER)
        live = np.flatnonzero(~is_silent)
        order = live[np.argsort(-behind[live], kind="stable")][:MOST_FURTHEST]
        names = self._devices.list_values(order)
        found = self._find_ctis(order)
        ctis = np.maximum(found, MIN_TIME).tolist()
        furthest = map(DeviceClock, names, ctis, behind[order].tolist())
        of_live = np.sort(behind[live])
        at = [max(0, math.ceil(part * len(live)) - 1) for part in QUANTILES if len(live)]
        return ClockStats(
            devices=count,
            live=len(live),
            behind=int((behind[live] > max(self.rules.delay, 0)).sum()),
            silent=count - len(live),
            fleet=max(fleet, MIN_TIME),
            furthest=tuple(furthest),
            distances=tuple(of_live[at].tolist()),
        )

    # Events one by one ----------------------------------------------------------------------------

    def keep(self, event: Event) -> bool:
        """Return False: each event is judged by its device's time."""
        return False

    @_in_turn
    def accept(self, event: Event, ahead: bool = False) -> Decision:
        """Judge one event by its device's time, which the event advances."""
        if isinstance(event, Cti):
            if not ahead:
                self._take_cti(event)
            return IN_TIME
        if not isinstance(event, RowEvent):
            raise make_no_event_error(event)
        device = self._find_device(event.payload)
        if ahead and self._drops_ahead:
            return self._drop_ahead(device, event)
        own = self._enter(device)
        flagged = ahead and not self._counts_ahead
        counts = not ahead and self.generates and not ends_row(event) and self._is_due(event.start)
        verdict = IN_TIME
        try:
            verdict = super().accept(event, flagged)
            if counts:
                self._note_time(device, event.start, own)
        finally:
            kept = verdict[0]
            # an end edge at the end of time leaves its row as it is
            is_row = kept is not None and not (kept.end == MAX_TIME and ends_row(kept))
            if is_row:
                self._waiting_devices.append(device)
            self._leave(device, own, event.start, int(is_row))
        return verdict

    def _drop_ahead(self, device: int, event: RowEvent) -> Decision:
        """Drop an event that is ahead of the wall clock: it is no sign of its device, either."""
        floor = self.cti
        self.set_cti(max(floor, int(self._states[device, 0])))
        self.events += 1
        late = super()._count_late(event, LateReason.AHEAD)
        self.set_cti(floor)
        return None, 0, late

    def _is_due(self, start: int) -> bool:
        every, span, _, _, _ = self.rules
        return is_due(start, self._count + 1, every, span, self._last)

    def _note_time(self, device: int, time: int, own: Int64s) -> None:
        self._kernel.note_time(device, time, self._clock.by_wall, own, self._fleet)

    def _enter(self, device: int) -> Int64s:
        """Judge by the time of a device, until ``_leave``; return its state."""
        self._settle()
        own: Int64s = self._states[device]
        self._fleet[self._kernel.FLOOR] = self._floor = self.cti
        self._kernel.lift_device(own, self._fleet, *self._limits)
        cti, self.own, self._count, self._last, self.high = own[:5].tolist()
        self.set_cti(cti)
        self._why = int(own[self._kernel.WHY])
        return own

    def _leave(self, device: int, own: Int64s, time: int, rows: int = 0) -> None:
        """Judge by the time of all devices again; note what the device has reached.

        ``rows`` is the number of rows that have been accepted.
        """
        self._reached = max(self._reached, self.cti)
        self._top = self._latest = max(self._latest, time, self.high)
        own[:5] = self.cti, self.own, self._count, self._last, self.high
        fleet = self.fleet_time
        own[self._kernel.SEEN] = find_sight(self._hear(), fleet, time)
        if self.cti > self._told[device] and not self._is_moved[device]:
            self._is_moved[device] = True
            self._moved.append(np.array([device]))
        if self._tells_moves:
            self._moves.append((self.rows + rows, device, self.cti, fleet))
        self.set_cti(self._floor)
        self._why = 0

    def _count_late(self, event: RowEvent, reason: LateReason) -> Lateness:
        by_others = not ends_row(event) and event.start >= find_late_bound(self.own)
        if reason is LateReason.DROPPED and self._why and by_others:
            reason = REASONS[self._why] or reason
        return super()._count_late(event, reason)

    @_in_turn
    def measure_behind(self, event: RowEvent, time: int) -> int:
        """Return how far an event is behind the highest time of its device."""
        device = self._find_device(event.payload)  # which may replace the array
        self._settle()
        return int(self._states[device, self._kernel.HIGH]) - time

    def _take_cti(self, event: Cti) -> None:
        if event.device is None:
            self._reach_sent(event.start)
            if self._tells_moves:
                self._moves.append((self.rows, -1, self.cti, self.fleet_time))
        else:
            self.advance_device(event.device, event.start, self.rules.cti_delay)

    def advance(self, cti: int, device: Any = None) -> bool:
        """Take a CTI from outside, of one device or for all; return True if it advances."""
        return self.import_cti(cti) if device is None else self.advance_device(device, cti)

    @_in_turn
    def advance_device(self, device: Any, time: int, delay: int = 0) -> bool:
        """Advance a device to a time less a delay; return True if its CTI has advanced."""
        number = self.find_device(device)
        own = self._enter(number)
        before, made = self.cti, make_sent_cti(time, delay)
        self.set_cti(max(before, made))
        self.own = max(self.own, made)
        if time < MAX_TIME:
            self.high = max(self.high, time)
            self._note_time(number, time, own)
        moves = self.cti > before
        self._leave(number, own, time)
        return moves

    # Columns --------------------------------------------------------------------------------------

    @_in_turn
    def accept_batch(self, batch: EventBatch, ahead: Bools | None = None) -> Accepted:
        """Judge a batch, each row by its device's time; return its accepted rows, and the late."""
        if batch.has_edges:
            return self.accept_items(batch, classify_rows(batch), ahead)
        if ahead is None and self._pass(batch):
            self.events += len(batch.start)
            self.take_cti(batch.cti)
            return batch.replace(cti=max(self.cti, MIN_TIME)), None
        return self.accept_judged(batch, self.judge_columns(batch, ahead=ahead))

    def check_batch(self, batch: EventBatch) -> EventBatch:
        """Check a batch as ``Packer`` does, and see whether its rows are in order."""
        # before the check, which of rows in order reads only the first and the last start
        if not batch.in_order and self._is_sorted(batch.start):
            batch = batch.replace(in_order=True)
        return super().check_batch(batch)

    @_in_turn
    def judge_columns(
        self,
        batch: EventBatch,
        kind: Bytes = NO_KINDS,
        row: Int64s = NO_ROWS,
        moved: Int64s = NO_ROWS,
        ahead: Bools | None = None,
    ) -> Verdicts:
        """Return the verdicts on a batch, which advances its devices."""
        if ahead is None and not len(kind) and self._pass(batch, tells=True):
            state: State = (self.cti, self.own, 0, 0, 0, self.high, 0)
            return Verdicts.of_all(batch.start, batch.end, state)
        self._settle()
        devices = self.number_devices(batch.columns)
        self._numbered = batch.columns.share(self._devices.code(devices))
        kind = mark_ahead(kind, len(batch), ahead, drops_ahead=self._drops_ahead)
        heard = self._hear_some(devices, kind)
        verdicts = self._judge_items(devices, batch.start, batch.end, kind, row, moved, heard)
        if self._pass_until < MAX_TIME:
            self._pass_until = self.fleet_time + self._pass_for
        return verdicts

    def _judge_items(
        self,
        devices: Int64s,
        start: Int64s,
        end: Int64s,
        kind: Bytes,
        row: Int64s,
        moved: Int64s,
        heard: int,
    ) -> Verdicts:
        self._fleet[self._kernel.FLOOR] = self.cti
        self._top = self._latest = max(self._latest, int(start.max(initial=NEVER)))
        moves = self._make_moves(len(start))
        starts, ends, reason, before, by_import, behind = self._kernel.admit_by_device(
            devices, start, end, kind, row, moved, *self.rules, *self._limits,
            self._clock.by_wall, self._counts_ahead, heard, self._states, self._fleet, moves,
        )  # fmt: skip
        times, backwards = start, False
        if len(kind):
            times = np.where(kind == END_EDGE, end, start)
            backwards = bool(((kind == CTI) & (start < before)).any())
        self._note_devices(devices)
        state: State = (self.cti, self.own, 0, 0, by_import, self.high, behind)
        verdicts = Verdicts.from_kernel(
            times, starts, ends, reason, before, state, backwards=backwards
        )
        if self._tells_moves:
            plain = kind % KEEP_AHEAD  # without the marks
            self._add_moves(np.cumsum(verdicts.find_rows(plain)), devices, moves)
        return verdicts

    def _pass(self, batch: EventBatch, *, tells: bool = False) -> bool:
        """Take complete rows if none of them can be late; return True if so.

        Rows in order must start at or above every CTI that holds before them; other rows also at or
        above the CTI that the highest of them makes. They advance their devices when somebody asks
        for the clocks. ``tells``: somebody asks now how far a row is behind its device, so that
        distance has to be 0.
        """
        starts = batch.start
        n = len(starts)
        if not n or not self._passes or self._moved:
            return False
        in_order = batch.in_order or self._is_sorted(starts)
        low = starts.item(0) if in_order else int(starts.min())
        high = starts.item(n - 1) if in_order else int(starts.max())
        reached = make_cti(high, self.rules.delay)
        if low < find_late_bound(max(self._reached, self.cti)) or high > self._pass_until:
            return False
        if in_order:
            needs_look = tells and low < self._latest
        else:
            needs_look = tells or low < find_late_bound(reached)
        if needs_look:
            return False
        if self._counts_wall:
            self._note_passing()
        coded = self._devices.group(batch.columns)
        if coded is None:
            return False
        clocks = RowClocks(coded, starts, self.rules.delay, low, reached, in_order=in_order)
        self._numbered, self._row_clocks = batch.columns.share(coded), clocks
        self._passed.append(clocks)
        self._rows_passed += n
        if reached > self._reached:
            self._reached = reached
        if high > self._latest:
            self._latest = high
        if self._rows_passed >= _ROWS:
            self._settle()
        elif len(self._passed) >= _BATCHES:
            self._settle(_MOST_BATCHES)
        return True

    @_in_turn
    def _settle(self, most: int = 0) -> None:
        """Advance the devices of the rows that have passed.

        With ``most``, up to so many batches are left whose devices have not been numbered.
        """
        passed = RowClocks.take_some(self._passed, most)
        if not passed:
            return
        self._rows_passed -= sum(len(each.start) for each in passed)
        has_limits = self._limits != (NO_LIMIT, NO_LIMIT)
        if not has_limits and passed[0].start[0] >= self._top and RowClocks.are_in_order(passed):
            self._pass_in_order(passed)
            return
        devices = self._devices.translate([each.coded for each in passed])
        self._grow()
        start = RowClocks.concat_starts(passed)
        self._kernel.raise_ctis(devices, start, self.rules.delay, self._told)
        judged = self._judge_items(
            devices, start, start, NO_KINDS, NO_ROWS, NO_ROWS, self._passed_at
        )
        self._largest_lateness = max(self._largest_lateness, judged.state[6])

    def _pass_in_order(self, passed: list[RowClocks]) -> None:
        """Advance the devices of rows that are in order, and after all that came before."""
        are_large = sum(len(each.start) for each in passed) >= _LARGE * len(passed)
        together = [[each] for each in passed] if are_large else [passed]
        # the last ones first: those before them matter only to devices that are not among them
        left = None
        for parts in reversed(together):
            devices = self._devices.translate([each.coded for each in parts])
            self._grow()
            known = len(self._devices)
            left = self._kernel.pass_in_order(
                devices, RowClocks.concat_starts(parts), self.rules.delay, self._clock.by_wall,
                self._states[:known], self._fleet, self._told, known if left is None else left,
            )  # fmt: skip
            if not left:
                break
        self._top = int(passed[-1].start[-1])

    @property
    def largest_lateness(self) -> int:
        """The largest distance of an event behind its device, in ticks."""
        self._settle()
        return self._largest_lateness

    @largest_lateness.setter
    def largest_lateness(self, distance: int) -> None:
        self._largest_lateness = distance

    def _make_moves(self, count: int) -> Int64s:
        """Return room for the CTI of the device, and the time of the fleet, after each item."""
        return np.empty((2, count), np.int64) if self._tells_moves else _NO_MOVES

    def _add_moves(self, rows: Int64s, devices: Int64s, moves: Int64s) -> None:
        """Note how the clocks have moved, after so many rows."""
        self._moves.append(np.vstack([rows, devices, moves]))

    def _stack_moves(self) -> Int64s:
        none = np.empty((4, 0), np.int64)
        return np.hstack([none, *(np.reshape(each, (4, -1)) for each in self._moves)])

    def _take_moves(self) -> ClockMoves | None:
        """Return how the clocks have moved among the rows that leave now, if somebody asks."""
        if not self._tells_moves:
            return None
        rows, devices, ctis, fleet = self._stack_moves()
        self._moves.clear()
        fleet = np.maximum(fleet - max(self.rules.delay, 0), MIN_TIME)
        return ClockMoves(rows, devices, np.maximum(ctis, MIN_TIME), fleet)

    def _note_devices(self, devices: Int64s) -> None:
        """Note the devices that have advanced, and the highest CTI of one."""
        self._reached = max(self._reached, self._kernel.find_highest(devices, self._states))
        self._add_moved(self._kernel.mark_moved(devices, self._states, self._told, self._is_moved))

    def _add_moved(self, devices: Int64s) -> None:
        if len(devices):
            self._moved.append(devices)

    @_in_turn
    def _continue(self, state: State, rows: int) -> None:
        by_import, behind = state[4], state[6]
        self.events += rows
        self.late_by_import += by_import
        # not the property: rows that have passed need not advance their devices for this
        self._largest_lateness = max(self._largest_lateness, behind)
        self.set_cti(max(self.cti, int(self._fleet[self._kernel.FLOOR])))

    @_in_turn
    def judge_run(self, run: EventRun, guard: ClockGuard | None = None) -> JudgedRun | None:
        """Return a run of events with their verdicts; it advances their devices.

        None if they have to be taken one by one: one is invalid, or ``guard`` finds one ahead of
        the wall clock.
        """
        if guard is not None and guard.rows_ahead(run.start, run.kind) is not None:
            return None
        if not self._see_run(run):
            return None
        rows = run.row_mask.nonzero()[0]
        payload = self._convert_if_typed([run.items[row].payload for row in rows.tolist()])
        if payload is None:
            return None
        self._settle()
        devices = np.full(len(run.items), -1)
        try:
            devices[rows] = self.number_devices(payload)
        except EventError:  # one by one, so that those before it are accepted
            return None
        heard = self._hear_some(devices, run.kind)
        verdicts = self._judge_items(devices, run.start, run.end, run.kind, NO_ROWS, NO_ROWS, heard)
        kept = verdicts.kept & run.row_mask if len(verdicts.late) else run.row_mask
        if not kept.all():
            payload = payload.take(np.flatnonzero(kept[rows]))
        return JudgedRun(run, verdicts, kept, payload.share(self._devices.code(devices[kept])))

    # Batches --------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """True if the CTI of all, or that of a device, has advanced since the last batch."""
        return bool(self._moved) or super().has_news

    def _note_cti(self) -> None:
        super()._note_cti()
        self._set_limit()  # a device may have advanced

    @_in_turn
    def pack(self) -> EventBatch | None:
        """Return the waiting rows as a batch, with the devices that have advanced."""
        self._look_for_silent()
        batch, devices = super().pack(), self._waiting_devices
        if batch is not None and devices:
            self._waiting_devices = []
            coded = self._devices.code(np.array(devices))
            batch = batch.replace(payload=batch.columns.share(coded))
        return self._add_clocks(self._lift(batch))

    @_in_turn
    def take_run(self, judged: JudgedRun) -> EventBatch | None:
        """Take a run with its verdicts; return its accepted rows, and what has advanced."""
        return self._add_clocks(self._lift(super().take_run(judged)))

    @_in_turn
    def _put_batch(self, batch: EventBatch, late: LateRows | None) -> EventBatch:
        clocks, numbered = self._row_clocks, self._numbered
        self._row_clocks = self._numbered = None
        if numbered is not None and numbered.height == len(batch.start):  # all rows are accepted
            batch = batch.replace(payload=numbered)
        if clocks is not None:
            passed = super()._put_batch(batch, late)
            return passed.replace(clocks=clocks, in_order=clocks.in_order)
        self._look_for_silent()
        made = self._add_clocks(self._lift(super()._put_batch(batch, late)))
        assert made is not None
        return made

    def _find_floor(self) -> int:
        """Return the CTI that holds for all devices, also for those that have not come yet."""
        fleet, (behind, _) = self.fleet_time, self._limits
        if behind < 0 or fleet <= NEVER:
            return self.cti
        return max(self.cti, fleet - behind)

    def _lift(self, batch: EventBatch | None) -> EventBatch | None:
        """Return a batch with the CTI that holds for all devices."""
        if batch is None or (floor := self._find_floor()) <= batch.cti:
            return batch
        self.sent = floor
        return batch.replace(cti=floor)

    def _look_for_silent(self) -> None:
        """Note the devices that have become silent."""
        fleet, (_, silent) = self.fleet_time, self._limits
        if silent < 0 or fleet < self._looked + max(silent // _PARTS, 1):
            return
        self._looked = fleet
        count = len(self._devices)
        ctis = self._find_ctis(np.arange(count))
        found = np.flatnonzero((ctis > self._told[:count]) & ~self._is_moved[:count])
        self._is_moved[found] = True
        self._add_moved(found)

    def _add_clocks(self, batch: EventBatch | None) -> EventBatch | None:
        """Add the CTIs of the devices that have advanced to a batch."""
        if batch is None:
            return None
        self._settle()
        moved = self._take_moved()
        ctis = np.maximum(self._find_ctis(moved), MIN_TIME)
        self._told[moved] = ctis
        coder = self._devices.coder
        moves = self._take_moves()
        return batch.replace(clocks=Clocks(partial(coder.decode, moved), ctis, moved, coder, moves))

    def _take_moved(self) -> Int64s:
        """Return the devices that have advanced, which the query is told now."""
        moved = np.concatenate([NO_ROWS, *self._moved])
        self._moved.clear()
        self._is_moved[moved] = False
        return moved

    def _forget_from(self, row: int) -> None:
        super()._forget_from(row)
        del self._waiting_devices[row:]
        self._take_moved()  # later rows of theirs are gone, so nothing more of them is final
        moves = self._stack_moves()
        self._moves = [moves[:, moves[0] <= row]]

    # Silence by the wall clock --------------------------------------------------------------------

    def _hear(self) -> int:
        """Return HEARD and the moment; NEVER where silence follows from the fleet."""
        if not self._counts_wall:
            return NEVER
        if self.read_moment is None:
            return HEARD
        moment = self.read_moment()
        if self.is_down:  # it was the line, so each device has the whole span again
            self.hear_all(moment)
        return HEARD + moment

    def _hear_some(self, devices: Int64s, kind: Bytes) -> int:
        """Return what ``_hear`` does; a CTI for all and a row that is dropped are no signs."""
        if not self._counts_wall:
            return NEVER
        are_signs = devices >= 0
        if len(kind):
            are_signs &= kind < DROP_AHEAD
        return self._hear() if are_signs.any() else HEARD

    def _note_passing(self) -> None:
        """Note when rows pass; those of long before do not wait for these."""
        now = self._hear()
        if self._passed and now - self._passed_since > self._pass_for:
            self._settle()
        if not self._passed:
            self._passed_since = now
        self._passed_at = now

    def _find_unheard(self, states: Int64s, length: int) -> Bools:
        """Return the mask of devices that are silent, or have not been heard for so long."""
        seen = states[:, self._kernel.SEEN]
        unheard: Bools = seen == NEVER
        if self.read_moment is not None:
            unheard |= HEARD + self.read_moment() - seen >= length
        return unheard

    @_in_turn
    def find_silent(self, until: int) -> tuple[Int64s, int, int]:
        """Return the devices last heard until a moment, and the first and last other moment.

        Devices that are silent already, or of which nothing has been heard, do not count. Of no
        other device both moments are -1. O(devices).
        """
        self._settle()
        seen = self._states[: len(self._devices), self._kernel.SEEN]
        counts = (seen > NEVER) & (seen < NOT_HEARD)
        found = counts & (seen <= HEARD + until)
        others = seen[counts & ~found]
        if not len(others):
            return np.flatnonzero(found), -1, -1
        return np.flatnonzero(found), int(others.min()) - HEARD, int(others.max()) - HEARD

    def list_devices(self, numbers: Int64s) -> tuple[Any, ...]:
        """Return the devices of these numbers, as ``Clocks.list_devices`` does."""
        return self._devices.list_values(numbers)

    @_in_turn
    def note_silence(self, devices: Sequence[Any] | None) -> None:
        """Let devices follow the fleet from now on; each does until it sends something.

        None: all are silent. Then each is lifted once, and none follows any longer.
        """
        self._settle()
        self._fleet[self._kernel.FLOOR] = self.cti
        if devices is None:
            self._lift_all()
            return
        numbers = np.array([self.find_device(each) for each in devices], np.int64)
        self._states[numbers, self._kernel.SEEN] = NEVER
        self._note_lifted(numbers, -2 - numbers)

    def _lift_all(self) -> None:
        self.is_down = True
        count = len(self._devices)
        before, seen = self._states[:count, 0].copy(), self._states[:count, self._kernel.SEEN]
        devices = np.flatnonzero(seen < NOT_HEARD)
        follows = seen == NEVER
        self._kernel.lift_silent(devices, self._states, self._fleet, *self._limits)
        seen[follows] = HEARD
        changed = np.flatnonzero(follows | (self._states[:count, 0] > before))
        self._note_lifted(changed, changed)

    def _note_lifted(self, devices: Int64s, marks: Int64s) -> None:
        """Note devices whose silence has begun or ended; ``marks`` stand for them in moves."""
        ctis = self._find_ctis(devices)
        found = devices[(ctis > self._told[devices]) & ~self._is_moved[devices]]
        self._is_moved[found] = True
        self._add_moved(found)
        self._set_limit()
        if self._tells_moves:
            rows, fleet = np.full((2, len(devices)), [[self.rows], [self.fleet_time]])
            self._moves.append(np.vstack([rows, marks, ctis, fleet]))

    @_in_turn
    def hear_all(self, moment: int) -> None:
        """Count all devices but silent ones as heard at a moment."""
        self.is_down = False
        self._settle()
        seen = self._states[: len(self._devices), self._kernel.SEEN]
        counts = (seen > NEVER) & (seen < NOT_HEARD)
        seen[counts] = np.maximum(seen[counts], HEARD + moment)

    @_in_turn
    def shift_moments(self, length: int) -> None:
        """Count the moments at which devices were heard as so much later, after a resumption."""
        seen = self._states[: len(self._devices), self._kernel.SEEN]
        counts = (seen > NEVER) & (seen < NOT_HEARD)
        seen[counts] = np.maximum(seen[counts] + length, HEARD)

    # State ----------------------------------------------------------------------------------------

    @_in_turn
    def save(self) -> list[Any]:
        """Return the state of the packer, and that of each device."""
        self._settle()
        count = len(self._devices)
        devices = [
            self._devices.coder, self._states[:count].copy(), self._told[:count].copy(),
            self._fleet.copy(), np.flatnonzero(self._is_moved), self._looked, self._stack_moves(),
            self.is_down,
        ]  # fmt: skip
        return [*super().save(), devices]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of a packer of the same stream."""
        *packer, devices = state
        super().load(packer)
        coder, states, told, fleet, moved, self._looked, moves, *down = devices
        self.is_down = any(down)
        self._devices.load(coder)
        self._waiting_devices = [*map(self._find_device, list_columns(self._waiting)[2])]
        self._moves = [moves]
        self._grow()
        self._states[: len(states)], self._told[: len(told)] = states, told
        self._fleet[:] = fleet
        self._reached = int(states[:, 0].max(initial=NEVER))
        self._top = self._latest = int(states[:, self._kernel.HIGH].max(initial=NEVER))
        self._is_moved[moved] = True
        self._add_moved(moved)
