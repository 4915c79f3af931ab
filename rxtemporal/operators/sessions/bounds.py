"""Bounds of session windows: one window for each session of a key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.operators.sessions.step import Sessions
from rxtemporal.operators.windows.start_windows import FinalWindows, StartBounds


class SessionBounds(StartBounds):
    """Bounds of one window ``[first start, session end)`` for each session of a key.

    A window is final once the CTI has reached its end. If results live for the whole window, the
    output CTI waits at the start of the oldest session that is still open.
    """

    held = (*StartBounds.held, "_sessions")

    def __init__(
        self, timeout: int, max_duration: int | None, payload: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        super().__init__(payload, keys)
        self._sessions = Sessions(timeout, max_duration)

    def _close(self, cti: int, due: Int64s) -> FinalWindows:
        start, _, key, link, _ = self._rows.columns
        closed = self._sessions.advance(cti, due, start, key, link)
        began = closed.began
        self._waiting.add(start[began], key[began], self._sessions.since)
        found = self._in_order(closed.first, closed.end, closed.key, closed.head, closed.count)
        self._release(found.row)
        return found

    @property
    def _since(self) -> Int64s:
        return self._sessions.since

    def _grow(self, keys: int) -> None:
        self._sessions.grow(keys)

    def _mark_keys(self, held: npt.NDArray[np.bool_], cti: int) -> None:
        self._sessions.mark_keys(held, cti)

    def _keep_keys(self, kept: KeptKeys) -> None:
        self._sessions.keep_keys(kept)

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        self._sessions.renumber(new, keys)
