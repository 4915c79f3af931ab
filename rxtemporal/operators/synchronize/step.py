"""Step of synchronize."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.events import find_late_bound
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import CTI, END_EDGE, NO_LIMIT
from rxtemporal.engine.holdings import OWNED
from rxtemporal.engine.rows import grow_rows
from rxtemporal.engine.state import Stateful
from rxtemporal.ingress.batch_verdicts import LateRows, classify_rows
from rxtemporal.ingress.door import Accepted, Door
from rxtemporal.ingress.settings import (
    AdvanceTimeImportSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
)
from rxtemporal.operators.synchronize import kernel


class SynchronizeStep(Stateful):
    """A door behind that of a source: it judges rows by one time, which follows the devices.

    Each row is judged by the CTI that the rows before it have made, however they are cut into
    batches. ``unreported`` has the late rows until they are taken. Holds what a door holds.
    """

    held = MappingProxyType({"judged": OWNED, "known": OWNED})
    rows = 0

    def __init__(
        self,
        within: int,
        idle_after: int | None,
        silent_after: int | None,
        devices: int | tuple[Any, ...] | None,
        policy: AdvanceTimePolicy,
        *,
        silent_by_wall: bool = False,
    ) -> None:
        self._within, self._devices = within, devices
        self._by_wall = silent_by_wall
        self._idle = NO_LIMIT if idle_after is None else idle_after
        self._silent = NO_LIMIT if silent_after is None else silent_after
        # the door takes the CTIs that it is given, as one of a stream that imports them
        given = AdvanceTimeSettings(imports=AdvanceTimeImportSettings("devices"), policy=policy)
        self.door = Door(given, "synchronize")
        # the devices that have come, by the numbers of their source, if they are waited for
        self._known, self._states = 0, np.empty((0, kernel.WIDTH), np.int64)
        expected = len(devices) if isinstance(devices, tuple) else devices or 0
        self._counts = np.array([expected, 0])
        self._tree = np.full(2, MAX_TIME)
        self.unreported: list[LateRows] = []

    def take_unreported(self) -> list[LateRows]:
        """Return the late rows that have not been reported; from now on they have been."""
        late, self.unreported = self.unreported, []
        return late

    @property
    def judged(self) -> list[Any]:
        """The state of the door, to be saved."""
        return self.door.save()

    @judged.setter
    def judged(self, saved: list[Any]) -> None:
        self.door.load(saved)

    @property
    def known(self) -> list[Any]:
        """The devices that have come, to be saved."""
        return [self._states[: self._known].copy(), self._counts.copy()]

    @known.setter
    def known(self, saved: list[Any]) -> None:
        self._states, self._counts = saved
        self._known = len(self._states)
        self._make_tree()

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that are in time, and the CTI that the devices allow then."""
        given, clocks = batch.replace(cti=MIN_TIME, clocks=None), batch.clocks
        reached = batch.cti
        if clocks is None or clocks.moves is None:
            accepted, late = self.door.accept_batch(given)
        else:
            ctis = self._follow(clocks)
            before = kernel.find_ctis_before(clocks.moves.rows, ctis, self.door.cti, len(given))
            accepted, late = self._judge(given, before)
            reached = max(reached, int(ctis.max(initial=MIN_TIME)))
        if late is not None:
            self.unreported.append(late)
        self.door.import_cti(min(reached, MAX_TIME - 1))
        if batch.cti >= MAX_TIME:
            self.door.set_cti(MAX_TIME)
        return accepted.replace(cti=max(self.door.cti, MIN_TIME))

    def _follow(self, clocks: Clocks) -> Int64s:
        """Return the CTI that the devices allow after each move of their clocks."""
        moves = clocks.moves
        assert moves is not None
        if self._devices is None:
            return np.maximum(moves.fleet - self._within, MIN_TIME)
        self._note_new(clocks)
        found: Int64s = kernel.find_fleet_ctis(
            moves.devices, moves.ctis, moves.fleet, self._within, self._idle, self._silent,
            self._by_wall, self._states, self._counts, self._tree,
        )  # fmt: skip
        return found

    def _note_new(self, clocks: Clocks) -> None:
        """Make room for devices that are new."""
        moves, known = clocks.moves, self._known
        assert moves is not None
        self._known = max(known, 1 + int(moves.devices.max(initial=-1)))
        if self._known > len(self._states):
            have = len(self._states)
            self._states = grow_rows(self._states, self._known)
            self._states[have:] = [MIN_TIME, MIN_TIME, kernel.UNKNOWN, 1]
            self._make_tree()
        if isinstance(self._devices, tuple) and self._known > known:
            assert clocks.codes is not None
            awaited = {*self._devices}
            for number, name in zip(clocks.codes.tolist(), clocks.list_devices(), strict=True):
                if number >= known:
                    self._states[number, kernel.AWAITED] = name in awaited

    def _make_tree(self) -> None:
        size = 1 << max(len(self._states) - 1, 0).bit_length()
        self._tree = kernel.make_tree(self._states, size)

    def _judge(self, batch: EventBatch, before: Int64s) -> Accepted:
        """Judge rows, each by the CTI before it."""
        kind = classify_rows(batch)
        times = np.where(kind == END_EDGE, batch.end, batch.start) if len(kind) else batch.start
        # an end edge may be late for its row, and is told with the CTI before it
        is_late = times < find_late_bound(before)
        late = np.flatnonzero(is_late | ((kind == END_EDGE) if len(kind) else False))
        if not len(late):
            return self.door.accept_batch(batch)
        # the CTI of each late row comes in front of it, as an item of its own
        order = np.insert(np.arange(len(batch)), late, late)
        at = late + np.arange(len(late))
        items = batch.take(order)
        start, edge = items.start.copy(), items.edge.copy()
        start[at], edge[at] = before[late], 0
        items = items.replace(start=start, edge=edge)
        kind = classify_rows(items) if len(kind) else np.zeros(len(items), np.int8)
        kind[at] = CTI
        return self.door.accept_items(items, kind)
