"""StreamInsight's temporal algebra on ReactiveX: late events in, final answers out, on into Spark.

Importing this package starts no Java, and loads neither pyspark nor numba.
"""

from __future__ import annotations

from rxtemporal import agg, operators
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    EventKind,
    EventShape,
    IntervalEvent,
    PointEvent,
    WindowOutput,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, ticks, to_datetime
from rxtemporal.errors import (
    AdvanceTimeError,
    ArgumentError,
    BindingError,
    CheckpointError,
    CtiViolationError,
    EventError,
    JavaError,
    RxTemporalError,
    SchemaError,
    SourceError,
    SpoolError,
    UnboundedWindowError,
)
from rxtemporal.ingress.lateness import LateEvent, LateReason
from rxtemporal.ingress.settings import (
    INCREASING_START_TIME,
    STRICTLY_INCREASING_START_TIME,
    AdapterAdvanceTimeSettings,
    AdvanceTimeGenerationSettings,
    AdvanceTimeImportSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    HandOff,
    Heartbeat,
    WhenFull,
)
from rxtemporal.query import adapters
from rxtemporal.query.application import Application, QueryBinder
from rxtemporal.query.inputs import (
    from_arrow,
    from_async,
    from_events,
    from_observable,
    from_polars,
    read_csv,
    read_json,
    read_parquet,
)
from rxtemporal.query.replay import at_speed, replay
from rxtemporal.query.streamable import Streamable
from rxtemporal.reactive.subjects import (
    CtiSynchronizingSubject,
    CtiSynchronizingSubjectAlternate,
    TransformSubject,
)
from rxtemporal.runtime.process import Process
from rxtemporal.sinks import Collect, File, Print, Sink

__version__ = "0.1.0"

__all__ = [
    "INCREASING_START_TIME",
    "MAX_TIME",
    "MIN_TIME",
    "STRICTLY_INCREASING_START_TIME",
    "TICK",
    "AdapterAdvanceTimeSettings",
    "AdvanceTimeError",
    "AdvanceTimeGenerationSettings",
    "AdvanceTimeImportSettings",
    "AdvanceTimePolicy",
    "AdvanceTimeSettings",
    "Application",
    "ArgumentError",
    "BindingError",
    "CheckpointError",
    "Collect",
    "Cti",
    "CtiSynchronizingSubject",
    "CtiSynchronizingSubjectAlternate",
    "CtiViolationError",
    "EdgeEvent",
    "EdgeType",
    "EventBatch",
    "EventError",
    "EventKind",
    "EventShape",
    "File",
    "HandOff",
    "Heartbeat",
    "IntervalEvent",
    "JavaError",
    "LateEvent",
    "LateReason",
    "PointEvent",
    "Print",
    "Process",
    "QueryBinder",
    "RxTemporalError",
    "SchemaError",
    "Sink",
    "SourceError",
    "SpoolError",
    "Streamable",
    "TransformSubject",
    "UnboundedWindowError",
    "WhenFull",
    "WindowOutput",
    "adapters",
    "agg",
    "at_speed",
    "from_arrow",
    "from_async",
    "from_events",
    "from_observable",
    "from_polars",
    "operators",
    "read_csv",
    "read_json",
    "read_parquet",
    "replay",
    "ticks",
    "to_datetime",
]
