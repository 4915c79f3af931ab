"""Columns of keys that grow by appending."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.columns import SeriesColumn
from rxtemporal.engine.key_store import GrowingSeries


def texts(numbers: range) -> SeriesColumn:
    """Return these numbers as strings."""
    return SeriesColumn(pl.Series([str(number) for number in numbers]))


def test_many_batches_of_new_keys_stay_quick_to_read() -> None:
    """The keys of many batches are kept in few parts, and in one part after they are read."""
    store = GrowingSeries(pl.Series([], dtype=pl.String()))
    for number in range(511):
        store.append(texts(range(number, number + 1)))
    assert len(store._parts) <= 9
    assert store.take(np.array([0, 250, 510])).series.to_list() == ["0", "250", "510"]
    store.take(np.arange(511))
    assert len(store._parts) == 1


def test_reading_few_rows_does_not_join_all_parts() -> None:
    """Adding and reading a few keys copies a few rows, however many keys there are."""
    store = GrowingSeries(pl.Series([], dtype=pl.String()))
    store.append(texts(range(100_000)))
    many = store._parts[0]
    for number in range(100_000, 100_050):
        store.append(texts(range(number, number + 1)))
        assert store.take(np.array([number])).series.to_list() == [str(number)]
    assert store._parts[0] is many
