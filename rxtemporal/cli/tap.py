"""The command ``tap``: the results of a query, or the rows that a stream accepts, as they come."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from rxtemporal.cli.options import INTERRUPTED
from rxtemporal.cli.service_client import OpenReply, ServiceClient, StatusError
from rxtemporal.errors import ArgumentError, RxTemporalError

if TYPE_CHECKING:
    from rxtemporal.cli.service_client import ServiceClient


# a server that is silent for so many seconds, without a sign of life, is gone
SILENCE = 60.0
# seconds before a lost connection is made again, growing up to the most
_FIRST_PAUSE, _MOST_PAUSE = 0.5, 10.0
_LOSSES = (OSError, http.client.HTTPException)
# a line has an event's data, which may be many rows
_LONGEST = 256 << 20


class ServerEvent(NamedTuple):
    """One event of a server: its kind, and its data from JSON."""

    kind: str
    data: Any


class EventClient:
    """Client of the events of one query or stream, from the position ``begin``, if given.

    ``warn`` gets a sentence when the connection is lost.
    """

    def __init__(
        self, client: ServiceClient, path: str, begin: str | None, warn: Callable[[str], object]
    ) -> None:
        self._client, self._path, self._begin, self._warn = client, path, begin, warn
        self._position = ""
        self._pause, self._connected = _FIRST_PAUSE, False

    def read(self) -> Iterator[ServerEvent]:
        """Yield events until the server says that there are no more.

        A lost connection is made again at the position reached. ``RxTemporalError``: the first one
        cannot be made, or the server refuses.
        """
        while True:
            try:
                for event in self._read_once():
                    yield event
                    if event.kind == "end":
                        return
                why = "the server has closed the connection"
            except (*_LOSSES, StatusError) as error:
                why = self._explain(error)
            self._warn(f"{why}; trying again")
            time.sleep(self._pause * random.uniform(0.5, 1))
            self._pause = min(2 * self._pause, _MOST_PAUSE)

    def _explain(self, error: Exception) -> str:
        """Return why a connection was lost; raise an error that another one would not mend."""
        if not isinstance(error, StatusError):
            if not self._connected:
                raise self._client.explain_loss(error) from error
            return getattr(error, "strerror", None) or repr(error)
        if not self._connected or error.status not in (410, 503):
            raise error
        if error.status == 503:
            return "the server accepts no readers now"
        self._begin, self._position = "oldest", ""
        return "rows are missing, which the server does not keep any more"

    def _read_once(self) -> Iterator[ServerEvent]:
        """Yield the events of one connection."""
        with closing(self._open()) as reply:
            if reply.response.status == 204:
                yield ServerEvent("end", {})
                return
            self._connected, self._pause = True, _FIRST_PAUSE
            yield from self._list_events(reply)

    def _open(self) -> OpenReply:
        headers = {"Accept": "text/event-stream"}
        if self._position:
            headers["Last-Event-ID"] = self._position
        begin = "" if self._begin is None else f"?from={quote(self._begin, safe='')}"
        return self._client.open(self._path + begin, headers, SILENCE)

    def _list_events(self, reply: OpenReply) -> Iterator[ServerEvent]:
        """Yield events; the position is that of the last whole one."""
        # results without a position: some of those with one start, which come again after a break
        waiting: list[Any] = []
        for position, event in _read_events(reply):
            data = event.data
            if event.kind == "rows" and isinstance(data, list):
                waiting.extend(data)
                if not position:
                    continue
                data, waiting = waiting, []
            self._position = position or self._position
            yield ServerEvent(event.kind, data)


def _read_events(reply: OpenReply) -> Iterator[tuple[str, ServerEvent]]:
    """Yield each event of an answer with its id, which is empty if it has none."""
    event: dict[str, str] = {}
    while line := reply.response.readline(_LONGEST):
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name:
            event[name] = value
            continue
        if "data" in event:
            yield event.get("id", ""), ServerEvent(event.get("event", ""), _parse(event["data"]))
        event = {}


def _parse(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise RxTemporalError(
            "the server sent something that is not an event. "
            "Hint: is this the address of rxtemporal serve?"
        ) from error


# what a terminal would not print but obey
_CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
DESCRIPTION = (
    "Prints the results of a query of a server (rxtemporal serve): those that are "
    "kept, then each new one. For a stream it prints the rows that are accepted from now on. "
    "It reconnects after a lost connection; results continue at the same position. Ctrl-C "
    "ends it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("url", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument("name", metavar="STREAM", help="name of a query, or of a stream")
    parser.add_argument(
        "--token", default=os.environ.get("RXTEMPORAL_TOKEN"), metavar="TOKEN",
        help="token with read = true (default: the environment variable RXTEMPORAL_TOKEN)",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="begin", metavar="POSITION",
        help="the first start of the results: an ISO time with an offset, ticks, 'now' or "
        "'oldest' (default: oldest)",
    )  # fmt: skip
    parser.add_argument(
        "--now", action="store_true",
        help="print the results so far, which are not final, and each second those that changed",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print each row as a line of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C is the usual end."""
    from rxtemporal.cli.service_client import ServiceClient

    client = ServiceClient(options.url, options.token)
    try:
        _print_events(client, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print_events(client: ServiceClient, options: argparse.Namespace) -> None:
    path, is_query = _find(client, options.name)
    if options.begin is not None and not is_query:
        raise ArgumentError(
            f"{options.name!r} is a stream, and keeps no rows. "
            "Hint: --from is for the results of a query."
        )
    if options.now:
        path = _find_now(path, options, is_query=is_query)
    printer = _JsonPrinter() if options.json else _TextPrinter()
    for event in EventClient(client, path, options.begin, _warn).read():
        if event.kind in ("rows", "now"):
            if rows := [*_list_rows(event)]:
                printer.print(rows)
        elif event.kind == "gap":
            missed = event.data.get("missed")
            _warn("rows are missing: " + ("they are not kept any more" if missed is None
                                          else f"{missed} requests came too fast"))  # fmt: skip
        elif event.kind == "end":
            _warn("the query has completed")


def _find_now(path: str, options: argparse.Namespace, *, is_query: bool) -> str:
    """Return the path of the results so far of a query."""
    if not is_query:
        raise ArgumentError(
            f"{options.name!r} is a stream, and has no results. Hint: --now is for a query."
        )
    if options.begin is not None:
        raise ArgumentError(
            "--from is the first start of final results, and --now prints those that are not. "
            "Hint: one of the two."
        )
    return f"{path.removesuffix('/events')}/now?every=1s"


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
