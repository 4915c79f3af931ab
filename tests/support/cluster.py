"""Law 7 on a cluster of two executors on this machine: ``cluster.py FOLDER``.

``FOLDER/asked`` has the streams that are drawn for the cases and the number that cuts them, as a
pickle; ``found`` is what Spark gives for them. Where the year is at hand it is asked as well.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import law_seven
import law_seven_spark
import polars as pl
import pyarrow as pa
import year
from file_streams import read_all
from oracle import MAX_TIME

from rxtemporal.spark import run, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    # an executor for each part of a state
    "spark.sql.shuffle.partitions": "2",
    # for these plans it takes longer than their rows
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def of_the_table(spark: SparkSession, folder: Path) -> None:
    """Write the cluster's results for the cases, bounded and streaming."""
    sides, number = pickle.loads((folder / "asked").read_bytes())
    whole = {n: each for n, each in sides.items() if law_seven.CASES[n].last == MAX_TIME}
    found = {
        "bounded": law_seven_spark.bounded(spark, whole),
        "streaming": law_seven_spark.streaming(spark, sides, folder / "streams", Random(number)),
    }
    (folder / "found").write_bytes(pickle.dumps(found))


def of_the_year(spark: SparkSession, folder: Path) -> Iterator[tuple[str, pa.Table]]:
    """Yield what the cluster makes of all queries of the year, all at once and in micro-batches."""
    frames = year.frames()
    whole = run(year.all_in_one, buckets=4, **year.in_spark(spark, frames))
    yield "bounded", whole.toArrow()
    streams, bring = year.stream_files(spark, frames, folder / "year", 2)
    result, tables = run(year.all_in_one, buckets=3, **streams), list[pa.Table]()
    for _ in range(2):
        bring(1)
        tables += read_all(result, folder / "checkpoint")
    yield "streaming", pa.concat_tables(tables)


def main(folder: Path) -> None:
    """Run all cases in one session."""
    law_seven.by_value()
    spark = session(**SETTINGS)
    of_the_table(spark, folder)
    if year.is_there():
        for name, table in of_the_year(spark, folder):
            pl.DataFrame(pl.from_arrow(table)).write_parquet(folder / f"{name}.parquet")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
