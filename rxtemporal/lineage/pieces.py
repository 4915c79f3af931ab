"""Cursor that returns the items of another one in small pieces."""

from __future__ import annotations

from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.source import Cursor


class PieceCursor(Cursor):
    """Cursor over the items of another one, at most ``most`` rows or events at a time.

    A batch is cut; its own CTI comes with its last row.
    """

    def __init__(self, inner: Cursor, most: int) -> None:
        super().__init__()
        self._inner, self._most = inner, most
        self.checked, self.completes = inner.checked, inner.completes
        self._waiting: list[Any] = []
        # how many rows of the first waiting item have been taken, and the CTI of batches so far
        self._at, self._cti = 0, MIN_TIME

    @property
    def position(self) -> Any:
        """The position of the other cursor."""
        return self._inner.position

    def peek(self) -> int:
        """Return the time of the next row or event, or the highest start so far at the end."""
        return max(self._reached, self._next_start()) if self._load() else self._reached

    def take(self, until: int = MAX_TIME) -> list[Any] | None:
        """Return a piece up to a time, at least one row or event; None at the end."""
        if not self._load():
            return None
        pieces: list[Any] = []
        left = self._most
        while left > 0 and (not pieces or self.peek() <= until) and self._waiting:
            piece = self._take_one(until, left)
            left -= max(1, len(piece)) if isinstance(piece, EventBatch) else 1
            pieces.append(piece)
        return pieces

    def close(self) -> None:
        """Release the source."""
        self._inner.close()

    def _load(self) -> bool:
        while not self._waiting:
            items = self._inner.take()
            self.completes, self.time_form = self._inner.completes, self._inner.time_form
            if items is None:
                return False
            self._waiting, self._at = list(items), 0
        return True

    def _next_start(self) -> int:
        item = self._waiting[0]
        if isinstance(item, EventBatch):
            return int(item.start[self._at]) if len(item) else MIN_TIME
        start = getattr(item, "start", MIN_TIME)
        return start if isinstance(start, int) else MIN_TIME

    def _take_one(self, until: int, most: int) -> Any:
        self._reached = self.peek()
        item = self._waiting[0]
        if not isinstance(item, EventBatch) or len(item) <= 1:
            self._cti = item.cti if isinstance(item, EventBatch) else self._cti
            return self._waiting.pop(0)
        begin = end = self._at
        while end < len(item) and end - begin < most:
            if end > begin and max(self._reached, int(item.start[end])) > until:
                break
            self._reached = max(self._reached, int(item.start[end]))
            end += 1
        piece, self._at = item.slice(begin, end), end
        if end < len(item):
            return piece.replace(cti=min(self._cti, item.cti))
        self._waiting.pop(0)
        self._at, self._cti = 0, item.cti
        return piece
