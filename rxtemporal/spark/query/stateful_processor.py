"""What keeps state in Spark's workers.

Spark starts a process for each stateful operator and micro-batch only to learn the form of its
state. So this module imports next to nothing, and what is done with rows is unpickled when the
first of them comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.streaming import StatefulProcessor

_STATE = "data binary"


class Keeper(StatefulProcessor):  # type: ignore[misc]
    """Keeps bytes for each key; ``work``, pickled, makes new ones of them and of what comes.

    It is called with the bytes that an earlier micro-batch has left, or None, and with what has
    come (the number of an input, a CTI, rows); it returns the new bytes, and columns by name.
    """

    def __init__(self, work: bytes) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        """Take the state's place."""
        self._state = handle.getValueState("state", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Yield what one micro-batch gives for one key; the names are Spark's."""
        import pickle

        import pandas as pd

        saved = bytes(self._state.get()[0]) if self._state.exists() else None
        state, made = pickle.loads(self._work)(saved, _received(rows))
        self._state.update((state,))
        yield pd.DataFrame(made)

    def close(self) -> None:
        """There is nothing to close."""


def _received(frames: Iterator[Any]) -> Iterable[tuple[int, int, bytes]]:
    for frame in frames:
        yield from zip(frame["input"].tolist(), frame["cti"].tolist(), frame["data"], strict=True)
