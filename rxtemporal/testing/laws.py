"""Laws that every query obeys, checked over given streams."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from random import Random
from typing import Any

from reactivex.scheduler import HistoricalScheduler
from reactivex.subject import Subject

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, Event, EventShape, RowEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, to_datetime
from rxtemporal.errors import ArgumentError, CtiViolationError, RxTemporalError
from rxtemporal.query.inputs import from_observable
from rxtemporal.query.streamable import Streamable
from rxtemporal.reactive.clock import Clock
from rxtemporal.run.execution import Execution
from rxtemporal.testing.arrivals import (
    Arrival,
    TrialInput,
    cut_batches,
    draw_cuts,
    group_rows,
    interleave,
    reorder,
)
from rxtemporal.testing.histories import TOLERANCE, Row, describe_difference, history
from rxtemporal.testing.stepper import Stepper
from rxtemporal.testing.tables import format_times, show_events, table


@dataclasses.dataclass(frozen=True, slots=True)
class Arrangement:
    """Order of events, and the ends of the runs into which they are cut."""

    arrivals: Sequence[Arrival]
    ends: Sequence[int]


class BrokenLawError(AssertionError):
    """Broken law: its name, a description of the failure, and the arrangement of the events."""

    def __init__(self, law: str, seen: str, arrangement: Arrangement) -> None:
        super().__init__(f"{law}: {seen}")
        self.law = law
        self.seen = seen
        self.arrangement = arrangement


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """Results of a run: batches, and the CTI reached after each number of arrivals."""

    batches: list[EventBatch]
    reached: list[tuple[int, int]]

    @cached_property
    def rows(self) -> list[Row]:
        """The canonical history."""
        return history(self.batches)

    @property
    def cti(self) -> int:
        """The last CTI."""
        return self.batches[-1].cti if self.batches else MIN_TIME

    def cti_after(self, position: int) -> int:
        """Return the CTI reached after this number of arrivals."""
        return max((cti for upto, cti in self.reached if upto <= position), default=MIN_TIME)


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """Query, its streams (by name or in order), and the tolerance for its results."""

    query: Callable[..., Any]
    inputs: list[TrialInput]
    by_name: bool
    complete: bool
    tolerance: float

    def compose(self) -> tuple[list[Subject[EventBatch]], Streamable]:
        """Return the subjects of new streams, and the query over them."""
        subjects: list[Subject[EventBatch]] = [Subject() for _ in self.inputs]
        streams = {
            each.name: from_observable(subject, schema=each.schema, name=each.name)
            for each, subject in zip(self.inputs, subjects, strict=True)
        }
        result = self.query(**streams) if self.by_name else self.query(*streams.values())
        if not isinstance(result, Streamable):
            raise ArgumentError(f"a query returns a Streamable, but this one returned {result!r}")
        return subjects, result

    def without(self, dropped: set[tuple[int, int]]) -> Trial:
        """Return the trial without some events, given by stream and number."""
        inputs = [
            each._replace(events=[e for i, e in enumerate(each.events) if (n, i) not in dropped])
            for n, each in enumerate(self.inputs)
        ]
        return dataclasses.replace(self, inputs=inputs)

    @cached_property
    def reference(self) -> Outcome:
        """Results with each stream as one batch, one stream after the other."""
        arrivals = interleave([each.events for each in self.inputs], None)
        arrangement = Arrangement(arrivals, [len(arrivals)])
        return self._check_sound(self._run(arrangement), arrangement)

    def outcome(self, law: str, arrangement: Arrangement, *, restart: bool = False) -> Outcome:
        """Return the results for this arrangement; raise if a law is broken."""
        reference = self.reference
        try:
            made = self._run_with_restarts(arrangement) if restart else self._run(arrangement)
        except Exception as error:
            seen = f"the query raised {type(error).__name__}: {error}\n(over one batch it does not)"
            raise BrokenLawError(law, seen, arrangement) from error
        self._check_sound(made, arrangement)
        if made.cti != reference.cti:
            ctis = format_times([made.cti, reference.cti])
            seen = f"the last output CTI is {ctis[0]}, but {ctis[1]} over one batch"
            raise BrokenLawError(law, seen, arrangement)
        names = ("the history of one batch", "this one")
        differs = describe_difference(reference.rows, made.rows, made.cti, self.tolerance, names)
        if differs:
            raise BrokenLawError(
                law, f"the history differs from that of one batch; {differs}", arrangement
            )
        return made

    def _run(self, arrangement: Arrangement) -> Outcome:
        out: list[EventBatch] = []
        failed: list[Exception] = []
        subjects, result = self.compose()
        # nothing is ahead of this wall clock: the CTIs are those of the test
        latest = HistoricalScheduler(to_datetime(MAX_TIME - TICK))
        run = Execution((result._node, None), clock=Clock(latest))
        run.start(out.append, failed.append, lambda: None)
        run.drain()
        made = Outcome(out, [])
        for position, stream, batch in cut_batches(
            self.inputs, arrangement.arrivals, arrangement.ends
        ):
            subjects[stream].on_next(batch)
            made.reached.append((position, made.cti))
        if self.complete:
            for subject in subjects:
                subject.on_completed()
        run.dispose()
        if failed:
            raise failed[0]
        return made

    @property
    def can_restart(self) -> bool:
        """True if the query's steps can be made, and so loaded, before the first event."""
        return all(node.schema is not None for node in self.compose()[1]._node.list_nodes())

    def _run_with_restarts(self, arrangement: Arrangement) -> Outcome:
        """Run with all steps saved and loaded into new ones after each batch."""
        stepper = Stepper(self.compose()[1])
        made = Outcome(stepper.drain(), [])
        for position, stream, batch in cut_batches(
            self.inputs, arrangement.arrivals, arrangement.ends
        ):
            name = self.inputs[stream].name
            if name in stepper.sources:
                made.batches.extend(stepper.push(name, batch))
            made.reached.append((position, made.cti))
            saved, stepper = stepper.save(), Stepper(self.compose()[1])
            stepper.load(saved)
        return made

    def _check_sound(self, made: Outcome, arrangement: Arrangement) -> Outcome:
        """Return the outcome if its batches keep their contract and reach the end of time."""
        cti = MIN_TIME
        for batch in made.batches:
            try:
                batch.check(cti)
            except CtiViolationError as error:
                raise BrokenLawError(
                    "CTI soundness", f"of the output, {error}", arrangement
                ) from error
            except RxTemporalError as error:
                raise BrokenLawError("the contract of batches", str(error), arrangement) from error
            cti = batch.cti
        try:
            made.rows  # noqa: B018 (computed here to report an edge without its start)
        except RxTemporalError as error:
            raise BrokenLawError("the contract of edges", str(error), arrangement) from error
        if self.complete and made.cti != MAX_TIME:
            seen = f"the streams have ended, but the output's CTI is only {_format_time(made.cti)}"
            raise BrokenLawError("liveliness", seen, arrangement)
        return made


def _format_time(time: int) -> str:
    return format_times([time])[0]


# a function that searches a trial for a fault, with the n-th drawing of orders and cuts
FindFault = Callable[[Trial, int], BrokenLawError | None]

# number of drawings for a smaller trial: it may fail only with other cuts
_WAYS = 8
# total number of tests
_MOST_TESTS = 800


def shrink(
    trial: Trial, broken: BrokenLawError, find_fault: FindFault
) -> tuple[Trial, BrokenLawError]:
    """Return a trial with as few rows and CTIs as possible that still has a fault.

    Remove half of the rows, then quarters and so on, while a fault remains.
    """
    tests = 0
    size = max(1, len(_rows(trial)) // 2)
    while True:
        at, before = 0, len(_rows(trial))
        while at < len(rows := _rows(trial)) and tests < _MOST_TESTS:
            smaller = trial.without({event for row in rows[at : at + size] for event in row})
            found = _search_fault(smaller, find_fault)
            if found is None:
                tests += _WAYS
                at += size
            else:
                tests += 1
                trial, broken = smaller, found
        if tests >= _MOST_TESTS or (size == 1 and len(_rows(trial)) == before):
            return trial, broken
        size = max(1, size // 2)


def _search_fault(trial: Trial, find_fault: FindFault) -> BrokenLawError | None:
    for way in range(_WAYS):
        try:
            found = find_fault(trial, way)
        except Exception:  # the query fails over fewer events, which is another fault
            return None
        if found is not None:
            return found
    return None


def _rows(trial: Trial) -> list[list[tuple[int, int]]]:
    """Return the rows and CTIs of all streams as (stream, number) of their events.

    The end of time is left out.
    """
    return [
        [(stream, number) for number in row]
        for stream, each in enumerate(trial.inputs)
        for row in group_rows(each.events)
        if each.events[row[0]] != Cti(MAX_TIME)
    ]


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
