"""Rows whose start or end makes an end of other rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s


def find_at(
    of: Int64s, key: Int64s, time: Int64s, keys: Int64s, times: Int64s
) -> tuple[Int64s, Int64s]:
    """Return pairs of a number of ``of`` and a row: those with the same key and the same time.

    ``key`` and ``time`` are those of ``of``, ``keys`` and ``times`` those of the rows. A key of -1
    matches nothing.
    """
    wanted = pl.DataFrame({"of": of, "key": key, "time": time}).filter(pl.col("key") >= 0)
    rows = pl.DataFrame({"row": np.arange(len(keys)), "key": keys, "time": times})
    found = wanted.join(rows, on=["key", "time"], how="inner")
    return found.get_column("of").to_numpy(), found.get_column("row").to_numpy()
