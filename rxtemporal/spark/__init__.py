"""Spark: sinks that write tables, queries that run in Spark, DataFrames as sources.

Importing this package imports no pyspark; a Java process starts when a sink or a session is opened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rxtemporal.spark.dataframes.bounded import from_dataframe
    from rxtemporal.spark.jvm.session import session
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

_MODULES = {
    "Console": "targets.console",
    "DatabaseTable": "targets.postgres",
    "ParquetTable": "targets.parquet",
    "SparkSink": "sink.sink",
    "explain": "query.run",
    "from_dataframe": "dataframes.bounded",
    "run": "query.run",
    "session": "jvm.session",
    "stream": "query.inputs",
}
# what may be missing, and the extra that installs it
_EXTRAS = {"pyspark": "spark", "pandas": "spark", "psycopg": "database", "google": "spark"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            if missing not in _EXTRAS:
                raise
            raise ModuleNotFoundError(
                f"{__name__}.{name} needs {missing}, which is not installed. "
                f"Hint: pip install 'rxtemporal[{_EXTRAS[missing]}]'.",
                name=error.name,
            ) from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
