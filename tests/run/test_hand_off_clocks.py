"""CTIs of devices in the buffer of a hand-off: none is lost, in memory, merged or on disk."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns
from rxtemporal.run.hand_off.buffer import SpillBuffer

FIELDS = {"device": pl.String, "n": pl.Int64}


def make_batch(number: int, rows: int) -> rxt.EventBatch:
    """Return a batch of rows of one device, which has reached the time of its number."""
    payload = pl.DataFrame({"device": [f"d{number % 3}"] * rows, "n": [number] * rows}, FIELDS)
    start = np.full(rows, number)
    batch = rxt.EventBatch.of_rows(start, None, payload, rxt.MIN_TIME)
    devices = Columns.from_frame(pl.DataFrame({"device": [f"d{number % 3}"]}))
    batch.clocks = Clocks(devices, np.array([number]))
    return batch


@pytest.mark.parametrize("when_full", rxt.WhenFull)
@pytest.mark.parametrize("sizes", [[1], [0], [0, 0, 0], [3, 0, 2, 0], [1] * 80, [5, 0] * 40])
def test_what_comes_out_has_the_ctis_that_came_in(
    when_full: rxt.WhenFull, sizes: list[int]
) -> None:
    """Of each device the highest one."""
    buffer = SpillBuffer(rxt.HandOff(16, when_full))
    for number, rows in enumerate(sizes):
        buffer.put(make_batch(number, rows))
    found: dict[str, int] = {}
    rows = 0
    while buffer:
        batch = buffer.take().read()
        assert batch is not None
        assert batch.clocks is not None
        rows += len(batch)
        for device, cti in zip(
            batch.clocks.list_devices(), batch.clocks.ctis.tolist(), strict=True
        ):
            assert cti >= found.get(device, 0)
            found[device] = cti
    buffer.close()
    assert rows == sum(sizes)
    assert found == {f"d{number % 3}": number for number in range(len(sizes))}
