"""A sink that writes a file and can be resumed."""

from __future__ import annotations

from typing import Any

import rxtemporal as rxt
from rxtemporal import EventShape


class RowFile:
    """Writes the starts of rows into a file, and knows how long it was."""

    shape = EventShape.EDGE

    def __init__(self, path: str) -> None:
        self._path, self._at = path, 0

    def open(self, name: str, schema: Any) -> None:
        """Cut off what came after the state."""
        with open(self._path, "ab") as file:
            file.truncate(self._at)

    def write(self, batch: rxt.EventBatch) -> None:
        """Append a line a row."""
        with open(self._path, "a", encoding="utf-8") as file:
            file.writelines(f"{start}\n" for start in batch.start.tolist())
            self._at = file.tell()

    def close(self, error: BaseException | None) -> None:
        """Be closed."""

    def save(self) -> bytes:
        """Return how long the file is."""
        return str(self._at).encode()

    def load(self, state: bytes) -> None:
        """Remember it."""
        self._at = int(state)
