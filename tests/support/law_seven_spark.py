"""Law 7 in a Spark session: its results for the streams drawn for some cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import law_seven
import oracle
import physical
import polars as pl
import pyarrow as pa
import united_cases
from file_streams import FileStream, cut_micro_batches, read_all
from law_seven import BUCKETS, CASES, Sides
from oracle import MAX_TIME, Row

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
    return law_seven.unpack(_united(results).toArrow(), {})


def streaming(
    spark: SparkSession, sides: Mapping[str, Sides], folder: Path, numbers: Random
) -> Found:
    """Return the histories that Spark gives for streaming ones, cut into micro-batches at random.

    All is one query of Spark's, which is stopped and begun again.
    """
    alone = [_alone(name, sides[name]) for name in ALONE if name in sides]
    rest = {name: streams for name, streams in sides.items() if name not in ALONE}
    results, waiting = list[Any](), list[tuple[FileStream, Iterator[pl.DataFrame]]]()
    for place, question in enumerate([*alone, *_together(rest)]):
        given = {}
        for name, rows in question.rows.items():
            files = FileStream(folder / f"{place}-{name}", pl.Schema({**rows.schema, **CTI}))
            parts = cut_micro_batches(rows, sum(RUNS), numbers, question.last)
            waiting.append((files, iter(parts)))
            given[name] = stream(files.frame(spark), cti="cti")
        results.append(question.packed(run(question.query, buckets=BUCKETS, **given)))
    tables = []
    for batches in RUNS:
        for files, parts in waiting:
            for _ in range(batches):
                files.add(next(parts))
        tables += read_all(_united(results), folder / "checkpoint")
    schemas = {
        name: physical.planned(CASES[name].query, CASES[name].inputs).schema or pl.Schema()
        for name in ALONE
    }
    return law_seven.unpack(pa.concat_tables(tables), schemas)


def _together(sides: Mapping[str, Sides]) -> Iterator[_Question]:
    for names in united_cases.group_by_split(sides).values():
        mine = {name: sides[name] for name in names}
        rows = {name: united_cases.combine_rows(mine, n) for n, name in enumerate(physical.SIDES)}
        yield _Question(united_cases.unite_cases(names), rows, MAX_TIME, united_cases.pack)


def _alone(name: str, streams: Sides) -> _Question:
    frames = [law_seven.frame(oracle.canonical(items)) for items in streams]
    rows = {
        side: each.sort("start_time") for side, each in zip(physical.SIDES, frames, strict=False)
    }
    return _Question(
        law_seven.query_of(name),
        rows,
        CASES[name].last,
        lambda result: law_seven.pack(name, result),
    )


def _united(results: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), results)
