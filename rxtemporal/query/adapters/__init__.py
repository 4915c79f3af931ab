"""Ready adapter factories, each with its configuration: for ``create_stream``, ``bind_producer``.

Files: ``CsvAdapter``, ``JsonAdapter``, ``ParquetAdapter``. Events from elsewhere:
``IterableAdapter``, ``AsyncAdapter``, ``ObservableAdapter``. What a factory of one's own has to be
stands at ``Application.create_stream``.
"""

from __future__ import annotations

from rxtemporal.query.adapters.events import (
    AsyncAdapter,
    AsyncConfig,
    IterableAdapter,
    IterableConfig,
    ObservableAdapter,
    ObservableConfig,
)
from rxtemporal.query.adapters.files import (
    CsvAdapter,
    CsvConfig,
    FileConfig,
    JsonAdapter,
    JsonConfig,
    ParquetAdapter,
    ParquetConfig,
)

__all__ = [
    "AsyncAdapter",
    "AsyncConfig",
    "CsvAdapter",
    "CsvConfig",
    "FileConfig",
    "IterableAdapter",
    "IterableConfig",
    "JsonAdapter",
    "JsonConfig",
    "ObservableAdapter",
    "ObservableConfig",
    "ParquetAdapter",
    "ParquetConfig",
]
