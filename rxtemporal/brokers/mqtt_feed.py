"""Feed from an MQTT broker into a source: a message is acknowledged once its rows are durable."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import polars as pl

from rxtemporal.brokers.mqtt_connection import MqttMessage, MqttReceiver, load_paho
from rxtemporal.brokers.mqtt_settings import MqttSettings, TopicInputs
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import describe_failure
from rxtemporal.errors import ProcessEndedError
from rxtemporal.ingress.encoded_rows import JsonMessages, MessageReader
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS
from rxtemporal.ingress.verdict import Rejected, Verdict
from rxtemporal.query.push_source import PushSource

_log = get_logger(__name__)

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
    ``resume=`` they are durable then. What cannot be read is in the source's ``rejects``, and is
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
        find, read = self._inputs.find, self._reader.read
        pushes: list[tuple[str | None, Any]] = []
        for name, group in groupby(messages, lambda message: find(message.topic)):
            payloads = [message.payload for message in group]
            if name is not None and not self._source.has_room_for_input(name):
                self._refuse(name, payloads)
                continue
            several = len(payloads) > 1
            pushes.append((name, JsonMessages(payloads) if several else read(payloads[0])))
        return pushes

    def _refuse(self, name: str, payloads: Sequence[bytes]) -> None:
        """Reject messages of an input beyond the number of inputs that may be."""
        reason = f"the stream has {MOST_INPUTS} inputs, which is the limit"
        refused = [Rejected(number, reason, each) for number, each in enumerate(payloads)]
        self._source.rejects.push(refused, name)
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
