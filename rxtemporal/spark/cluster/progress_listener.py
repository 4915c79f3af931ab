"""Listener of streaming queries that counts; importing this module imports pyspark."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.spark.query.cti_column import OBSERVED

# bytes of a state in its local files, in a progress of RocksDB
_FILES = "rocksdbSstFileSize"


@dataclasses.dataclass
class QueryCounts:
    """Counters and last values of one streaming query."""

    running: bool = True
    failures: int = 0
    batches: int = 0
    rows: int = 0
    last: float = dataclasses.field(default_factory=time.time)
    cti: int = MIN_TIME
    values: dict[str, float] = dataclasses.field(default_factory=dict)


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Listener that counts for each query; the names of most methods are Spark's. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, QueryCounts] = {}
        # Spark names a query when it starts and in its progress, and gives its id when it ends
        self._names: dict[str, str] = {}

    def list_queries(self) -> list[tuple[str, QueryCounts]]:
        """Return a copy of the counts of each query, by its name."""
        with self._lock:
            return [(name, dataclasses.replace(each)) for name, each in self._queries.items()]

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Note that a query has started, perhaps again."""
        with self._lock:
            self._find(event.id, event.name).running = True

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Add the progress of a micro-batch."""
        progress = event.progress
        with self._lock:
            query = self._find(progress.id, progress.name)
            query.batches += 1
            query.rows += progress.numInputRows
            query.last = time.time()
            query.cti = max(query.cti, _read_cti(progress.observedMetrics))
            query.values = _read_progress(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Note that a query runs, and has nothing to do."""
        with self._lock:
            query = self._find(event.id)
            query.last = time.time()
            query.values = {**query.values, **_AT_REST}

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note that a query has ended."""
        with self._lock:
            query = self._find(event.id)
            query.running = False
            query.failures += event.exception is not None
            query.values = {**query.values, **_AT_REST}

    def _find(self, number: Any, name: str | None = None) -> QueryCounts:
        name = name or self._names.get(str(number), str(number))
        self._names[str(number)] = name
        return self._queries.setdefault(name, QueryCounts())


_AT_REST = {"input_rate": 0.0, "process_rate": 0.0}


def _read_progress(progress: Any) -> dict[str, float]:
    states = [*progress.stateOperators]
    return {
        "batch.duration": progress.durationMs.get("triggerExecution", 0) / 1000,
        "batch.rows": progress.numInputRows,
        # Spark has no rate for a first micro-batch
        "input_rate": _number(progress.inputRowsPerSecond),
        "process_rate": _number(progress.processedRowsPerSecond),
        "state.rows": sum(each.numRowsTotal for each in states),
        "state.memory": sum(each.memoryUsedBytes for each in states),
        "state.files": sum(dict(each.customMetrics).get(_FILES, 0) for each in states),
    }


def _number(value: float | None) -> float:
    return value if value is not None and value == value and abs(value) != float("inf") else 0.0


def _read_cti(observed: Mapping[str, Any]) -> int:
    """Return the lowest CTI of results that a micro-batch has reached; else ``MIN_TIME``."""
    ctis = [row["cti"] for name, row in observed.items() if name.startswith(OBSERVED)]
    return min(ctis) if ctis and None not in ctis else MIN_TIME
