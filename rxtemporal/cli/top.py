"""The command ``top``: a live table of a server's streams, queries and slowest devices."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from rxtemporal.cli.service_client import ServiceClient
from rxtemporal.errors import RxTemporalError
from rxtemporal.text.plain_text import align


class Answer(NamedTuple):
    """Diagnostics of a server: when they came (of a monotonic clock), and its own clock then."""

    content: dict[str, Any]
    time: float
    clock: datetime


class DiagnosticsClient:
    """Client of one server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = ServiceClient(url, token)
        self.url = self._client.url

    def get(self) -> Answer:
        """Return the current diagnostics. ``RxTemporalError`` says why there are none."""
        reply = self._client.get("/diagnostics")
        return Answer(self._parse(reply.body), time.monotonic(), _find_clock(reply.headers))

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            content = json.loads(body)
            content["service"]["counts"]
        except (ValueError, TypeError, KeyError) as error:
            raise RxTemporalError(
                f"the answer of {self.url} is not diagnostics. "
                "Hint: is this the address of rxtemporal serve?"
            ) from error
        return content  # type: ignore[no-any-return]


def _find_clock(headers: Message) -> datetime:
    """Return the server's clock, or this machine's if the server does not say."""
    try:
        return parsedate_to_datetime(headers["Date"]).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.now(UTC)


# devices that the last table has: those furthest behind
MOST_INPUTS = 10
_CLEAR = "\x1b[H\x1b[J"


class Grid(NamedTuple):
    """A table: the names of its columns, and its rows as text."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Board(NamedTuple):
    """All that one look at a server shows: a title, sentences, and tables."""

    title: str
    notes: list[str]
    grids: list[Grid]


DESCRIPTION = (
    "Shows the streams and queries of a server (rxtemporal serve): their CTIs, "
    "late events, the stream that holds back each query, and the ten devices that are "
    "furthest behind. Ctrl-C ends it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("url", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument(
        "--token", default=os.environ.get("RXTEMPORAL_TOKEN"), metavar="TOKEN",
        help="token with read = true (default: the environment variable RXTEMPORAL_TOKEN)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS",
        help="seconds between two updates (default: %(default)g)",
    )  # fmt: skip


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 3_600:
        raise argparse.ArgumentTypeError(f"from 0.1 to 3600 seconds, got {text}")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C is the usual end."""
    client = DiagnosticsClient(options.url, options.token)
    with contextlib.suppress(KeyboardInterrupt):
        first = client.get()
        if options.once:
            print_board(make_board(first))
        else:
            watch(client, first, options.every)
    return 0


def watch(client: DiagnosticsClient, answer: Answer, every: float) -> None:
    """Show a board again and again; a server that is gone is waited for."""
    with _open_display() as show:
        before: Answer | None = None
        trouble: list[str] = []
        while True:
            board = make_board(answer, before)
            show(board._replace(notes=[*trouble, *board.notes]))
            time.sleep(every)
            try:
                before, answer, trouble = answer, client.get(), []
            except RxTemporalError as error:
                before, trouble = None, [str(error).partition(" Hint: ")[0]]


# The board --------------------------------------------------------------------------------------


def make_board(answer: Answer, before: Answer | None = None) -> Board:
    """Return what an answer shows; rates are those since the answer before it."""
    service, run = answer.content["service"], answer.content.get("run")
    codes = ", ".join(f"{code}: {n:,}" for code, n in service["counts"]["requests"].items())
    durable = "durable" if service["durable"] else "not durable"
    title = (
        f"{service['name']}: {service['state']}, {durable}, "
        f"{service['counts']['restarts']:,} restarts; requests {codes or 'none'}"
    )
    notes = [] if service["last_error"] is None else [f"last error: {service['last_error']}"]
    if run is None:
        return Board(title, [*notes, "no run has begun"], [])
    grids = [
        _list_streams(answer, run, before), _list_clocks(answer, run),
        _list_queries(answer, run), _list_inputs(run),
    ]  # fmt: skip
    return Board(title, [*notes, *run["holding_back"]], [grid for grid in grids if grid.rows])


def _list_streams(answer: Answer, run: dict[str, Any], before: Answer | None) -> Grid:
    header = ("stream", "events", "rate", "late", "repeats", "waiting", "CTI", "lag", "for")
    inputs = answer.content["inputs"]
    rows = []
    for each in run["streams"]:
        state = " (ended)" if each["ended"] else " (idle)" if each["idle"] else ""
        repeats = sum(one["duplicates"] for one in each["inputs"].values())
        # of many inputs the server tells those furthest behind alone
        exact = inputs.get(each["name"], 0) <= len(each["inputs"])
        duplicates = f"{repeats:,}" if exact else f"{repeats:,}+"
        late, rate = sum(each["late"].values()), _find_rate(answer, before, each["name"])
        counts = (f"{each['events_in']:,}", rate, f"{late:,}", duplicates, f"{each['rows']:,}")
        rows.append((each["name"] + state, *counts, *_times(answer, each)))
    return Grid(header, rows)


def _list_clocks(answer: Answer, run: dict[str, Any]) -> Grid:
    """Return how many devices there are with times of their own, and those furthest behind."""
    header = ("clocks of devices", "devices", "behind", "silent", "CTI", "behind by")
    rows = []
    for stream in run["streams"]:
        if (of := stream.get("clocks")) is None:  # also of an earlier server
            continue
        counts = (f"{of[name]:,}" for name in ("devices", "behind", "silent"))
        rows.append((stream["name"], *counts, _format_time(answer, of["fleet"]), "-"))
        for each in of["furthest"]:
            name, time = f"{stream['name']}: {each['device']}", _format_time(answer, each["cti"])
            rows.append((name, "", "", "", time, _format_span(each["distance"], run)))
    return Grid(header, rows)


def _find_rate(answer: Answer, before: Answer | None, name: str) -> str:
    now, then = _count_events(answer, name), None if before is None else _count_events(before, name)
    if before is None or now is None or then is None or answer.time <= before.time:
        return "-"
    # a run that was started again may count from the beginning
    return f"{max(now - then, 0) / (answer.time - before.time):,.0f}"


def _count_events(answer: Answer, name: str) -> int | None:
    streams = answer.content.get("run", {}).get("streams", ())
    return next((each["events_in"] for each in streams if each["name"] == name), None)


def _list_queries(answer: Answer, run: dict[str, Any]) -> Grid:
    header = ("query", "rows out", "waiting", "CTI", "lag", "for", "held back by")
    behind = {each["query"]: each for each in run["stalls"]} if run["running"] else {}
    rows = []
    for each in run["queries"]:
        stall = behind.get(each["name"])
        by = "-" if stall is None else stall["stream"] or "an open row"
        counts = f"{each['rows_out']:,}", f"{each['rows']:,}"
        rows.append((each["name"], *counts, *_times(answer, each), by))
    return Grid(header, rows)


def _list_inputs(run: dict[str, Any]) -> Grid:
    header = ("furthest behind", "stream", "events", "late", "behind", "clock ahead")
    found = [
        (each["lag"], (each["name"], stream["name"], f"{each['events']:,}", f"{each['late']:,}",
                       _format_span(each["lag"], run), _format_span(each["clock_offset"], run)))
        for stream in run["streams"]
        for each in stream["inputs"].values()
        if each["lag"] is not None
    ]  # fmt: skip
    worst = sorted(found, key=lambda each: -each[0])[:MOST_INPUTS]
    return Grid(header, [row for _, row in worst])


def _times(answer: Answer, of: dict[str, Any]) -> tuple[str, str, str]:
    """Return a CTI, its distance from the server's clock, and how long it has not advanced."""
    from rxtemporal.core.spans import format_age

    cti, age, lag = of["cti"], format_age(of["cti_age"]), "-"
    if isinstance(cti, str) and (time := datetime.fromisoformat(cti)).year < datetime.max.year:
        lag = format_age((answer.clock - time).total_seconds())
    return _format_time(answer, cti), lag, age


def _format_time(answer: Answer, cti: Any) -> str:
    """Return a time, without its day if that is the server's."""
    if not isinstance(cti, str):
        return "-" if cti is None else f"{cti:,}"
    time = datetime.fromisoformat(cti)
    if time.year == datetime.max.year:
        return "the end"
    day, at = time.strftime("%Y-%m-%d "), time.strftime("%H:%M:%S")
    return at if time.date() == answer.clock.date() else day + at


def _format_span(span: float | None, run: dict[str, Any]) -> str:
    from rxtemporal.core.spans import format_age

    if span is None:
        return "-"
    return f"{span:,}" if run["time"] == "ticks" else format_age(span)


# The display ------------------------------------------------------------------------------------


def print_board(board: Board) -> None:
    """Print a board once, on a terminal with ``rich`` if that is installed."""
    with contextlib.suppress(ImportError):
        from rich.console import Console

        if sys.stdout.isatty():
            Console(highlight=False).print(_render(board))
            return
    print("\n".join(list_lines(board)))


def list_lines(board: Board) -> Iterator[str]:
    """Yield a board as plain text.

    >>> print(*list_lines(Board("house: running", [], [Grid(("a", "n"), [("hall", "12")])])),
    ...       sep=chr(10))
    house: running
    <BLANKLINE>
    a      n
    hall  12
    """
    yield board.title
    yield from (f"  {note}" for note in board.notes)
    for grid in board.grids:
        yield ""
        yield from align([grid.header, *grid.rows], right=range(1, len(grid.header)))


@contextlib.contextmanager
def _open_display() -> Iterator[Callable[[Board], None]]:
    """Yield a function that shows a board in place of the one before."""
    try:
        from rich.live import Live
    except ImportError:
        yield _print_again
        return
    if not sys.stdout.isatty():
        yield _print_again
        return
    with Live(screen=True, auto_refresh=False) as live:
        yield lambda board: live.update(_render(board), refresh=True)


def _print_again(board: Board) -> None:
    clear = _CLEAR if sys.stdout.isatty() else ""
    print(clear + "\n".join(list_lines(board)), end="\n\n", flush=True)


def _render(board: Board) -> Any:
    """Return a board for ``rich``; nothing in it is read as markup."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(board.title, "bold"), *(Text(f"  {each}") for each in board.notes)]
    for grid in board.grids:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for number, name in enumerate(grid.header):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in grid.rows:
            table.add_row(*map(Text, row))
        parts.append(table)
    return Group(*parts)
