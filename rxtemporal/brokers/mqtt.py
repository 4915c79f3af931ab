"""Stream of the messages of an MQTT broker."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactivex import abc
from reactivex.disposable import CompositeDisposable

from rxtemporal.brokers.mqtt_feed import MqttFeed
from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.core.spans import Span
from rxtemporal.errors import ArgumentError, explain_calls
from rxtemporal.ingress.arrivals import ArrivalTime
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.ingress.source import Subscription
from rxtemporal.query.push_source import PushSource
from rxtemporal.query.streamable import Streamable

if TYPE_CHECKING:
    from rxtemporal.run.push_entry import PushEntry


@explain_calls("from_mqtt('mqtt://localhost', 'sensors/#', schema={'temp': float})")
def from_mqtt(
    url: str,
    topics: str | Iterable[str],
    *,
    schema: Any,
    start: str | ArrivalTime = "time",
    end: str | None = None,
    seq: str | None = None,
    delay: Span = 0,
    ahead: Span | None = None,
    policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
    input: str = "",
    client_id: str = "",
    qos: int = 1,
    version: int = 5,
    username: str = "",
    password: str = "",
    ca: str | Path | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    keepalive: int = 60,
    session_seconds: int = 7 * 24 * 3600,
    inflight: int = 2_000,
    name: str = "mqtt",
    **options: Any,
) -> Streamable:
    """Make a stream from the messages of an MQTT broker, acknowledged once they are durable.

    Rows: a message is a JSON object, an array of objects, or JSON lines. ``schema``, ``start``,
    ``end``, ``seq``, ``delay``, ``ahead``, ``policy`` and ``options`` are those of ``PushSource``:
    each row makes a CTI, and one that does not fit is rejected, counted in the diagnostics, and
    acknowledged. ``input`` is a pattern of topics, in which ``{input}`` stands for the name of the
    input (a device, for example), which has its own counters and sequence numbers.

    Connection: ``url`` is ``mqtt://host:port``, or ``mqtts://`` for TLS, with the certificates of
    ``ca``, and with ``certificate`` and ``key`` of the client. It is made when the run begins; if
    the broker cannot be reached or refuses, the run fails with a ``SourceError``. A connection that
    is lost later is made again, after growing delays, for as long as the run lasts.

    Acknowledgements: with QoS 1 and ``resume=`` or ``log=`` each message is acknowledged when its
    rows are on disk, and the broker sends unacknowledged messages again. With ``seq`` a repeated
    row is a duplicate, so that each row counts once. QoS 2 is taken as QoS 1. With QoS 0, and
    without a ``client_id``, messages are lost while the client is not connected.

    Session: the broker keeps the messages for ``client_id`` while the run is down, for
    ``session_seconds`` with MQTT 5. Such a run needs a ``client_id`` that stays the same, and that
    no other client uses. Held: at most ``inflight`` messages with MQTT 5; with ``version=3``, MQTT
    3.1.1, as many as the broker's own limit.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_mqtt(
    ...     "mqtt://localhost", "sensors/+/temp", schema={"temp": float}, start="ts", seq="n",
    ...     input="sensors/{input}/temp", client_id="house 7",
    ... )
    >>> dict(readings.where(lambda row: row["temp"] > 20).schema)
    {'temp': Float64}
    """
    if unknown := sorted(options.keys() - signature(PushSource).parameters.keys()):
        raise TypeError(
            f"from_mqtt() got an unexpected keyword argument {unknown[0]!r}. Hint: url= has host "
            "and port; further arguments are those of PushSource."
        )
    settings = MqttSettings(
        url,
        (topics,) if isinstance(topics, str) or not isinstance(topics, Iterable) else tuple(topics),
        input=input,
        client_id=client_id,
        qos=qos,
        version=version,
        username=username,
        password=password,
        ca=None if ca is None else Path(ca),
        certificate=None if certificate is None else Path(certificate),
        key=None if key is None else Path(key),
        keepalive=keepalive,
        session_seconds=session_seconds,
        inflight=inflight,
    )
    source = _MqttSource(
        settings,
        name,
        schema=schema,
        start=start,
        end=end,
        seq=seq,
        delay=delay,
        ahead=ahead,
        policy=policy,
        **options,
    )
    return source.stream


class _MqttSource(PushSource):
    """Source with a feed from a broker, which begins and ends with its run."""

    def __init__(self, settings: MqttSettings, name: str, **options: Any) -> None:
        self._settings = settings
        super().__init__(name, **options)

    def _attach(self, entry: PushEntry) -> abc.DisposableBase:
        attached = super()._attach(entry)
        settings = self._settings
        if entry.is_logged and not settings.has_session:
            raise ArgumentError(
                f"stream {self.name!r} is in a run with log= or resume=, and has no client_id: "
                "the broker keeps no messages while the run is down. Hint: set client_id= to a "
                "name that stays the same, and that no other client uses."
            )
        feed = MqttFeed(self, settings, retries=False, fail=entry.abort)
        feed.connect()
        feed.start()
        return _FeedSubscription(feed, attached)


class _FeedSubscription(Subscription):
    """Subscription of a run to a feed."""

    def __init__(self, feed: MqttFeed, attached: abc.DisposableBase) -> None:
        self._feed, self._attached = feed, CompositeDisposable(attached)

    def dispose(self) -> None:
        self._feed.cancel()
        self._attached.dispose()

    def join(self) -> None:
        self._feed.join()
