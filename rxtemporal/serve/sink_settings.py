"""Sinks that a configuration names for the queries of a service."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rxtemporal.brokers.kafka_topic import KafkaTopic
from rxtemporal.brokers.mqtt_topic import MqttTopic
from rxtemporal.errors import ArgumentError
from rxtemporal.serve.keys import check_keys, check_table
from rxtemporal.sinks.append_file import AppendFile
from rxtemporal.sinks.delta import DeltaTable
from rxtemporal.sinks.http import Http
from rxtemporal.sinks.iceberg import IcebergTable
from rxtemporal.sinks.parquet_folder import ParquetFolder
from rxtemporal.sinks.postgres import PostgresTable
from rxtemporal.sinks.sink import Sink
from rxtemporal.sinks.sqlite import SqliteTable

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
    return found
