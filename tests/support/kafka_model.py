"""A model of a Kafka cluster with transactions, for clients of this process or of a child.

librdkafka's mock cluster answers the requests of transactions, but shows messages that were never
committed, and keeps no offsets of transactions. The model has what the documentation of Kafka
promises: messages and offsets of a transaction appear together, or never; ``init_transactions``
ends what an older producer with the same id has begun, and shuts that one out.
"""

from __future__ import annotations

import os
import random
from multiprocessing.managers import BaseManager
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

_KEY = b"model"


class ModelCluster:
    """What consumers that read committed messages see, and what groups have committed."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes | None, str]] = []
        self.offsets: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, tuple[list[Any], dict[str, str]]] = {}
        self.begun = self.aborted = 0

    def init(self, name: str) -> int:
        """Begin with a new producer; what the one before has not committed is gone."""
        self.aborted += self._open.pop(name, None) is not None
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def produce(self, name: str, epoch: int, message: Any) -> bool:
        """Add a message to the open transaction; False if the producer is shut out."""
        if self._epochs[name] != epoch:
            return False
        if name not in self._open:
            self._open[name] = ([], {})
            self.begun += 1
        self._open[name][0].append(message)
        return True

    def commit_offset(self, name: str, epoch: int, group: str, text: str) -> bool:
        """Add an offset's text to the open transaction."""
        if self._epochs[name] != epoch:
            return False
        self._open[name][1][group] = text
        return True

    def commit(self, name: str, epoch: int) -> bool:
        """Show what the transaction has."""
        if self._epochs[name] != epoch:
            return False
        messages, offsets = self._open.pop(name)
        self.messages += messages
        self.offsets.update(offsets)
        return True

    def find(self, group: str) -> str | None:
        """Return the text of what a group has committed."""
        return self.offsets.get(group)

    def list_messages(self) -> list[tuple[bytes, bytes | None, str]]:
        """Return the messages that were committed."""
        return self.messages

    def count(self) -> tuple[int, int]:
        """Return how many transactions were begun, and ended by the next producer."""
        return self.begun, self.aborted


class _Manager(BaseManager):
    pass


def serve_model() -> tuple[BaseManager, Any, str]:
    """Start a model in a process of its own; return its manager, itself, and its address."""
    cluster = ModelCluster()
    _Manager.register("cluster", callable=lambda: cluster)
    manager = _Manager(("127.0.0.1", 0), _KEY)
    manager.start()
    address: Any = manager.address
    return manager, manager.cluster(), f"{address[0]}:{address[1]}"  # type: ignore[attr-defined]


def connect_model(address: str) -> None:
    """Let the sinks of this process write into the model at an address."""
    host, _, port = address.partition(":")
    _Manager.register("cluster")
    manager = _Manager((host, int(port)), _KEY)
    manager.connect()
    use_model(manager.cluster())  # type: ignore[attr-defined]


def use_model(cluster: Any, replace: Any = setattr) -> None:
    """Let the client's producers and consumers be those of a model."""
    replace(confluent_kafka, "Producer", lambda settings, **_: _Producer(cluster, settings))
    replace(confluent_kafka, "Consumer", lambda settings, **_: _Consumer(cluster, settings))


class _Consumer:
    def __init__(self, cluster: Any, settings: dict[str, Any]) -> None:
        assert settings["isolation.level"] == "read_committed"
        self.cluster, self.group = cluster, settings["group.id"]

    def consumer_group_metadata(self) -> str:
        return str(self.group)

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        text = self.cluster.find(self.group)
        place = places[0]
        return [confluent_kafka.TopicPartition(place.topic, place.partition, 0, text or "")]

    def close(self) -> None:
        pass


class _Topics:
    def __init__(self, topic: str) -> None:
        self.topics = {topic: self}
        self.error = None


class _Producer:
    """Producer of the model; at times it loses the answer to a commit, which is known or not."""

    draw = random.Random(os.getpid())

    def __init__(self, cluster: Any, settings: dict[str, Any]) -> None:
        self._cluster, self._name = cluster, settings["transactional.id"]
        self._epoch = 0

    def __len__(self) -> int:
        return 0

    def list_topics(self, topic: str, timeout: float) -> _Topics:
        return _Topics(topic)

    def init_transactions(self, timeout: float) -> None:
        self._epoch = self._cluster.init(self._name)

    def begin_transaction(self) -> None:
        pass

    def produce(self, topic: str, value: bytes, key: bytes | None, headers: Any) -> None:
        self._check(self._cluster.produce(self._name, self._epoch, (value, key, headers[0][1])))

    def poll(self, timeout: float) -> None:
        pass

    def purge(self) -> None:
        pass

    def send_offsets_to_transaction(self, places: list[Any], group: str, timeout: float) -> None:
        text = places[0].metadata
        self._check(self._cluster.commit_offset(self._name, self._epoch, group, text))

    def commit_transaction(self, timeout: float) -> None:
        drawn = self.draw.random()
        if drawn < 0.02:  # the broker has not got it, and later ends the transaction
            raise KafkaException(_make_error(KafkaError.NOT_COORDINATOR, retriable=True))
        self._check(self._cluster.commit(self._name, self._epoch))
        if drawn > 0.98:  # the broker has got it, and its answer is lost
            raise KafkaException(_make_error(KafkaError.NOT_COORDINATOR, retriable=True))

    def _check(self, taken: bool) -> None:
        if not taken:
            raise KafkaException(_make_error(KafkaError._FENCED, fatal=True))


def _make_error(code: int, *, retriable: bool = False, fatal: bool = False) -> KafkaError:
    return KafkaError(code, "of the model", fatal, retriable, False)
