"""Times of devices that a batch brings, in a stream in which each device has its own time."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.columns import Coded, Columns
from rxtemporal.core.ticks import MIN_TIME

Int64s: TypeAlias = npt.NDArray[np.int64]


class HasClocks(Protocol):
    """A batch that may bring clocks of devices."""

    clocks: Clocks | None

    def __len__(self) -> int:
        """Return the number of rows."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ClockMoves:
    """The moves of devices' clocks among the rows of a batch, in order.

    After ``rows`` rows of the batch (``int64[m]``, never falling) the CTI of device ``devices`` is
    ``ctis``, and the time of the fleet less the delay is ``fleet``. A device is a number, as in
    ``Clocks.codes``; -1 stands for all, and -2 - n for device n that has become silent by the wall
    clock.
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

    ``devices`` are the values of the fields that name a device, n rows; or a function that returns
    them, which is called when they are first read. A device may be there several times: its highest
    CTI holds. ``ctis`` is ``int64[n]``, or one time for all. ``codes`` ``int64[n]`` are numbers of
    the devices that mean the same in all clocks of the same ``owner``; without an owner there are
    none. ``moves`` say how they came to that among the rows of the batch, in a query that asks for
    it.
    """

    __slots__ = ("_codes", "_ctis", "_devices", "_owner", "moves")

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
        self._codes, self._owner = codes, owner

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

    @property
    def codes(self) -> Int64s | None:
        """The numbers of the devices, if there are any."""
        return self._codes

    @property
    def owner(self) -> object:
        """The owner of the numbers."""
        return self._owner

    def replace_moves(self, moves: ClockMoves | None) -> Clocks:
        """Return the same clocks with these moves."""
        return Clocks(self._devices, self._ctis, self.codes, self.owner, moves)

    def list_devices(self) -> tuple[Any, ...]:
        """Return the devices: of one field its values, of several fields tuples."""
        lists = [each.to_list() for each in self.devices.list_series()]
        return tuple(lists[0]) if len(lists) == 1 else tuple(zip(*lists, strict=True))

    @staticmethod
    def unite(batches: Sequence[HasClocks]) -> Clocks | None:
        """Return what batches have brought, in order; None if they have brought nothing."""
        clocks = [batch.clocks for batch in batches if batch.clocks is not None]
        if not clocks:
            return None
        moves = ClockMoves.unite(batches)
        if len(clocks) == 1:
            return clocks[0] if moves is None else clocks[0].replace_moves(moves)
        ctis = np.concatenate([each.ctis for each in clocks])
        owner = clocks[0].owner
        codes = [each.codes for each in clocks if each.codes is not None and each.owner is owner]

        def make() -> Columns:
            return Columns.concat([each.devices for each in clocks])

        if len(codes) < len(clocks):
            return Clocks(make, ctis, moves=moves)
        return Clocks(make, ctis, np.concatenate(codes), owner, moves)

    def condense(self) -> Clocks:
        """Return clocks that need no rows of the batch."""
        return self


class RowClocks(Clocks):
    """The devices of the rows of a batch, each as far as its highest start less ``delay``.

    ``coded`` has the number of each row's device. ``start`` ``int64[n]`` are the starts of the
    rows, of which ``lowest`` is the lowest; ``in_order``: they never fall. ``delay`` is not
    negative, and no CTI is above ``highest``. Nothing is computed before it is asked for.
    """

    __slots__ = ("coded", "delay", "highest", "in_order", "lowest", "start")

    def __init__(
        self,
        coded: Coded,
        start: Int64s,
        delay: int,
        lowest: int,
        highest: int,
        *,
        in_order: bool,
    ) -> None:
        self.coded, self.start, self.delay = coded, start, delay
        self.lowest, self.highest, self.in_order = lowest, highest, in_order
        self.moves = None

    @property
    def devices(self) -> Columns:
        """The device of each row."""
        found: Columns = self.coded.owner.decode(self.coded.codes)
        return found

    @property
    def ctis(self) -> Int64s:
        """The CTI that each row makes."""
        return np.maximum(self.start - self.delay, MIN_TIME)

    @property
    def codes(self) -> Int64s:
        """The number of each row's device."""
        return self.coded.codes

    @property
    def owner(self) -> object:
        """The owner of the numbers."""
        return self.coded.owner

    def condense(self) -> Clocks:
        """Return each device once, with its CTI."""
        codes, places = np.unique(self.codes, return_inverse=True)
        ctis = np.full(len(codes), MIN_TIME)
        np.maximum.at(ctis, places, self.ctis)
        owner: Any = self.owner
        return Clocks(partial(owner.decode, codes), ctis, codes, owner)

    @staticmethod
    def take_some(parts: list[RowClocks], most: int) -> list[RowClocks]:
        """Take those off a list whose devices have been numbered; all if there are over ``most``.

        The numbers of many batches are found together, when somebody needs some of them.
        """
        taken = len(parts) if len(parts) > most else 0
        while taken < len(parts) and parts[taken].coded.are_known:
            taken += 1
        some = parts[:taken]
        del parts[:taken]
        return some

    @staticmethod
    def concat_starts(parts: Sequence[RowClocks]) -> Int64s:
        """Return the starts of the rows of several batches."""
        return parts[0].start if len(parts) == 1 else np.concatenate([each.start for each in parts])

    @staticmethod
    def are_in_order(parts: Sequence[RowClocks]) -> bool:
        """Return True if the starts of the rows of several batches never fall."""
        pairs = itertools.pairwise(parts)
        return all(each.in_order for each in parts) and all(
            one.start[-1] <= other.start[0] for one, other in pairs
        )
