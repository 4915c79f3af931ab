"""Keys that one thread adds while another one reads those that are there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from rxtemporal.core.columns import Columns
from rxtemporal.engine.keys import KeyCoder

KEYS = 5_000


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_keys_are_read_while_others_are_added() -> None:
    """Those of the door are named where its rows are computed, and in diagnostics."""
    coder = KeyCoder({"k": pl.String()})
    read, wrong = 0, list[object]()
    added = threading.Event()

    def name_all() -> None:
        nonlocal read
        while not added.is_set() and not wrong:
            count = len(coder)
            try:
                names = coder.decode(np.arange(count)).frame["k"].to_list()
            except Exception as error:
                wrong.append(error)
                return
            if names != [f"d{n}" for n in range(count)]:
                wrong.append(names)
            read += 1

    thread = threading.Thread(target=name_all)
    thread.start()
    for n in range(KEYS):
        coder.encode(Columns.from_frame(pl.DataFrame({"k": [f"d{n}"]})))
    added.set()
    thread.join()
    assert not wrong
    assert read
