"""Settings of a service, from Python or from a TOML file."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import os
import re
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from rxtemporal.brokers.kafka_topic import KafkaTopic
from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.brokers.mqtt_topic import MqttTopic
from rxtemporal.core.spans import span
from rxtemporal.core.time_forms import check_unit
from rxtemporal.errors import ArgumentError
from rxtemporal.sinks.append_file import AppendFile
from rxtemporal.sinks.delta import DeltaTable
from rxtemporal.sinks.http import Http
from rxtemporal.sinks.iceberg import IcebergTable
from rxtemporal.sinks.parquet_folder import ParquetFolder
from rxtemporal.sinks.postgres import PostgresTable
from rxtemporal.sinks.sink import Sink
from rxtemporal.sinks.sqlite import SqliteTable


def check_keys(table: Any, title: str, names: Sequence[str], needed: Iterable[str]) -> None:
    """Raise ``ArgumentError`` if a table has a key that is not a name, or lacks one needed."""
    check_table(table, title)
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}? Its" if near else "its"
            raise ArgumentError(
                f"[{title}] has no key {name!r}. Hint: {hint} keys are {', '.join(names)}."
            )
    for name in needed:
        if name not in table:
            raise ArgumentError(f"[{title}] needs the key {name!r}")


def check_table(table: Any, title: str) -> None:
    """Raise ``ArgumentError`` if a value is not a table; it may be a secret, and is not shown."""
    if not isinstance(table, Mapping):
        raise ArgumentError(f"[{title}] is a table, got {type(table).__name__}")


_NAMES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    Path: "a path",
    tuple: "a list of texts",
}


def at_least(least: float, default: Any, *, or_word: str | None = None) -> Any:
    """Return a field whose value is a number not below ``least``, or a word."""
    return dataclasses.field(default=default, metadata={"least": least, "word": or_word})


def secret(default: Any = dataclasses.MISSING) -> Any:
    """Return a field that no description shows."""
    return dataclasses.field(default=default, metadata={"secret": True})


@dataclasses.dataclass(frozen=True)
class Section:
    """Base of the sections: each value is checked against its type, and its least value.

    A field is a bool, an int, a float, a str, a Path or a tuple of str. One that may be None is
    ``"off"`` in a file.
    """

    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _check(f"[{self.title}] {field.name}", field, self._kind(field.name),
                           getattr(self, field.name))  # fmt: skip
            object.__setattr__(self, field.name, value)
        self.check()

    def check(self) -> None:
        """Check what concerns several values; for subclasses."""

    @classmethod
    def _kind(cls, name: str) -> tuple[type, bool]:
        """Return the type of a field, and True if it may be None."""
        return _read_hint(typing.get_type_hints(cls)[name])

    @classmethod
    def parse(cls, table: Any, title: str = "") -> Self:
        """Return the section that a table of a file describes."""
        title = title or cls.title
        needed = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
        check_keys(table, title, cls.list_keys(), needed)
        try:
            return cls(**table)
        except ArgumentError as error:
            # a section that there is several times
            raise ArgumentError(str(error).replace(f"[{cls.title}]", f"[{title}]", 1)) from None

    @classmethod
    def list_keys(cls) -> list[str]:
        """Return the names of the keys."""
        return [field.name for field in dataclasses.fields(cls)]

    def describe(self, title: str = "") -> Iterator[str]:
        """Yield the lines of a file with these values; secrets are hidden."""
        yield f"[{title or self.title}]"
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            text = '"(hidden)"' if field.metadata.get("secret") and value else _text(value)
            yield f"{field.name} = {text}"


def _read_hint(hint: Any) -> tuple[type, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.get_args(hint)[0], type(None) in typing.get_args(hint)
    return typing.get_origin(hint) or hint, False


def _check(where: str, field: dataclasses.Field[Any], kind: tuple[type, bool], value: Any) -> Any:
    wanted, optional = kind
    if optional and (value is None or value == "off"):
        return None
    word = field.metadata.get("word")
    if word is not None and value == word:
        return word
    found = _convert(wanted, value)
    least = field.metadata.get("least")
    if found is None or (least is not None and not least <= found < float("inf")):
        allowed = _NAMES[wanted] + ("" if least is None else f", at least {least:g}")
        allowed += "" if word is None else f", or {word!r},"
        shown = "another value" if field.metadata.get("secret") else repr(value)
        raise ArgumentError(
            f"{where} is {allowed}{' or off' if optional else ''}, got {shown}"
            f"{_hint_value(wanted, value)}"
        )
    return found


def _hint_value(wanted: type, value: Any) -> str:
    """Return the hint for a value that stands in the wrong form; empty if there is none."""
    if wanted is tuple and isinstance(value, str):
        return ". Hint: write it in brackets, also if there is only one."
    if wanted is str and type(value) in (int, float):
        return ". Hint: write it in quotes; a span of time has a unit, as in '7d'."
    if wanted in (bool, int, float) and isinstance(value, str):
        return ". Hint: write it without quotes."
    return ""


def _convert(kind: type, value: Any) -> Any:
    """Return a value in its type, None if it does not fit; a bool is not a number."""
    if kind is Path:
        return Path(value) if isinstance(value, (str, Path)) and str(value) else None
    if kind is tuple:
        texts = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
        return tuple(value) if texts else None
    if kind is float and type(value) is int:
        return float(value)
    return value if type(value) is kind else None


def _text(value: Any) -> str:
    if value is None:
        return '"off"'
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value, ensure_ascii=False)


_MIB = 1 << 20
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class ServerSettings(Section):
    """Section ``[server]``: the address, TLS, and limits of connections.

    At most ``max_connections`` are open at a time. ``head_bytes`` and ``head_seconds`` limit the
    request line with its headers, and ``keep_alive`` is how many seconds a connection may be silent
    between two requests. ``drain_seconds`` is how long requests may take to end when the service
    stops. ``access_log`` logs each request. ``certificate``, ``key`` and ``client_ca`` are PEM
    files for TLS. ``proxies`` are the addresses whose ``X-Forwarded-For`` is trusted.
    """

    title: ClassVar[str] = "server"

    host: str = "127.0.0.1"
    port: int = at_least(0, 8000)
    max_connections: int = at_least(1, 1024)
    keep_alive: float = at_least(0, 5.0)
    head_bytes: int = at_least(1024, 65536)
    head_seconds: float = at_least(0.1, 10.0)
    drain_seconds: float = at_least(0, 10.0)
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    access_log: bool = False
    proxies: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse a port above 65535, and a key without a certificate."""
        if self.port > 65535:
            raise ArgumentError(f"[server] port is at most 65535, got {self.port}")
        if (self.key or self.client_ca) and not self.certificate:
            raise ArgumentError("[server] key and client_ca have no effect without certificate")


@dataclasses.dataclass(frozen=True)
class IngestSettings(Section):
    """Section ``[ingest]``: the times of the rows that are sent.

    ``unit`` (``"s"``, ``"ms"``, ``"us"`` or ``"ns"``) is that of the numbers among the times, for
    sources without ``unit=``; without it numbers are ticks. ``clock`` names the field, or the
    fields, that name a device; then each device has its own time, in sources without ``clock=``
    that have these fields. ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are spans
    such as ``"6h"``, as in ``PushSource``.
    """

    title: ClassVar[str] = "ingest"

    unit: str | None = None
    clock: tuple[str, ...] = ()
    behind: str | None = None
    silent_after: str | None = None
    forget_after: str | None = None
    spread: str | None = None

    @classmethod
    def parse(cls, table: Any, title: str = "") -> Self:
        """Return the section that a table of a file describes; one field may stand alone."""
        if isinstance(table, Mapping) and isinstance(table.get("clock"), str):
            table = {**table, "clock": [table["clock"]]}
        return super().parse(table, title)

    @property
    def clock_spans(self) -> dict[str, str | None]:
        """The spans of the clocks of devices."""
        names = ("behind", "silent_after", "forget_after", "spread")
        return {name: getattr(self, name) for name in names}

    def check(self) -> None:
        """Refuse an unknown unit, and spans without a clock."""
        check_unit(self.unit)
        for name, length in self.clock_spans.items():
            if length is not None:
                span(length, f"[ingest] {name}", least=0)
            if length is not None and not self.clock:
                raise ArgumentError(
                    f"[ingest] {name} is about the clocks of devices, and there are none. Hint: "
                    'clock = "device" names the field that names a device.'
                )


@dataclasses.dataclass(frozen=True)
class StateSettings(Section):
    """Section ``[state]``: the folder of checkpoints and of the event log.

    Without ``folder`` nothing is durable. With ``durable = false`` a receipt does not wait for the
    disk. With ``keep_history``, a span such as ``"7d"``, the events of so much time stay in the
    folder, for a changed application. A run that has failed is restarted after ``restart_after``
    seconds, then after twice as many, up to ``restart_most``.
    """

    title: ClassVar[str] = "state"

    folder: Path | None = None
    durable: bool = True
    keep_history: str | None = None
    restart_after: float = at_least(0.001, 1.0)
    restart_most: float = at_least(0.001, 60.0)

    def check(self) -> None:
        """Check the span."""
        if self.keep_history is not None:
            span(self.keep_history, "[state] keep_history", least=1)


@dataclasses.dataclass(frozen=True)
class Limits(Section):
    """Section ``[limits]``: limits of a request, and of all requests that wait.

    ``body_bytes`` limits a body, counted after decompression, ``message_bytes`` a message of a
    WebSocket, and ``body_seconds`` the time until a body has arrived. A request has at most
    ``rows`` rows, a row ``fields`` fields, a string ``text`` characters. Together all requests that
    wait for their receipts have at most ``waiting_rows`` and ``waiting_bytes``; beyond that a
    sender gets 503, and is asked to retry after ``retry_after`` seconds. ``ahead`` is how many
    seconds a sender's clock may be ahead, for sources without ``ahead=``; ``"delay"`` stands for
    the delay of each source, but at least a second and at most a minute. A folder of state can be
    continued only with the same value.
    """

    title: ClassVar[str] = "limits"

    body_bytes: int = at_least(1, 16 * _MIB)
    message_bytes: int = at_least(1, _MIB)
    body_seconds: float = at_least(0.1, 30.0)
    rows: int = at_least(1, 100_000)
    fields: int = at_least(1, 256)
    text: int = at_least(1, 65536)
    waiting_rows: int = at_least(1, 1_000_000)
    waiting_bytes: int = at_least(1, 256 * _MIB)
    retry_after: float = at_least(0, 1.0)
    ahead: float | Literal["delay"] | None = at_least(0, "delay", or_word="delay")


@dataclasses.dataclass(frozen=True)
class DeadLetterSettings(Section):
    """Section ``[dead_letters]``: the folder of refused rows and bodies, and its size.

    Without ``folder`` they are in ``dead-letters`` in the folder of the state; without that, too,
    they are not written. A new file begins after about ``file_bytes``. When all files would have
    more than ``bytes``, the oldest is deleted.
    """

    title: ClassVar[str] = "dead_letters"

    folder: Path | None = None
    bytes: int = at_least(1, 64 * _MIB)
    file_bytes: int = at_least(1, 8 * _MIB)


@dataclasses.dataclass(frozen=True)
class ResultSettings(Section):
    """Section ``[results]``: rows kept of each query, and the numbers of readers and lookers.

    Of each query the last ``rows`` rows are kept, of at most ``bytes`` bytes in memory. All events
    that readers have been sent and have not taken have at most ``unread_bytes``.
    A reader without news gets a comment every ``keep_alive`` seconds. ``lookers`` is how many may
    see the live event-flow page at a time; with 0 there is no such page.
    """

    title: ClassVar[str] = "results"

    rows: int = at_least(1, 100_000)
    bytes: int = at_least(1, 256 * _MIB)
    unread_bytes: int = at_least(1, 64 * _MIB)
    keep_alive: float = at_least(0.1, 15.0)
    readers: int = at_least(1, 256)
    lookers: int = at_least(0, 8)


@dataclasses.dataclass(frozen=True)
class TokenSettings(Section):
    """Section ``[tokens.NAME]``: the hash of a token, and what its bearer may do.

    ``write`` are patterns of the streams that it may send to, ``sources`` patterns of the sources
    that it may name (by default only the token's own name); ``*`` stands for any characters.
    ``read`` permits to read results, metrics and diagnostics. ``rate`` is how many rows it may send
    in a second, ``burst`` how many at once, by default as many.
    """

    title: ClassVar[str] = "tokens"

    hash: str = secret()
    write: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    read: bool = False
    rate: float | None = at_least(0.001, None)
    burst: float | None = at_least(0, None)

    def check(self) -> None:
        """Refuse a hash of another form, which may be the token itself."""
        if not _HASH.fullmatch(self.hash):
            raise ArgumentError(
                "hash of a token is 'sha256:' and 64 hexadecimal digits, got another text. "
                "Hint: rxtemporal serve --new-token NAME makes a token and prints its section."
            )


@dataclasses.dataclass(frozen=True)
class MqttSection(Section):
    """Section ``[mqtt]``: a broker whose messages are pushed into a stream.

    ``stream`` may be absent if there is only one; ``unit`` is that of the numbers among its times.
    The other keys are those of ``rxt.from_mqtt``; the password is in a file.
    """

    title: ClassVar[str] = "mqtt"

    url: str
    topics: tuple[str, ...]
    client_id: str
    stream: str = ""
    input: str = ""
    username: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    version: int = at_least(3, 5)
    qos: int = at_least(0, 1)
    keepalive: int = at_least(5, 60)
    session_seconds: int = at_least(0, 7 * 24 * 3600)
    inflight: int = at_least(1, 2_000)
    unit: str | None = None

    def check(self) -> None:
        """Refuse a url with a password, which would be shown, and values that the feed refuses."""
        if "@" in self.url:
            raise ArgumentError(
                "[mqtt] url must not contain a user or a password. "
                "Hint: username and password_file."
            )
        if not self.client_id:
            raise ArgumentError(
                "[mqtt] client_id must not be empty. Hint: a name that stays the same."
            )
        check_unit(self.unit)
        self.make_settings()

    def make_settings(self) -> MqttSettings:
        """Return the settings of the feed."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["stream"], values["unit"]
        return MqttSettings(**values)


_SECTIONS: dict[str, type[Section]] = {
    "server": ServerSettings,
    "ingest": IngestSettings,
    "state": StateSettings,
    "limits": Limits,
    "dead_letters": DeadLetterSettings,
    "results": ResultSettings,
    "mqtt": MqttSection,
}


KINDS: dict[str, Callable[..., Sink]] = {
    "append_file": AppendFile,
    "sqlite": SqliteTable,
    "postgres": PostgresTable,
    "http": Http,
    "kafka": KafkaTopic,
    "mqtt": MqttTopic,
    "delta": DeltaTable,
    "iceberg": IcebergTable,
    "parquet_folder": ParquetFolder,
}
# they may have passwords
_SECRETS = frozenset({"dsn", "headers", "config", "password", "catalog", "storage_options"})
# of no type that a file has
_PYTHON = frozenset({"context"})
# arguments that say what a sink writes
_PLACES = ("path", "dsn", "catalog", "table")


@dataclasses.dataclass(frozen=True)
class SinkSettings:
    """Section ``[queries.NAME.sink]``: the kind of a sink, and the arguments of its class.

    >>> SinkSettings.parse({"kind": "sqlite", "path": "house.db", "table": "rows"}, "sink").make()
    SqliteTable('house.db', 'rows')
    """

    kind: str
    arguments: Mapping[str, Any]

    @classmethod
    def parse(cls, table: Any, title: str) -> SinkSettings:
        """Return what a table of a file describes; ``ArgumentError`` names what is wrong."""
        check_table(table, title)
        kind = table.get("kind")
        if kind not in KINDS:
            raise ArgumentError(
                f"[{title}] kind is one of {', '.join(KINDS)}, got {kind!r}. Hint: for other sinks "
                "use serve.app(…, sinks=…)."
            )
        arguments = {name: value for name, value in table.items() if name != "kind"}
        parameters = inspect.signature(KINDS[kind]).parameters
        names = [name for name in parameters if name not in _PYTHON]
        needed = [name for name in names if parameters[name].default is inspect.Parameter.empty]
        check_keys(table, title, ["kind", *names], needed)
        found = cls(kind, arguments)
        try:
            found.make()
        except (ArgumentError, TypeError) as error:
            raise ArgumentError(f"[{title}] {error}") from None
        return found

    @property
    def place(self) -> tuple[str, ...] | None:
        """The file or the table that is written; None for a sink whose place others may share."""
        named = {each: str(self.arguments[each]) for each in _PLACES if each in self.arguments}
        if "path" in named:
            named["path"] = str(Path(named["path"]).absolute())
        return (self.kind, *named.values()) if named else None

    def make(self) -> Sink:
        """Return a new sink; it connects to nothing before a run opens it."""
        return KINDS[self.kind](**self.arguments)

    def describe(self, title: str) -> Iterator[str]:
        """Yield the lines of a file with these values; secrets are hidden."""
        yield f"[{title}]"
        for name, value in {"kind": self.kind, **self.arguments}.items():
            shown = "(hidden)" if name in _SECRETS or (name == "url" and "@" in value) else value
            yield f"{name} = {json.dumps(shown, ensure_ascii=False)}"


def read_queries(table: Any) -> dict[str, SinkSettings]:
    """Return the sinks of the section ``[queries]``, by query."""
    if not isinstance(table, Mapping):
        raise ArgumentError(f"[queries] has a table for each query, got {type(table).__name__}")
    found = {}
    for name, each in table.items():
        if not isinstance(each, Mapping) or [*each] != ["sink"]:
            raise ArgumentError(
                f"[queries.{name}] has one key, sink. Hint: write [queries.{name}.sink], and kind "
                "in the line below it."
            )
        found[name] = SinkSettings.parse(each["sink"], f"queries.{name}.sink")
    written: dict[tuple[str, ...], str] = {}
    for name, sink in found.items():
        if (place := sink.place) is not None and (other := written.setdefault(place, name)) != name:
            raise ArgumentError(
                f"[queries.{name}.sink] writes what [queries.{other}.sink] writes, and each would "
                "undo what the other has written. Hint: give each its own path or table; union() "
                "makes one stream of several."
            )
    return found


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a service: one attribute for each section of the TOML file.

    >>> settings = Settings(server=ServerSettings(port=8123))
    >>> settings.limits.body_seconds
    30.0
    >>> settings.describe().splitlines()[:3]
    ['[server]', 'host = "127.0.0.1"', 'port = 8123']
    """

    server: ServerSettings = dataclasses.field(default_factory=ServerSettings)
    ingest: IngestSettings = dataclasses.field(default_factory=IngestSettings)
    state: StateSettings = dataclasses.field(default_factory=StateSettings)
    limits: Limits = dataclasses.field(default_factory=Limits)
    dead_letters: DeadLetterSettings = dataclasses.field(default_factory=DeadLetterSettings)
    results: ResultSettings = dataclasses.field(default_factory=ResultSettings)
    tokens: Mapping[str, TokenSettings] = dataclasses.field(default_factory=dict)
    mqtt: MqttSection | None = None
    queries: Mapping[str, SinkSettings] = dataclasses.field(default_factory=dict)
    """Sinks by query."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Settings:
        """Read a TOML file. ``ArgumentError``: an unknown key, or a value that is not allowed."""
        path = Path(path)
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ArgumentError(f"there is no file {path}. Hint: check the path.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ArgumentError(f"{path} is not valid TOML: {error}") from error
        try:
            return cls.parse(table)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> Settings:
        """Return the settings that the tables of a file describe."""
        sections: dict[str, Any] = {}
        for name, each in table.items():
            if name == "tokens":
                sections[name] = _read_tokens(each)
            elif name == "queries":
                sections[name] = read_queries(each)
            elif name in _SECTIONS:
                sections[name] = _SECTIONS[name].parse(each)
            else:
                raise _make_unknown_error(name, each)
        return cls(**sections)

    def change(self, section: str, **values: Any) -> Settings:
        """Return the settings with other values in one section."""
        changed = dataclasses.replace(getattr(self, section), **values)
        return dataclasses.replace(self, **{section: changed})

    def locate_dead_letters(self) -> DeadLetterSettings:
        """Return the section of dead letters with the folder in effect."""
        section, state = self.dead_letters, self.state.folder
        if section.folder is not None or state is None:
            return section
        return dataclasses.replace(section, folder=state / "dead-letters")

    def describe(self) -> str:
        """Return the settings in effect as a TOML file, without secrets."""
        effective = dataclasses.replace(self, dead_letters=self.locate_dead_letters())
        return "\n".join(effective._lines())

    def _lines(self) -> Iterator[str]:
        for name in _SECTIONS:
            if (section := getattr(self, name)) is not None:
                yield from section.describe()
                yield ""
        for name, token in self.tokens.items():
            yield from token.describe(f"tokens.{quote(name)}")
            yield ""
        for name, sink in self.queries.items():
            yield from sink.describe(f"queries.{quote(name)}.sink")
            yield ""


def _make_unknown_error(name: str, value: Any) -> ArgumentError:
    """Return the error for a section that there is not, or for a key in front of all sections."""
    if not isinstance(value, Mapping):
        homes = [each for each, kind in _SECTIONS.items() if name in kind.list_keys()]
        hint = "rxtemporal serve … --check prints all sections with their keys"
        if homes:
            hint = f"write [{homes[0]}] in the line above it"
        return ArgumentError(f"the key {name!r} is in no section. Hint: {hint}.")
    near = difflib.get_close_matches(name, [*_SECTIONS, "tokens", "queries"], 1)
    hint = f"did you mean [{near[0]}]? There" if near else "there"
    return ArgumentError(
        f"there is no section [{name}]. Hint: {hint} are {', '.join(_SECTIONS)}, "
        "tokens.NAME and queries.NAME.sink."
    )


def quote(name: str) -> str:
    """Return a key of a table as TOML has it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _read_tokens(table: Any) -> dict[str, TokenSettings]:
    if not isinstance(table, Mapping):
        raise ArgumentError(f"[tokens] has a table for each token, got {type(table).__name__}")
    return {name: TokenSettings.parse(each, f"tokens.{name}") for name, each in table.items()}
