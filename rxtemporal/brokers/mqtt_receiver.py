"""Thread that stays connected to an MQTT broker, hands on messages, and acknowledges them."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence

from rxtemporal.brokers.mqtt_connection import MqttConnection, MqttMessage
from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import show
from rxtemporal.errors import SourceError

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
