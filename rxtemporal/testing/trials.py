"""A query over given streams, run with its events arriving in one way or another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from reactivex.subject import Subject

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, CtiViolationError, RxTemporalError
from rxtemporal.query.inputs import from_observable
from rxtemporal.query.streamable import Streamable
from rxtemporal.runtime.execution import Execution
from rxtemporal.testing.arrivals import Arrival, Input, interleaved, pushed, rows_of
from rxtemporal.testing.histories import Row, difference, history
from rxtemporal.testing.stepper import Stepper
from rxtemporal.testing.tables import time_texts


@dataclasses.dataclass(frozen=True, slots=True)
class Arrangement:
    """Events in the order in which they come, and the ends of the runs into which they are cut."""

    arrivals: Sequence[Arrival]
    ends: Sequence[int]


class BrokenLawError(AssertionError):
    """A law does not hold: which, what was seen, and how the events came."""

    def __init__(self, law: str, seen: str, arranged: Arrangement) -> None:
        super().__init__(f"{law}: {seen}")
        self.law = law
        self.seen = seen
        self.arranged = arranged


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What came out of a run: batches, and the CTI that was reached after so many arrivals."""

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
        """Return the CTI that was reached after so many arrivals."""
        return max((cti for upto, cti in self.reached if upto <= position), default=MIN_TIME)


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """A query, the streams it is called with (by name or in order), and how results compare."""

    query: Callable[..., Any]
    inputs: list[Input]
    by_name: bool
    complete: bool
    tolerance: float

    def composed(self) -> tuple[list[Subject[EventBatch]], Streamable]:
        """Return the query over new streams, and the subjects that feed these."""
        subjects: list[Subject[EventBatch]] = [Subject() for _ in self.inputs]
        streams = {
            each.name: from_observable(subject, schema=each.schema, name=each.name)
            for each, subject in zip(self.inputs, subjects, strict=True)
        }
        result = self.query(**streams) if self.by_name else self.query(*streams.values())
        if not isinstance(result, Streamable):
            raise ArgumentError(f"a query returns a Streamable, and this one returned {result!r}")
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
        """What comes out when each stream comes as one batch, one stream after the other."""
        arrivals = interleaved([each.events for each in self.inputs], None)
        arranged = Arrangement(arrivals, [len(arrivals)])
        return self._sound(self._run(arranged), arranged)

    def outcome(self, law: str, arranged: Arrangement, *, restart: bool = False) -> Outcome:
        """Return what comes out when the events come in this way, if that is sound."""
        reference = self.reference
        try:
            made = self._restarted(arranged) if restart else self._run(arranged)
        except Exception as error:
            seen = f"the query raised {type(error).__name__}: {error}\n(not so over one batch)"
            raise BrokenLawError(law, seen, arranged) from error
        self._sound(made, arranged)
        if made.cti != reference.cti:
            ctis = time_texts([made.cti, reference.cti])
            seen = f"the last output CTI is {ctis[0]}, and over one batch {ctis[1]}"
            raise BrokenLawError(law, seen, arranged)
        names = ("one batch's history", "this one")
        differs = difference(reference.rows, made.rows, made.cti, self.tolerance, names)
        if differs:
            raise BrokenLawError(
                law, f"the history is another one than over one batch; {differs}", arranged
            )
        return made

    def _run(self, arranged: Arrangement) -> Outcome:
        out: list[EventBatch] = []
        failed: list[Exception] = []
        subjects, result = self.composed()
        run = Execution((result._node, lambda stream, gauge: stream))
        run.start(out.append, failed.append, lambda: None)
        run.drain()
        made = Outcome(out, [])
        for position, stream, batch in pushed(self.inputs, arranged.arrivals, arranged.ends):
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
    def restarts(self) -> bool:
        """Whether the query's steps can be made before the first event, and so be loaded."""
        return all(node.schema is not None for node in self.composed()[1]._node.every())

    def _restarted(self, arranged: Arrangement) -> Outcome:
        """Run with all steps saved, and loaded into new ones, after each batch."""
        stepper = Stepper(self.composed()[1])
        made = Outcome(stepper.drain(), [])
        for position, stream, batch in pushed(self.inputs, arranged.arrivals, arranged.ends):
            name = self.inputs[stream].name
            if name in stepper.sources:
                made.batches.extend(stepper.push(name, batch))
            made.reached.append((position, made.cti))
            saved, stepper = stepper.save(), Stepper(self.composed()[1])
            stepper.load(saved)
        return made

    def _sound(self, made: Outcome, arranged: Arrangement) -> Outcome:
        """Return the outcome if its batches keep their contract, and reach the end of time."""
        cti = MIN_TIME
        for batch in made.batches:
            try:
                batch.check(cti)
            except CtiViolationError as error:
                raise BrokenLawError(
                    "CTI soundness", f"of the output, {error}", arranged
                ) from error
            except RxTemporalError as error:
                raise BrokenLawError("the contract of batches", str(error), arranged) from error
            cti = batch.cti
        try:
            made.rows  # noqa: B018 (computed here, where an edge without its start can be told)
        except RxTemporalError as error:
            raise BrokenLawError("the contract of edges", str(error), arranged) from error
        if self.complete and made.cti != MAX_TIME:
            seen = f"the streams have ended, and the output's CTI is only {_time(made.cti)}"
            raise BrokenLawError("liveliness", seen, arranged)
        return made


def _time(time: int) -> str:
    return time_texts([time])[0]


# what finds a fault in a trial, in the n-th way of drawing orders and cuts, if there is one
Tested = Callable[[Trial, int], BrokenLawError | None]

# a smaller trial needs other cuts to fail in, so it is tested in so many ways
_WAYS = 8
# and so many tests are made in all
_MOST_TESTS = 800


def smallest(trial: Trial, broken: BrokenLawError, tested: Tested) -> tuple[Trial, BrokenLawError]:
    """Return a trial with as few rows and CTIs as possible for which a fault is still found.

    Takes out half of the rows, then quarters and so on, as long as something stays wrong.
    """
    tests = 0
    size = max(1, len(_rows(trial)) // 2)
    while True:
        at, before = 0, len(_rows(trial))
        while at < len(rows := _rows(trial)) and tests < _MOST_TESTS:
            smaller = trial.without({event for row in rows[at : at + size] for event in row})
            found = _tested_in_ways(smaller, tested)
            if found is None:
                tests += _WAYS
                at += size
            else:
                tests += 1
                trial, broken = smaller, found
        if tests >= _MOST_TESTS or (size == 1 and len(_rows(trial)) == before):
            return trial, broken
        size = max(1, size // 2)


def _tested_in_ways(trial: Trial, tested: Tested) -> BrokenLawError | None:
    for way in range(_WAYS):
        try:
            found = tested(trial, way)
        except Exception:  # over fewer events the query itself may fail, which is another matter
            return None
        if found is not None:
            return found
    return None


def _rows(trial: Trial) -> list[list[tuple[int, int]]]:
    """The rows and CTIs of all streams but the end of time, as (stream, number) of their events."""
    return [
        [(stream, number) for number in row]
        for stream, each in enumerate(trial.inputs)
        for row in rows_of(each.events)
        if each.events[row[0]] != Cti(MAX_TIME)
    ]
