"""The command ``tap``: the results of a query, or the rows that a stream accepts, as they come."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rxtemporal.cli.options import INTERRUPTED
from rxtemporal.errors import ArgumentError, RxTemporalError

if TYPE_CHECKING:
    from rxtemporal.cli.event_client import ServerEvent
    from rxtemporal.cli.service_client import ServiceClient

# what a terminal would not print but obey
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    tap = commands.add_parser(
        "tap",
        parents=[shared],
        help="print new results of a server's query, or new rows of its stream",
        description="Prints the results of a query of a server (rxtemporal serve): those that are "
        "kept, then each new one. For a stream it prints the rows that are accepted from now on. "
        "It reconnects after a lost connection; results continue at the same position. Ctrl-C "
        "ends it.",
    )
    tap.add_argument("url", metavar="URL", help="for example http://127.0.0.1:8000")
    tap.add_argument("name", metavar="STREAM", help="name of a query, or of a stream")
    tap.add_argument(
        "--token", default=os.environ.get("RXTEMPORAL_TOKEN"), metavar="TOKEN",
        help="token with read = true (default: the environment variable RXTEMPORAL_TOKEN)",
    )  # fmt: skip
    tap.add_argument(
        "--from", dest="begin", metavar="POSITION",
        help="the first start of the results: an ISO time with an offset, ticks, 'now' or "
        "'oldest' (default: oldest)",
    )  # fmt: skip
    tap.add_argument("--json", action="store_true", help="print each row as a line of JSON")
    tap.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C is the usual end."""
    from rxtemporal.cli.service_client import ServiceClient

    client = ServiceClient(options.url, options.token)
    try:
        _print_events(client, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_events(client: ServiceClient, options: argparse.Namespace) -> None:
    from rxtemporal.cli.event_client import EventClient

    path, is_query = _find(client, options.name)
    if options.begin is not None and not is_query:
        raise ArgumentError(
            f"{options.name!r} is a stream, and keeps no rows. "
            "Hint: --from is for the results of a query."
        )
    printer = _JsonPrinter() if options.json else _TextPrinter()
    for event in EventClient(client, path, options.begin, _warn).read():
        if event.kind == "rows":
            printer.print(list(_list_rows(event)))
        elif event.kind == "gap":
            missed = event.data.get("missed")
            _warn("rows are missing: " + ("they are not kept any more" if missed is None
                                          else f"{missed} requests came too fast"))  # fmt: skip
        elif event.kind == "end":
            _warn("the query has completed")


def _warn(words: str) -> None:
    print(f"rxtemporal: {words}", file=sys.stderr, flush=True)


def _find(client: ServiceClient, name: str) -> tuple[str, bool]:
    """Return the path of the events of a query or stream, and True if it is a query."""
    queries, streams = _list_names(client, "queries"), _list_names(client, "streams")
    if name in queries or name in streams:
        kind = "queries" if name in queries else "streams"
        return f"/{kind}/{quote(name, safe='')}/events", name in queries
    raise RxTemporalError(
        f"{client.url} has no query and no stream {name!r}. Hint: its queries are "
        f"{', '.join(queries) or 'none'}, and its streams {', '.join(streams) or 'none'}."
    )


def _list_names(client: ServiceClient, kind: str) -> list[str]:
    try:
        return [each["name"] for each in json.loads(client.get(f"/{kind}").body)[kind]]
    except (ValueError, TypeError, KeyError) as error:
        raise RxTemporalError(
            f"the answer of {client.url} is not a list of {kind}. "
            "Hint: is this the address of rxtemporal serve?"
        ) from error


def _list_rows(event: ServerEvent) -> Iterator[dict[str, Any]]:
    """Yield the rows of an event; those of a stream have their source in front."""
    if isinstance(event.data, list):
        yield from event.data
        return
    for row in event.data["rows"]:
        fields = row if isinstance(row, dict) else {"value": row}
        yield {"source": event.data["source"], **fields}


class _JsonPrinter:
    """Prints each row as a line of JSON."""

    def print(self, rows: list[dict[str, Any]]) -> None:
        lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
        print("\n".join(lines).translate(_CONTROLS), flush=True)


class _TextPrinter:
    """Prints rows in columns; a heading comes first, and again for other fields."""

    def __init__(self) -> None:
        self._fields: list[str] = []
        self._widths: list[int] = []

    def print(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            cells = [_format(name, value) for name, value in row.items()]
            if [*row] != self._fields:
                self._fields = [*row]
                heading = [_clean(name) for name in row]
                self._widths = [max(map(len, pair)) for pair in zip(heading, cells, strict=True)]
                self._print(heading)
            pairs = zip(self._widths, cells, strict=True)
            self._widths = [max(width, len(cell)) for width, cell in pairs]
            self._print(cells)
        sys.stdout.flush()

    def _print(self, cells: list[str]) -> None:
        pairs = zip(cells, self._widths, strict=True)
        print("  ".join(cell.ljust(width) for cell, width in pairs).rstrip())


def _format(name: str, value: Any) -> str:
    """Return a value as a cell.

    >>> _format("end_time", None), _format("x", 2.50), _format("x", [1])
    ('never ends', '2.5', '[1]')
    """
    if value is None:
        return "never ends" if name == "end_time" else "null"
    if isinstance(value, float):
        return f"{value:g}"
    return _clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _clean(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False).translate(_CONTROLS)
