"""Arguments of ``check_laws``: streams in any form, by name or in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rxtemporal.core.events import Cti, Event, EventShape, RowEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import ArgumentError
from rxtemporal.query.streamable import Streamable
from rxtemporal.testing.arrivals import TrialInput
from rxtemporal.testing.tables import table
from rxtemporal.testing.trials import Trial


def make_trial(
    query: Callable[..., Any], streams: Any, schema: Any, complete: bool, tolerance: float
) -> Trial:
    """Make a trial of a query and of streams as in ``check_laws``."""
    if not callable(query):
        raise ArgumentError(f"a query is a function of streams, got {query!r}")
    by_name = isinstance(streams, Mapping)
    if by_name:
        names, values = list(streams), list(streams.values())
        schemas = [(schema or {}).get(name) for name in names]
    else:
        alone = _is_one_stream(streams)
        values = [streams] if alone else list(streams)
        schemas = [schema] if alone or schema is None else list(schema)
        schemas += [None] * (len(values) - len(schemas))
        names = _name_streams(query, len(values))
    inputs = [
        _read_stream(name, value, given, complete)
        for name, value, given in zip(names, values, schemas, strict=True)
    ]
    _check_call(query, inputs, by_name)
    return Trial(query, inputs, by_name, complete, tolerance)


def _is_one_stream(streams: Any) -> bool:
    """Return True if the argument is one stream and not a list of streams."""
    if isinstance(streams, (str, Streamable)):
        return True
    if not isinstance(streams, Sequence):
        raise ArgumentError(
            "streams are a mapping of names to streams, a list of them, or one alone, got "
            f"{streams!r}"
        )
    return not streams or isinstance(streams[0], (RowEvent, Cti))


def _read_stream(name: str, stream: Any, schema: Any, complete: bool) -> TrialInput:
    fields = None if schema is None else payload_schema(schema)
    if isinstance(stream, Streamable):
        fields = fields or stream.schema
        stream = stream.to_events(EventShape.EDGE, ctis=True, time="ticks")
    events: list[Event] = table(stream) if isinstance(stream, str) else list(stream)
    if complete and events[-1:] != [Cti(MAX_TIME)]:
        events.append(Cti(MAX_TIME))
    if fields is None:
        reader = PayloadReader()
        reader.learn([event.payload for event in events if isinstance(event, RowEvent)])
        fields = reader.schema
    return TrialInput(name, fields, events)


def _name_streams(query: Callable[..., Any], count: int) -> list[str]:
    """Return names for streams in a list: those of the query's parameters, if known."""
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = [p.name for p in inspect.signature(query).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        found = []
    return [*found[:count], *(f"stream {n + 1}" for n in range(len(found), count))]


def _check_call(query: Callable[..., Any], inputs: list[TrialInput], by_name: bool) -> None:
    try:
        signature = inspect.signature(query)
    except (TypeError, ValueError):
        return
    names = [each.name for each in inputs]
    try:
        signature.bind(**dict.fromkeys(names)) if by_name else signature.bind(*names)
    except TypeError as error:
        raise ArgumentError(
            f"the query takes {signature}, but the streams are {names if by_name else len(names)}: "
            f"{error}. Hint: a mapping's keys are the names of the query's parameters."
        ) from error
