"""Results that are made of a window's rows alone, with nothing that runs along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import polars as pl

from rxtemporal.engine.steps.aggregates import Changes
from rxtemporal.engine.steps.rows import Column
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.engine.steps.window_bounds import Windows


class RowByRow(Stateful):
    """Looks at the rows of each window, keeps no columns of its own and holds nothing."""

    lists = True
    finished = False
    once = False
    dtypes: ClassVar[Sequence[Any]] = ()

    def columns(self, payload: pl.DataFrame) -> list[Column]:
        """Return nothing."""
        return []

    def swept(
        self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int
    ) -> list[pl.Series | None]:
        """Return nothing."""
        return []
