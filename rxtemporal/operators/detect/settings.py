"""Settings of a step of detect."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import polars as pl

from rxtemporal.operators.detect.automaton import Automaton


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DetectSettings:
    """Settings of a step; spans in ticks, -1 for none.

    ``types`` is what conditions may read, ``time`` the type of starts, and ``output`` the fields of
    the results. ``recent``: how many last rows of a key are needed while a match may go on, and
    ``kept`` how many always; ``before``, how many before each row of a match. ``text`` is the
    pattern, for errors, and ``budget`` the most ways from one start.
    """

    text: str
    automaton: Automaton
    conditions: Mapping[str, pl.Expr]
    measures: Mapping[str, pl.Expr]
    types: pl.Schema
    schema: pl.Schema
    keys: tuple[str, ...]
    output: pl.Schema
    time: pl.DataType
    within: int
    max_gap: int
    skip: Literal["next", "past_last", "first", "last"]
    skip_variable: str | None
    all_rows: bool
    at_last: bool
    timeouts: bool
    budget: int
    recent: int
    kept: int
    before: int
