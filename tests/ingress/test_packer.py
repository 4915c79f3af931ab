"""The packer: what it holds while rows wait."""

from __future__ import annotations

import polars as pl

from rxtemporal import Cti, PointEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.ingress.packer import Packer


def test_time_that_passes_while_a_row_waits_is_not_held() -> None:
    """A row waits for more rows; any number of CTIs behind it are held as one."""
    packer = Packer(None, "readings", PayloadReader(pl.Schema({"x": pl.Int64})), 1_024)
    assert packer.take(PointEvent(0, {"x": 1})) is None
    for time in range(1, 1_000):
        assert packer.take(Cti(time)) is None
        assert packer.due() is None
    assert len(packer._ctis) == 2
    batch = packer.pack()
    assert batch is not None
    assert (len(batch), batch.cti) == (1, 999)
