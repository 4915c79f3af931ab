"""Keys that one thread adds while another one reads those that are there."""

from __future__ import annotations

import sys
import threading

import numpy as np
import polars as pl

from rxtemporal.core.columns import Columns
from rxtemporal.engine.keys import KeyCoder

KEYS = 1_500


def test_keys_are_read_while_others_are_added() -> None:
    """Those of the door are named where its rows are computed, and in diagnostics."""
    coder = KeyCoder({"k": pl.String()})
    coder.encode(Columns.from_frame(pl.DataFrame({"k": ["d0"]})))  # compiles
    coder.decode(np.arange(1))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    read, wrong = 0, list[object]()
    added = threading.Event()

    def name_all() -> None:
        nonlocal read
        while not added.is_set() and not wrong:
            codes = np.arange(len(coder))[-20:]
            try:
                names = coder.decode(codes).frame["k"].to_list()
            except Exception as error:
                wrong.append(error)
                return
            if names != [f"d{n}" for n in codes]:
                wrong.append(names)
            read += 1

    thread = threading.Thread(target=name_all)
    thread.start()
    try:
        for n in range(1, KEYS):
            coder.encode(Columns.from_frame(pl.DataFrame({"k": [f"d{n}"]})))
    finally:
        added.set()
        thread.join()
        sys.setswitchinterval(before)
    assert not wrong
    assert read
