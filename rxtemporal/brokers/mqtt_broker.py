"""The address of an MQTT broker, and what its clients show of themselves."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rxtemporal.core.safe_text import hide_user, type_name
from rxtemporal.errors import ArgumentError, BindingError

_PORTS = {"mqtt": 1883, "mqtts": 8883}
# as many messages as an identifier of 16 bits can number
MOST_INFLIGHT = 65_535
# the host of a url
_HOST = re.compile(r"[^\s,;]+")
# schemes of other clients that mean TLS
_TLS = {"mqtts", "ssl", "tls", "https", "wss"}


@dataclasses.dataclass(frozen=True)
class MqttBroker:
    """Address of an MQTT broker, and what a client shows it: name, user and certificate.

    ================= ===========================================================================
    url               ``mqtt://host:port``, or ``mqtts://`` for TLS; may have user and password
    client_id         name of the client, which no other one uses; "": the broker gives one
    qos               0, 1, or 2
    version           5, or 3 for MQTT 3.1.1
    username          and ``password``, in place of those in the url
    password_file     a file with the password, read at each connection
    ca                a file with the certificates to trust, in place of the system's
    certificate       and ``key``: files with a certificate of this client
    keepalive         seconds of silence before the broker is asked
    inflight          so many messages wait for their acknowledgement
    ================= ===========================================================================

    >>> broker = MqttBroker("mqtt://bob:secret@localhost")
    >>> broker.address, broker.user
    ('mqtt://localhost:1883', 'bob')
    >>> "secret" in repr(broker)
    False
    """

    url: str = dataclasses.field(repr=False)
    _: dataclasses.KW_ONLY
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
    inflight: int = 2_000

    def __post_init__(self) -> None:
        _check_url(self.url)
        for name in ("client_id", "username", "password"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ArgumentError(f'{name} is a text, got {type_name(value)}. Hint: {name}="…".')
        check(self.qos in (0, 1, 2), "qos is 0, 1 or 2", self.qos)
        check(self.version in (3, 5), "version is 5, or 3 for MQTT 3.1.1", self.version)
        check_number("inflight", self.inflight, 1, MOST_INFLIGHT)
        check_number("keepalive", self.keepalive, 5, MOST_INFLIGHT)

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

    def find_password(self) -> str | None:
        """Return the password; None without one."""
        if self.password_file is not None:
            return Path(self.password_file).read_text("utf-8").rstrip("\r\n")
        return self.password or unquote(self._parts.password or "") or None

    def find_hint(self) -> str:
        """Return what to look at after a connection that has failed."""
        for name in ("ca", "certificate", "key", "password_file"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                return f"{name}= is the path of a file, and {str(path)!r} is not a file."
        tls = "mqtts:// means TLS" if self.tls else "mqtt:// means no TLS"
        return f"url= is where a broker listens, and {tls}."

    def make_client(self, *, clean: bool, **options: Any) -> Any:
        """Return a client of paho-mqtt, which does not reconnect by itself.

        ``clean``: with MQTT 3.1.1, the broker keeps no session; with MQTT 5 ``connect`` says so.
        """
        paho, is_new = load_paho(), self.version == 5
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            clean_session=None if is_new else clean,
            protocol=paho.MQTTv5 if is_new else paho.MQTTv311,
            reconnect_on_failure=False,
            **options,
        )
        password = self.find_password()
        if self.user or password:
            client.username_pw_set(self.user, password)
        if self.tls:
            files = (self.ca, self.certificate, self.key)
            client.tls_set(*(str(each) if each else None for each in files))
        return client


def load_paho() -> Any:
    """Return the module of the MQTT client; raise if it is not installed."""
    try:
        return import_module("paho.mqtt.client")
    except ImportError as error:
        raise BindingError(
            "MQTT is spoken with paho-mqtt. Hint: pip install 'rxtemporal[mqtt]'."
        ) from error


def check(is_valid: bool, rule: str, value: Any) -> None:
    """Raise ``ArgumentError`` with the rule that a value breaks."""
    if not is_valid:
        raise ArgumentError(f"{rule}, got {value!r}")


def check_number(name: str, value: Any, least: int, most: int) -> None:
    """Raise ``ArgumentError`` unless a value is an integer within bounds."""
    check(type(value) is int and least <= value <= most, f"{name} is {least} to {most}", value)


def _check_url(url: Any) -> None:
    if _is_broker(url):
        parts = urlsplit(url)
        if parts.path in ("", "/") and not parts.query and not parts.fragment:
            return
        raise ArgumentError(
            f"url has nothing behind the port, got {hide_user(url)}. "
            "Hint: topics are another argument."
        )
    raise ArgumentError(
        "url is mqtt://host:port, or mqtts:// for TLS, with a port from 1 to 65535, got "
        f'{hide_user(url)}. Hint: url="{_suggest(url)}".'
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
