"""Spark: sinks that write tables, queries that run in Spark, DataFrames as sources.

Importing this package imports no pyspark; a Java process starts when a sink or a session is opened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rxtemporal.errors import BindingError

if TYPE_CHECKING:
    from rxtemporal.spark.dataframes.streaming import from_dataframe
    from rxtemporal.spark.jvm.session import session
    from rxtemporal.spark.query.inputs import stream
    from rxtemporal.spark.query.run import explain, repartition, run
    from rxtemporal.spark.sink.sink import SparkSink
    from rxtemporal.spark.targets.manifest import list_files, read
    from rxtemporal.spark.targets.parquet import ParquetTable
    from rxtemporal.spark.targets.postgres import DatabaseTable
    from rxtemporal.spark.targets.target import Console

__all__ = [
    "Console",
    "DatabaseTable",
    "ParquetTable",
    "SparkSink",
    "explain",
    "from_dataframe",
    "list_files",
    "read",
    "repartition",
    "run",
    "session",
    "stream",
]

_MODULES = {
    "Console": "targets.target",
    "DatabaseTable": "targets.postgres",
    "ParquetTable": "targets.parquet",
    "SparkSink": "sink.sink",
    "explain": "query.run",
    "from_dataframe": "dataframes.streaming",
    "list_files": "targets.manifest",
    "read": "targets.manifest",
    "repartition": "query.run",
    "run": "query.run",
    "session": "jvm.session",
    "stream": "query.inputs",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] != "pyspark":
                raise
            raise BindingError(
                f"{__name__}.{name} needs pyspark, which is not installed. "
                "Hint: pip install 'rxtemporal[spark]'."
            ) from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
