"""Integer codes of the keys by which rows of two streams match."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns, cast_column, get_valid
from rxtemporal.engine.holdings import KEYS, Selection
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.state import Stateful


class KeyMatcher(Stateful):
    """Codes of the fields by which rows of two streams match.

    A row with null in a field of ``on`` matches nothing and has code -1; in a group key, null
    equals null. Holds the keys of rows that are held, and up to as many more.
    """

    held = MappingProxyType({"_coder": KEYS})

    def __init__(
        self, group: Sequence[str], on: Sequence[tuple[str, str]], types: Sequence[pl.DataType]
    ) -> None:
        pairs = [*((name, name) for name in group), *on]
        # for each side the names of its fields, and the types in which they are compared
        self._fields = [
            [(pair[side], dtype) for pair, dtype in zip(pairs, types, strict=True)]
            for side in range(2)
        ]
        self._group = len(group)
        self._coder = KeyCoder({str(i): dtype for i, dtype in enumerate(types)})

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._coder)

    @property
    def is_full(self) -> bool:
        """True if so many keys are known that its owner should see which ones it holds."""
        return self._coder.is_full

    def forget(self, held: Bools) -> KeptKeys | None:
        """Forget keys as ``KeyCoder.forget`` does."""
        return self._coder.forget(held)

    def keep_selected(self, selection: Selection) -> None:
        """Keep the keys that are selected by the fields of the left rows."""
        if selection.all_rows_stay:
            return
        names = {name: str(i) for i, (name, _) in enumerate(self._fields[0])}
        fields = [names[name] for name in selection.fields[0]]
        of_codes = Selection(selection.contains, [fields])
        super().keep_selected(of_codes)
        selection.kept["key"] = of_codes.kept["key"]

    def decode(self, codes: Int64s) -> Columns:
        """Return the keys with these codes, under the names of the left fields."""
        columns = self._coder.decode(codes).columns
        schema = pl.Schema(self._fields[0])
        return Columns(schema, columns, len(codes))

    def encode(self, side: int, rows: Columns) -> Int64s:
        """Return each row's key."""
        codes, able = self.match(side, rows)
        return codes if able is None else np.where(able, codes, -1)

    def match(self, side: int, rows: Columns) -> tuple[Int64s, Bools | None]:
        """Return each row's key, and the mask of the rows that may match; None if all may."""
        fields = self._fields[side]
        if not fields:
            return self._coder.encode(rows), None
        columns = [cast_column(rows[name], dtype) for name, dtype in fields]
        codes, able = self._coder.encode_columns(columns), None
        for column in columns[self._group :]:
            if type(column) is not np.ndarray:
                valid = get_valid(column)
                able = valid if able is None else able & valid
        return codes, None if able is None or able.all() else able
