"""Feed from an MQTT broker into a source: a message is acknowledged once its rows are durable."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import polars as pl

from rxtemporal.brokers.mqtt_broker import load_paho
from rxtemporal.brokers.mqtt_settings import MqttSettings, TopicInputs
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import describe_failure, show
from rxtemporal.errors import EventError, ProcessEndedError, SourceError
from rxtemporal.ingress.cloud_events import decode_event, read_cloud_event
from rxtemporal.ingress.encoded_rows import JsonMessages, MessageReader
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS, OWN
from rxtemporal.ingress.verdict import Rejected, Verdict
from rxtemporal.query.push_source import PushSource

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
    """A message that has arrived, with what its acknowledgement needs.

    ``attributes`` are the user properties of MQTT 5, in which a CloudEvent may have its own.
    """

    connection: MqttConnection
    number: int
    qos: int
    topic: str
    payload: bytes
    attributes: Sequence[tuple[str, str]] = ()


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
        client = self._settings.make_client(clean=not self._settings.has_session, manual_ack=True)
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
        attributes = getattr(message.properties, "UserProperty", ())
        self.messages.append(
            MqttMessage(self, message.mid, message.qos, topic, message.payload, attributes)
        )

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
                f"Hint: {settings.find_hint()}"
            ) from error
        self._check("refuses the connection", "username=, password= and client_id=")
        if subscribes or not self.had_session:
            self._subscribe()
            self._check("refuses the subscription", "topics= and what the broker allows this user")

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


_log = get_logger(__name__)
# seconds between two attempts to connect: at first, and at most
LEAST_DELAY, MOST_DELAY = 0.2, 30.0
# a connection that has lasted so many seconds was a good one: the next attempt follows at once
_GOOD_SECONDS = 10.0
_WAIT_SECONDS = 1.0
# so many seconds the end of the thread is waited for
_PATIENCE = 5.0


class MqttReceiver:
    """Receiver of a broker's messages on a thread of its own, which never waits for their consumer.

    ``deliver`` is called with what has arrived, and only takes note of it. A lost connection is
    made again, after growing delays. ``pause`` ends the deliveries: what arrives from then on is
    neither handed on nor acknowledged, and the broker sends it again to the next connection of the
    session. ``finish`` lets the thread write what has been acknowledged, and disconnect.

    Threads: any.
    """

    def __init__(
        self, settings: MqttSettings, deliver: Callable[[Sequence[MqttMessage]], None]
    ) -> None:
        self._settings = settings
        self._deliver = deliver
        self._lock = threading.Lock()
        self._acks: list[MqttMessage] = []
        self._is_paused = False
        self._finished = threading.Event()
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        self._connection: MqttConnection | None = None
        self._thread: threading.Thread | None = None
        self.connections = self.lost_sessions = self.acknowledged = 0

    @property
    def is_connected(self) -> bool:
        """True while there is a connection."""
        connection = self._connection
        return connection is not None and connection.socket is not None

    def connect(self) -> None:
        """Make the first connection; raise if that fails."""
        self._connection = self._open()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"rxtemporal mqtt {self._settings.address}", daemon=True
        )
        self._thread.start()

    def acknowledge(self, messages: Sequence[MqttMessage]) -> None:
        """Acknowledge messages soon."""
        with self._lock:
            self._acks += messages
        self._wake()

    def pause(self) -> None:
        """Deliver nothing more."""
        self._is_paused = True

    def finish(self) -> None:
        """End the thread soon, after the acknowledgements so far; do not wait. Idempotent."""
        self._is_paused = True
        self._finished.set()
        self._wake()

    def join(self) -> None:
        """Wait for the end of the thread, unless it waits for a broker that does not answer."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is awake, or gone
            self._mouth.send(b"\0")

    # The thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        delay = LEAST_DELAY
        while not self._finished.is_set():
            if self._connection is None:
                self._connection = self._try_open(delay)
                delay = min(2 * delay, MOST_DELAY)
                continue
            begun = time.monotonic()
            self._try_serve(self._connection)
            if time.monotonic() - begun > _GOOD_SECONDS:
                delay = LEAST_DELAY
            self._drop(self._connection)
            if not self._finished.wait(delay * random.uniform(0.5, 1)):
                self._connection = None
        self._ear.close()
        self._mouth.close()

    def _open(self) -> MqttConnection:
        connection = MqttConnection(self._settings)
        connection.open(subscribes=not self.connections)
        if self.connections and self._settings.has_session and not connection.had_session:
            self.lost_sessions += 1
            _log.error(
                "the broker has lost the session: messages it had not delivered are gone",
                broker=self._settings.address,
                client_id=self._settings.client_id,
            )
        self.connections += 1
        _log.info("connected", broker=self._settings.address, session=connection.had_session)
        return connection

    def _try_open(self, delay: float) -> MqttConnection | None:
        try:
            return self._open()
        except Exception as error:
            level = _log.warning if isinstance(error, SourceError) else _log.exception
            level("the broker is not to be reached", error=show(error), again_after=round(delay, 1))
            self._finished.wait(delay * random.uniform(0.5, 1))
            return None

    def _try_serve(self, connection: MqttConnection) -> None:
        """Serve; an error of the client library costs the connection, and not the thread."""
        try:
            self._serve(connection)
        except Exception as error:
            _log.exception("a connection has failed", error=show(error))
            connection.abort()

    def _serve(self, connection: MqttConnection) -> None:
        """Read and acknowledge until the connection is lost, or the thread is to end."""
        while (sock := connection.socket) is not None:
            if connection.messages:
                self._hand_on(connection)
            is_last = self._finished.is_set()
            self._write_acks(connection)
            if is_last:
                connection.close()
                return
            wait = 0.0 if connection.has_more else _WAIT_SECONDS
            writes = [sock] if connection.wants_write else []
            try:
                ready = select.select([sock, self._ear], writes, [], wait)
            except (OSError, ValueError):  # the socket has been closed
                return
            if self._ear in ready[0]:
                self._ear.recv(4_096)
            connection.write()
            connection.read()

    def _hand_on(self, connection: MqttConnection) -> None:
        messages, connection.messages = connection.messages, []
        if not self._is_paused:
            self._deliver(messages)

    def _write_acks(self, connection: MqttConnection) -> None:
        with self._lock:
            messages, self._acks = self._acks, []
        if messages:
            self.acknowledged += connection.acknowledge(messages)

    def _drop(self, connection: MqttConnection) -> None:
        """Hand on what the lost connection had brought; the broker sends it again."""
        self._hand_on(connection)
        if not self._finished.is_set():
            _log.warning(
                "the connection is lost", broker=self._settings.address, reason=connection.reason
            )


# so many messages wait; a message without acknowledgement (QoS 0) that comes then is dropped
MOST_WAITING = 20_000
# so many messages are pushed at once
MOST_PUSHED = 4_096
# seconds between two pushes into a source that has no run
_RETRY_SECONDS = 0.25


def _forget(name: str | None, rejected: Sequence[Rejected]) -> None:
    """Keep nothing: the source has told of the rows."""


@dataclasses.dataclass(frozen=True)
class MqttStats:
    """Counters of a feed, since it was made.

    ``messages`` have arrived, ``qos0`` of them without acknowledgement, of which ``dropped`` came
    while too many waited. ``waiting`` have not been pushed yet. ``acknowledged`` have been. Of the
    ``connections``, ``lost_sessions`` found that the broker had forgotten the session.
    """

    connected: bool
    messages: int
    qos0: int
    dropped: int
    waiting: int
    acknowledged: int
    connections: int
    lost_sessions: int


def _ignore(pushes: object, verdicts: object) -> None:
    """Do nothing."""


class MqttFeed:
    """Feed from an MQTT broker into a ``PushSource``.

    A message is a JSON object, an array of objects, or JSON lines; the rows of all messages that
    wait are pushed together, and acknowledged once that push has returned: with ``log=`` or
    ``resume=`` they are durable then. A CloudEvent is the row in its data; its source is the input,
    unless the topic names one. What cannot be read is in the source's ``rejects``, and is
    acknowledged, too, or it would come for ever.

    With ``retries`` the feed outlives a run of its source: messages wait, unacknowledged, for the
    next one. Without, it ends with the run. ``fail`` is called with any other error that ends it,
    and ``tell`` with what has been pushed and the verdicts.

    Threads: any. Two threads of its own: one talks to the broker and never waits for the other,
    which pushes; so a push that waits for a slow query costs no connection.
    """

    def __init__(
        self,
        source: PushSource,
        settings: MqttSettings,
        *,
        retries: bool = True,
        fail: Callable[[BaseException], object] = lambda error: None,
        tell: Callable[[Sequence[tuple[str | None, Any]], Sequence[Verdict]], object] = _ignore,
    ) -> None:
        load_paho()
        self._source = source
        self._inputs = TopicInputs(settings.input)
        self._reader = MessageReader(source.stream.schema or pl.Schema())
        self._retries, self._fail, self._tell = retries, fail, tell
        self._receiver = MqttReceiver(settings, self._take)
        self._news = threading.Condition()
        self._waiting: list[MqttMessage] = []
        self._is_ending = False
        self._thread = threading.Thread(
            target=self._run, name=f"rxtemporal mqtt into {source.name}", daemon=True
        )
        self._messages = self._qos0 = self._dropped = 0
        # called with the input and its rejected rows before they are acknowledged
        self.keep_rejected: Callable[[str | None, Sequence[Rejected]], object] = _forget
        # the unexpected error that has ended the feed
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"MqttFeed({self._source.name!r}, {self.stats()})"

    def give_rejected_to(self, keep: Callable[[str | None, Sequence[Rejected]], object]) -> None:
        """Call a function with rejected rows before they are acknowledged."""
        self.keep_rejected = keep

    @property
    def stream(self) -> str:
        """The name of the source that is fed."""
        return self._source.name

    def connect(self) -> None:
        """Make the first connection, and raise ``SourceError`` if that fails.

        Otherwise ``start`` makes it, and tries until it succeeds.
        """
        self._receiver.connect()

    def start(self) -> None:
        """Begin to push what arrives; call it when the source's run has begun."""
        self._receiver.start()
        self._thread.start()

    def cancel(self) -> None:
        """Take nothing more, and end soon; do not wait. Idempotent."""
        self._receiver.pause()
        with self._news:
            self._is_ending = True
            self._news.notify()

    def join(self, timeout: float | None = None) -> None:
        """Wait until what has arrived is pushed and acknowledged, and the feed has disconnected.

        ``timeout`` is how many seconds to wait for the pushes; None waits for ever.
        """
        if self._thread.ident is None or self._thread is threading.current_thread():
            return
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._receiver.join()

    def stop(self) -> None:
        """Push what has arrived, acknowledge what is durable, and disconnect."""
        self.cancel()
        self.join()

    def stats(self) -> MqttStats:
        """Return the current counters."""
        receiver = self._receiver
        return MqttStats(
            connected=receiver.is_connected,
            messages=self._messages,
            qos0=self._qos0,
            dropped=self._dropped,
            waiting=len(self._waiting),
            acknowledged=receiver.acknowledged,
            connections=receiver.connections,
            lost_sessions=receiver.lost_sessions,
        )

    # Arrival --------------------------------------------------------------------------------------

    def _take(self, messages: Sequence[MqttMessage]) -> None:
        """Take note of messages, on the thread that talks to the broker."""
        without = sum(not message.qos for message in messages)
        self._messages += len(messages)
        self._qos0 += without
        with self._news:
            if without and len(self._waiting) + len(messages) > MOST_WAITING:
                messages = [message for message in messages if message.qos]
                self._drop(without)
            self._waiting += messages
            self._news.notify()

    def _drop(self, count: int) -> None:
        if not self._dropped:
            _log.warning("too many messages wait: those of QoS 0 are dropped", feed=repr(self))
        self._dropped += count

    # The thread that pushes -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while messages := self._next():
                self._push(messages)
                self._receiver.acknowledge([message for message in messages if message.qos])
        except ProcessEndedError as error:  # the broker keeps what is not acknowledged
            _log.info("the run no longer accepts messages", reason=str(error))
        except BaseException as error:
            self.error = error
            _log.critical(
                "a feed has ended by an error", feed=repr(self), error=describe_failure(error)
            )
            self._fail(error)
        finally:
            self._receiver.finish()

    def _next(self) -> list[MqttMessage]:
        """Wait for messages, and return those that have arrived; none when the feed ends."""
        with self._news:
            while not self._waiting and not self._is_ending:
                self._news.wait()
            messages = self._waiting[:MOST_PUSHED]
            del self._waiting[:MOST_PUSHED]
        return messages

    def _list_pushes(self, messages: Sequence[MqttMessage]) -> list[tuple[str | None, Any]]:
        """Return the messages as pushes of their inputs, in the order of their arrival.

        Grouped by input, the rows of one would make those of the others late.
        """
        read = self._reader.read
        pushes: list[tuple[str | None, Any]] = []
        for name, group in groupby(map(self._open_event, messages), itemgetter(0)):
            items = [item for _, item in group if item is not None]
            if name is not None and not self._source.has_room_for_input(name):
                limit = f"the stream has {MOST_INPUTS} inputs, which is the limit"
                self._refuse(name, items, limit)
                continue
            for is_row, same in groupby(items, lambda item: isinstance(item, dict)):
                found = [*same]
                if is_row:
                    pushes.append((name, found))
                    continue
                pushes.append((name, JsonMessages(found) if len(found) > 1 else read(found[0])))
        return pushes

    def _open_event(self, message: MqttMessage) -> tuple[str | None, Any]:
        """Return input and payload of a message; of a CloudEvent the row, None if it is wrong."""
        name, payload = self._inputs.find(message.topic), message.payload
        attributes = dict(message.attributes)
        if "specversion" not in attributes and b'"specversion"' not in payload:
            return name, payload
        event = decode_event(payload, attributes)
        if event is None or "specversion" in (self._source.stream.schema or ()):
            return name, payload
        layout = self._source.layout
        try:
            read = read_cloud_event(event, layout.start, layout.seq)
        except EventError as error:
            self._refuse(name, [payload], str(error))
            return name, None
        return name or read.source, read.row

    def _refuse(self, name: str | None, payloads: Sequence[Any], reason: str) -> None:
        """Reject messages: of an input beyond the number that may be, or wrong CloudEvents."""
        refused = [Rejected(number, reason, each) for number, each in enumerate(payloads)]
        self._source._count_rejected(len(refused), name)
        self._source.rejects.push(refused, OWN if name is None else name)
        self.keep_rejected(name, refused)

    def _push(self, messages: Sequence[MqttMessage]) -> None:
        pushes = self._list_pushes(messages)
        while True:
            try:
                verdicts = self._source.push_all(pushes)
                break
            except ProcessEndedError:
                if not self._retries or self._is_ending:
                    raise
            with self._news:
                self._news.wait_for(lambda: self._is_ending, _RETRY_SECONDS)
        self._tell(pushes, verdicts)
        for (name, _), verdict in zip(pushes, verdicts, strict=True):
            if verdict.rejected:
                self.keep_rejected(name, verdict.rejected)
