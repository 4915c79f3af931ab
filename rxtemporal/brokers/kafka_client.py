"""Client of a Kafka cluster for one cursor: partitions, offsets, messages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from rxtemporal.brokers.kafka_messages import describe_place
from rxtemporal.core.log import get_logger
from rxtemporal.errors import ArgumentError, BindingError, SourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

Place: TypeAlias = tuple[str, int]

_log = get_logger(__name__)
# of librdkafka itself, which says there why a broker cannot be reached
_librdkafka = logging.getLogger(f"{__name__}.librdkafka")

# group.id is required, also of a client that neither joins a group nor commits
_NO_GROUP = "rxtemporal"
# seconds to wait for an answer about topics and offsets, so that a stop waits no longer
PATIENCE = 0.5
# after so many seconds without an error the brokers are there again; librdkafka tries to reconnect
# at least every ten
QUIET = 30.0
# settings that keep the promises of the source
_OWN: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # an offset that the broker no longer has is an error, and is not skipped
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_RESERVED: Set[str] = frozenset(
    {*_OWN, "bootstrap.servers", "metadata.broker.list", "group.id", "logger"}
)


class AwayError(Exception):
    """The brokers do not answer now."""


class KafkaClient:
    """Consumer of a cluster, which is assigned partitions at offsets and joins no group.

    ``config`` has further settings of librdkafka. Not thread-safe, except as librdkafka is.
    """

    def __init__(self, servers: str, group: str | None, config: Mapping[str, Any]) -> None:
        kafka = load_kafka()
        self._kafka = kafka
        self._servers, self._group = servers, group
        # kinds of errors since all was well, and when the last one came
        self._troubles: set[int] = set()
        self._troubled = 0.0
        settings = {
            "client.id": "rxtemporal",
            # it would log each attempt to connect
            "log_level": 2,
            **config,
            **_OWN,
            "bootstrap.servers": servers,
            "group.id": group or _NO_GROUP,
            "error_cb": self._note_error,
            "on_commit": self._note_commit,
        }
        self._consumer: Consumer = make_client(kafka.Consumer, settings, config)

    def list_partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic.

        ``AwayError``: the brokers do not answer. ``SourceError``: they have no such topic.
        """
        kafka = self._kafka
        try:
            found = self._consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
        except kafka.KafkaException as error:
            raise self._note_away(error) from None
        if found.error is None:
            self.note_answer()
            return sorted(found.partitions)
        if found.error.code() in (
            kafka.KafkaError.LEADER_NOT_AVAILABLE,
            kafka.KafkaError._TRANSPORT,
        ):
            raise AwayError(str(found.error))
        raise SourceError(
            f"topic {topic!r} cannot be read from {self._servers}: {found.error.str()}. "
            "Hint: its name is case-sensitive, and it is not created by reading."
        )

    def find_bounds(self, place: Place) -> tuple[int, int]:
        """Return the first offset that a partition has, and the one after its last."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._at(place), timeout=PATIENCE)
        except self._kafka.KafkaException as error:
            raise self._note_away(error) from None
        return low, high

    def find_time(self, places: Iterable[Place], begin: datetime) -> dict[Place, int]:
        """Return the first offset of each partition at or after a time; -1 if there is none."""
        stamp = int(begin.timestamp() * 1_000)
        asked = [self._at(place, stamp) for place in places]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=PATIENCE)
        except self._kafka.KafkaException as error:
            raise self._note_away(error) from None
        if failed := [each.error for each in found if each.error is not None]:
            raise AwayError(str(failed[0]))
        return {(each.topic, each.partition): max(each.offset, -1) for each in found}

    def assign(self, offsets: Mapping[Place, int]) -> None:
        """Read further partitions, from these offsets on."""
        self._consumer.incremental_assign([self._at(*each) for each in offsets.items()])

    def pause(self, place: Place) -> None:
        """Fetch no more of a partition for now."""
        self._consumer.pause([self._at(place)])

    def resume(self, place: Place) -> None:
        """Fetch a partition again, after the last message that was consumed."""
        self._consumer.resume([self._at(place)])

    def consume(self, most: int, seconds: float) -> list[Message]:
        """Return the next messages of all partitions, errors included; wait for the first."""
        messages: list[Message] = self._consumer.consume(most, seconds)
        if messages:
            self.note_answer()
        return messages

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Tell the broker how far the run has come, if there is a group; do not wait."""
        if self._group is not None and offsets:
            with suppress(self._kafka.KafkaException):
                places = [self._at(*each) for each in offsets.items()]
                self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave the cluster; commits that are under way are completed, if a broker answers soon."""
        leave = threading.Thread(
            target=self._consumer.close, name="rxtemporal leaves Kafka", daemon=True
        )
        leave.start()
        leave.join(PATIENCE)

    def explain(self, message: Message, next_offset: int) -> SourceError | None:
        """Return the error that a message brings, if the stream cannot go on with it."""
        error, codes = message.error(), self._kafka.KafkaError
        assert error is not None
        place = (str(message.topic()), int(message.partition() or 0))
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            return self.refuse_offset(place, next_offset)
        if error.fatal() or error.code() in (
            codes.UNKNOWN_TOPIC_OR_PART,
            codes._UNKNOWN_TOPIC,
            codes._UNKNOWN_PARTITION,
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
        ):
            return SourceError(f"{describe_place(place)} cannot be read: {error.str()}")
        self._note_error(error)
        return None

    def refuse_offset(self, place: Place, offset: int) -> SourceError:
        """Return the error of an offset that a partition does not have."""
        topic, partition = place
        try:
            low, high = self.find_bounds(place)
            bounds = f"The broker has the offsets from {low:,} up to {high:,}"
        except AwayError:
            low, bounds = offset + 1, "The broker does not answer which offsets it has"
        why = (
            "messages that had not been read have been deleted (retention, or a deletion by hand)"
            if offset < low
            else "the topic has been created anew, or has lost its last messages"
        )
        return SourceError(
            f"topic {topic!r}, partition {partition}: the run continues at offset {offset:,}, "
            f"which is not there: {why}. {bounds}. Hint: a longer retention.ms for next time; a "
            "new run, with its own folder, begins with what is there."
        )

    def note_answer(self) -> None:
        """Note that a broker answers; of several another one may still be away."""
        if self._troubles and time.monotonic() - self._troubled >= QUIET:
            self._troubles.clear()
            _log.info("the brokers answer again", servers=self._servers)

    def _note_away(self, error: Any) -> AwayError:
        self._note_error(error.args[0])
        return AwayError(str(error))

    def _note_error(self, error: KafkaError) -> None:
        """Log an error after which librdkafka tries again: each kind once until all is well.

        There are few kinds, and the first one seldom says why.
        """
        self._troubled = time.monotonic()
        if error.code() not in self._troubles:
            self._troubles.add(error.code())
            _log.warning("a broker is away, and is waited for", servers=self._servers,
                         error=error.str())  # fmt: skip

    def _note_commit(self, error: KafkaError | None, places: Sequence[Any]) -> None:
        if error is not None:
            _log.info("offsets could not be shown to the broker", error=error.str())

    def _at(self, place: Place, offset: int | None = None) -> Any:
        topic, partition = place
        if offset is None:
            return self._kafka.TopicPartition(topic, partition)
        return self._kafka.TopicPartition(topic, partition, offset)


def load_kafka() -> Any:
    """Return the module of the client; raise if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise BindingError(
            "the client of Kafka is confluent-kafka. Hint: pip install 'rxtemporal[kafka]'."
        ) from error
    return confluent_kafka


def make_client(make: Callable[..., Any], settings: Mapping[str, Any], config: Any) -> Any:
    """Return a client; ``config`` are those of its settings that users have given."""
    kafka = load_kafka()
    try:
        return make(settings, logger=_librdkafka)
    except (kafka.KafkaException, TypeError, ValueError) as error:
        found = error.args[0] if error.args else error
        reason = found.str() if isinstance(found, kafka.KafkaError) else str(error)
        raise ArgumentError(
            f"librdkafka refuses the settings: {_hide(reason, config)}. "
            "Hint: config= has settings of librdkafka by their names there."
        ) from None


def check_config(
    config: Mapping[str, Any] | None,
    reserved: Set[str] = _RESERVED,
    owner: str = "from_kafka",
    hint: str = "servers= and group= are arguments; offsets are kept in the run's checkpoint, and "
    "not by the broker",
) -> Mapping[str, Any]:
    """Return further settings of librdkafka; raise for one that their owner sets itself."""
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise ArgumentError(f"config is a mapping of settings, got {type(config).__name__}")
    if own := sorted(reserved & config.keys()):
        raise ArgumentError(f"config has {own[0]!r}, which {owner} sets itself. Hint: {hint}.")
    return dict(config)


def _hide(message: str, config: Mapping[str, Any]) -> str:
    """Return a message without the values of settings, among which are passwords."""
    for value in map(str, config.values()):
        message = message.replace(value, "…") if len(value) > 1 else message
    return message
