"""Streams of messages of Kafka."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rxtemporal.brokers.kafka_client import AwayError, KafkaClient, Place, check_config, load_kafka
from rxtemporal.brokers.kafka_messages import TIMESTAMP, KafkaReader, Piece, describe_place
from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import brief, hide_user
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, parse_time
from rxtemporal.core.time_forms import TimeForm, Unit
from rxtemporal.errors import ArgumentError, CheckpointError, EventError, SourceError, explain_calls
from rxtemporal.ingress.arrivals import refuse_arrival
from rxtemporal.ingress.clock_settings import ClockFields, add_clock, list_fields
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
from rxtemporal.ingress.source import Cursor, StreamSource
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.verdict import Extra, Rejected, Rejects, choose
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable

if TYPE_CHECKING:
    from confluent_kafka import Message


class _Rows(NamedTuple):
    """Rows, and for each the highest start of its partition so far."""

    batch: EventBatch
    times: Int64s


class PartitionRows:
    """The rows of one partition that have been read and not taken.

    ``next`` is the offset to be read next, ``position`` that after the rows taken. ``reached`` is
    the highest start read. ``at_end``: the partition had no more messages when it was last read.
    ``counts`` are those at the offset: rows, rejected messages, and messages without a value.
    """

    def __init__(self, offset: int, counts: Sequence[int] = (0, 0, 0)) -> None:
        self.next = self.position = offset
        self.reached = MIN_TIME
        self.at_end = False
        self.rows = 0
        # of messages read
        self.events, self.rejected, self.tombstones = counts
        # of the messages in pieces that have been taken whole
        self._rejected, self._tombstones = self.rejected, self.tombstones
        self._pieces: deque[tuple[Piece, Int64s]] = deque()
        # how many rows of the first piece have been taken
        self._begin = 0

    @property
    def first(self) -> int | None:
        """The time of the next row; None without one."""
        for piece, times in self._pieces:
            if len(piece.offsets):
                return int(times[self._begin])
        return None

    def add(self, piece: Piece) -> None:
        """Add the messages after those added before."""
        times = np.maximum(np.maximum.accumulate(piece.batch.start), self.reached)
        self.at_end, self.next = False, piece.end
        self.events += len(times)
        self.rejected += len(piece.rejected)
        self.tombstones += len(piece.tombstones)
        self.rows += len(times)
        if len(times):
            self.reached = int(times[-1])
        self._pieces.append((piece, times))

    def take(self, until: int) -> list[_Rows]:
        """Take the rows up to and including a time, in the order of their offsets."""
        taken = []
        while self._pieces:
            piece, times = self._pieces[0]
            begin = self._begin
            # a limit may be below an earlier one, when a partition goes on that was at its end
            end = max(int(np.searchsorted(times, until, side="right")), begin)
            if end > begin:
                taken.append(_Rows(piece.batch.slice(begin, end), times[begin:end]))
                self.rows -= end - begin
            if end < len(times):
                self._begin, self.position = end, int(piece.offsets[end])
                break
            self._pieces.popleft()
            self._begin, self.position = 0, piece.end
            self._rejected += len(piece.rejected)
            self._tombstones += len(piece.tombstones)
        return taken

    def count_taken(self) -> list[int]:
        """Return the counters at the position, from which the other messages are read again."""
        rejected, tombstones = self._rejected, self._tombstones
        if self._pieces:
            piece, _ = self._pieces[0]
            rejected += bisect_left(piece.rejected, self.position, key=attrgetter("index"))
            tombstones += int(np.searchsorted(piece.tombstones, self.position))
        return [self.events - self.rows, rejected, tombstones]


class PartitionMerge:
    """Rows of all partitions of a stream, merged by time.

    A row's time is the highest start of its partition so far, so the rows of a partition keep their
    order, and a row is no later than it is within its own partition. A partition of which more is
    to come holds back rows of the others beyond the time that it has reached; one that has been
    read to its end does not.
    """

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], PartitionRows] = {}
        self.reached = MIN_TIME

    @property
    def _limit(self) -> int:
        behind = (each.reached for each in self.partitions.values() if not each.at_end)
        return min(behind, default=MAX_TIME)

    @property
    def first(self) -> int | None:
        """The time of the next row that can be taken; None if none can."""
        firsts = (each.first for each in self.partitions.values())
        first = min((each for each in firsts if each is not None), default=None)
        return None if first is None or first > self._limit else first

    @property
    def rows(self) -> int:
        """The number of rows that wait."""
        return sum(each.rows for each in self.partitions.values())

    def take(self, until: int = MAX_TIME) -> EventBatch | None:
        """Take the rows up to a time, as far as no partition holds them back; None without any."""
        limit = min(self._limit, until)
        parts = [part for each in self.partitions.values() for part in each.take(limit)]
        if not parts:
            return None
        times = np.concatenate([part.times for part in parts])
        self.reached = max(self.reached, int(times.max()))
        rows = EventBatch.concat([part.batch for part in parts])
        if len(parts) > 1 and (times[1:] < times[:-1]).any():
            rows = rows.take(np.argsort(times, kind="stable"))
        return rows


_log = get_logger(__name__)
# seconds to wait for messages: a run that idles stops and saves after so long
WAIT = 0.1
# messages that are read at once
MOST_MESSAGES = 10_000
# rows that wait for those of other partitions before theirs is paused, of all together; and of one
MOST_ROWS, LEAST_ROWS = 500_000, 1_000
# seconds between two looks for new partitions
LOOK_EVERY = 30.0
# kinds of rejected messages that are logged
_MOST_KINDS = 100


class KafkaCursor(Cursor):
    """Cursor over the partitions of topics; its position is topic → partition → next offset.

    An item is a batch.
    """

    completes = False
    may_wait = True

    def __init__(
        self,
        name: str,
        client: KafkaClient,
        reader: KafkaReader,
        topics: Sequence[str],
        partitions: Mapping[str, Sequence[int]] | None,
        begin: str | datetime,
        position: Mapping[str, Mapping[int, int]] | None,
    ) -> None:
        super().__init__()
        self._name, self._client, self._reader = name, client, reader
        self._topics, self._given, self._begin = topics, partitions, begin
        self._offsets = _read_position(name, topics, position)
        # the counters of partitions at these offsets
        self._counts: dict[Place, Sequence[int]] = {}
        # a run that was saved before any broker answered has not begun
        self._resumes = bool(position)
        self._merge = PartitionMerge()
        self._paused: set[Place] = set()
        self._look_at = time.monotonic()
        self._kinds: set[str] = set()
        # held while the client is used, so that it is not closed meanwhile
        self._using = threading.Lock()
        self._closed = False

    @property
    def times(self) -> StreamTime | None:
        """The form of the times in the run that reads."""
        return self._reader.times

    @times.setter
    def times(self, times: StreamTime | None) -> None:
        if times is not None:
            self._reader.join(times)

    @property
    def position(self) -> dict[str, dict[int, int]]:
        """The offset after the rows taken, of each partition of each topic."""
        position: dict[str, dict[int, int]] = defaultdict(dict)
        for (topic, partition), offset in self._offsets.items():
            position[topic][partition] = offset
        for (topic, partition), rows in self._merge.partitions.items():
            position[topic][partition] = rows.position
        return dict(position)

    @property
    def input_counts(self) -> dict[str, dict[int, Sequence[int]]]:
        """The counters at the position, of each partition of each topic."""
        counts: dict[str, dict[int, Sequence[int]]] = defaultdict(dict)
        for (topic, partition), found in self._counts.items():
            counts[topic][partition] = found
        for (topic, partition), rows in self._merge.partitions.items():
            counts[topic][partition] = rows.count_taken()
        return dict(counts)

    def resume_input_counts(self, counts: Mapping[str, Mapping[int, Sequence[int]]] | None) -> None:
        """Go on from the counters of a run that was saved."""
        for topic, partitions in (counts or {}).items():
            self._counts |= {(topic, each): found for each, found in partitions.items()}

    def peek(self) -> int:
        """Return the time of the next row, or the highest so far if there is none now."""
        if self._merge.first is None:
            self._use(self._fetch)
        first = self._merge.first
        return self._merge.reached if first is None else max(first, self._merge.reached)

    def take(self, until: int = MAX_TIME) -> Sequence[Any] | None:
        """Return a batch of the next rows up to a time; nothing if there are none now."""
        self._use(self._fetch)
        if self._closed:
            return None
        first = self._merge.first
        rows = self._merge.take(until if first is None else max(until, first))
        return [] if rows is None else [rows]

    def note_saved(self, position: dict[str, dict[int, int]] | None) -> None:
        """Show the broker the saved position, for people to look at."""
        offsets = {
            (topic, partition): offset
            for topic, partitions in (position or {}).items()
            for partition, offset in partitions.items()
        }
        self._use(lambda: self._client.commit(offsets))

    def close(self) -> None:
        """Leave the cluster; a thread that waits for messages returns at once."""
        with self._using:
            if not self._closed:
                self._closed = True
                self._client.close()

    def stats(self) -> dict[str, SourceStats]:
        """Return the counters of each partition, as those of an input."""
        reached = self._merge.reached
        return {
            describe_place(place): _count(describe_place(place), rows, reached, not self._closed)
            for place, rows in list(self._merge.partitions.items())
        }

    def _use(self, act: Callable[[], object]) -> None:
        with self._using:
            if not self._closed:
                act()

    # Messages -------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Read messages; wait for some if no row is at hand."""
        if time.monotonic() >= self._look_at:
            self._look_for_partitions()
        if not self._merge.partitions:
            time.sleep(WAIT)
            return
        wait = WAIT if self._merge.first is None else 0.0
        messages: dict[Any, list[Message]] = defaultdict(list)
        errors = []
        for message in self._client.consume(MOST_MESSAGES, wait):
            if message.error() is None:
                messages[message.topic(), message.partition()].append(message)
            else:
                errors.append(message)
        for place, some in messages.items():
            self._add(place, some)
        for message in errors:
            self._note_error(message, (message.topic(), message.partition()))
        self._balance()

    def _add(self, place: Place, messages: Sequence[Message]) -> None:
        rows = self._merge.partitions[place]
        # after a pause some may come again
        fresh = [each for each in messages if _offset(each) >= rows.next]
        if fresh:
            piece = self._reader.read(place, fresh)
            rows.add(piece)
            for rejected in piece.rejected:
                self._log_kind(rejected)

    def _note_error(self, message: Message, place: Any) -> None:
        """Note that a partition has no more messages for now, or raise what ends the stream."""
        from confluent_kafka import KafkaError

        error, rows = message.error(), self._merge.partitions.get(place)
        assert error is not None
        if rows is None:  # of no partition
            return
        if error.code() == KafkaError._PARTITION_EOF:
            # one before that came in front of messages
            rows.at_end = _offset(message) >= rows.next
        elif (failure := self._client.explain(message, rows.next)) is not None:
            raise failure

    def _balance(self) -> None:
        """Pause partitions of which many rows wait for others."""
        most = max(MOST_ROWS // len(self._merge.partitions), LEAST_ROWS)
        for place, rows in self._merge.partitions.items():
            if rows.rows > most and place not in self._paused:
                self._client.pause(place)
                self._paused.add(place)
            elif rows.rows < most // 2 and place in self._paused:
                self._client.resume(place)
                self._paused.discard(place)

    def _log_kind(self, rejected: Rejected) -> None:
        """Log a rejected message if none has been rejected for a like reason."""
        kind = re.sub(r"\d+", "#", rejected.reason.partition(" cannot hold ")[0])
        if kind not in self._kinds and len(self._kinds) < _MOST_KINDS:
            self._kinds.add(kind)
            _log.warning("a message does not fit and is skipped; further ones like it are counted",
                         stream=self._name, message=f"{rejected.input}@{rejected.index}",
                         reason=rejected.reason)  # fmt: skip

    # Partitions -----------------------------------------------------------------------------------

    def _look_for_partitions(self) -> None:
        """Read partitions that are not read yet; wait if no broker answers."""
        try:
            new = [place for place in self._list_places() if place not in self._merge.partitions]
            if new:
                self._assign(new)
        except AwayError:
            self._look_at = time.monotonic() + WAIT
            return
        self._look_at = time.monotonic() + LOOK_EVERY

    def _list_places(self) -> list[Place]:
        places = []
        for topic in self._topics:
            there = self._client.list_partitions(topic)
            given = there if self._given is None else self._given.get(topic, there)
            if missing := sorted(set(given) - set(there)):
                raise SourceError(
                    f"topic {topic!r} has no partition {missing[0]}; it has {len(there)}, from 0 "
                    "on. Hint: without partitions= all are read."
                )
            places += [(topic, partition) for partition in given]
        return places

    def _assign(self, places: Sequence[Place]) -> None:
        offsets = {**self._find_begins(places)}
        for place in places:
            if (saved := self._offsets.get(place)) is not None:
                low, high = self._client.find_bounds(place)
                if not low <= saved <= high:
                    raise self._client.refuse_offset(place, saved)
                offsets[place] = saved
        self._client.assign(offsets)
        if self._merge.partitions:
            _log.info("new partitions are read", stream=self._name,
                      partitions=[describe_place(place) for place in places])  # fmt: skip
        for place, offset in offsets.items():
            counts = self._counts.get(place, (0, 0, 0))
            self._merge.partitions[place] = PartitionRows(offset, counts)

    def _find_begins(self, places: Sequence[Place]) -> dict[Place, int]:
        """Return where to begin to read partitions of which nothing has been read."""
        bounds = {place: self._client.find_bounds(place) for place in places}
        # a partition that comes later is read whole
        if self._resumes or self._merge.partitions or self._begin == "earliest":
            return {place: low for place, (low, _) in bounds.items()}
        ends = {place: high for place, (_, high) in bounds.items()}
        if not isinstance(self._begin, datetime):
            return ends
        found = self._client.find_time(places, self._begin)
        return {place: ends[place] if found[place] < 0 else found[place] for place in places}


def _offset(message: Message) -> int:
    return int(message.offset() or 0)


def _read_position(
    name: str, topics: Sequence[str], position: Mapping[str, Mapping[int, int]] | None
) -> dict[Place, int]:
    """Return the offset of each partition in a saved position; raise if a topic is left out."""
    saved = position or {}
    if left_out := sorted(set(saved) - set(topics)):
        raise CheckpointError(
            f"stream {name!r} has read topic {left_out[0]!r}, which is not among its topics any "
            "more. Hint: a run may get further topics, but keeps those that it has."
        )
    return {(topic, each): at for topic, found in saved.items() for each, at in found.items()}


def _count(name: str, rows: PartitionRows, reached: int, is_open: bool) -> SourceStats:
    return SourceStats(
        name=name,
        open=is_open,
        events=rows.events,
        late=0,
        late_by_reason={},
        largest_lateness=0,
        lag=None if rows.reached == MIN_TIME else max(reached - rows.reached, 0),
        open_rows=0,
        failed=None,
        rejected=rows.rejected,
        skipped=rows.tombstones,
    )


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
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from topics of Kafka, whose messages are JSON objects.

    ``servers`` is a list of brokers, ``host:port,host:port``. ``schema``, ``start`` and ``end``
    are as in ``PushSource``; with ``start=None`` the timestamp of a message is the row's start.
    ``unit`` is that of the numbers among the times of rows, as in ``PushSource``.
    The time of the stream is the highest start less ``delay`` (0 by default), or follows
    ``advance_time``. ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are
    as in ``PushSource``; but a device is silent once the most advanced one has moved on by
    ``silent_after``, since messages that are read again after a restart have to give the same.

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
    refuse_arrival(
        start,
        "from_kafka",
        "start=None is the timestamp of the message, which Kafka keeps.",
    )
    first = TIMESTAMP if start is None else start
    reader = RowReader(title, fields, start=first, end=end, extra=others, unit=unit)
    further = check_config(config)
    if on_reject is not None and not callable(on_reject):
        raise ArgumentError(f"on_reject is a function of one argument, got {brief(on_reject)}")

    def make_client() -> KafkaClient:
        return KafkaClient(servers, group, further)

    def make_reader() -> KafkaReader:
        return KafkaReader(
            title, fields, start, end, others, policy, on_reject, unit, list_fields(clock)
        )

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
    add_clock(source, clock, behind, silent_after, forget_after, spread)
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
                "the name of a topic has letters (A to Z), digits, '.', '_' and '-', and is not a "
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
