"""Names and types in the forms of Spark and Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.storage.segments import SEGMENT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def quote_name(name: str) -> str:
    """Return a column's name quoted for Spark's expressions, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def spark_schema(schema: Mapping[str, pl.DataType]) -> StructType:
    """Return polars fields as Spark fields."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    empty = pl.DataFrame(schema=dict(schema)).to_arrow(compat_level=pl.CompatLevel.oldest())
    return from_arrow_schema(pa.schema(empty.schema))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return Spark fields as Arrow fields, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def spool_schema(schema: pl.Schema) -> StructType:
    """Return a segment's columns as Spark fields: times in ticks, the payload, ``_segment``."""
    # Parquet has no column without a type
    fields = {name: pl.String() if dt == pl.Null else dt for name, dt in schema.items()}
    return spark_schema({START: pl.Int64(), END: pl.Int64(), **fields, SEGMENT: pl.Int64()})
