"""PostgreSQL's types for payload fields, and the texts of their values for COPY."""

from __future__ import annotations

import polars as pl

_TYPES: dict[type[pl.DataType], str] = {
    pl.Boolean: "boolean",
    pl.Int8: "smallint",
    pl.Int16: "smallint",
    pl.Int32: "integer",
    pl.Int64: "bigint",
    pl.Float32: "real",
    pl.Float64: "double precision",
    pl.String: "text",
    pl.Binary: "bytea",
    pl.Date: "date",
    pl.Duration: "interval",
    pl.Null: "text",
}


def as_text(column: pl.Series) -> pl.Series:
    """Return a column as text that PostgreSQL reads from CSV."""
    if isinstance(column.dtype, pl.Datetime):
        zone = "%:z" if column.dtype.time_zone is not None else ""
        return column.dt.strftime(f"%Y-%m-%d %H:%M:%S%.6f{zone}")
    if column.dtype == pl.Binary:
        return ("\\x" + column.bin.encode("hex")).alias(column.name)
    if isinstance(column.dtype, pl.Duration):
        microseconds = column.dt.total_microseconds().cast(pl.String)
        return (microseconds + " microseconds").alias(column.name)
    return column


def find_postgres_type(dtype: pl.DataType) -> str:
    """Return the type of a payload field's column."""
    if isinstance(dtype, pl.Datetime):
        return "timestamptz" if dtype.time_zone is not None else "timestamp"
    if isinstance(dtype, pl.Decimal):
        return f"numeric({dtype.precision or 38}, {dtype.scale})"
    return _TYPES[type(dtype)]
