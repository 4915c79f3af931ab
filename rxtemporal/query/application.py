"""Applications: named streams and queries, which run together as one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import TimeLike
from rxtemporal.core.time_forms import Unit, check_unit
from rxtemporal.errors import ArgumentError, BindingError, explain_calls
from rxtemporal.ingress.settings import AdvanceTime, read_advance_time
from rxtemporal.operators.plan import compose_again
from rxtemporal.operators.stream import Stream
from rxtemporal.query.adapters import AdapterEvents, check_factory, read_declared_settings
from rxtemporal.query.inputs import from_events
from rxtemporal.query.runnable_stream import WARN_AFTER
from rxtemporal.query.streamable import Streamable
from rxtemporal.sinks.sink import Sink, as_sink, is_sink

if TYPE_CHECKING:
    from reactivex import abc

    from rxtemporal.run.process import Process

AnySink = Sink | Callable[[EventBatch], Any]
Sinks = AnySink | Sequence[AnySink] | Mapping[str, AnySink]


class Application:
    """Named streams and queries, which can run together.

    A stream that several queries of one run use is read once, and steps that they share are
    computed once. Every run has its own state.

    Threads: name streams and queries from one thread at a time; any thread may call ``run``.

    >>> import rxtemporal as rxt
    >>> app = rxt.Application("house")
    >>> visits = app.define_stream("visits", [rxt.PointEvent(4, 2), rxt.PointEvent(7, 5)])
    >>> app.query("crowds", visits.where(lambda row: row["payload"] > 3)).to_events()
    [IntervalEvent(7, 8, 5)]
    >>> app.stream("crowds").to_point_events().to_events()
    [IntervalEvent(7, 8, 5)]
    """

    def __init__(self, name: str) -> None:
        self.name = _check_name(name, "an application")
        self._streams: dict[str, Streamable] = {}
        self._queries: dict[str, Streamable] = {}

    def __repr__(self) -> str:
        streams, queries = ", ".join(self._streams), ", ".join(self._queries)
        return f"Application({self.name!r}: streams {streams or '-'}; queries {queries or '-'})"

    def define_stream(self, name: str, source: Any, **options: Any) -> Streamable:
        """Name an input stream, and return it.

        ``source`` is a stream made by ``from_polars``, ``read_parquet``, ``from_observable`` …, or
        an iterable of events, which is passed with ``options`` to ``from_events``.
        """
        self._check_free(name)
        if isinstance(source, Streamable):
            if options:
                raise ArgumentError(
                    f"define_stream takes {', '.join(options)} only with an iterable of events. "
                    "Hint: this source is a stream already; pass them where it is made."
                )
            self._check_source(name, source)
            stream = source
        elif isinstance(source, Iterable):
            stream = from_events(source, name=name, **options)
        else:
            raise ArgumentError(
                f"define_stream takes a stream or an iterable of events, got {source!r}"
            )
        self._streams[name] = stream
        return stream

    def _check_source(self, name: str, stream: Streamable) -> None:
        if stream._node.source is None:
            raise BindingError(
                f"stream {name!r} is computed from others; an input stream must be a source. "
                f"Hint: name a computed stream with query({name!r}, …)."
            )
        for other, each in self._streams.items():
            if each._node.source is stream._node.source:
                raise BindingError(f"stream {name!r} already has the name {other!r}")

    def create_stream(
        self,
        name: str,
        adapter_factory: Any,
        config: Any,
        shape: EventShape,
        advance_time: AdvanceTime | None = None,
        *,
        schema: Any = None,
        unit: Unit | None = None,
    ) -> Streamable:
        """Name an input stream that reads from an adapter, and return it.

        ``adapter_factory`` has a method ``create(config, shape)``, which is called once for each
        run and returns an iterable or async iterable of events or batches; if the iterable has a
        ``close()``, it is called when the run ends. An optional method
        ``declare_advance_time_properties(config, shape)`` returns an
        ``AdapterAdvanceTimeSettings``; ``advance_time`` takes precedence over it. An optional
        method ``stream(config, shape, advance_time)`` returns a stream and is called instead of
        ``create``: the factories of ``rxtemporal.adapters`` have it. ``schema`` and ``unit``
        are passed to ``from_events``.
        """
        factory = check_factory(adapter_factory, config, shape)
        declared = read_declared_settings(factory, config, shape)
        settings = read_advance_time(advance_time) or declared
        if hasattr(factory, "stream"):
            if schema is not None:
                raise ArgumentError(
                    f"{type(factory).__name__} does not accept schema=. Hint: leave it out."
                )
            if unit is not None:
                raise ArgumentError(
                    f"{type(factory).__name__} does not accept unit=. Hint: set it in the config."
                )
            return self.define_stream(name, factory.stream(config, shape, settings))
        events = AdapterEvents(factory, config, shape)
        return self.define_stream(
            name, events, schema=schema, advance_time=settings, unit=check_unit(unit)
        )

    @explain_calls("query('warm', stream.where(pl.col('temp') > 25))")
    def query(self, name: str, streamable: Streamable) -> Streamable:
        """Name a query, and return it; other queries can use it like any stream."""
        self._check_free(name)
        if not isinstance(streamable, Streamable):
            raise ArgumentError(
                f"query takes a stream, got {streamable!r}. Hint: call a query that is a function "
                "with its streams: query(name, function(app.stream(…)))."
            )
        self._queries[name] = streamable
        return streamable

    @property
    def streams(self) -> Mapping[str, Streamable]:
        """The input streams by name."""
        return dict(self._streams)

    @property
    def queries(self) -> Mapping[str, Streamable]:
        """The queries by name."""
        return dict(self._queries)

    def stream(self, name: str) -> Streamable:
        """Return the input stream or the query of this name."""
        named = {**self._streams, **self._queries}
        if name not in named:
            raise BindingError(
                f"there is no stream {name!r} in {self.name!r}; {_list_names(named)}"
            )
        return named[name]

    def compose_again(self) -> None:
        """Compose all streams and queries again, after the clocks of a source have changed.

        ``ArgumentError``: a query does not fit streams in which each device has its own time.
        """
        named = {**self._streams, **self._queries}
        nodes = compose_again([each._node for each in named.values()])
        made = {name: Streamable(node) for name, node in zip(named, nodes, strict=True)}
        self._streams = {name: made[name] for name in self._streams}
        self._queries = {name: made[name] for name in self._queries}

    def run(
        self,
        *queries: Any,
        sinks: Sinks = (),
        name: str | None = None,
        record: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        evolve: bool = False,
        partial: bool = False,
        replay_from: TimeLike | None = None,
        keep_history: Span | None = None,
        warn_after: Span | None = WARN_AFTER,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Process:
        """Run queries into sinks together, and return the running process.

        ``queries`` are names, or queries as ``query`` returned them. ``sinks`` is a mapping from
        names to sinks, a sequence with one sink for each query in order, or a single sink for one
        query; sinks can also follow the queries as positional arguments. With a mapping the queries
        may be left out. The process starts, stops, fails and reports as one; ``name`` is its name,
        by default the application's. ``record``, ``log``, ``resume``, ``evolve``, ``partial``,
        ``replay_from``, ``keep_history``, ``warn_after`` and ``scheduler`` are as in
        ``Streamable.run``. Queries, with their sinks, may be added to a folder of ``resume``
        without ``evolve``.
        """
        from rxtemporal.query import runs
        from rxtemporal.run.checkpoint import make_resumption

        following = [each for each in queries if is_sink(each)]
        asked = [self._find_query(each) for each in queries if not is_sink(each)]
        return runs.start_process(
            name or self.name,
            self._pair(asked, following or sinks),
            self._streams,
            record=record,
            log=log,
            resumption=make_resumption(
                resume,
                evolve=evolve,
                partial=partial,
                replay_from=replay_from,
                keep_history=keep_history,
            ),
            warn_after=warn_after,
            scheduler=scheduler,
        )

    def _find_query(self, query: Any) -> str:
        for name, each in self._queries.items():
            if query is each or (isinstance(query, str) and query == name):
                return name
        raise BindingError(
            f"run takes queries of {self.name!r} and sinks, got {query!r}; "
            f"{_list_names(self._queries)}"
        )

    def _pair(self, asked: list[str], sinks: Any) -> dict[str, tuple[Stream, Sink]]:
        """Return each requested query with its sink, by name."""
        if isinstance(sinks, Mapping):
            given = {self._find_query(query): sink for query, sink in sinks.items()}
            asked = asked or list(given)
        else:
            listed = [sinks] if is_sink(sinks) else list(sinks)
            _check_counts(asked, listed)
            given = dict(zip(asked, listed, strict=True))
        given = {name: as_sink(sink) for name, sink in given.items()}
        _check_pairs(asked, given)
        return {name: (self._queries[name], given[name]) for name in asked}

    def _check_free(self, name: str) -> None:
        _check_name(name, "a stream")
        if name in self._streams or name in self._queries:
            kind = "stream" if name in self._streams else "query"
            raise BindingError(f"{self.name!r} already has a {kind} {name!r}. Hint: rename one.")


class QueryBinder:
    """A binder of producers to the names of an application's streams."""

    def __init__(self, application: Application) -> None:
        self.application = application

    def __repr__(self) -> str:
        return f"QueryBinder({self.application!r})"

    def bind_producer(
        self,
        name: str,
        adapter_factory: Any,
        config: Any,
        shape: EventShape,
        advance_time: AdvanceTime | None = None,
    ) -> Streamable:
        """Name an input stream that reads from an adapter, as ``Application.create_stream``."""
        return self.application.create_stream(name, adapter_factory, config, shape, advance_time)


def _check_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"the name of {what} must be a non-empty string, got {name!r}")
    return name


def _list_names(named: Mapping[str, Any]) -> str:
    return f"there are {', '.join(map(repr, named))}" if named else "there are none yet"


def _check_counts(asked: list[str], sinks: list[Any]) -> None:
    if len(asked) != len(sinks):
        raise BindingError(
            f"run got {len(asked)} queries and {len(sinks)} sinks. Hint: pass one sink for each "
            "query, in order, or a mapping from names to sinks."
        )


def _check_pairs(asked: list[str], given: Mapping[str, Sink]) -> None:
    if not asked:
        raise BindingError(
            "run got no query. Hint: app.query(name, stream) names one, and "
            "app.run(name, sinks=sink) runs it."
        )
    if len(set(asked)) < len(asked):
        raise BindingError(f"run got the same query twice: {', '.join(asked)}")
    if set(asked) != set(given):
        raise BindingError(
            f"run got the queries {', '.join(asked)}, but sinks for {', '.join(given) or 'none'}"
        )
    if len({id(sink) for sink in given.values()}) < len(given):
        raise BindingError("two queries share a sink. Hint: give each a sink of its own.")
