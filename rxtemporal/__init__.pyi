"""The public names of the package, each loaded when it is first used."""

from . import (
    agg as agg,
)
from . import (
    errors as errors,
)
from . import (
    operators as operators,
)
from . import (
    pattern as pattern,
)
from . import (
    plots as plots,
)
from . import (
    testing as testing,
)
from .brokers.kafka import (
    from_kafka as from_kafka,
)
from .brokers.kafka_topic import (
    KafkaTopic as KafkaTopic,
)
from .brokers.mqtt import (
    from_mqtt as from_mqtt,
)
from .brokers.mqtt_topic import (
    MqttTopic as MqttTopic,
)
from .core.batch import EventBatch as EventBatch
from .core.events import (
    Cti as Cti,
)
from .core.events import (
    EdgeEvent as EdgeEvent,
)
from .core.events import (
    EdgeType as EdgeType,
)
from .core.events import (
    EventKind as EventKind,
)
from .core.events import (
    EventShape as EventShape,
)
from .core.events import (
    IntervalEvent as IntervalEvent,
)
from .core.events import (
    PointEvent as PointEvent,
)
from .core.events import (
    WindowOutput as WindowOutput,
)
from .core.ticks import (
    MAX_TIME as MAX_TIME,
)
from .core.ticks import (
    MIN_TIME as MIN_TIME,
)
from .core.ticks import (
    TICK as TICK,
)
from .core.ticks import (
    ticks as ticks,
)
from .core.ticks import (
    to_datetime as to_datetime,
)
from .errors import (
    AdvanceTimeError as AdvanceTimeError,
)
from .errors import (
    ArgumentError as ArgumentError,
)
from .errors import (
    BindingError as BindingError,
)
from .errors import (
    CheckpointError as CheckpointError,
)
from .errors import (
    CtiViolationError as CtiViolationError,
)
from .errors import (
    EventError as EventError,
)
from .errors import (
    JavaError as JavaError,
)
from .errors import (
    ProcessEndedError as ProcessEndedError,
)
from .errors import (
    RxTemporalError as RxTemporalError,
)
from .errors import (
    SchemaError as SchemaError,
)
from .errors import (
    SourceError as SourceError,
)
from .errors import (
    SpoolError as SpoolError,
)
from .errors import (
    StoppedError as StoppedError,
)
from .errors import (
    UnboundedWindowError as UnboundedWindowError,
)
from .ingress.arrivals import (
    ARRIVAL as ARRIVAL,
)
from .ingress.encoded_rows import (
    ArrowIpc as ArrowIpc,
)
from .ingress.encoded_rows import (
    JsonLines as JsonLines,
)
from .ingress.lateness import (
    LateEvent as LateEvent,
)
from .ingress.lateness import (
    LateReason as LateReason,
)
from .ingress.pushed_inputs import (
    PushStats as PushStats,
)
from .ingress.settings import (
    INCREASING_START_TIME as INCREASING_START_TIME,
)
from .ingress.settings import (
    STRICTLY_INCREASING_START_TIME as STRICTLY_INCREASING_START_TIME,
)
from .ingress.settings import (
    AdapterAdvanceTimeSettings as AdapterAdvanceTimeSettings,
)
from .ingress.settings import (
    AdvanceTimeGenerationSettings as AdvanceTimeGenerationSettings,
)
from .ingress.settings import (
    AdvanceTimeImportSettings as AdvanceTimeImportSettings,
)
from .ingress.settings import (
    AdvanceTimePolicy as AdvanceTimePolicy,
)
from .ingress.settings import (
    AdvanceTimeSettings as AdvanceTimeSettings,
)
from .ingress.settings import (
    HandOff as HandOff,
)
from .ingress.settings import (
    Heartbeat as Heartbeat,
)
from .ingress.settings import (
    WhenAhead as WhenAhead,
)
from .ingress.settings import (
    WhenFull as WhenFull,
)
from .ingress.source import (
    Cursor as Cursor,
)
from .ingress.source import (
    Source as Source,
)
from .ingress.verdict import (
    Extra as Extra,
)
from .ingress.verdict import (
    Rejected as Rejected,
)
from .ingress.verdict import (
    Rejects as Rejects,
)
from .ingress.verdict import Verdict as Verdict
from .operators.row_times import (
    end as end,
)
from .operators.row_times import (
    start as start,
)
from .query import adapters as adapters
from .query.application import (
    Application as Application,
)
from .query.application import (
    QueryBinder as QueryBinder,
)
from .query.batches import (
    make_batch as make_batch,
)
from .query.files import (
    read_csv as read_csv,
)
from .query.files import (
    read_json as read_json,
)
from .query.files import (
    read_parquet as read_parquet,
)
from .query.inputs import (
    from_arrow as from_arrow,
)
from .query.inputs import (
    from_async as from_async,
)
from .query.inputs import (
    from_events as from_events,
)
from .query.inputs import (
    from_observable as from_observable,
)
from .query.inputs import (
    from_pandas as from_pandas,
)
from .query.inputs import (
    from_polars as from_polars,
)
from .query.inputs import (
    from_source as from_source,
)
from .query.push_input import (
    PushInput as PushInput,
)
from .query.push_source import (
    PushSource as PushSource,
)
from .query.reference import (
    reference as reference,
)
from .query.replay import (
    at_speed as at_speed,
)
from .query.replay import (
    replay as replay,
)
from .query.streamable import Streamable as Streamable
from .query.why import (
    why as why,
)
from .query.why import (
    why_not as why_not,
)
from .reactive.subjects import (
    CtiSynchronizingSubject as CtiSynchronizingSubject,
)
from .reactive.subjects import (
    CtiSynchronizingSubjectAlternate as CtiSynchronizingSubjectAlternate,
)
from .reactive.subjects import (
    TransformSubject as TransformSubject,
)
from .run.process import Process as Process
from .sinks.append_file import (
    AppendFile as AppendFile,
)
from .sinks.delta import (
    DeltaTable as DeltaTable,
)
from .sinks.file import (
    File as File,
)
from .sinks.http import (
    Http as Http,
)
from .sinks.iceberg import (
    IcebergTable as IcebergTable,
)
from .sinks.parquet_folder import (
    ParquetFolder as ParquetFolder,
)
from .sinks.postgres import (
    PostgresTable as PostgresTable,
)
from .sinks.results import (
    Collect as Collect,
)
from .sinks.results import (
    Print as Print,
)
from .sinks.sink import (
    Sink as Sink,
)
from .sinks.sqlite import (
    SqliteTable as SqliteTable,
)
from .view.lineage.trace import Explanation as Explanation

__version__: str
