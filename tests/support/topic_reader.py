"""What is in a topic of Kafka or of MQTT: rows, keys and ids."""

from __future__ import annotations

import json
import threading
from typing import Any, NamedTuple

from rxtemporal.brokers.topic_sink import ID


class Received(NamedTuple):
    """A message: its row, the row's id, and where it was."""

    row: dict[str, Any]
    id: str
    topic: str
    key: bytes | None = None
    partition: int = 0


def read_topic(servers: str, topic: str) -> list[Received]:
    """Return the messages of all partitions of a topic of Kafka, each partition to its end."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "reader", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0,
         "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
    )  # fmt: skip
    found: list[Received] = []
    try:
        left = {*consumer.list_topics(topic, timeout=20).topics[topic].partitions}
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in left])
        while left:
            message: Any = consumer.poll(20)
            assert message is not None, "the cluster does not answer"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                left.discard(message.partition())
                continue
            headers = {name: value.decode() for name, value in message.headers()}
            row = json.loads(message.value())
            found.append(Received(row, headers[ID], topic, message.key(), message.partition()))
    finally:
        consumer.close()
    return found


class TopicReader:
    """Subscriber of topics of MQTT; as a context manager."""

    def __init__(self, port: int, topics: str, qos: int) -> None:
        import paho.mqtt.client as paho

        self._received: list[Received] = []
        self._news = threading.Condition()
        self._subscribed = threading.Event()
        self._client: Any = paho.Client(
            paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5, reconnect_on_failure=True
        )
        self._client.on_message = self._take
        self._client.on_connect = lambda *_: self._client.subscribe(topics, qos)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.connect("127.0.0.1", port)

    def __enter__(self) -> TopicReader:
        self._client.loop_start()
        assert self._subscribed.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _take(self, client: Any, data: Any, message: Any) -> None:
        row = json.loads(message.payload)
        properties = dict(getattr(message.properties, "UserProperty", ()))
        known = properties.get(ID) or row.pop(ID)
        with self._news:
            self._received.append(Received(row, known, message.topic))
            self._news.notify_all()

    def wait(self, least: int) -> list[Received]:
        """Return what has come, at least so many messages."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._received) >= least, 60), (
                f"{len(self._received)} messages"
            )
            return [*self._received]

    def wait_for_ids(self, count: int) -> None:
        """Wait until messages with so many ids have come."""
        with self._news:
            assert self._news.wait_for(
                lambda: len({each.id for each in self._received}) >= count, 60
            )
