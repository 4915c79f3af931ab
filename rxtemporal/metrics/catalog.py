"""The metrics: name, kind, unit, labels and help of each, in one list."""

from __future__ import annotations

import dataclasses
from enum import Enum

from rxtemporal.ingress.lateness import BOUNDS

# how Prometheus calls a unit at the end of a name; units in braces only say what is counted
_SUFFIXES = {"s": "_seconds", "By": "_bytes"}


class MetricKind(Enum):
    """The three kinds of metrics; a counter never goes down."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricOwner(Enum):
    """The three kinds of programs that have metrics of their own."""

    PROCESS = "process"
    SERVER = "server"
    SPARK = "Spark session"


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``name`` is without the prefix; ``unit`` is a UCUM code, as in OpenTelemetry.

    >>> METRICS["cti.lag"].prometheus, METRICS["cti.lag"].opentelemetry
    ('rxtemporal_cti_lag_seconds', 'rxtemporal.cti.lag')
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    help: str
    # True if it says nothing of streams whose times are plain numbers
    needs_datetimes: bool = False
    owner: MetricOwner = MetricOwner.PROCESS

    @property
    def family(self) -> str:
        """The name in Prometheus without the suffix of counters."""
        return f"rxtemporal_{self.name.replace('.', '_')}{_SUFFIXES.get(self.unit, '')}"

    @property
    def prometheus(self) -> str:
        """The name in Prometheus."""
        return self.family + "_total" * (self.kind is MetricKind.COUNTER)

    @property
    def opentelemetry(self) -> str:
        """The name in OpenTelemetry."""
        return f"rxtemporal.{self.name}"


_STREAM, _QUERY = ("process", "stream"), ("process", "query")
_COUNTER, _GAUGE, _HISTOGRAM = MetricKind


def _make_time(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name, _GAUGE, "s", labels, text, needs_datetimes=True)


def _make_served(
    name: str, unit: str, labels: tuple[str, ...], text: str, kind: MetricKind = _COUNTER
) -> Metric:
    return Metric(name, kind, unit, labels, text, owner=MetricOwner.SERVER)


def _make_sparks(name: str, unit: str, text: str, kind: MetricKind = _GAUGE) -> Metric:
    return Metric(f"spark.{name}", kind, unit, ("query",), text, owner=MetricOwner.SPARK)


_RUN = [
    Metric("running", _GAUGE, "1", ("process",), "1 while the process accepts events, else 0"),
    Metric("storage.size", _GAUGE, "By", ("process",),
           "Size on disk of the event log and the checkpoint of a run with log= or resume="),
    Metric("log.records", _GAUGE, "{record}", ("process",),
           "Durable records of the event log that the next run would read again"),
    Metric("checkpoints", _COUNTER, "{checkpoint}", ("process",), "Checkpoints saved"),
    Metric("checkpoint.size", _GAUGE, "By", ("process",), "Size of the last checkpoint"),
    Metric("checkpoint.age", _GAUGE, "s", ("process",),
           "Time since the last checkpoint was saved; before the first, since the run began"),
]  # fmt: skip
_STREAMS = [
    Metric("events", _COUNTER, "{event}", _STREAM, "Events received, including late ones"),
    Metric("late.events", _COUNTER, "{event}", (*_STREAM, "reason"),
           "Late events by reason: dropped, adjusted, end moved, no open row; ahead: dropped "
           "because they were ahead of the wall clock; behind or silent: dropped because their "
           "device was further behind the others than behind= allows, or had been silent"),
    Metric("lateness", _HISTOGRAM, "s", _STREAM,
           "Distance of late events behind the CTI, except events that a subject judged",
           needs_datetimes=True),
    _make_time("largest_lateness", _STREAM,
               "The smallest delay with which no event would have been late"),
    Metric("ahead.events", _COUNTER, "{event}", _STREAM,
           "Events and CTIs that were ahead of the wall clock"),
    Metric("duplicates", _COUNTER, "{event}", _STREAM,
           "Rows pushed with a sequence number that has come before"),
    Metric("unsure", _COUNTER, "{event}", _STREAM,
           "Rows accepted although their sequence numbers may have come before"),
    Metric("rejected", _COUNTER, "{event}", _STREAM,
           "Rows pushed that do not fit the schema or cannot be read"),
    Metric("inputs", _GAUGE, "{input}", _STREAM, "Inputs (devices) so far"),
    _make_time("cti.timestamp", _STREAM,
               "The CTI in seconds since 1970; absent before the first and after the end of time"),
    _make_time("cti.lag", _STREAM, "Distance of the CTI behind the wall clock"),
    Metric("cti.age", _GAUGE, "s", _STREAM, "Time since the CTI last advanced"),
    Metric("waiting.events", _GAUGE, "{event}", _STREAM, "Accepted events that wait for a CTI"),
    Metric("open.events", _GAUGE, "{event}", _STREAM, "Start edges without an end edge"),
    Metric("devices", _GAUGE, "{device}", (*_STREAM, "state"),
           "Devices of a stream in which each has its own time: live and not behind, behind the "
           "others by more than the delay, or silent"),
    Metric("idle", _GAUGE, "1", _STREAM, "1 while the stream is idle and follows the others"),
    Metric("hand_off.events", _GAUGE, "{event}", _STREAM, "Events that wait in the hand-off"),
    Metric("hand_off.spilled", _COUNTER, "{event}", _STREAM,
           "Events that the hand-off has written to disk"),
    Metric("hand_off.blocks", _COUNTER, "{block}", _STREAM,
           "Number of times that a producer has waited for room in the hand-off"),
    Metric("hand_off.blocked", _COUNTER, "s", _STREAM,
           "Time that producers have waited for room in the hand-off"),
]  # fmt: skip
_QUERIES = [
    Metric("operator.rows", _GAUGE, "{row}", ("process", "operator", "line"),
           "Rows held by an operator; line is its line in the program"),
    Metric("operator.late", _COUNTER, "{row}", ("process", "operator", "line"),
           "Rows that came too late for synchronize"),
    Metric("results", _COUNTER, "{row}", _QUERY, "Rows given to the sink of a query"),
    _make_time("query.cti.timestamp", _QUERY,
               "The CTI of a query's results in seconds since 1970: they are complete up to it"),
    _make_time("query.cti.lag", _QUERY,
               "Distance of the CTI of the results behind the wall clock"),
    Metric("query.cti.age", _GAUGE, "s", _QUERY, "Time since the CTI of the results last advanced"),
    Metric("held_back.age", _GAUGE, "s", (*_QUERY, "stream"),
           "Time for which a stream has held back a query with rows; absent if no stream does. "
           "The label stream is empty if an open row holds it back"),
    Metric("held_back.rows", _GAUGE, "{row}", (*_QUERY, "stream"),
           "Rows of the query that wait for this stream"),
    Metric("sink.restarts", _COUNTER, "{restart}", _QUERY,
           "Restarts and retries of the sink"),
    Metric("sink.lag", _GAUGE, "s", _QUERY,
           "Time for which the sink has held rows that are not delivered; 0 if it holds none"),
]  # fmt: skip
_SERVER = [
    _make_served("requests", "{request}", ("code",), "Requests answered, by status code"),
    _make_served("receipts", "{receipt}", (), "Receipts sent for rows and CTIs"),
    _make_served("refused", "{letter}", (),
                 "Rows and whole bodies refused, including rows that a source has rejected"),
    _make_served("dead_letters.failed", "{write}", (),
                 "Writes into the folder of dead letters that failed"),
    _make_served("restarts", "{restart}", (), "Restarts of the run after a failure"),
    _make_served("mqtt.connected", "1", (), "1 while the MQTT broker is connected", _GAUGE),
    _make_served("mqtt.waiting", "{message}", (),
                 "Messages of the broker that have not been pushed yet", _GAUGE),
    _make_served("mqtt.messages", "{message}", (), "Messages of the broker that have arrived"),
    _make_served("mqtt.qos0", "{message}", (), "Messages of QoS 0, which are not acknowledged"),
    _make_served("mqtt.dropped", "{message}", (),
                 "Messages of QoS 0 that were dropped because too many waited"),
    _make_served("mqtt.acknowledged", "{message}", (),
                 "Messages acknowledged to the broker"),
    _make_served("mqtt.connections", "{connection}", (), "Connections made to the broker"),
    _make_served("mqtt.lost_sessions", "{session}", (),
                 "Connections for which the broker had forgotten the session"),
]  # fmt: skip

_SPARK = [
    _make_sparks("running", "1", "1 while the streaming query runs in Spark, else 0"),
    _make_sparks("failures", "{failure}", "Number of times that the query has ended with an error",
                 _COUNTER),
    _make_sparks("batches", "{batch}", "Micro-batches completed", _COUNTER),
    _make_sparks("rows", "{row}", "Rows read from the sources, CTIs included", _COUNTER),
    _make_sparks("batch.duration", "s", "Duration of the last micro-batch"),
    _make_sparks("batch.rows", "{row}", "Rows read in the last micro-batch"),
    _make_sparks("batch.age", "s",
                 "Time since the last micro-batch ended, or since Spark found nothing to do"),
    _make_sparks("input_rate", "{row}/s", "Rows per second that arrived for the last micro-batch"),
    _make_sparks("process_rate", "{row}/s",
                 "Rows per second that Spark processed in the last micro-batch"),
    _make_sparks("state.rows", "{row}",
                 "Rows of the state store: of rxtemporal the heads, parts and log entries of its "
                 "buckets, not rows of events"),
    _make_sparks("state.memory", "By", "Memory of the executors' state stores, outside Python"),
    _make_sparks("state.files", "By", "Size of the files of the state that are on executors"),
    _make_sparks("cti.timestamp", "s",
                 "The CTI of the results of run() in seconds since 1970, lowest of all buckets"),
    _make_sparks("cti.lag", "s", "Distance of the CTI of the results behind the wall clock"),
]  # fmt: skip

METRICS = {metric.name: metric for metric in [*_RUN, *_STREAMS, *_QUERIES, *_SERVER, *_SPARK]}


def list_metrics(*owners: MetricOwner) -> list[Metric]:
    """Return the metrics of these kinds of programs.

    >>> [each.name for each in list_metrics(MetricOwner.SPARK)][:2]
    ['spark.running', 'spark.failures']
    """
    return [each for each in METRICS.values() if each.owner in owners]


def list_bounds() -> list[str]:
    """Return the upper bounds of the buckets of the histogram as labels.

    >>> list_bounds()[:3], list_bounds()[-1]
    (['0.1', '1.0', '5.0'], '+Inf')
    """
    return [*map(str, BOUNDS), "+Inf"]
