"""All inputs of a query as one DataFrame, whose rows go to buckets.

========== ==== ===================================================================================
_bucket    int  the bucket; rows that the query has to see together are in the same one
_input     int  the number of the input
_start     long ticks; null is refused where the row is read
_end       long ticks; null: never ends
_cti       long null, or this row is no event but the CTI that it says, and ``_start`` as well
c<i>_<j>   any  field j of input i; null in the rows of other inputs
========== ==== ===================================================================================

Times are integers, since the ends of time do not pass through everything in Spark as timestamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from rxtemporal.operators.operator import Keys
from rxtemporal.spark.query.inputs import Input, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET, INPUT, STARTS, ENDS, CTI = "_bucket", "_input", "_start", "_end", "_cti"


def field(number: int, place: int) -> str:
    """Return the name of an input's field; the user's own names may differ in case alone."""
    return f"c{number}_{place}"


def carried_rows(number: int, given: Input, split_by: Keys, buckets: int) -> DataFrame:
    """Return one input's rows in this form, with its order columns behind."""
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
        *(sf.col(quoted(f)).alias(field(number, i)) for i, f in enumerate(given.fields)),
        *(sf.col(quoted(name)).alias(f"o{i}") for i, name in enumerate(given.order_by)),
    )


def everywhere(rows: DataFrame, buckets: int) -> DataFrame:
    """Return rows in this form with each CTI among them in every bucket."""
    from pyspark.sql import functions as sf

    each = sf.sequence(sf.lit(0), sf.lit(buckets - 1))
    own = sf.array(sf.col(BUCKET))
    places = sf.when(sf.col(CTI).isNull(), own).otherwise(each)
    return rows.withColumn(BUCKET, sf.explode(places))


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all inputs."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _time(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as sf

    column = sf.col(quoted(name))
    stamps = frame.schema[name].dataType.typeName() == "timestamp"
    return sf.unix_micros(column) if stamps else column.cast("long")


def _key(frame: DataFrame, name: str) -> Column:
    """Return a column such that values that are equal as keys are the same value.

    Null hashes as null whatever its type, NaN as one NaN.
    """
    from pyspark.sql import functions as sf

    column, kind = sf.col(quoted(name)), frame.schema[name].dataType.typeName()
    if kind in ("byte", "short", "integer"):
        return column.cast("long")
    if kind in ("float", "double"):
        wide = column.cast("double")
        return sf.when(wide == 0, sf.lit(0.0)).otherwise(wide)
    return column
