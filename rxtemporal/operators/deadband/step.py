"""deadband: rows of a key in order, each compared with the last one that passed."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.holdings import ByKey
from rxtemporal.engine.rows import grow
from rxtemporal.operators.deadband.kernel import NONE, find_differing
from rxtemporal.operators.scan.ordered_step import OrderedStep
from rxtemporal.operators.windows.field_values import read_floats, read_integers, read_valid


class DeadbandStep(OrderedStep):
    """Passes the rows whose field differs by more than ``by`` from the last row that passed.

    Holds the last value of each key that passed, too.
    """

    held = MappingProxyType({**OrderedStep.held, "_last": ByKey(), "_what": ByKey(NONE)})

    def __init__(self, field: str, by: float, schema: pl.Schema, keys: tuple[str, ...]) -> None:
        super().__init__(schema, schema, keys)
        self._field, self._by = field, float(by)
        self._read = read_floats if schema[field].is_float() else read_integers
        dtype = np.float64 if schema[field].is_float() else np.int64
        self._last = np.zeros(0, dtype)
        # its kind, as the kernel says
        self._what = np.zeros(0, np.int8)

    def compute(
        self, key: Int64s, start: Int64s, payload: pl.DataFrame
    ) -> tuple[Int64s, pl.DataFrame]:
        """Return the rows that pass."""
        self._last = grow(self._last, len(self._coder))
        self._what = grow(self._what, len(self._coder), NONE)
        values = Columns.from_frame(payload)[self._field]
        numbers = np.asarray(self._read(values), self._last.dtype)
        valid = np.broadcast_to(read_valid(values), len(numbers))
        passes = find_differing(
            key, numbers, np.ascontiguousarray(valid), self._by, self._last, self._what
        )
        of = np.flatnonzero(passes)
        return of, payload[of]

    def mark_states(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys of which a row has passed."""
        known = self._what[: len(held)] != NONE
        held[: len(known)] |= known
