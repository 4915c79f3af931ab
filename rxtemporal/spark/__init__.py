"""Into Spark, inside it and back: tables to write, queries to run there, DataFrames to read.

Importing this package imports no pyspark; a Java process starts when a sink is opened or a session
is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once and not on demand: the function has to win over the module of the same name.
from rxtemporal.spark.jvm.session import session

if TYPE_CHECKING:
    from rxtemporal.spark.dataframes.bounded import from_dataframe
    from rxtemporal.spark.query.inputs import stream
    from rxtemporal.spark.query.run import explain, run
    from rxtemporal.spark.sink.sink import SparkSink
    from rxtemporal.spark.targets.console import Console
    from rxtemporal.spark.targets.parquet import ParquetTable
    from rxtemporal.spark.targets.postgres import DatabaseTable

__all__ = [
    "Console",
    "DatabaseTable",
    "ParquetTable",
    "SparkSink",
    "explain",
    "from_dataframe",
    "run",
    "session",
    "stream",
]

_HOMES = {
    "Console": "targets.console",
    "DatabaseTable": "targets.postgres",
    "ParquetTable": "targets.parquet",
    "SparkSink": "sink.sink",
    "explain": "query.run",
    "from_dataframe": "dataframes.bounded",
    "run": "query.run",
    "stream": "query.inputs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
