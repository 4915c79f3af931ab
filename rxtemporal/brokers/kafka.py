"""Streams of messages of Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rxtemporal.brokers.kafka_client import KafkaClient, check_config, load_kafka
from rxtemporal.brokers.kafka_cursor import KafkaCursor
from rxtemporal.brokers.kafka_messages import TIMESTAMP, KafkaReader
from rxtemporal.core.safe_text import brief, hide_user
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import parse_time
from rxtemporal.core.time_forms import TimeForm, Unit
from rxtemporal.errors import ArgumentError, EventError, explain_calls
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.ingress.pushed_inputs import check_name
from rxtemporal.ingress.row_reader import RowReader
from rxtemporal.ingress.settings import (
    AdvanceTime,
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    read_advance_time,
)
from rxtemporal.ingress.source import StreamSource
from rxtemporal.ingress.verdict import Extra, Rejected, Rejects, choose
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable

# an entry of a list of brokers, with the protocols that librdkafka knows
_SERVER = re.compile(
    r"(?:(?:sasl_)?(?:plaintext|ssl)://)?"
    r"(?:\[[0-9a-f:.%]+\]|[^\s:;/@\[\]]+)"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE,
)
_LAST_PORT = 65_535
# a name that a broker takes
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaSource(StreamSource):
    """Topics of Kafka as a source; ``make_client`` and ``make_reader`` are called for each run."""

    resumes = True
    # the time comes from the settings
    sends_ctis = False
    omits_ctis = True
    endless = True

    def __init__(
        self,
        name: str,
        settings: AdvanceTimeSettings,
        topics: Sequence[str],
        partitions: Mapping[str, Sequence[int]] | None,
        begin: str | datetime,
        make_client: Callable[[], KafkaClient],
        make_reader: Callable[[], KafkaReader],
        time: TimeForm | None = None,
    ) -> None:
        self.time = time
        self.name, self.settings = name, settings
        self._topics, self._partitions, self._begin = topics, partitions, begin
        self._make_client, self._make_reader = make_client, make_reader
        self.schema = make_reader().schema
        self._cursor: KafkaCursor | None = None

    def open(self, position: Any = None) -> KafkaCursor:
        """Return a cursor at the offsets of a position, or where the stream begins."""
        self._cursor = KafkaCursor(
            self.name,
            self._make_client(),
            self._make_reader(),
            self._topics,
            self._partitions,
            self._begin,
            position,
        )
        return self._cursor

    def inputs(self) -> Mapping[str, SourceStats]:
        """Return the counters of each partition in the latest run."""
        return {} if self._cursor is None else self._cursor.stats()


@explain_calls("from_kafka('localhost:9092', 'readings', schema={'temp': float})")
def from_kafka(
    servers: str,
    topics: str | Sequence[str],
    *,
    schema: Any,
    start: str | None = "time",
    end: str | None = None,
    group: str | None = None,
    begin: str | datetime = "earliest",
    partitions: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    delay: Span | None = None,
    advance_time: AdvanceTime | None = None,
    extra: Extra = Extra.IGNORE,
    rejects: Rejects = Rejects.KEEP,
    on_reject: Callable[[Rejected], object] | None = None,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    unit: Unit | None = None,
) -> Streamable:
    """Make a stream from topics of Kafka, whose messages are JSON objects.

    ``servers`` is a list of brokers, ``host:port,host:port``. ``schema``, ``start`` and ``end``
    are as in ``PushSource``; with ``start=None`` the timestamp of a message is the row's start.
    ``unit`` is that of the numbers among the times of rows, as in ``PushSource``.
    The time of the stream is the highest start less ``delay`` (0 by default), or follows
    ``advance_time``.

    One process reads all partitions, or those of ``partitions``: numbers, or topic → numbers. It
    joins no consumer group. In a run with ``resume=`` the offsets are part of the checkpoint, and
    the next run continues at them. With ``group`` they are also committed to the broker after each
    checkpoint, only for monitoring. Without a checkpoint the stream begins at ``begin``:
    ``"earliest"``, ``"latest"`` or the first message with the timestamp of an aware datetime (or
    an ISO 8601 text).

    A message that does not fit is counted, logged once for each kind of reason, and given to
    ``on_reject`` on the thread that reads; with ``Rejects.RAISE`` it ends the run. A message
    without a value is counted, and makes no row. ``config`` has further settings of librdkafka.

    >>> import rxtemporal as rxt
    >>> temps = rxt.from_kafka("localhost:9092", "temps", schema={"device": str, "temp": float})
    >>> temps.where(lambda row: row["temp"] > 20).schema.names()
    ['device', 'temp']
    """
    load_kafka()
    _check_servers(servers)
    if group is not None:
        check_name(group, "group")
    settings = _make_settings(delay, advance_time)
    names = _check_topics(topics)
    title = check_name(", ".join(names) if name is None else name, "a stream's name")
    fields = payload_schema(schema)
    policy, others = choose(Rejects, rejects, "rejects"), choose(Extra, extra, "extra")
    # an argument that is wrong is an error now
    first = TIMESTAMP if start is None else start
    reader = RowReader(title, fields, start=first, end=end, extra=others, unit=unit)
    further = check_config(config)
    if on_reject is not None and not callable(on_reject):
        raise ArgumentError(f"on_reject is a function of one argument, got {brief(on_reject)}")

    def make_client() -> KafkaClient:
        return KafkaClient(servers, group, further)

    def make_reader() -> KafkaReader:
        return KafkaReader(title, fields, start, end, others, policy, on_reject, unit)

    source = KafkaSource(
        title,
        settings,
        names,
        _check_partitions(partitions, names),
        _check_begin(begin),
        make_client,
        make_reader,
        "datetime" if start is None else reader.time,
    )
    return Streamable(Node(source.schema, (), source=source))


def _make_settings(delay: Span | None, advance_time: AdvanceTime | None) -> AdvanceTimeSettings:
    settings = read_advance_time(advance_time)
    if settings is None:
        span(delay or 0, "delay", least=0)
        every = AdvanceTimeGenerationSettings(1, delay or 0)
        return AdvanceTimeSettings(every, policy=AdvanceTimePolicy.DROP)
    if delay is not None:
        raise ArgumentError(
            "delay= and advance_time= cannot be combined. Hint: "
            "AdvanceTimeGenerationSettings of advance_time= has the delay."
        )
    return settings


def _check_servers(servers: Any) -> None:
    entries = servers.split(",") if isinstance(servers, str) else [""]
    for entry in entries:
        match = _SERVER.fullmatch(entry.strip())
        if match is None or not 1 <= int(match["port"] or 1) <= _LAST_PORT:
            raise ArgumentError(
                "servers is a text of brokers, host:port,host:port, with ports from 1 to 65535, "
                f'got {hide_user(servers)}. Hint: from_kafka("localhost:9092", …).'
            )


def _check_topics(topics: Any) -> list[str]:
    names = list(topics) if isinstance(topics, Iterable) and type(topics) is not str else [topics]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"topics are different names, at least one, got {brief(topics)}")
    for each in names:
        if not isinstance(each, str) or not _TOPIC.fullmatch(each):
            raise ArgumentError(
                "the name of a topic has letters (A to Z), digits, '.', '_' and '-', and is no "
                f"pattern, got {brief(each)}. "
                'Hint: a list names several topics: ["rooms", "doors"].'
            )
    return names


def _check_partitions(partitions: Any, topics: Sequence[str]) -> Mapping[str, Sequence[int]] | None:
    if partitions is None:
        return None
    given = partitions
    if not isinstance(given, Mapping):
        given = dict.fromkeys(topics, partitions)
    for topic, numbers in given.items():
        is_fit = isinstance(numbers, Sequence) and all(type(each) is int for each in numbers)
        if topic not in topics or not is_fit or min(numbers, default=-1) < 0:
            raise ArgumentError(
                f"partitions are numbers, or topic → numbers, got {brief(partitions)}. Hint: "
                f'partitions=[0, 1], or partitions={{"{topics[0]}": [0, 1]}}.'
            )
    return {topic: sorted(set(numbers)) for topic, numbers in given.items()}


def _check_begin(begin: Any) -> str | datetime:
    if begin in ("earliest", "latest"):
        return begin  # type: ignore[no-any-return]
    try:
        time = parse_time(begin) if isinstance(begin, str) else begin
    except EventError:
        time = None
    if isinstance(time, datetime) and time.tzinfo is not None:
        return time
    raise ArgumentError(
        "begin is 'earliest', 'latest', an aware datetime or an ISO 8601 text with an offset, got "
        f'{brief(begin)}. Hint: begin="earliest".'
    )
