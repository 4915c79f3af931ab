"""Many cases of law 7 as one query: their results are united, so that Spark runs one query.

Each row of an input says of which case it is. A case's results are its name and the payload as
text, which is one form for all cases; the text is JSON, in which Python reads what it has written.
The CTI of a union is the lowest of all, so these are cases whose streams go to the end of time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import law_seven
import oracle
import physical
import polars as pl
from law_seven import CASES, Sides

import rxtemporal as rxt
from rxtemporal.operators.partition import find_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FIELDS", "combine_rows", "group_by_split", "pack", "unite", "unite_cases"]

CASE = "case"
FIELDS = pl.Schema({**physical.SCHEMA, CASE: pl.String})
ROWS = pl.Schema({**law_seven.SCHEMA, CASE: pl.String})
RESULT = {CASE: str, "payload": str}
# what such cases are split by, of which no row has to be where another one is
ANY = "k"


def group_by_split(names: Iterable[str]) -> dict[str | None, list[str]]:
    """Return cases by the field that splits the rows of all of them; None where nothing does."""
    found: dict[str | None, list[str]] = {}
    for name in names:
        found.setdefault(_split_by(name), []).append(name)
    return found


def _split_by(name: str) -> str | None:
    plan = physical.planned(CASES[name].query, CASES[name].inputs)._node
    split = find_partition(plan)
    if split.reason is not None:
        return None
    fields = [split.get_fields(node) for node in plan.list_nodes() if node.source is not None]
    return next((one[0] for one in zip(*fields, strict=True)), ANY)


def unite_cases(names: Sequence[str]) -> Callable[..., rxt.Streamable]:
    """Return cases as one query, of two streams as ``combined`` gives them."""

    def query(left: rxt.Streamable, right: rxt.Streamable) -> rxt.Streamable:
        return unite([_part(name, left, right) for name in names])

    return query


def unite(streams: Sequence[rxt.Streamable]) -> rxt.Streamable:
    """Return the union of some streams: of halves, so that rows go through few unions."""
    if len(streams) == 1:
        return streams[0]
    half = len(streams) // 2
    return unite(streams[:half]).union(unite(streams[half:]))


def _part(name: str, *streams: rxt.Streamable) -> rxt.Streamable:
    case = CASES[name]
    mine = [each.where(pl.col(CASE) == name).drop(CASE) for each in streams[: case.inputs]]

    def pack(payload: dict[str, Any]) -> dict[str, Any]:
        return {CASE: name, "payload": json.dumps(payload)}

    return case.query(*mine).ungroup().select(pack, schema=RESULT)


def combine_rows(sides: Mapping[str, Sides], side: int) -> pl.DataFrame:
    """Return the histories of the streams that cases have on one side, in order of start."""
    frames = [
        law_seven.frame(oracle.canonical(streams[side])).with_columns(pl.lit(name).alias(CASE))
        for name, streams in sides.items()
        if side < len(streams)
    ]
    return pl.concat([pl.DataFrame(schema=ROWS), *frames]).sort("start_time")


def pack(result: DataFrame) -> DataFrame:
    """Return what ``one_query`` gives as ``law_seven.packed`` has it."""
    from pyspark.sql import functions as sf

    values = sf.array("payload").alias("values")
    return result.select(sf.col(CASE).alias("name"), "start_time", "end_time", values)
