"""Packer of a stream in which each device has its own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.clocks import RowClocks
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import Cti, Event, RowEvent, ends_row, find_late_bound
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import NEVER, is_due, make_cti, make_sent_cti, passes_in_order
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import (
    NO_KINDS,
    NO_ROWS,
    Bytes,
    EventRun,
    JudgedRun,
    LateRows,
    Rules,
    State,
    Verdicts,
    classify_rows,
    mark_ahead,
)
from rxtemporal.ingress.clock_guard import ClockGuard
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.device_clocks import PARTS, DeviceClocks, in_turn
from rxtemporal.ingress.door import IN_TIME, Accepted, Decision
from rxtemporal.ingress.input_state import ClockStats
from rxtemporal.ingress.lateness import REASONS, Lateness, LateReason, make_no_event_error
from rxtemporal.ingress.packer import Packer, list_columns
from rxtemporal.ingress.settings import AdvanceTimeSettings

# so many batches may wait until their rows advance their devices, and so many until the devices
# are numbered; and so many rows
_BATCHES, _MOST_BATCHES, _ROWS = 256, 512, 262_144


class DevicePacker(Packer):
    """Packer of a stream in which each device has its own time.

    An event is judged by the CTI of its device, which the device's own events make, as those of a
    stream make that of a door with one time. ``cti`` is the CTI that holds for all devices: one
    that the source has sent for all, or that comes from outside. Batches carry the CTIs of the
    devices that have advanced since the last one; see ``DeviceClocks``.

    Rows that cannot be late, whatever their devices, advance these later: many at once cost less.
    The clocks of their batch are read from them.
    """

    __slots__ = (
        "_clocks", "_floor", "_is_sorted", "_largest_lateness", "_latest", "_numbered", "_pass_for",
        "_pass_until", "_passed", "_passed_at", "_passed_since", "_passes", "_reached",
        "_row_clocks", "_rows_passed", "_top", "_waiting_devices", "_why", "turn",
    )  # fmt: skip

    by_device = True
    _largest_lateness: int

    def __init__(
        self,
        clock: ClockSettings,
        schema: pl.Schema,
        settings: AdvanceTimeSettings,
        source: str,
        *args: Any,
        tells_moves: bool = False,
        delays_ctis: bool = False,
        **options: Any,
    ) -> None:
        from rxtemporal.engine.kernels import order

        self._clocks = clocks = DeviceClocks(
            clock, schema, source, Rules.of(settings, delays_ctis=delays_ctis),
            # a row ahead of the wall clock advances its own device, though no other one
            counts_ahead=settings.ahead is None, tells_moves=tells_moves,
        )  # fmt: skip
        # any thread may ask for the clocks, for which rows that have passed advance their devices
        self.turn = clocks.turn
        super().__init__(settings, source, *args, delays_ctis=delays_ctis, **options)
        self._is_sorted = order.is_sorted
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
        # when the rows that have passed came: the first, and the last
        self._passed_since = self._passed_at = NEVER
        # True if no CTI of a device is above the highest start less the delay
        in_time = passes_in_order(self.rules.delay)
        self._passes = self.rules.every == 1 and in_time and not tells_moves
        # rows pass up to this time; beyond it the query is told how far the others lift a device
        limit = clocks.least_limit
        self._pass_until = MAX_TIME if limit is None else NEVER
        self._pass_for = (limit or 0) // PARTS
        # a time that the CTI of no device is above
        self._reached = NEVER
        # why the others have lifted the device that is being judged
        self._why = 0

    # Clocks ---------------------------------------------------------------------------------------

    @property
    @in_turn
    def clocks(self) -> DeviceClocks:
        """The clocks, which all rows so far have advanced."""
        return self._read_clocks()

    def _read_clocks(self) -> DeviceClocks:
        """Return the clocks, which all rows so far have advanced; the caller has the turn."""
        if self._passed:
            self._settle()
        self._clocks.set_floor(self.cti)
        return self._clocks

    def finish(self) -> int:
        """Advance to the end of time as ``Door`` does; no device becomes silent after it."""
        self._clocks.stop_clock()
        return super().finish()

    @property
    def reached(self) -> int:
        """The highest CTI of a device."""
        return max(self.cti, self._reached)

    def get_clock_stats(self) -> ClockStats:
        """Return counters of the devices' clocks. O(devices). Any thread may call it."""
        return self.clocks.count()

    @in_turn
    def note_silence(self, devices: Sequence[Any] | None) -> None:
        """Let devices follow the fleet from now on; see ``DeviceClocks``."""
        self._read_clocks().note_silence(devices, self.rows)
        self._set_limit()

    # Events one by one ----------------------------------------------------------------------------

    def keep(self, event: Event) -> bool:
        """Return False: each event is judged by its device's time."""
        return False

    @in_turn
    def accept(self, event: Event, ahead: bool = False) -> Decision:
        """Judge one event by its device's time, which the event advances."""
        if isinstance(event, Cti):
            if not ahead:
                self._take_cti(event)
            return IN_TIME
        if not isinstance(event, RowEvent):
            raise make_no_event_error(event)
        device = self._clocks.find_device(event.payload)
        if ahead and self._drops_ahead:
            return self._drop_ahead(device, event)
        self._enter(device)
        flagged = ahead and not self._clocks.counts_ahead
        counts = not ahead and self.generates and not ends_row(event) and self._is_due(event.start)
        verdict = IN_TIME
        try:
            verdict = super().accept(event, flagged)
            if counts:
                self._clocks.note_time(device, event.start)
        finally:
            kept = verdict[0]
            # an end edge at the end of time leaves its row as it is
            is_row = kept is not None and not (kept.end == MAX_TIME and ends_row(kept))
            if is_row:
                self._waiting_devices.append(device)
            self._leave(device, event.start, int(is_row))
        return verdict

    def _drop_ahead(self, device: int, event: RowEvent) -> Decision:
        """Drop an event that is ahead of the wall clock: it is no sign of its device, either."""
        floor = self.cti
        self.set_cti(max(floor, self._clocks.get_cti(device)))
        self.events += 1
        late = super()._count_late(event, LateReason.AHEAD)
        self.set_cti(floor)
        return None, 0, late

    def _is_due(self, start: int) -> bool:
        every, span, _, _, _ = self.rules
        return is_due(start, self._count + 1, every, span, self._last)

    def _enter(self, device: int) -> None:
        """Judge by the time of a device, until ``_leave``."""
        state, self._why = self._read_clocks().lift(device)
        self._floor = self.cti
        cti, self.own, self._count, self._last, self.high = state
        self.set_cti(cti)

    def _leave(self, device: int, time: int, rows: int = 0) -> None:
        """Judge by the time of all devices again; note what the device has reached.

        ``rows`` is the number of rows that have been accepted.
        """
        self._reached = max(self._reached, self.cti)
        self._top = self._latest = max(self._latest, time, self.high)
        state = self.cti, self.own, self._count, self._last, self.high
        self._clocks.put(device, state, time, self.rows + rows)
        self.set_cti(self._floor)
        self._why = 0

    def _count_late(self, event: RowEvent, reason: LateReason) -> Lateness:
        by_others = not ends_row(event) and event.start >= find_late_bound(self.own)
        if reason is LateReason.DROPPED and self._why and by_others:
            reason = REASONS[self._why] or reason
        return super()._count_late(event, reason)

    @in_turn
    def measure_behind(self, event: RowEvent, time: int) -> int:
        """Return how far an event is behind the highest time of its device."""
        return self._read_clocks().measure_behind(event.payload, time)

    def _take_cti(self, event: Cti) -> None:
        if event.device is None:
            self._reach_sent(event.start)
            self._read_clocks().note_cti(self.cti, self.rows)
        else:
            self.advance_device(event.device, event.start, self.rules.cti_delay)

    def advance(self, cti: int, device: Any = None) -> bool:
        """Take a CTI from outside, of one device or for all; return True if it advances."""
        return self.import_cti(cti) if device is None else self.advance_device(device, cti)

    @in_turn
    def advance_device(self, device: Any, time: int, delay: int = 0) -> bool:
        """Advance a device to a time less a delay; return True if its CTI has advanced."""
        number = self._clocks.find_device_of(device)
        self._enter(number)
        before, made = self.cti, make_sent_cti(time, delay)
        self.set_cti(max(before, made))
        self.own = max(self.own, made)
        if time < MAX_TIME:
            self.high = max(self.high, time)
            self._clocks.note_time(number, time)
        moves = self.cti > before
        self._leave(number, time)
        return moves

    # Columns --------------------------------------------------------------------------------------

    @in_turn
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

    @in_turn
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
            return Verdicts.of_all(batch.start, batch.end, self.state)
        clocks = self._read_clocks()
        devices = clocks.number_devices(batch.columns)
        self._numbered = batch.columns.share(clocks.devices.code(devices))
        kind = mark_ahead(kind, len(batch), ahead, drops_ahead=self._drops_ahead)
        heard = clocks.hear_some(devices, kind)
        verdicts = self._judge_items(devices, batch.start, batch.end, heard, kind, row, moved)
        if self._pass_until < MAX_TIME:
            self._pass_until = clocks.fleet_time + self._pass_for
        return verdicts

    def _judge_items(
        self,
        devices: Int64s,
        start: Int64s,
        end: Int64s,
        heard: int,
        kind: Bytes = NO_KINDS,
        row: Int64s = NO_ROWS,
        moved: Int64s = NO_ROWS,
    ) -> Verdicts:
        clocks = self._clocks
        self._top = self._latest = max(self._latest, int(start.max(initial=NEVER)))
        verdicts = clocks.judge(devices, start, end, kind, row, moved, self.state, heard)
        self._reached = max(self._reached, clocks.find_highest(devices))
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
        if not n or not self._passes or self._clocks.has_moved:
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
        if self._clocks.counts_wall:
            self._note_passing()
        coded = self._clocks.devices.group(batch.columns)
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

    def _note_passing(self) -> None:
        """Note when rows pass; those of long before do not wait for these."""
        now = self._clocks.hear()
        if self._passed and now - self._passed_since > self._pass_for:
            self._settle()
        if not self._passed:
            self._passed_since = now
        self._passed_at = now

    @in_turn
    def _settle(self, most: int = 0) -> None:
        """Advance the devices of the rows that have passed.

        With ``most``, up to so many batches are left whose devices have not been numbered.
        """
        passed, clocks = RowClocks.take_some(self._passed, most), self._clocks
        if not passed:
            return
        self._rows_passed -= sum(len(each.start) for each in passed)
        follows = clocks.least_limit is None and passed[0].start[0] >= self._top
        if follows and RowClocks.are_in_order(passed):
            clocks.pass_in_order(passed)
            self._top = int(passed[-1].start[-1])
            return
        devices, start = clocks.translate(passed), RowClocks.concat_starts(passed)
        clocks.raise_told(devices, start)
        judged = self._judge_items(devices, start, start, self._passed_at)
        self._largest_lateness = max(self._largest_lateness, judged.state[6])

    @property
    def largest_lateness(self) -> int:
        """The largest distance of an event behind its device, in ticks."""
        self._settle()
        return self._largest_lateness

    @largest_lateness.setter
    def largest_lateness(self, distance: int) -> None:
        self._largest_lateness = distance

    @in_turn
    def _continue(self, state: State, rows: int) -> None:
        cti, _, _, _, by_import, _, behind = state
        self.events += rows
        self.late_by_import += by_import
        # not the property: rows that have passed need not advance their devices for this
        self._largest_lateness = max(self._largest_lateness, behind)
        self.set_cti(max(self.cti, cti))

    @in_turn
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
        clocks, devices = self._read_clocks(), np.full(len(run.items), -1)
        try:
            devices[rows] = clocks.number_devices(payload)
        except EventError:  # one by one, so that those before it are accepted
            return None
        heard = clocks.hear_some(devices, run.kind)
        verdicts = self._judge_items(devices, run.start, run.end, heard, run.kind)
        kept = verdicts.kept & run.row_mask if len(verdicts.late) else run.row_mask
        if not kept.all():
            payload = payload.take(np.flatnonzero(kept[rows]))
        return JudgedRun(run, verdicts, kept, payload.share(clocks.devices.code(devices[kept])))

    # Batches --------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """True if the CTI of all, or that of a device, has advanced since the last batch."""
        return self._clocks.has_moved or super().has_news

    def _note_cti(self) -> None:
        super()._note_cti()
        self._set_limit()  # a device may have advanced

    @in_turn
    def pack(self) -> EventBatch | None:
        """Return the waiting rows as a batch, with the devices that have advanced."""
        self._read_clocks().look_for_silent()
        batch, devices = super().pack(), self._waiting_devices
        if batch is not None and devices:
            self._waiting_devices = []
            coded = self._clocks.devices.code(np.array(devices))
            batch = batch.replace(payload=batch.columns.share(coded))
        return self._add_clocks(batch)

    @in_turn
    def take_run(self, judged: JudgedRun) -> EventBatch | None:
        """Take a run with its verdicts; return its accepted rows, and what has advanced."""
        return self._add_clocks(super().take_run(judged))

    @in_turn
    def _put_batch(self, batch: EventBatch, late: LateRows | None) -> EventBatch:
        row_clocks, numbered = self._row_clocks, self._numbered
        self._row_clocks = self._numbered = None
        if numbered is not None and numbered.height == len(batch.start):  # all rows are accepted
            batch = batch.replace(payload=numbered)
        if row_clocks is not None:
            passed = super()._put_batch(batch, late)
            return passed.replace(clocks=row_clocks, in_order=row_clocks.in_order)
        self._read_clocks().look_for_silent()
        made = self._add_clocks(super()._put_batch(batch, late))
        assert made is not None
        return made

    def _add_clocks(self, batch: EventBatch | None) -> EventBatch | None:
        """Return a batch with the CTI of all devices, and with those of the ones that advanced."""
        if batch is None:
            return None
        clocks = self._read_clocks()
        if (floor := clocks.find_floor()) > batch.cti:
            self.sent = floor
            batch = batch.replace(cti=floor)
        return batch.replace(clocks=clocks.take())

    def _forget_from(self, row: int) -> None:
        super()._forget_from(row)
        del self._waiting_devices[row:]
        self._clocks.forget_from(row)

    # State ----------------------------------------------------------------------------------------

    @in_turn
    def save(self) -> list[Any]:
        """Return the state of the packer, and that of each device."""
        clocks = self._read_clocks()
        return [*super().save(), clocks.save()]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of a packer of the same stream."""
        *packer, devices = state
        super().load(packer)
        self._clocks.load(devices)
        self._waiting_devices = [
            self._clocks.find_device(each) for each in list_columns(self._waiting)[2]
        ]
        self._reached, self._top = self._clocks.highest
        self._latest = self._top
