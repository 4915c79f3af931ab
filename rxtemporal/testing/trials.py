"""Trials: a query run over given streams, with different orders and batches of their events."""

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
from rxtemporal.run.execution import Execution
from rxtemporal.testing.arrivals import Arrival, TrialInput, cut_batches, group_rows, interleave
from rxtemporal.testing.histories import Row, describe_difference, history
from rxtemporal.testing.stepper import Stepper
from rxtemporal.testing.tables import format_times


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
        run = Execution((result._node, None))
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
