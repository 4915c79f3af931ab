"""Into Spark, inside it and back: tables to write, queries to run there, DataFrames to read.

Importing this package imports no pyspark; a Java process starts when a sink is opened or a session
is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# At once and not on demand: the function has to win over the module of the same name.
from rxtemporal.spark.session import session

if TYPE_CHECKING:
    from rxtemporal.spark.console import Console
    from rxtemporal.spark.database import DatabaseTable
    from rxtemporal.spark.inputs import stream
    from rxtemporal.spark.reading import from_dataframe
    from rxtemporal.spark.running import explain, run
    from rxtemporal.spark.sink import SparkSink
    from rxtemporal.spark.tables import ParquetTable

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
    "Console": "console",
    "DatabaseTable": "database",
    "ParquetTable": "tables",
    "SparkSink": "sink",
    "explain": "running",
    "from_dataframe": "reading",
    "run": "running",
    "stream": "inputs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
