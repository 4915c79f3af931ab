"""Settings of a feed from an MQTT broker: its address, its session, and its topics."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rxtemporal.core.safe_text import brief, hide_user, type_name
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.pushed_inputs import OWN

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_INPUT = "{input}"
# as many messages as an identifier of 16 bits can number
_MOST_INFLIGHT = 65_535
# the host of a url
_HOST = re.compile(r"[^\s,;]+")
# schemes of other clients that mean TLS
_TLS = {"mqtts", "ssl", "tls", "https", "wss"}
# what a broker takes as "never"
_LONGEST_SESSION = 2**32 - 1
# so many topics are remembered with their inputs
_MOST_TOPICS = 10_000


@dataclasses.dataclass(frozen=True)
class MqttSettings:
    """Settings of a feed from an MQTT broker.

    ================= ===========================================================================
    url               ``mqtt://host:port``, or ``mqtts://`` for TLS; may have user and password
    topics            topic filters to subscribe to
    input             pattern of topics in which ``{input}`` stands for the name of the input;
                      a topic that does not match names its input itself; "": one input
    client_id         stable name of the session; "": no session
    qos               0, 1, or 2, which is taken as 1
    version           5, or 3 for MQTT 3.1.1
    username          and ``password``, in place of those in the url
    password_file     a file with the password, read at each connection
    ca                a file with the certificates to trust, in place of the system's
    certificate       and ``key``: files with a certificate of this client
    keepalive         seconds of silence before the broker is asked
    session_seconds   for so long a broker of MQTT 5 keeps the session of a lost client
    inflight          so many messages a broker of MQTT 5 sends before their acknowledgement
    ================= ===========================================================================

    >>> settings = MqttSettings("mqtt://bob:secret@localhost", ("sensors/#",))
    >>> settings.address, settings.user
    ('mqtt://localhost:1883', 'bob')
    >>> "secret" in repr(settings)
    False
    """

    url: str = dataclasses.field(repr=False)
    topics: tuple[str, ...]
    input: str = ""
    client_id: str = ""
    qos: int = 1
    version: int = 5
    username: str = ""
    password: str = dataclasses.field(default="", repr=False)
    password_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    keepalive: int = 60
    session_seconds: int = 7 * 24 * 3600
    inflight: int = 2_000

    def __post_init__(self) -> None:
        _check_url(self.url)
        _check_topics(self.topics)
        TopicInputs(self.input)
        for name in ("client_id", "username", "password"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ArgumentError(f'{name} is a text, got {type_name(value)}. Hint: {name}="…".')
        _check(self.qos in (0, 1, 2), "qos is 0, 1 or 2", self.qos)
        _check(self.version in (3, 5), "version is 5, or 3 for MQTT 3.1.1", self.version)
        _check_number("inflight", self.inflight, 1, _MOST_INFLIGHT)
        _check_number("keepalive", self.keepalive, 5, _MOST_INFLIGHT)
        _check_number("session_seconds", self.session_seconds, 0, _LONGEST_SESSION)

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def host(self) -> str:
        """The broker's host."""
        return self._parts.hostname or ""

    @property
    def port(self) -> int:
        """The broker's port: by default 1883, with TLS 8883."""
        return self._parts.port or _PORTS[self._parts.scheme]

    @property
    def tls(self) -> bool:
        """True if the connection is encrypted."""
        return self._parts.scheme == "mqtts"

    @property
    def address(self) -> str:
        """The url without user and password, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._parts.scheme}://{host}:{self.port}"

    @property
    def user(self) -> str:
        """The name of the user; "" without one."""
        return self.username or unquote(self._parts.username or "")

    @property
    def has_session(self) -> bool:
        """True if the broker keeps what is not acknowledged while the client is away."""
        return bool(self.client_id)

    def find_password(self) -> str | None:
        """Return the password; None without one."""
        if self.password_file is not None:
            return Path(self.password_file).read_text("utf-8").rstrip("\r\n")
        return self.password or unquote(self._parts.password or "") or None


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


def _check(is_valid: bool, rule: str, value: Any) -> None:
    if not is_valid:
        raise ArgumentError(f"{rule}, got {value!r}")


def _check_number(name: str, value: Any, least: int, most: int) -> None:
    _check(type(value) is int and least <= value <= most, f"{name} is {least} to {most}", value)


def _check_url(url: Any) -> None:
    if _is_broker(url):
        parts = urlsplit(url)
        if parts.path in ("", "/") and not parts.query and not parts.fragment:
            return
        raise ArgumentError(
            f"url has nothing behind the port, got {hide_user(url)}. "
            "Hint: topics= names the topics."
        )
    raise ArgumentError(
        "url is mqtt://host:port, or mqtts:// for TLS, with a port from 1 to 65535, got "
        f'{hide_user(url)}. Hint: from_mqtt("{_suggest(url)}", …).'
    )


def _is_broker(url: Any) -> bool:
    """Return True if a url names a broker; there may be something behind its port."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in _PORTS and _HOST.fullmatch(parts.hostname) is not None
            and parts.port != 0
        )  # fmt: skip
    except (ValueError, AttributeError, TypeError):
        return False


def _suggest(url: Any) -> str:
    """Return what was probably meant, without a user."""
    scheme, _, rest = url.rpartition("://") if isinstance(url, str) else ("", "", "")
    host = rest.rpartition("@")[2].partition("/")[0]
    meant = f"{'mqtts' if scheme.lower() in _TLS else 'mqtt'}://{host}"
    return meant if _is_broker(meant) else "mqtt://localhost:1883"


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
