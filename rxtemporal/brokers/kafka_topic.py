"""Sink that writes rows into a topic of Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rxtemporal.brokers.kafka_client import check_config, load_kafka, make_client
from rxtemporal.brokers.topic_sink import ID, BrokerAwayError, TopicRow, TopicSink
from rxtemporal.core.batch import TimeForm
from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.sinks.positioned import as_names, check_names

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

# seconds of one attempt, and of one wait in it, after which a cancelled write ends
ATTEMPT, SLICE = 10.0, 0.2
_RESERVED = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "transactional.id", "enable.idempotence", "acks",
     "request.required.acks", "message.timeout.ms", "delivery.timeout.ms", "group.id",
     "isolation.level", "logger", "on_delivery", "dr_cb", "error_cb"}
)  # fmt: skip


class KafkaTopic(TopicSink):
    """Sink that writes each row as a JSON message into a topic of Kafka.

    Messages: an object with ``start_time``, ``end_time`` (null: never ends) and the fields.
    ``key`` names the field, or several, whose values are the key of the message: one is sent as
    text, several as a JSON array; a field that is null makes no key. The header ``rxtemporal-id``
    has the id of the row, which is the same whenever the row is sent again. ``time`` is as in
    ``Print``.

    * With ``transactional_id``, in a run with ``resume=``: exactly once. The rows of a batch and
      the position of the run are one transaction; the position is the text of a committed offset of
      the group ``rxtemporal-`` and the ``transactional_id``. Consumers set
      ``isolation.level=read_committed``. The id is for one sink alone: a second one that opens ends
      the transactions of the first, whose run fails.
    * Without it: at least once. After a crash the rows since the last checkpoint are sent again;
      a consumer that keeps the ids recognizes the copies.

    The query waits until all replicas in sync have the rows of a batch, and sends them again while
    the brokers are away, for ``patience`` seconds. ``config`` has further settings of librdkafka.
    Needs ``pip install 'rxtemporal[kafka]'``.

    >>> KafkaTopic("localhost:9092", "means", key="device", transactional_id="means of house 7")
    KafkaTopic('localhost:9092', 'means')
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        transactional_id: str | None = None,
        key: str | Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        super().__init__(topic, time, patience)
        if not isinstance(servers, str) or not servers:
            raise ArgumentError(
                f"servers is a text, got {brief(servers)}. Hint: 'host:9092', or several with "
                "commas between them."
            )
        if transactional_id is not None and (
            not isinstance(transactional_id, str) or not transactional_id
        ):
            raise ArgumentError(
                f"transactional_id is a name, got {brief(transactional_id)}. Hint: one that stays "
                "the same, and that no other sink has."
            )
        self.servers, self.key = servers, as_names(key)
        self._transactional_id = transactional_id
        self._config = check_config(
            config, _RESERVED, "KafkaTopic", "servers= and transactional_id= are arguments"
        )
        self._producer: Producer | None = None
        self._group: Consumer | None = None
        self._failure: Any = None

    def __repr__(self) -> str:
        return f"KafkaTopic({self.servers!r}, {self.topic!r})"

    @property
    def _address(self) -> str:
        return self.servers

    def _begin(self) -> None:
        check_names("key=", self.key, self._schema)

    # The client -----------------------------------------------------------------------------------

    def _connect(self) -> None:
        kafka = load_kafka()
        shared = {"client.id": "rxtemporal", "log_level": 2, **self._config,
                  "bootstrap.servers": self.servers}  # fmt: skip
        limit = int(1_000 * min(ATTEMPT, max(self._patience, 1.0)))
        settings = {**shared, "acks": "all", "enable.idempotence": True,
                    "message.timeout.ms": limit, "on_delivery": self._note}  # fmt: skip
        if self._transactional_id is not None:
            settings["transactional.id"] = self._transactional_id
            settings.setdefault("transaction.timeout.ms", max(60_000, limit))
        settings.setdefault("linger.ms", 5)
        self._producer = make_client(kafka.Producer, settings, self._config)
        with self._explain():
            self._check_topic()
            if self._transactional_id is not None:
                self._repeat(self._producer.init_transactions)
                own = {"group.id": f"rxtemporal-{self._transactional_id}"}
                own |= {"enable.auto.commit": "false", "isolation.level": "read_committed"}
                self._group = make_client(kafka.Consumer, {**shared, **own}, self._config)

    def _check_topic(self) -> None:
        """Raise if the brokers do not answer, or have no such topic."""
        assert self._producer is not None
        codes = load_kafka().KafkaError
        ask = self._producer.list_topics
        found = self._repeat(lambda seconds: ask(self.topic, timeout=seconds)).topics[self.topic]
        if found.error is not None and found.error.code() != codes.LEADER_NOT_AVAILABLE:
            raise self._refuse(found.error)

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        group, self._group = self._group, None
        if producer is not None:
            producer.purge()
            producer.poll(0)
        if group is not None:
            group.close()

    def _find_position(self) -> int | None:
        if self._group is None:
            return self._position
        place = load_kafka().TopicPartition(self.topic, 0)
        ask = self._group.committed
        with self._explain():
            (found,) = self._repeat(lambda seconds: ask([place], timeout=seconds))
            if found.error is not None:
                raise load_kafka().KafkaException(found.error)
        run, _, position = (found.metadata or "").partition(" ")
        return int(position) if run == self._id else None

    # Messages -------------------------------------------------------------------------------------

    def _send(self, rows: list[TopicRow], position: int) -> None:
        producer, self._failure = self._producer, None
        assert producer is not None
        with self._explain():
            if self._group is not None:
                producer.begin_transaction()
            for row in rows:
                self._produce(producer, row)
            while len(producer) and self._failure is None:
                self._check_cancelled()
                producer.poll(SLICE)
            if self._failure is not None:
                raise load_kafka().KafkaException(self._failure)
            if self._group is not None:
                self._commit(producer, self._group, position)

    def _produce(self, producer: Producer, row: TopicRow) -> None:
        headers: Any = [(ID, row.id)]
        while self._failure is None:
            try:
                producer.produce(self.topic, row.text, self._make_key(row), headers=headers)
                producer.poll(0)
                return
            except BufferError:
                self._check_cancelled()
                producer.poll(SLICE)

    def _make_key(self, row: TopicRow) -> bytes | None:
        values = [row.fields[name] for name in self.key]
        if not values or None in values:
            return None
        if len(values) > 1:
            return bytes(self._encode(values))
        return values[0].encode() if isinstance(values[0], str) else bytes(self._encode(values[0]))

    def _commit(self, producer: Producer, group: Consumer, position: int) -> None:
        place = load_kafka().TopicPartition(self.topic, 0, 0, f"{self._id} {position}")
        of = group.consumer_group_metadata()
        self._repeat(lambda seconds: producer.send_offsets_to_transaction([place], of, seconds))
        self._repeat(producer.commit_transaction)

    def _note(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _repeat(self, call: Callable[[float], Any]) -> Any:
        """Make a call of librdkafka that may be repeated, in short waits."""
        kafka = load_kafka()
        deadline = time.monotonic() + min(ATTEMPT, max(self._patience, 1.0))
        while True:
            self._check_cancelled()
            try:
                return call(SLICE)
            except kafka.KafkaException as error:
                passing = (kafka.KafkaError._TIMED_OUT, kafka.KafkaError._TRANSPORT)
                if error.args[0].code() not in passing or time.monotonic() > deadline:
                    raise

    # Errors ---------------------------------------------------------------------------------------

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Raise errors of librdkafka as those of the library."""
        try:
            yield
        except load_kafka().KafkaException as error:
            raise self._name(error.args[0]) from error

    def _name(self, error: Any) -> RxTemporalError:
        codes = load_kafka().KafkaError
        if error.code() in (codes._FENCED, _PRODUCER_FENCED) or (
            error.code() == codes.INVALID_PRODUCER_EPOCH and error.fatal()
        ):
            return RxTemporalError(
                f"another sink has begun with transactional_id={self._transactional_id!r}, so this "
                f"one may write no more into {self.topic!r}: {error.str()}. Hint: one run at a "
                "time; give each sink an id of its own."
            )
        passes = error.retriable() or error.fatal() or error.txn_requires_abort()
        if passes or error.code() in (
            codes._MSG_TIMED_OUT, codes._TIMED_OUT, codes._TRANSPORT, codes._ALL_BROKERS_DOWN,
            codes._RESOLVE, codes._PURGE_QUEUE, codes._PURGE_INFLIGHT,
        ):  # fmt: skip
            return BrokerAwayError(
                f"{self._place} does not take messages: {error.str()}. Hint: servers= is where "
                "the brokers listen."
            )
        return self._refuse(error)

    def _refuse(self, error: Any) -> RxTemporalError:
        return RxTemporalError(
            f"{self._place} refuses messages: {error.str()}. Hint: create the topic, permit the "
            "user to write into it, and look at its max.message.bytes."
        )


# librdkafka has no name for it in Python
_PRODUCER_FENCED = 90
