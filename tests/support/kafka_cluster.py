"""The mock cluster of librdkafka over TCP: brokers for tests, which are not Kafka."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka

_PRODUCER = 0
_LIBRARY = next(
    (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*.so*")
)


def _load_library() -> Any:
    library = ctypes.CDLL(str(_LIBRARY))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class KafkaCluster:
    """A mock cluster in this process, for clients in any; as a context manager.

    It has topics, partitions, offsets and commits, and deletes records; it has no compaction, no
    authorization, and keeps nothing beyond its life.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._library = library = _load_library()
        error = ctypes.create_string_buffer(512)
        self._client = ctypes.c_void_p(
            library.rd_kafka_new(
                _PRODUCER, ctypes.c_void_p(library.rd_kafka_conf_new()), error, len(error)
            )
        )
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._client, brokers))
        text = library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.servers: str = text.decode()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 0}
        )

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        self._check("mock_topic_create", topic.encode(), partitions, 1)

    def send(
        self,
        topic: str,
        values: Iterable[Any],
        partition: int = 0,
        *,
        stamp: int = 0,
    ) -> None:
        """Append messages to a partition: bytes, None, or what becomes JSON."""
        for value in values:
            raw = value if value is None or type(value) is bytes else json.dumps(value).encode()
            self._producer.produce(topic, raw, partition=partition, timestamp=stamp)
            self._producer.poll(0)
        assert self._producer.flush(10) == 0

    def delete(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages of a partition before an offset, as a retention does."""
        self._check("mock_partition_delete_records", topic.encode(), partition,
                    ctypes.c_int64(before))  # fmt: skip

    def set_down(self, broker: int = 1, *, down: bool = True) -> None:
        """Close a broker's connections and refuse new ones, or take them again."""
        self._check("mock_broker_set_down" if down else "mock_broker_set_up", broker)

    def fail_next(self, request: int, code: int) -> None:
        """Let the next request of a kind, by its number in the protocol, fail with an error."""
        errors = (ctypes.c_int * 1)(code)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(request), ctypes.c_size_t(1), errors
        )

    def find_committed(self, group: str, topic: str, partition: int = 0) -> int:
        """Return the offset that a group has committed."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.servers, "group.id": group, "log_level": 0}
        )
        place = confluent_kafka.TopicPartition(topic, partition)
        (found,) = consumer.committed([place], timeout=10)
        consumer.close()
        return found.offset

    def _check(self, name: str, *arguments: Any) -> None:
        found = getattr(self._library, f"rd_kafka_{name}")(self._cluster, *arguments)
        assert found == 0, f"{name}: error {found}"
