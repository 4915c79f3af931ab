"""Sink that publishes rows to topics of an MQTT broker."""

from __future__ import annotations

import re
import socket
import threading
import time as clock
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rxtemporal.brokers.mqtt_broker import MqttBroker
from rxtemporal.brokers.topic_sink import ID, BrokerAwayError, TopicRow, TopicSink
from rxtemporal.core.batch import TimeForm
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.sinks.positioned import check_names

# seconds that the broker may take to answer, and of one wait, after which a cancelled write ends
ANSWER_SECONDS, SLICE = 10.0, 0.1
_REFUSED = 0x80
# answers that another attempt may turn into success: unavailable, busy, over a quota
_PASSING = frozenset({0x88, 0x89, 0x8E, 0x97, 0x9F})
_FIELD = re.compile(r"\{([^{}]*)\}")


class MqttTopic(TopicSink):
    """Sink that publishes each row as a JSON message to a topic of an MQTT broker.

    Messages: an object with ``start_time``, ``end_time`` (null: never ends) and the fields. In
    ``topic``, ``{field}`` stands for the value of a field, in which ``/``, ``+``, ``#`` and ``%``
    become ``%2F``, ``%2B``, ``%23`` and ``%25``. With ``retain`` the broker keeps the last row of
    each topic. ``time`` is as in ``Print``.

    With ``qos=1``, or 2, each row is published at least once: ``write`` returns when the broker has
    acknowledged all rows of the batch. After a lost connection the rows without acknowledgement
    are published again, and after a crash those since the last checkpoint. The id of a row is the
    same each time: with MQTT 5 it is the user property ``rxtemporal-id``, with MQTT 3.1.1 a field
    of the object with this name. With ``qos=0`` rows are lost while a connection breaks.

    While the broker is away, the query waits, for ``patience`` seconds. At most ``inflight`` rows
    wait for their acknowledgement at a time. ``client_id`` belongs to this sink alone: the broker
    ends the older connection of two. The other arguments are those of ``from_mqtt``, and
    ``password_file``, a file with the password. Needs ``pip install 'rxtemporal[mqtt]'``.

    >>> MqttTopic("mqtt://localhost", "devices/{device}/mean")
    MqttTopic('mqtt://localhost:1883', 'devices/{device}/mean')
    """

    def __init__(
        self,
        url: str,
        topic: str,
        *,
        qos: int = 1,
        retain: bool = False,
        client_id: str = "",
        version: int = 5,
        username: str = "",
        password: str = "",
        password_file: str | Path | None = None,
        ca: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        keepalive: int = 60,
        inflight: int = 1_000,
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        super().__init__(topic, time, patience)
        rest = _FIELD.sub("", topic)
        if any(each in rest for each in "+#{}"):
            raise ArgumentError(
                f"topic is a name in which {{field}} stands for a value, got {topic!r}. Hint: "
                "'devices/{device}/mean', without + and #."
            )
        self._names = _FIELD.findall(topic)
        files = {"password_file": password_file, "ca": ca, "certificate": certificate, "key": key}
        self._broker = MqttBroker(
            url,
            client_id=client_id,
            qos=qos,
            version=version,
            username=username,
            password=password,
            keepalive=keepalive,
            inflight=inflight,
            **{name: None if path is None else Path(path) for name, path in files.items()},
        )
        self._retain = bool(retain)
        self._client: Any = None
        # the thread of the client tells by these, under the condition
        self._news = threading.Condition()
        self._acknowledged: dict[int, Any] = {}
        self._answer: Any = None
        self._lost, self._window = "", inflight
        # ids of the rows that the broker has, while their batch is not complete
        self._done: set[str] = set()

    def __repr__(self) -> str:
        return f"MqttTopic({self._broker.address!r}, {self.topic!r})"

    @property
    def _address(self) -> str:
        return self._broker.address

    def _begin(self) -> None:
        check_names("topic=", self._names, self._schema)
        self._done.clear()

    # The client -----------------------------------------------------------------------------------

    def _connect(self) -> None:
        broker = self._broker
        self._answer, self._lost = None, ""
        client = broker.make_client(clean=True)
        client.on_connect, client.on_disconnect = self._on_connect, self._on_disconnect
        client.on_publish = self._on_publish
        client.on_socket_open = _send_at_once
        client.max_inflight_messages_set(broker.inflight)
        options = {"clean_start": True} if broker.version == 5 else {}
        try:
            client.connect(broker.host, broker.port, broker.keepalive, **options)
        except Exception as error:  # of the network, of TLS, of a file
            raise BrokerAwayError(
                f"there is no connection to the broker at {broker.address}: {error}. "
                f"Hint: {broker.find_hint()}"
            ) from error
        self._client = client
        client.loop_start()
        self._wait_for(lambda: self._answer is not None)
        self._check_answers([self._answer], "the connection")

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.on_disconnect = None
            client.disconnect()
            client.loop_stop()

    def _on_connect(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        with self._news:
            self._answer = code
            # a broker of MQTT 5 ends the connection of who sends more
            most = getattr(properties, "ReceiveMaximum", self._broker.inflight)
            self._window = min(self._broker.inflight, most)
            self._news.notify_all()

    def _on_publish(self, client: Any, data: Any, mid: int, code: Any, properties: Any) -> None:
        with self._news:
            self._acknowledged[mid] = code
            self._news.notify_all()

    def _on_disconnect(
        self, client: Any, data: Any, flags: Any, code: Any, properties: Any
    ) -> None:
        with self._news:
            self._lost = str(code)
            self._news.notify_all()

    # Messages -------------------------------------------------------------------------------------

    def _send(self, rows: list[TopicRow], position: int) -> None:
        waiting = [row for row in rows if row.id not in self._done]
        for begin in range(0, len(waiting), self._window):
            self._publish(waiting[begin : begin + self._window])
        self._done.clear()

    def _publish(self, rows: Sequence[TopicRow]) -> None:
        """Publish rows, and wait until the broker has them."""
        with self._news:
            self._acknowledged.clear()
        sent = {
            self._client.publish(
                self._make_topic(row.fields), self._make_text(row), self._broker.qos,
                self._retain, self._make_properties(row),
            ).mid: row.id
            for row in rows
        }  # fmt: skip
        try:
            self._wait_for(lambda: len(self._acknowledged) >= len(sent))
        finally:
            with self._news:
                taken = {mid: code for mid, code in self._acknowledged.items() if _is_good(code)}
                self._done |= {sent[mid] for mid in taken if mid in sent}
        self._check_answers(self._acknowledged.values(), "a message")

    def _make_topic(self, fields: Mapping[str, Any]) -> str:
        def fill(match: re.Match[str]) -> str:
            value = fields[match[1]]
            text = value if isinstance(value, str) else self._encode(value).decode().strip('"')
            return re.sub(r"[/+#%\0]", lambda each: quote(each[0], safe=""), text)

        return _FIELD.sub(fill, self.topic)

    def _make_text(self, row: TopicRow) -> bytes:
        if self._broker.version == 5:
            return row.text
        return bytes(self._encode({**row.fields, ID: row.id}))

    def _make_properties(self, row: TopicRow) -> Any:
        if self._broker.version != 5:
            return None
        packets = import_module("paho.mqtt.packettypes").PacketTypes
        properties = import_module("paho.mqtt.properties").Properties(packets.PUBLISH)
        properties.UserProperty = (ID, row.id)
        properties.PayloadFormatIndicator = 1
        properties.ContentType = "application/json"
        return properties

    # Answers --------------------------------------------------------------------------------------

    def _wait_for(self, is_so: Any) -> None:
        """Wait until something is so; the time counts from the last answer of the broker."""
        with self._news:
            heard, deadline = -1, 0.0
            while not is_so():
                self._check_cancelled()
                if len(self._acknowledged) != heard:
                    heard = len(self._acknowledged)
                    deadline = clock.monotonic() + ANSWER_SECONDS
                if self._lost or clock.monotonic() > deadline:
                    raise BrokerAwayError(
                        f"{self._place} {'has left: ' + self._lost if self._lost else 'is silent'}"
                        ". Hint: its log says why."
                    )
                self._news.wait(SLICE)

    def _check_answers(self, codes: Any, what: str) -> None:
        refused = [code for code in codes if not _is_good(code)]
        if not refused:
            return
        if all(code.value in _PASSING for code in refused):
            raise BrokerAwayError(f"{self._place} does not take {what} now: {refused[0]}")
        raise RxTemporalError(
            f"{self._place} refuses {what}: {refused[0]}. Hint: check username=, password= and "
            "client_id=, and what the broker allows this user."
        )


def _send_at_once(client: Any, data: Any, line: Any) -> None:
    """Let no message wait for the acknowledgement of the one before it, by TCP."""
    if line.family in (socket.AF_INET, socket.AF_INET6):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _is_good(code: Any) -> bool:
    return bool(code.value < _REFUSED)
