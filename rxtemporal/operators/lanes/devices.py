"""Devices of a plan: the CTI of each for each source, and the lane that it is in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Coded, Column, Columns
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.operators.operator import Keys

# the lane of a device that holds nothing, since none of its rows has come
NO_LANE = -1


class DeviceTimes:
    """The devices of a plan: the CTI of each for each source, and the lane that it is in.

    ``ctis`` ``int64[sources, devices]`` and ``lanes`` ``int64[devices]`` have room for more.
    ``floors`` ``int64[sources]``: the time at which devices begin that are not known yet.
    """

    def __init__(self, coder: KeyCoder, sources: int) -> None:
        self.coder = coder
        self.ctis = np.full((sources, 0), MIN_TIME)
        self.floors = np.full(sources, MIN_TIME)
        self.lanes = np.full(0, NO_LANE)
        # the number of devices that have a lane
        self.placed = 0
        # True if there is one lane
        self.are_together = True

    def note_lanes(self, lanes: int) -> None:
        """Note the number of lanes."""
        self.are_together = lanes == 1

    def number(self, clocks: Clocks) -> Int64s:
        """Return the numbers of the devices of clocks; see ``encode_columns``."""
        if clocks.owner is None or clocks.codes is None:
            return self.encode_columns(clocks.devices.columns)
        return self.translate(Coded((), clocks.owner, clocks.codes))

    def encode(self, rows: Columns, names: Keys) -> Int64s:
        """Return the numbers of the devices of rows, which these fields name."""
        if rows.coded is not None and rows.coded.names == names:
            return self.translate(rows.coded)
        return self.encode_columns([rows[name] for name in names])

    def translate(self, *parts: Coded) -> Int64s:
        """Return the numbers of the devices of rows that others have numbered."""
        return self._note_new(self.coder.translate(*parts))

    def encode_columns(self, columns: Sequence[Column]) -> Int64s:
        """Return the numbers of these devices; those that are new have no lane."""
        return self._note_new(self.coder.encode_columns(columns))

    def _note_new(self, codes: Int64s) -> Int64s:
        """Make room for devices that are new."""
        have = self.ctis.shape[1]
        if have >= len(self.coder):
            return codes
        self.ctis = grow(self.ctis, len(self.coder))
        self.ctis[:, have:] = self.floors[:, np.newaxis]
        self.lanes = grow(self.lanes, len(self.coder), NO_LANE)
        return codes

    @property
    def are_placed(self) -> bool:
        """True if all devices that are known have a lane."""
        return self.placed == len(self.coder)

    def find_new(self, codes: Int64s) -> Int64s:
        """Return those of the devices that have no lane, each once."""
        return np.unique(codes[self.lanes[codes] == NO_LANE])

    def place(self, new: Int64s, lane: int) -> None:
        """Put devices that had no lane into one."""
        self.lanes[new] = lane
        self.placed += len(new)

    def list_members(self, lane: int) -> Int64s:
        """Return the devices in a lane."""
        return np.flatnonzero(self.lanes == lane)

    def load(self, ctis: Int64s, lanes: Int64s, floors: Int64s) -> None:
        """Continue from a state, before any device has come."""
        self.ctis, self.lanes, self.floors = ctis, lanes, floors
        self.placed = int(np.count_nonzero(lanes != NO_LANE))
