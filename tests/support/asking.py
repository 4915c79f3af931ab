"""Law 7 asked of a Spark session: what it makes of the streams that were drawn for some cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import combining
import law_seven
import oracle
import physical
import polars as pl
import pyarrow as pa
from law_seven import BUCKETS, CASES, Sides
from oracle import MAX_TIME, Row
from trickling import Trickle, read_out, trickled

from rxtemporal.spark import run, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["bounded", "streaming"]

Found = dict[str, list[Row]]
# these run by themselves in a stream: one that Spark does all of, and those that end earlier than
# with the end of time; their results have types
ALONE = ["where", *(name for name, case in CASES.items() if case.last < MAX_TIME)]
# micro-batches, run by run
RUNS = (2, 1)
CTI = {"cti": pl.Int64}


@dataclasses.dataclass(frozen=True)
class _Question:
    """One query of Spark, and the rows of its inputs in order of start."""

    query: Callable[..., Any]
    rows: Mapping[str, pl.DataFrame]
    last: int
    packed: Callable[[DataFrame], DataFrame]


def bounded(spark: SparkSession, sides: Mapping[str, Sides]) -> Found:
    """Return the histories that Spark gives for bounded DataFrames."""
    results = []
    for question in _together(sides):
        frames = {name: law_seven.in_spark(spark, rows) for name, rows in question.rows.items()}
        results.append(question.packed(run(question.query, buckets=BUCKETS, **frames)))
    return law_seven.unpacked(_united(results).toArrow(), {})


def streaming(
    spark: SparkSession, sides: Mapping[str, Sides], folder: Path, numbers: Random
) -> Found:
    """Return the histories that Spark gives for streaming ones, cut into micro-batches at random.

    All is one query of Spark's, which is stopped and begun again.
    """
    alone = [_alone(name, sides[name]) for name in ALONE if name in sides]
    rest = {name: streams for name, streams in sides.items() if name not in ALONE}
    results, waiting = list[Any](), list[tuple[Trickle, Iterator[pl.DataFrame]]]()
    for place, question in enumerate([*alone, *_together(rest)]):
        given = {}
        for name, rows in question.rows.items():
            trickle = Trickle(folder / f"{place}-{name}", pl.Schema({**rows.schema, **CTI}))
            parts = trickled(rows, sum(RUNS), numbers, question.last)
            waiting.append((trickle, iter(parts)))
            given[name] = stream(trickle.frame(spark), cti="cti")
        results.append(question.packed(run(question.query, buckets=BUCKETS, **given)))
    tables = []
    for batches in RUNS:
        for trickle, parts in waiting:
            for _ in range(batches):
                trickle.add(next(parts))
        tables += read_out(_united(results), folder / "checkpoint")
    schemas = {
        name: physical.planned(CASES[name].query, CASES[name].inputs).schema or pl.Schema()
        for name in ALONE
    }
    return law_seven.unpacked(pa.concat_tables(tables), schemas)


def _together(sides: Mapping[str, Sides]) -> Iterator[_Question]:
    for names in combining.in_groups(sides).values():
        mine = {name: sides[name] for name in names}
        rows = {name: combining.combined(mine, n) for n, name in enumerate(physical.SIDES)}
        yield _Question(combining.one_query(names), rows, MAX_TIME, combining.packed)


def _alone(name: str, streams: Sides) -> _Question:
    frames = [law_seven.frame(oracle.canonical(items)) for items in streams]
    rows = {
        side: each.sort("start_time") for side, each in zip(physical.SIDES, frames, strict=False)
    }
    return _Question(
        law_seven.query_of(name),
        rows,
        CASES[name].last,
        lambda result: law_seven.packed(name, result),
    )


def _united(results: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), results)
