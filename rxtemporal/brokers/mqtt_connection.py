"""One connection to an MQTT broker, from its CONNECT until it is lost or closed."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.errors import BindingError, SourceError

# so long the broker may take to answer a CONNECT or a SUBSCRIBE
ANSWER_SECONDS = 10.0
# and so long to a DISCONNECT
_FAREWELL_SECONDS = 2.0
# so many packets are read before what has arrived is handed on
_MOST_PACKETS = 1_000
# the broker sends retained messages only if the subscription is new
_IF_NEW = 1
_REFUSED = 0x80


class MqttMessage(NamedTuple):
    """A message that has arrived, with what its acknowledgement needs."""

    connection: MqttConnection
    number: int
    qos: int
    topic: str
    payload: bytes


def load_paho() -> Any:
    """Return the module of the MQTT client; raise if it is not installed."""
    try:
        return import_module("paho.mqtt.client")
    except ImportError as error:
        raise BindingError(
            "MQTT is spoken with paho-mqtt. Hint: pip install 'rxtemporal[mqtt]'."
        ) from error


def _read_publish(client: Any, malformed: type[Exception]) -> Any:
    """Read a message; without its properties if paho-mqtt cannot read these.

    It refuses characters that are allowed (U+FEFF), and so would end each connection at the same
    message, which the broker sends again.
    """
    read = type(client)._handle_publish
    try:
        return read(client)
    except (malformed, UnicodeDecodeError):
        packet = client._in_packet
        packet["packet"] = _drop_properties(packet["packet"], packet["command"] & 0x06 > 0)
        return read(client)


def _drop_properties(packet: bytes, has_number: bool) -> bytes:
    """Return the packet of a message without properties."""
    begin = at = 2 + int.from_bytes(packet[:2], "big") + 2 * has_number
    length = shift = 0
    while True:  # seven bits in each byte, and one that says whether more follow
        length |= (packet[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if packet[at - 1] < 0x80:
            return packet[:begin] + b"\0" + packet[at + length :]


class MqttConnection:
    """Connection to a broker; the session of its client outlives it.

    ``open`` connects and subscribes; then ``read`` takes what has arrived, and ``acknowledge``
    answers it. An acknowledgement of a message from another connection is left out: the broker
    sends that message again, and its number may be that of another message by now.

    Not thread-safe: the thread of its receiver owns it.
    """

    def __init__(self, settings: MqttSettings) -> None:
        self._settings = settings
        self.messages: list[MqttMessage] = []
        # the broker had kept a session of this client
        self.had_session = False
        # why the broker has ended the connection, if it told
        self.reason = ""
        self._codes: list[Any] = []
        self._client: Any = None

    def _make_client(self, paho: Any) -> Any:
        settings = self._settings
        is_new = settings.version == 5
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            clean_session=None if is_new else not settings.has_session,
            protocol=paho.MQTTv5 if is_new else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        if settings.user or settings.find_password():
            client.username_pw_set(settings.user, settings.find_password())
        if settings.tls:
            client.tls_set(
                *(str(each) if each else None
                  for each in (settings.ca, settings.certificate, settings.key))
            )  # fmt: skip
        client.on_message = self._on_message
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        # packets wait until they are written, in place of a call for each
        client.on_socket_register_write = lambda *_: None
        client._handle_publish = partial(_read_publish, client, paho.MalformedPacket)
        return client

    # Callbacks ------------------------------------------------------------------------------------

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        # this runs once for each message
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = repr(message._topic)
        self.messages.append(MqttMessage(self, message.mid, message.qos, topic, message.payload))

    def _on_connect(self, client: Any, data: Any, flags: Any, code: Any, properties: Any) -> None:
        self.had_session = flags.session_present
        self._codes = [code]

    def _on_subscribe(self, client: Any, data: Any, mid: int, codes: Any, properties: Any) -> None:
        self._codes = list(codes)

    def _on_disconnect(
        self, client: Any, data: Any, flags: Any, code: Any, properties: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self.reason = str(code)

    # The connection -------------------------------------------------------------------------------

    def open(self, *, subscribes: bool) -> None:
        """Connect; subscribe if there was no session, or in any case with ``subscribes``.

        ``SourceError``: the broker is not there, does not answer, or refuses.
        """
        settings = self._settings
        paho = load_paho()
        try:
            self._client = self._make_client(paho)
            self._client.connect(
                settings.host, settings.port, settings.keepalive, **self._options()
            )
        except Exception as error:  # of the network, of TLS, of a file
            raise SourceError(
                f"there is no connection to the broker at {settings.address}: {error}. "
                f"Hint: {self._find_hint()}"
            ) from error
        self._check("refuses the connection", "username=, password= and client_id=")
        if subscribes or not self.had_session:
            self._subscribe()
            self._check("refuses the subscription", "topics= and what the broker allows this user")

    def _find_hint(self) -> str:
        """Return what to look at after a connection that has failed."""
        settings = self._settings
        for name in ("ca", "certificate", "key", "password_file"):
            path = getattr(settings, name)
            if path is not None and not path.is_file():
                return f"{name}= is the path of a file, and {str(path)!r} is none."
        tls = "mqtts:// means TLS" if settings.tls else "mqtt:// means no TLS"
        return f"url= is where a broker listens, and {tls}."

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        if settings.version != 5:
            return {}
        packets = import_module("paho.mqtt.packettypes").PacketTypes
        properties = import_module("paho.mqtt.properties").Properties(packets.CONNECT)
        properties.ReceiveMaximum = settings.inflight
        if settings.has_session:
            properties.SessionExpiryInterval = settings.session_seconds
        return {"clean_start": not settings.has_session, "properties": properties}

    def _subscribe(self) -> None:
        qos = min(self._settings.qos, 1)
        if self._settings.version == 5:
            make = import_module("paho.mqtt.subscribeoptions").SubscribeOptions
            options = make(qos, retainHandling=_IF_NEW)
        else:
            options = qos
        self._client.subscribe([(topic, options) for topic in self._settings.topics])

    def _check(self, refusal: str, hint: str) -> None:
        """Wait for the broker's answer; raise if it refuses."""
        codes = [str(code) for code in self._wait_for_answer() if code.value >= _REFUSED]
        if codes:
            self.close()
            raise SourceError(
                f"the broker at {self._settings.address} {refusal}: {', '.join(codes)}. "
                f"Hint: check {hint}."
            )

    def _wait_for_answer(self) -> list[Any]:
        deadline = time.monotonic() + ANSWER_SECONDS
        self._codes.clear()
        while not self._codes:
            self.write()
            left = deadline - time.monotonic()
            if self.socket is None or left <= 0:
                raise SourceError(
                    f"the broker at {self._settings.address} does not answer as one of MQTT "
                    f"{self._settings.version} does."
                )
            select.select([self.socket], [], [], left)
            self.read()
        return self._codes

    @property
    def socket(self) -> Any:
        """The socket; None once the connection is lost or closed."""
        return None if self._client is None else self._client.socket()

    @property
    def has_more(self) -> bool:
        """True if bytes have been decrypted and not read, which no selector knows."""
        count: Callable[[], int] | None = getattr(self.socket, "pending", None)
        return count is not None and count() > 0

    @property
    def wants_write(self) -> bool:
        """True if packets wait to be written."""
        return bool(self._client.want_write())

    def read(self) -> None:
        """Read what has arrived into ``messages``, and ask a silent broker if it is there."""
        for _ in range(_MOST_PACKETS):
            count = len(self.messages)
            if self._client.loop_read() or len(self.messages) == count:
                break
        self._client.loop_misc()

    def acknowledge(self, messages: Iterable[MqttMessage]) -> int:
        """Acknowledge messages of this connection; return how many."""
        ack, count = self._client.ack, 0
        for message in messages:
            if message.connection is self:
                ack(message.number, message.qos)
                count += 1
        self.write()
        return count

    def write(self) -> None:
        """Write the packets that wait, as far as the socket takes them."""
        self._client.loop_write()

    def abort(self) -> None:
        """End the connection without a farewell."""
        if (sock := self.socket) is not None:
            sock.close()
        self._client = None

    def close(self) -> None:
        """Take leave of the broker, which keeps the session and its subscriptions.

        Waits until the broker has taken leave, too: by then it has every acknowledgement.
        """
        if (sock := self.socket) is None:
            return
        with socket.socket(fileno=os.dup(sock.fileno())) as line, contextlib.suppress(OSError):
            line.settimeout(_FAREWELL_SECONDS)
            self._client.disconnect()
            self.write()
            while self.socket is not None and select.select([], [line], [], _FAREWELL_SECONDS)[1]:
                self.write()
            while line.recv(65_536):
                pass
