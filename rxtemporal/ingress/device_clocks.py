"""Clocks of the devices of one stream: the CTI of each, and the part of it that the query knows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.clocks import ClockMoves, Clocks, RowClocks
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.door_rules import (
    DROP_AHEAD,
    HEARD,
    KEEP_AHEAD,
    NEVER,
    NO_LIMIT,
    NOT_HEARD,
    find_sight,
)
from rxtemporal.engine.rows import grow
from rxtemporal.ingress.batch_verdicts import NO_ROWS, Bytes, Rules, State, Verdicts
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.device_numbers import DeviceNumbers
from rxtemporal.ingress.input_state import MOST_FURTHEST, QUANTILES, ClockStats, DeviceClock

# a device is told to be silent after at most a further such part of the span
PARTS = 16
# the rows of a batch that gains nothing from being joined with others
_LARGE = 4_096
# where nobody asks for the moves of clocks
_NO_MOVES = np.empty((2, 0), np.int64)


class _HasTurn(Protocol):
    @property
    def turn(self) -> threading.RLock:
        """The lock of those who use the clocks."""


_Owner = TypeVar("_Owner", bound=_HasTurn)
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def in_turn(
    method: Callable[Concatenate[_Owner, _Given], _Result],
) -> Callable[Concatenate[_Owner, _Given], _Result]:
    """Let one thread at a time be in a method: at the door, or at the clocks."""

    @wraps(method)
    def run(owner: _Owner, /, *args: _Given.args, **options: _Given.kwargs) -> _Result:
        with owner.turn:
            return method(owner, *args, **options)

    return run


class DeviceClocks:
    """The clocks of the devices of one stream.

    Each device has a row of state, whose columns are those of ``engine/kernels/door``; the *fleet*
    is the same for all devices together. The *floor* is the CTI that holds for all. ``rules`` are
    those of the door, and ``counts_ahead`` is True if a row that is ahead of the wall clock
    advances its own device.

    The others lift a device that is too far behind, or silent, by the rule in
    ``find_lifted_cti``: when its next event comes, before that is judged. So the verdicts follow
    from the events alone, in the order in which they came. The query is told earlier: of ``behind``
    with the CTI of all, and of silence after at most a sixteenth of the span more.

    Where the wall clock says who is silent, the owner does, with ``note_silence``. The verdicts
    follow from the events and from that. ``read_moment`` returns the ticks since a fixed moment, by
    which the owner finds who has not been heard; a replay has none.

    With ``tells_moves`` batches also say how the clocks have moved among their rows.

    Threads: any, in ``turn``, which is the lock of the door, too.
    """

    __slots__ = (
        "_by_wall", "_counts_wall", "_fleet", "_is_moved", "_kernel", "_limits", "_looked",
        "_moved", "_moves", "_rules", "_states", "_tells_moves", "_told", "counts_ahead", "devices",
        "is_down", "read_moment", "turn",
    )  # fmt: skip

    def __init__(
        self,
        settings: ClockSettings,
        schema: pl.Schema,
        source: str,
        rules: Rules,
        *,
        counts_ahead: bool,
        tells_moves: bool,
    ) -> None:
        from rxtemporal.engine.kernels import door

        self._kernel: ModuleType = door
        # any thread may ask for the clocks, for which rows that have passed advance their devices
        self.turn = threading.RLock()
        fields = pl.Schema({name: schema[name] for name in settings.fields})
        self.devices = DeviceNumbers(fields, source, self.turn)
        self._rules = rules
        self._by_wall = settings.by_wall
        self.counts_ahead = counts_ahead
        self._states = np.full((0, door.WIDTH), NEVER)
        # the CTI of each device that the query was told last; of a new one below all
        self._told = np.full(0, NEVER)
        # the mask of those that have advanced beyond that, and their numbers
        self._is_moved = np.zeros(0, np.bool_)
        self._moved: list[Int64s] = []
        self._fleet = np.full(5, NEVER)
        self._limits = (
            NO_LIMIT if settings.behind is None else settings.behind,
            NO_LIMIT if settings.quiet is None else settings.quiet,
        )
        # the time of the fleet at which silent devices have last been looked for
        self._looked = NEVER
        self._counts_wall = settings.silent_by_wall and settings.quiet is not None
        self.read_moment: Callable[[], int] | None = None
        # True if nothing has come from any device for so long that all were silent
        self.is_down = False
        self._tells_moves = tells_moves
        # the moves of clocks since the last batch, as columns
        self._moves: list[Int64s | tuple[int, int, int, int]] = []

    # Devices --------------------------------------------------------------------------------------

    def _grow(self) -> None:
        """Make room for the state of new devices."""
        count, have = len(self.devices), len(self._states)
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

    @in_turn
    def number_devices(self, columns: Columns) -> Int64s:
        """Return the numbers of the devices of rows; raise if one has none."""
        codes = self.devices.encode(columns)
        self._grow()
        return codes

    def find_device(self, payload: Any) -> int:
        """Return the number of the device of one event."""
        number = self.devices.find(payload)
        if number >= len(self._states):
            self._grow()
        return number

    def find_device_of(self, device: Any) -> int:
        """Return the number of a device that is given by its value; see ``DeviceNumbers``."""
        number = self.devices.find_value(device)
        self._grow()
        return number

    @in_turn
    def name_device(self, payload: Any) -> tuple[Any, ...]:
        """Return the values that name the device of a payload."""
        number = np.array([self.find_device(payload)])
        device: tuple[Any, ...] = self.devices.decode(number).frame.row(0)
        return device

    # Reading --------------------------------------------------------------------------------------

    def set_floor(self, cti: int) -> None:
        """Note the CTI that holds for all devices."""
        self._fleet[self._kernel.FLOOR] = cti

    @property
    def fleet_time(self) -> int:
        """The time of the fleet; below all times while it has none."""
        return int(self._fleet[self._kernel.FLEET])

    @property
    def least_limit(self) -> int | None:
        """The shorter one of the spans after which the others lift a device; None without any."""
        return min((each for each in self._limits if each != NO_LIMIT), default=None)

    @property
    def counts_wall(self) -> bool:
        """True if the wall clock says who is silent."""
        return self._counts_wall

    @property
    def has_moved(self) -> bool:
        """True if a device has advanced beyond what the query was told."""
        return bool(self._moved)

    @property
    def highest(self) -> tuple[int, int]:
        """The highest CTI of a device, and the highest time that one has sent."""
        states = self._states[: len(self.devices)]
        cti = int(states[:, 0].max(initial=NEVER))
        return cti, int(states[:, self._kernel.HIGH].max(initial=NEVER))

    def _find_ctis(self, devices: Int64s) -> Int64s:
        """Return the CTIs of these devices, as the others allow them now."""
        found: Int64s = self._kernel.find_ctis(devices, self._states, self._fleet, *self._limits)
        return found

    @in_turn
    def find_cti(self, payload: Any) -> int:
        """Return the CTI of the device of a payload, as the others allow it now."""
        return int(self._find_ctis(np.array([self.find_device(payload)]))[0])

    @in_turn
    def find_cti_of(self, device: Any) -> int:
        """Return the CTI of a device that is given by its value, as the others allow it now."""
        return int(self._find_ctis(np.array([self.find_device_of(device)]))[0])

    @in_turn
    def list_ctis(self) -> tuple[Columns, Int64s]:
        """Return the devices, and their CTIs as the others allow them now."""
        devices = np.arange(len(self.devices))
        return self.devices.decode(devices), self._find_ctis(devices)

    @in_turn
    def list_highs(self) -> tuple[Columns, Int64s]:
        """Return the devices, and the highest time that each has sent."""
        count = len(self.devices)
        highs = self._states[:count, self._kernel.HIGH].copy()
        return self.devices.decode(np.arange(count)), highs

    def find_floor(self) -> int:
        """Return the CTI that holds for all devices, also for those that have not come yet."""
        behind, fleet = self._limits[0], self.fleet_time
        floor = int(self._fleet[self._kernel.FLOOR])
        return floor if behind < 0 or fleet <= NEVER else max(floor, fleet - behind)

    def measure_behind(self, payload: Any, time: int) -> int:
        """Return how far a time is behind the highest one of the device of a payload."""
        device = self.find_device(payload)  # which may replace the array
        return int(self._states[device, self._kernel.HIGH]) - time

    @in_turn
    def count(self) -> ClockStats:
        """Return counters of the clocks. O(devices)."""
        fleet, (_, silent) = self.fleet_time, self._limits
        count = min(len(self.devices), len(self._states))
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
        names = self.devices.list_values(order)
        found = self._find_ctis(order)
        ctis = np.maximum(found, MIN_TIME).tolist()
        furthest = map(DeviceClock, names, ctis, behind[order].tolist())
        of_live = np.sort(behind[live])
        at = [max(0, math.ceil(part * len(live)) - 1) for part in QUANTILES if len(live)]
        return ClockStats(
            devices=count,
            live=len(live),
            behind=int((behind[live] > max(self._rules.delay, 0)).sum()),
            silent=count - len(live),
            fleet=max(fleet, MIN_TIME),
            furthest=tuple(furthest),
            distances=tuple(of_live[at].tolist()),
        )

    # Judging --------------------------------------------------------------------------------------

    def lift(self, device: int) -> tuple[tuple[int, ...], int]:
        """Lift a device as far as the others do; return its state, and why it was lifted."""
        own: Int64s = self._states[device]
        self._kernel.lift_device(own, self._fleet, *self._limits)
        return tuple(own[:5].tolist()), int(own[self._kernel.WHY])

    def note_time(self, device: int, time: int) -> None:
        """Note a time of a device, which counts for the fleet."""
        self._kernel.note_time(device, time, self._by_wall, self._states[device], self._fleet)

    def put(self, device: int, state: tuple[int, ...], time: int, rows: int) -> None:
        """Replace the state of a device, after ``rows`` rows; the last one had this time."""
        own, cti, fleet = self._states[device], state[0], self.fleet_time
        own[:5] = state
        own[self._kernel.SEEN] = find_sight(self.hear(), fleet, time)
        if cti > self._told[device] and not self._is_moved[device]:
            self._is_moved[device] = True
            self._moved.append(np.array([device]))
        if self._tells_moves:
            self._moves.append((rows, device, cti, fleet))

    def get_cti(self, device: int) -> int:
        """Return the CTI of a device, without what the others allow."""
        return int(self._states[device, 0])

    def judge(
        self,
        devices: Int64s,
        start: Int64s,
        end: Int64s,
        kind: Bytes,
        row: Int64s,
        moved: Int64s,
        state: State,
        heard: int,
    ) -> Verdicts:
        """Return the verdicts on rows, which advance their devices.

        ``state`` is that of the door; in the one after the rows the CTI is that for all devices.
        ``heard`` says when the rows came; see ``hear``. The kernel defines the columns.
        """
        cti, own, _, _, _, high, _ = state
        self.set_floor(cti)
        moves = np.empty((2, len(start)), np.int64) if self._tells_moves else _NO_MOVES
        starts, ends, reason, before, by_import, behind = self._kernel.admit_by_device(
            devices, start, end, kind, row, moved, *self._rules, *self._limits, self._by_wall,
            self.counts_ahead, heard, self._states, self._fleet, moves,
        )  # fmt: skip
        self._add_moved(self._kernel.mark_moved(devices, self._states, self._told, self._is_moved))
        after = int(self._fleet[self._kernel.FLOOR]), own, 0, 0, by_import, high, behind
        verdicts = Verdicts.from_kernel(start, end, starts, ends, reason, before, after, kind)
        if self._tells_moves:
            plain = kind % KEEP_AHEAD  # without the marks
            rows = np.cumsum(verdicts.find_rows(plain))
            self._moves.append(np.vstack([rows, devices, moves]))
        return verdicts

    def find_highest(self, devices: Int64s) -> int:
        """Return the highest CTI of these devices, without what the others allow."""
        return int(self._kernel.find_highest(devices, self._states))

    def translate(self, passed: Sequence[RowClocks]) -> Int64s:
        """Return the numbers of the devices of rows that have passed."""
        devices = self.devices.translate([each.coded for each in passed])
        self._grow()
        return devices

    def raise_told(self, devices: Int64s, start: Int64s) -> None:
        """Note that rows have told the query the CTIs that they make."""
        self._kernel.raise_ctis(devices, start, self._rules.delay, self._told)

    def pass_in_order(self, passed: Sequence[RowClocks]) -> None:
        """Advance the devices of rows that are in order, and after all that came before."""
        are_large = sum(len(each.start) for each in passed) >= _LARGE * len(passed)
        together = [[each] for each in passed] if are_large else [passed]
        # the last ones first: those before them matter only to devices that are not among them
        left = None
        for parts in reversed(together):
            devices = self.translate(parts)
            known = len(self.devices)
            left = self._kernel.pass_in_order(
                devices, RowClocks.concat_starts(parts), self._rules.delay, self._by_wall,
                self._states[:known], self._fleet, self._told, known if left is None else left,
            )  # fmt: skip
            if not left:
                break

    # What the query is told -----------------------------------------------------------------------

    def _add_moved(self, devices: Int64s) -> None:
        if len(devices):
            self._moved.append(devices)

    def _add_lifted(self, devices: Int64s, ctis: Int64s) -> None:
        """Note those of the devices whose CTIs are higher than the query was told."""
        found = devices[(ctis > self._told[devices]) & ~self._is_moved[devices]]
        self._is_moved[found] = True
        self._add_moved(found)

    def look_for_silent(self) -> None:
        """Note the devices that have become silent."""
        fleet, (_, silent) = self.fleet_time, self._limits
        if silent < 0 or fleet < self._looked + max(silent // PARTS, 1):
            return
        self._looked = fleet
        devices = np.arange(len(self.devices))
        self._add_lifted(devices, self._find_ctis(devices))

    def take(self) -> Clocks:
        """Return the CTIs of the devices that have advanced; the query is told them now."""
        moved = self._take_moved()
        ctis = np.maximum(self._find_ctis(moved), MIN_TIME)
        self._told[moved] = ctis
        coder = self.devices.coder
        return Clocks(partial(coder.decode, moved), ctis, moved, coder, self._take_moves())

    def _take_moved(self) -> Int64s:
        moved = np.concatenate([NO_ROWS, *self._moved])
        self._moved.clear()
        self._is_moved[moved] = False
        return moved

    def _take_moves(self) -> ClockMoves | None:
        """Return how the clocks have moved among the rows that leave now, if somebody asks."""
        if not self._tells_moves:
            return None
        rows, devices, ctis, fleet = self._stack_moves()
        self._moves.clear()
        fleet = np.maximum(fleet - max(self._rules.delay, 0), MIN_TIME)
        return ClockMoves(rows, devices, np.maximum(ctis, MIN_TIME), fleet)

    def _stack_moves(self) -> Int64s:
        none = np.empty((4, 0), np.int64)
        return np.hstack([none, *(np.reshape(each, (4, -1)) for each in self._moves)])

    def note_cti(self, cti: int, rows: int) -> None:
        """Note a CTI for all devices, after ``rows`` rows."""
        if self._tells_moves:
            self._moves.append((rows, -1, cti, self.fleet_time))

    def forget_from(self, row: int) -> None:
        """Forget what later rows have moved: they are lost, so nothing more of theirs is final."""
        self._take_moved()
        moves = self._stack_moves()
        self._moves = [moves[:, moves[0] <= row]]

    # Silence by the wall clock --------------------------------------------------------------------

    def hear(self) -> int:
        """Return HEARD and the moment; NEVER where silence follows from the fleet."""
        if not self._counts_wall:
            return NEVER
        if self.read_moment is None:
            return HEARD
        moment = self.read_moment()
        if self.is_down:  # it was the line, so each device has the whole span again
            self.hear_all(moment)
        return HEARD + moment

    def hear_some(self, devices: Int64s, kind: Bytes) -> int:
        """Return what ``hear`` does; a CTI for all and a row that is dropped are no signs."""
        if not self._counts_wall:
            return NEVER
        are_signs = devices >= 0
        if len(kind):
            are_signs &= kind < DROP_AHEAD
        return self.hear() if are_signs.any() else HEARD

    def follow(self, read_moment: Callable[[], int]) -> None:
        """Find by this clock who has not been heard."""
        self.read_moment = read_moment

    def stop_clock(self) -> None:
        """Let no device become silent any more."""
        if self.read_moment is not None:
            moment = self.read_moment()
            self.read_moment = lambda: moment

    def _find_unheard(self, states: Int64s, length: int) -> Bools:
        """Return the mask of devices that are silent, or have not been heard for so long."""
        seen = states[:, self._kernel.SEEN]
        unheard: Bools = seen == NEVER
        if self.read_moment is not None:
            unheard |= HEARD + self.read_moment() - seen >= length
        return unheard

    def _find_heard(self) -> tuple[Int64s, Bools]:
        """Return when devices were heard, and the mask of those that were and are not silent."""
        seen = self._states[: len(self.devices), self._kernel.SEEN]
        return seen, (seen > NEVER) & (seen < NOT_HEARD)

    @in_turn
    def find_silent(self, until: int) -> tuple[Int64s, int, int]:
        """Return the devices last heard until a moment, and the first and last other moment.

        Devices that are silent already, or of which nothing has been heard, do not count. Of no
        other device both moments are -1. O(devices).
        """
        seen, counts = self._find_heard()
        found = counts & (seen <= HEARD + until)
        others = seen[counts & ~found]
        if not len(others):
            return np.flatnonzero(found), -1, -1
        return np.flatnonzero(found), int(others.min()) - HEARD, int(others.max()) - HEARD

    def list_devices(self, numbers: Int64s) -> tuple[Any, ...]:
        """Return the devices of these numbers, as ``Clocks.list_devices`` does."""
        return self.devices.list_values(numbers)

    def note_silence(self, devices: Sequence[Any] | None, rows: int) -> None:
        """Let devices follow the fleet from now on; each does until it sends something.

        None: all are silent. Then each is lifted once, and none follows any longer. ``rows`` have
        come since the last batch.
        """
        if devices is None:
            self._lift_all(rows)
            return
        numbers = self.devices.find_values(devices)
        self._grow()
        self._states[numbers, self._kernel.SEEN] = NEVER
        self._note_lifted(numbers, -2 - numbers, rows)

    def _lift_all(self, rows: int) -> None:
        self.is_down = True
        count = len(self.devices)
        before, seen = self._states[:count, 0].copy(), self._states[:count, self._kernel.SEEN]
        devices = np.flatnonzero(seen < NOT_HEARD)
        follows = seen == NEVER
        self._kernel.lift_silent(devices, self._states, self._fleet, *self._limits)
        seen[follows] = HEARD
        changed = np.flatnonzero(follows | (self._states[:count, 0] > before))
        self._note_lifted(changed, changed, rows)

    def _note_lifted(self, devices: Int64s, marks: Int64s, rows: int) -> None:
        """Note devices whose silence has begun or ended; ``marks`` stand for them in moves."""
        ctis = self._find_ctis(devices)
        self._add_lifted(devices, ctis)
        if self._tells_moves:
            after, fleet = np.full((2, len(devices)), [[rows], [self.fleet_time]])
            self._moves.append(np.vstack([after, marks, ctis, fleet]))

    @in_turn
    def hear_all(self, moment: int) -> None:
        """Count all devices but silent ones as heard at a moment."""
        self.is_down = False
        seen, counts = self._find_heard()
        seen[counts] = np.maximum(seen[counts], HEARD + moment)

    @in_turn
    def shift_moments(self, length: int) -> None:
        """Count the moments at which devices were heard as so much later, after a resumption."""
        seen, counts = self._find_heard()
        seen[counts] = np.maximum(seen[counts] + length, HEARD)

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return the state of each device, and what the query was told."""
        count = len(self.devices)
        return [
            self.devices.coder, self._states[:count].copy(), self._told[:count].copy(),
            self._fleet.copy(), np.flatnonzero(self._is_moved), self._looked, self._stack_moves(),
            self.is_down,
        ]  # fmt: skip

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of the clocks of the same stream."""
        coder, states, told, fleet, moved, self._looked, moves, *down = state
        self.is_down = any(down)
        self.devices.load(coder)
        self._moves = [moves]
        self._grow()
        self._states[: len(states)], self._told[: len(told)] = states, told
        self._fleet[:] = fleet
        self._is_moved[moved] = True
        self._add_moved(moved)
