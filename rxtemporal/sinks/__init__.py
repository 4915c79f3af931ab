"""Sinks: receivers of the results of a running query."""

from typing import TYPE_CHECKING

import lazy_loader

# a query that is composed needs the base class alone
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "append_file": ["AppendFile"],
        "delta": ["DeltaTable"],
        "file": ["File"],
        "http": ["Http"],
        "iceberg": ["IcebergTable"],
        "parquet_folder": ["ParquetFolder"],
        "postgres": ["PostgresTable"],
        "results": ["Collect", "Print"],
        "sink": ["Sink"],
        "sqlite": ["SqliteTable"],
    },
)

if TYPE_CHECKING:
    from rxtemporal.sinks.append_file import AppendFile as AppendFile
    from rxtemporal.sinks.delta import DeltaTable as DeltaTable
    from rxtemporal.sinks.file import File as File
    from rxtemporal.sinks.http import Http as Http
    from rxtemporal.sinks.iceberg import IcebergTable as IcebergTable
    from rxtemporal.sinks.parquet_folder import ParquetFolder as ParquetFolder
    from rxtemporal.sinks.postgres import PostgresTable as PostgresTable
    from rxtemporal.sinks.results import Collect as Collect
    from rxtemporal.sinks.results import Print as Print
    from rxtemporal.sinks.sink import Sink as Sink
    from rxtemporal.sinks.sqlite import SqliteTable as SqliteTable
