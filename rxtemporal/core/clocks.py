"""Times of devices that a batch brings, in a stream in which each device has its own time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.columns import Columns

Int64s: TypeAlias = npt.NDArray[np.int64]


class HasClocks(Protocol):
    """A batch."""

    clocks: Clocks | None

    def __len__(self) -> int:
        """Return the number of rows."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ClockMoves:
    """The moves of devices' clocks among the rows of a batch, in order.

    After ``rows`` rows of the batch (``int64[m]``, never falling) the CTI of device ``devices`` is
    ``ctis``, and the time of the fleet less the delay is ``fleet``. A device is a number, as in
    ``Clocks.codes``; -1 stands for all.
    """

    rows: Int64s
    devices: Int64s
    ctis: Int64s
    fleet: Int64s

    @staticmethod
    def unite(batches: Sequence[HasClocks]) -> ClockMoves | None:
        """Return the moves among the rows of batches one after the other; None if not known."""
        begins = np.cumsum([0, *map(len, batches)]).tolist()
        moves = [
            (begin, each.clocks.moves)
            for begin, each in zip(begins, batches, strict=False)
            if each.clocks is not None and each.clocks.moves is not None
        ]
        if not moves:
            return None
        rows = np.concatenate([begin + each.rows for begin, each in moves])
        devices, ctis, fleet = (
            np.concatenate([getattr(each, name) for _, each in moves])
            for name in ("devices", "ctis", "fleet")
        )
        return ClockMoves(rows, devices, ctis, fleet)


class Clocks:
    """Devices, and the CTI of each: nothing of a device before its CTI changes any more.

    ``devices`` are the values of the fields that name a device, n different rows; or a function
    that returns them, which is called when they are first read. ``ctis`` is ``int64[n]``, or one
    time for all. ``codes`` ``int64[n]`` are numbers of the devices that mean the same in all clocks
    of the same ``owner``; without an owner there are none. ``moves`` say how they came to that
    among the rows of the batch, in a query that asks for it.
    """

    __slots__ = ("_ctis", "_devices", "codes", "moves", "owner")

    def __init__(
        self,
        devices: Columns | Callable[[], Columns],
        ctis: Int64s | int,
        codes: Int64s | None = None,
        owner: object = None,
        moves: ClockMoves | None = None,
    ) -> None:
        self.moves = moves
        self._devices = devices
        self._ctis = ctis
        self.codes, self.owner = codes, owner

    @property
    def devices(self) -> Columns:
        """The values of the fields that name a device, a row for each."""
        if not isinstance(self._devices, Columns):
            self._devices = self._devices()
        return self._devices

    @property
    def ctis(self) -> Int64s:
        """The CTI of each device."""
        if isinstance(self._ctis, int):
            self._ctis = np.full(self.devices.height, self._ctis)
        return self._ctis

    def replace_moves(self, moves: ClockMoves | None) -> Clocks:
        """Return the same clocks with these moves."""
        return Clocks(self._devices, self._ctis, self.codes, self.owner, moves)

    def list_devices(self) -> tuple[Any, ...]:
        """Return the devices: of one field its values, of several fields tuples."""
        lists = [each.to_list() for each in self.devices.list_series()]
        return tuple(lists[0]) if len(lists) == 1 else tuple(zip(*lists, strict=True))

    @staticmethod
    def unite(batches: Sequence[HasClocks]) -> Clocks | None:
        """Return what batches have brought, in order, in which a device may be there twice.

        None if they have brought nothing.
        """
        clocks = [batch.clocks for batch in batches if batch.clocks is not None]
        if not clocks:
            return None
        moves = ClockMoves.unite(batches)
        if len(clocks) == 1:
            return clocks[0].replace_moves(moves)
        ctis = np.concatenate([each.ctis for each in clocks])
        owner = clocks[0].owner
        codes = [each.codes for each in clocks if each.codes is not None and each.owner is owner]

        def make() -> Columns:
            return Columns.concat([each.devices for each in clocks])

        if len(codes) < len(clocks):
            return Clocks(make, ctis, moves=moves)
        return Clocks(make, ctis, np.concatenate(codes), owner, moves)
