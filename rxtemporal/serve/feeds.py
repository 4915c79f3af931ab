"""Feeds of a service: where the results of each query wait for their readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.engine.codec import dumps, loads, read_kind
from rxtemporal.errors import BindingError
from rxtemporal.query.application import AnySink, Application
from rxtemporal.run.process import Process
from rxtemporal.serve.results import ResultFeed
from rxtemporal.serve.settings import ResultSettings
from rxtemporal.sinks.sink import Sink, as_sink


def make_feed(settings: ResultSettings) -> ResultFeed:
    """Return a feed for the results of one query."""
    return ResultFeed(settings.rows, settings.bytes)


def make_sinks(
    application: Application, settings: ResultSettings, sinks: Mapping[str, AnySink]
) -> tuple[dict[str, ResultFeed], dict[str, SinkPair]]:
    """Return a feed for each query of an application, and a pair for each sink, by query."""
    unknown = [name for name in sinks if name not in application.queries]
    if unknown or not application.queries:
        raise BindingError(
            f"{application.name!r} has no query {', '.join(map(repr, unknown)) or 'at all'}; "
            f"it has {', '.join(map(repr, application.queries)) or 'none'}. "
            "Hint: application.query(name, stream) names one."
        )
    feeds = {name: make_feed(settings) for name in application.queries}
    pairs = {name: SinkPair(feeds[name], as_sink(sink)) for name, sink in sinks.items()}
    return feeds, pairs


def find_feeds(process: Process) -> dict[str, ResultFeed]:
    """Return the feeds among the sinks of a process, by query."""
    sinks = {each.name: each.sink for each in process._outlets}
    return {name: sink for name, sink in sinks.items() if isinstance(sink, ResultFeed)}


class SinkPair(Sink):
    """Sink of a feed and of another sink, which get the same batches; the other one first."""

    def __init__(self, feed: Sink, other: Sink) -> None:
        if other.shape is not feed.shape:
            raise BindingError(
                f"a sink of a service gets {feed.shape.name.lower()}s, got one of "
                f"{other.shape.name.lower()}s. Hint: write edges with a process of your own."
            )
        self._sinks = (other, feed)
        self._opened: list[Sink] = []
        # the time since which a write has been going on
        self._busy: float | None = None

    by_position = True

    @property
    def most_rows(self) -> int | None:  # type: ignore[override]
        """The most rows that the other sink takes at once."""
        return self._sinks[0].most_rows

    @property
    def numbered(self) -> bool:
        """True if positions are numbers of batches."""
        return self._sinks[-1].numbered

    @numbered.setter
    def numbered(self, numbered: bool) -> None:
        for sink in self._sinks:
            sink.numbered = numbered

    def describe(self) -> str:
        """Return the class of the sink beside the feed."""
        return self._sinks[0].describe()

    @property
    def away_since(self) -> float | None:  # type: ignore[override]
        """The time since which what the other sink writes to has not answered."""
        return self._sinks[0].away_since

    @property
    def busy_for(self) -> float:
        """The seconds that the current write has taken; 0 between two.

        Or those for which what it writes to has not answered: a sink may write in its own time.
        """
        began = self.away_since if self._busy is None else self._busy
        return 0.0 if began is None else time.monotonic() - began

    @property
    def restarts(self) -> int:  # type: ignore[override]
        """The number of restarts of both."""
        return sum(sink.restarts for sink in self._sinks)

    @property
    def undelivered_since(self) -> float | None:  # type: ignore[override]
        """The time at which one of both got the oldest row that is not delivered yet."""
        times = [sink.undelivered_since for sink in self._sinks]
        return min((time for time in times if time is not None), default=None)

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        for sink in self._sinks:
            sink.set_time_form(form)

    def set_next_number(self, number: int | None) -> None:
        """Tell both the number of the next new batch; None: others may still come again."""
        for sink in self._sinks:
            sink.set_next_number(number)

    def open(self, query: str, schema: pl.Schema) -> None:
        """Open both; if one cannot be opened, close the other."""
        self._opened = []
        for sink in self._sinks:
            try:
                sink.open(query, schema)
            except BaseException as error:
                self.close(error)
                raise
            self._opened.append(sink)

    def write(self, batch: EventBatch) -> None:
        """Write the batch into both."""
        self._busy = time.monotonic()
        try:
            for sink in self._sinks:
                sink.write(batch)
        finally:
            self._busy = None

    def close(self, error: BaseException | None) -> None:
        """Close both, the second one also if the first one fails."""
        first: BaseException | None = None
        for sink in self._opened:
            try:
                sink.close(error or first)
            except BaseException as failed:
                first = first or failed
        if first is not None:
            raise first

    def cancel(self, error: BaseException) -> None:
        """Make a ``write`` or ``close`` that waits raise this error."""
        for sink in self._sinks:
            sink.cancel(error)

    def in_callback(self) -> bool:
        """Return True if this thread is running user code that a sink called."""
        return any(sink.in_callback() for sink in self._sinks)

    def settle(self) -> bool:
        """Deliver what both hold."""
        settled = [sink.settle() for sink in self._sinks]
        return any(settled)

    def save(self) -> Callable[[], bytes]:
        """Return a function that returns the states of both."""
        states = [sink.save() for sink in self._sinks]
        return lambda: dumps("sinks", [each() if callable(each) else each for each in states])

    def load(self, state: bytes) -> None:
        """Resume both from their states; the other one begins if the feed was alone before."""
        if read_kind(state) != "sinks":
            self._sinks[-1].load(state)
            self.has_begun = True
            return
        states = loads("sinks", state, "the state of the sinks", "Hint: begin with a new folder.")
        for sink, each in zip(self._sinks, states, strict=True):
            if each:
                sink.load(each)
