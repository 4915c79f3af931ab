"""Bounds of count windows: consecutive distinct starts of a key."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.holdings import ByKey
from rxtemporal.engine.rows import grow
from rxtemporal.operators.windows.kernels.starts import follow_links, slide_windows
from rxtemporal.operators.windows.start_windows import FinalWindows, StartBounds


class CountBounds(StartBounds):
    """Windows of ``n`` consecutive distinct starts of a key, sliding by one.

    With ``partial`` those of the first starts come before. A window is ``[first start, n-th start +
    1 tick)`` and final with a CTI above its n-th start. If results live for the whole window, the
    output CTI waits at the oldest start that a later window will hold, over all keys; for a key
    without further rows it waits for ever.
    """

    held = MappingProxyType({
        **StartBounds.held,
        # head, tail, count, distinct, since, scratch
        "_state": ByKey(fills=(-1, -1, 0, 0, MAX_TIME, 0), refs="row", listed=(0, 1)),
    })  # fmt: skip

    def __init__(
        self, n: int, payload: pl.Schema, keys: tuple[str, ...], *, partial: bool = False
    ) -> None:
        super().__init__(payload, keys)
        self._n, self._least = n, 1 if partial else n
        # head, tail, count, distinct, since by key, and scratch space of the kernel
        self._state = [np.zeros(0, np.int64) for _ in range(6)]

    def _close(self, cti: int, due: Int64s) -> FinalWindows:
        start, _, key, link, _ = self._rows.columns
        first, last, keys, head, count, gone, gone_count, began = slide_windows(
            due, start, key, link, self._n, self._least, *self._state
        )
        self._waiting.add(start[began], key[began], self._since)
        found = self._in_order(first, last + TICK, keys, head, count)
        self._release(follow_links(gone, gone_count, link)[1])
        return found

    @property
    def _since(self) -> Int64s:
        return self._state[4]

    def _grow(self, keys: int) -> None:
        fills = (-1, -1, 0, 0, MAX_TIME, 0)
        self._state = [
            grow(column, keys, fill) for column, fill in zip(self._state, fills, strict=True)
        ]

    def _mark_keys(self, held: npt.NDArray[np.bool_], cti: int) -> None:
        """Do nothing: a key with an open window has rows."""

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        head, tail, count = self._state[:3]
        listed = keys[count[keys] > 0]
        head[listed], tail[listed] = new[head[listed]], new[tail[listed]]
