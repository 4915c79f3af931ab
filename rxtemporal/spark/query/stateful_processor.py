"""State of a bucket in Spark's Python workers.

Spark starts a process for each stateful operator and micro-batch only to read the schema of its
state. So this module imports very little, and unpickles its work when the first rows come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.streaming import StatefulProcessor

_STATE = "data binary"


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]
    """Processor with one value of bytes for each bucket.

    ``work``, pickled, is called with the bytes of the last micro-batch, or None, and with the new
    rows (the number of an input, a CTI, packed rows); it returns new bytes and columns by name.
    """

    def __init__(self, work: bytes) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._state = handle.getValueState("state", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Yield one micro-batch's results for one bucket; the names are Spark's."""
        import pickle

        import pandas as pd

        saved = bytes(self._state.get()[0]) if self._state.exists() else None
        state, results = pickle.loads(self._work)(saved, _list_rows(rows))
        self._state.update((state,))
        yield pd.DataFrame(results)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""


def _list_rows(frames: Iterator[Any]) -> Iterable[tuple[int, int, bytes]]:
    for frame in frames:
        yield from zip(frame["input"].tolist(), frame["cti"].tolist(), frame["data"], strict=True)
