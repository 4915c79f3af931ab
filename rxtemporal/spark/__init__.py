"""Spark: sinks that write tables, queries that run in Spark, DataFrames as sources.

Importing this package imports no pyspark; a Java process starts when a sink or a session is opened.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rxtemporal.errors import BindingError

if TYPE_CHECKING:
    from rxtemporal.spark.cluster.check import ClusterReport, check
    from rxtemporal.spark.cluster.metrics import SparkMetrics, metrics
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
    "ClusterReport",
    "Console",
    "DatabaseTable",
    "ParquetTable",
    "SparkMetrics",
    "SparkSink",
    "check",
    "explain",
    "from_dataframe",
    "list_files",
    "metrics",
    "read",
    "repartition",
    "run",
    "session",
    "stream",
]

_MODULES = {
    "ClusterReport": "cluster.check",
    "Console": "targets.target",
    "DatabaseTable": "targets.postgres",
    "ParquetTable": "targets.parquet",
    "SparkMetrics": "cluster.metrics",
    "SparkSink": "sink.sink",
    "check": "cluster.check",
    "explain": "query.run",
    "from_dataframe": "dataframes.streaming",
    "list_files": "targets.manifest",
    "metrics": "cluster.metrics",
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
