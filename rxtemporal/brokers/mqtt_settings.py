"""Settings of a feed from an MQTT broker: its session and its topics."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from rxtemporal.brokers.mqtt_broker import MqttBroker, check_number
from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.pushed_inputs import OWN

_INPUT = "{input}"
# what a broker takes as "never"
_LONGEST_SESSION = 2**32 - 1
# so many topics are remembered with their inputs
_MOST_TOPICS = 10_000


@dataclasses.dataclass(frozen=True)
class MqttSettings(MqttBroker):
    """Settings of a feed from an MQTT broker.

    Those of an ``MqttBroker``, and:

    ================= ===========================================================================
    topics            topic filters to subscribe to
    input             pattern of topics in which ``{input}`` stands for the name of the input;
                      a topic that does not match names its input itself; "": one input
    client_id         stable name of the session; "": no session
    qos               0, 1, or 2, which is taken as 1
    session_seconds   for so long a broker of MQTT 5 keeps the session of a lost client
    inflight          so many messages a broker of MQTT 5 sends before their acknowledgement
    ================= ===========================================================================

    >>> settings = MqttSettings("mqtt://bob:secret@localhost", ("sensors/#",))
    >>> settings.address, settings.user
    ('mqtt://localhost:1883', 'bob')
    >>> "secret" in repr(settings)
    False
    """

    topics: tuple[str, ...]
    input: str = ""
    _: dataclasses.KW_ONLY
    session_seconds: int = 7 * 24 * 3600

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_topics(self.topics)
        TopicInputs(self.input)
        check_number("session_seconds", self.session_seconds, 0, _LONGEST_SESSION)

    @property
    def has_session(self) -> bool:
        """True if the broker keeps what is not acknowledged while the client is away."""
        return bool(self.client_id)


class TopicInputs:
    """Names of inputs by topic, according to a pattern.

    ``+`` and ``#`` stand for one and for any further levels, and ``{input}`` for the level, or the
    part of one, that names the input. A topic that does not match is itself the name, so that two
    devices never share their sequence numbers by mistake. Without a pattern there is one input.

    >>> inputs = TopicInputs("sensors/{input}/temp")
    >>> inputs.find("sensors/device 7/temp"), inputs.find("doors/3")
    ('device 7', 'doors/3')
    >>> TopicInputs("").find("doors/3")
    """

    def __init__(self, pattern: str) -> None:
        self._known: dict[str, str] = {}
        self._match = _compile(pattern).fullmatch if pattern else None

    def find(self, topic: str) -> str | None:
        """Return the name of a topic's input; None: the stream's own."""
        if self._match is None:
            return None
        if (name := self._known.get(topic)) is not None:
            return name
        match = self._match(topic)
        name = topic if match is None else match["input"]
        if name == OWN:  # so the rows of no input are called
            name = f"topic {topic}"
        if len(self._known) >= _MOST_TOPICS:
            self._known.clear()
        self._known[topic] = name
        return name


def _compile(pattern: Any) -> re.Pattern[str]:
    if not isinstance(pattern, str) or pattern.count(_INPUT) != 1:
        raise ArgumentError(
            f"input is a pattern of topics with {_INPUT}, got {brief(pattern)}. "
            'Hint: input="sensors/{input}/temp".'
        )
    levels = pattern.split("/")
    if "#" in levels[:-1]:
        raise ArgumentError(f"in input= '#' is the last level, got {brief(pattern)}")
    text = "/".join(_compile_level(level) for level in levels[: -1 if levels[-1] == "#" else None])
    return re.compile(f"{text}(?:/.*)?" if levels[-1] == "#" else text, re.DOTALL)


def _compile_level(level: str) -> str:
    if level == "+":
        return "[^/]*"
    return "(?P<input>[^/]+)".join(map(re.escape, level.split(_INPUT)))


def _check_topics(topics: Any) -> None:
    if not isinstance(topics, tuple) or not topics:
        raise ArgumentError(f'topics are one filter or several, got {topics!r}. Hint: "sensors/#".')
    for topic in topics:
        if isinstance(topic, str) and _INPUT in topic:
            raise ArgumentError(
                f"topic {topic!r} has {_INPUT}, which belongs to input=. "
                f'Hint: topics="{topic.replace(_INPUT, "+")}", input="{topic}".'
            )
        is_filter = isinstance(topic, str) and topic and "\0" not in topic
        levels = topic.split("/") if is_filter else []
        wild = [level for level in levels if "#" in level or "+" in level]
        if not is_filter or "#" in levels[:-1] or not {*wild} <= {"#", "+"}:
            raise ArgumentError(
                f"topic {topic!r} is not a filter. Hint: sensors/+/temp, sensors/#."
            )
