"""All inputs of a query as one DataFrame, whose rows are assigned to buckets.

========== ==== ===================================================================================
_bucket    int  the bucket; rows that the query has to see together are in the same one
_input     int  the number of the input
_start     long ticks; null is refused where the row is read
_end       long ticks; null: never ends
_cti       long null for an event; in a row that is a CTI its time, as is ``_start``
c<i>_<j>   any  field j of input i; null in the rows of other inputs
========== ==== ===================================================================================

Times are integers, because parts of Spark do not pass the ends of time as timestamps. Buckets of a
bounded query get only the columns that differ: no ``_input`` if there is only one, no ``_end`` if
all rows are points, no ``_cti`` if there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from rxtemporal.operators.operator import Keys
from rxtemporal.spark.query.inputs import DataFrameInput
from rxtemporal.spark.schema import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET, INPUT, STARTS, ENDS, CTI = "_bucket", "_input", "_start", "_end", "_cti"


def field(number: int, place: int) -> str:
    """Return the name of an input's field; the user's names may differ only in case."""
    return f"c{number}_{place}"


def assign_buckets(number: int, given: DataFrameInput, split_by: Keys, buckets: int) -> DataFrame:
    """Return one input's rows in this form, followed by its order columns."""
    from pyspark.sql import functions as sf

    frame = given.frame
    start = _time(frame, given.start)
    point = start + sf.lit(1)
    cti = sf.lit(None).cast("long") if given.cti is None else _time(frame, given.cti)
    keys = [_key(frame, name) for name in split_by] or [sf.coalesce(start, cti)]
    return frame.select(
        sf.pmod(sf.xxhash64(*keys), sf.lit(buckets)).cast("int").alias(BUCKET),
        sf.lit(number).alias(INPUT),
        sf.coalesce(cti, start).alias(STARTS),
        (point if given.end is None else _time(frame, given.end)).alias(ENDS),
        cti.alias(CTI),
        *(sf.col(quote_name(f)).alias(field(number, i)) for i, f in enumerate(given.fields)),
        *(sf.col(quote_name(name)).alias(f"o{i}") for i, name in enumerate(given.order_by)),
    )


def copy_ctis(rows: DataFrame, buckets: int) -> DataFrame:
    """Return the rows with each CTI among them copied to every bucket."""
    from pyspark.sql import functions as sf

    each = sf.sequence(sf.lit(0), sf.lit(buckets - 1))
    own = sf.array(sf.col(BUCKET))
    places = sf.when(sf.col(CTI).isNull(), own).otherwise(each)
    return rows.withColumn(BUCKET, sf.explode(places))


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all inputs."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _time(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as sf

    column = sf.col(quote_name(name))
    stamps = frame.schema[name].dataType.typeName() == "timestamp"
    return sf.unix_micros(column) if stamps else column.cast("long")


def _key(frame: DataFrame, name: str) -> Column:
    """Return a column in which values that are equal as keys are the same value.

    Null hashes as null whatever its type, NaN as one NaN.
    """
    from pyspark.sql import functions as sf

    column, kind = sf.col(quote_name(name)), frame.schema[name].dataType.typeName()
    if kind in ("byte", "short", "integer"):
        return column.cast("long")
    if kind in ("float", "double"):
        wide = column.cast("double")
        return sf.when(wide == 0, sf.lit(0.0)).otherwise(wide)
    return column
