"""Step of synchronize."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.holdings import OWNED
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.engine.state import Stateful
from rxtemporal.ingress.batch_verdicts import LateRows
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.settings import (
    AdvanceTimeImportSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
)


class SynchronizeStep(Stateful):
    """Passes rows on that are not before the CTI, which follows the times of devices.

    ``unreported`` has the late rows until they are taken. Holds what the door of a stream holds.
    """

    held = MappingProxyType({"reached": OWNED, "judged": OWNED, "known": OWNED})
    rows = 0

    def __init__(
        self,
        within: int,
        idle_after: int | None,
        devices: int | tuple[Any, ...] | None,
        policy: AdvanceTimePolicy,
    ) -> None:
        self._within, self._idle_after, self._devices = within, idle_after, devices
        # the door takes the CTIs that it is given, as one of a stream that imports them
        given = AdvanceTimeSettings(imports=AdvanceTimeImportSettings("devices"), policy=policy)
        self.door = Door(given, "synchronize")
        # the highest CTI of a device
        self.reached = MIN_TIME
        # the devices that have come, and their CTIs; only if they are waited for
        self._coder: KeyCoder | None = None
        self._ctis = np.full(0, MIN_TIME)
        self._missing: set[Any] | None = None
        if isinstance(devices, tuple):
            self._missing = {*devices}
        self.unreported: list[LateRows] = []

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
        count = 0 if self._coder is None else len(self._coder)
        missing = None if self._missing is None else [*self._missing]
        return [self._coder, self._ctis[:count].copy(), missing]

    @known.setter
    def known(self, saved: list[Any]) -> None:
        self._coder, self._ctis, missing = saved
        self._missing = None if missing is None else {*missing}

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that are in time, and the CTI that the devices allow then."""
        given = batch.replace(cti=MIN_TIME)
        given.clocks = None
        accepted, late = self.door.accept_batch(given)
        if late is not None:
            self.unreported.append(late)
        self.door.import_cti(self._find_cti(batch))
        if batch.clocks is None and batch.cti >= MAX_TIME:
            self.door.cti = MAX_TIME
        return accepted.replace(cti=max(self.door.cti, MIN_TIME))

    def _find_cti(self, batch: EventBatch) -> int:
        """Return the CTI after a batch."""
        if batch.clocks is None:  # it holds for all
            return batch.cti
        if batch.cti < MAX_TIME:
            self.reached = max(self.reached, batch.cti)
        cti = max(self.reached - self._within, MIN_TIME)
        if self._devices is None:
            return cti
        self._note(batch.clocks)
        return max(cti, self._find_lowest())

    def _note(self, clocks: Clocks) -> None:
        """Note the CTIs of devices."""
        devices = clocks.devices
        if self._coder is None:
            self._coder = KeyCoder(devices.schema)
        before = len(self._coder)
        codes = self._coder.encode_columns(devices.columns)
        self._ctis = grow(self._ctis, len(self._coder), MIN_TIME)
        np.maximum.at(self._ctis, codes, clocks.ctis)
        if self._missing and len(self._coder) > before:
            self._missing.difference_update(clocks.list_devices())

    def _find_lowest(self) -> int:
        """Return the lowest CTI of a device that is not idle, once all have come."""
        count = 0 if self._coder is None else len(self._coder)
        if self._missing or (isinstance(self._devices, int) and count < self._devices):
            return MIN_TIME
        ctis = self._ctis[:count]
        if self._idle_after is not None:
            # one that has come without a CTI so far is not idle
            ctis = ctis[(ctis > self.reached - self._idle_after) | (ctis <= MIN_TIME)]
        return min(int(ctis.min()), MAX_TIME - 1) if len(ctis) else MIN_TIME
