"""Laws that every query obeys, checked over given streams."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from rxtemporal.core.events import Cti, Event, EventShape, RowEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import ArgumentError
from rxtemporal.query.streamable import Streamable
from rxtemporal.testing.arrivals import TrialInput, draw_cuts, interleave, reorder
from rxtemporal.testing.histories import TOLERANCE
from rxtemporal.testing.tables import format_times, show_events, table
from rxtemporal.testing.trials import Arrangement, BrokenLawError, FindFault, Trial, shrink


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


Law = Callable[[Trial, Random], None]
# number of lines shown of a stream
_MOST_SHOWN = 60


def check_laws(
    query: Callable[..., Any],
    streams: Any,
    *,
    schema: Any = None,
    seed: int = 0,
    rounds: int = 10,
    complete: bool = True,
    restart: bool = True,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a query's laws over streams; raise an ``AssertionError`` if one does not hold.

    ``query`` is a function from streams to a stream, deterministic and with no state of its own.
    ``streams`` are its arguments: a mapping from parameter names to streams, a list, or a single
    stream. Each is a list of events with their CTIs, the text of a table, or a ``Streamable``.
    ``schema`` gives their fields in the same form, if the events do not show them. With
    ``complete`` each stream ends with a CTI at the end of time; without, with its last event.

    1. *Batch invariance*: with one event at a time, random cuts or one batch, the history is the
       same, and so is the output CTI after the same events.
    2. *Order insensitivity*: in any order that no CTI forbids, with start edges before their end
       edges and streams interleaved in any way, the history and the last CTI are the same.
    3. *CTI soundness*: no row of any of these runs breaks an earlier output CTI, and output CTIs
       never go back. Additional CTIs in the streams, wherever they are true, change no history. At
       the end of time the output's CTI is at the end of time, too.
    4. *Restart* (unless ``restart`` is false, or a stream's fields are not known): if all steps are
       saved and loaded into new ones after each batch, the history and the last CTI are the same.

    Histories are compared up to the last output CTI, floats within ``tolerance`` as in
    ``assert_same_history``. Cuts and orders are drawn ``rounds`` times from a ``random.Random``
    with this ``seed``. The message shows the smallest streams found that still break the law. An
    error that the query raises over the unchanged streams is raised as it is.

    >>> from rxtemporal import agg
    >>> def occupied(visits):
    ...     return visits.snapshot_window().aggregate(n=agg.count())
    >>> check_laws(occupied, {"visits": '''
    ...     interval  0..10  room=lab
    ...     start     4      room=lab
    ...     cti       5
    ...     point     7      room=hall
    ...     end       4..8   room=lab
    ... '''})
    """
    trial = make_trial(query, streams, schema, complete, tolerance)
    for name, law in _LAWS.items():
        if name != "restart" or (restart and trial.can_restart):
            for number in range(rounds):
                _check_law(trial, partial(_find_fault, law, f"{seed}, {name}, {number}"))


def _check_law(trial: Trial, find_fault: FindFault) -> None:
    broken = find_fault(trial, 0)
    if broken is not None:
        trial, broken = shrink(trial, broken, find_fault)
        raise AssertionError(_format_report(trial, broken)) from broken.__cause__


def _find_fault(law: Law, seed: str, trial: Trial, retry: int) -> BrokenLawError | None:
    # a string, because Random takes no tuple
    random = Random(f"{seed}, {retry}" if retry else seed)
    try:
        law(trial, random)
    except BrokenLawError as broken:
        return broken
    return None


def _draw_arrangement(trial: Trial, random: Random, events: list[Any] | None = None) -> Arrangement:
    """Arrange the events of all streams, interleaved and cut at random."""
    arrivals = interleave(events or [each.events for each in trial.inputs], random)
    return Arrangement(arrivals, draw_cuts(len(arrivals), random))


def _check_batch_invariance(trial: Trial, random: Random) -> None:
    law = "batch invariance"
    arrangement = _draw_arrangement(trial, random)
    single = Arrangement(arrangement.arrivals, range(1, len(arrangement.arrivals) + 1))
    alone = trial.outcome(law, single)
    cut = trial.outcome(law, arrangement)
    for end in arrangement.ends:
        reached, expected = cut.cti_after(end), alone.cti_after(end)
        if reached != expected:
            ctis = format_times([reached, expected])
            seen = (
                f"after {end} events the output CTI is {ctis[0]}, but {ctis[1]} if they come "
                "one at a time"
            )
            raise BrokenLawError(law, seen, arrangement)


def _check_order_insensitivity(trial: Trial, random: Random) -> None:
    moved = [reorder(each.events, random) for each in trial.inputs]
    trial.outcome("order insensitivity", _draw_arrangement(trial, random, moved))


def _check_cti_soundness(trial: Trial, random: Random) -> None:
    moved = [reorder(each.events, random, more_ctis=True) for each in trial.inputs]
    trial.outcome("CTI soundness", _draw_arrangement(trial, random, moved))


def _check_restart(trial: Trial, random: Random) -> None:
    trial.outcome("restart", _draw_arrangement(trial, random), restart=True)


_LAWS: dict[str, Law] = {
    "batch invariance": _check_batch_invariance,
    "order insensitivity": _check_order_insensitivity,
    "CTI soundness": _check_cti_soundness,
    "restart": _check_restart,
}


def _format_report(trial: Trial, broken: BrokenLawError) -> str:
    query = getattr(trial.query, "__qualname__", None) or repr(trial.query)
    lines = [f"{broken.law} does not hold for the query {query}: {broken.seen}"]
    lines.append("the smallest streams found, in the order in which they came; -- ends a batch:")
    return "\n".join([*lines, *_format_arrivals(trial, broken.arrangement)])


def _format_arrivals(trial: Trial, arrangement: Arrangement) -> list[str]:
    names = [trial.inputs[arrival.stream].name for arrival in arrangement.arrivals]
    width = max(map(len, names), default=0)
    events = show_events(arrival.event for arrival in arrangement.arrivals).splitlines()
    ends = set(arrangement.ends)
    lines = []
    for number, (name, event) in enumerate(zip(names, events, strict=True), 1):
        lines.append(f"  {name.ljust(width)}  {event}")
        if number in ends:
            lines.append("  --")
    left_out = len(lines) - _MOST_SHOWN
    return lines if left_out <= 0 else [*lines[:_MOST_SHOWN], f"  … and {left_out:,} more lines"]
