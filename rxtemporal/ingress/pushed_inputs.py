"""Inputs of a source that is pushed into: counters and sequence numbers, which a run saves."""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.events import RowEvent
from rxtemporal.core.safe_text import brief, encodable
from rxtemporal.core.ticks import Time
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.batch_verdicts import Verdicts
from rxtemporal.ingress.input_state import InputState, SourceStats
from rxtemporal.ingress.lateness import NO_CTI, LateReason


@dataclasses.dataclass(frozen=True, slots=True)
class PushStats:
    """Counters of a ``PushSource``: the sums over its inputs, and each of these.

    ``cti`` is in the form of the source's times, None before the first; spans are ticks.
    ``ignored`` counts the fields that the schema does not have, by name, since the start;
    ``unsure`` the rows that were taken although their numbers may have come before.
    """

    accepted: int
    duplicates: int
    late: int
    rejected: int
    largest_lateness: int
    open_rows: int
    cti: Time | None
    ignored: Mapping[str, int]
    inputs: Mapping[str, SourceStats]
    unsure: int = 0


def check_name(name: Any, what: str = "an input's name") -> str:
    """Return a name; raise if a log cannot hold it."""
    if type(name) is str and name and name.isascii():
        return name
    if not isinstance(name, str) or not name or name != encodable(name):
        raise ArgumentError(f"{what} is a non-empty str of valid Unicode, got {brief(name)}")
    return name


# so many separate ranges of numbers are remembered, of about 100 bytes each
RANGES = 16_384
# so many rows ahead of the wall clock are remembered
EARLY = 1_024


class Seen(IntEnum):
    """The answer to a sequence number: 0 if it has come before, so its row is a repeat."""

    REPEAT = 0
    NEW = 1
    # it may have come before; its row is accepted
    UNSURE = 2


REPEAT, NEW, UNSURE = Seen


class NumberRanges:
    """Set of numbers as disjoint ranges, in bounded memory.

    All below ``known`` are in it. With more than ``RANGES`` ranges above, the lowest gap is given
    up: of the numbers from ``known`` up to ``mark`` nothing is known any more. Costs O(1) for
    numbers in order, else O(log ``RANGES``).

    >>> numbers = NumberRanges()
    >>> [numbers.add(number).name for number in (0, 1, 5, 1, 5, 2)]
    ['NEW', 'NEW', 'NEW', 'REPEAT', 'REPEAT', 'NEW']
    >>> numbers.known, numbers.mark, numbers.highest
    (3, 3, 5)
    """

    __slots__ = ("_begins", "_ends", "known", "mark")

    def __init__(self) -> None:
        self.known = self.mark = 0
        # above the mark, in order; each from its begin up to its end, exclusive
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def highest(self) -> int | None:
        """The highest number that has come; None before the first."""
        highest = self._ends[-1] if self._ends else self.mark
        return highest - 1 if highest else None

    def _find(self, number: int) -> Seen:
        if number < self.known:
            return REPEAT
        if number < self.mark:
            return UNSURE
        before = bisect_right(self._begins, number) - 1
        return REPEAT if before >= 0 and number < self._ends[before] else NEW

    def add(self, number: int) -> Seen:
        """Add a number, and say if it was there before."""
        ends = self._ends
        if ends:
            if ends[-1] == number:
                ends[-1] = number + 1
                return NEW
        elif number == self.mark == self.known:
            self.known = self.mark = number + 1
            return NEW
        found = self._find(number)
        if found is NEW:
            self.add_range(number, number + 1)
        return found

    def add_range(self, begin: int, end: int) -> None:
        """Add a range of which no number is there."""
        begins, ends = self._begins, self._ends
        place = bisect_right(begins, begin)
        if place and ends[place - 1] == begin:
            place -= 1
            ends[place] = end
        else:
            begins.insert(place, begin)
            ends.insert(place, end)
        if place + 1 < len(begins) and begins[place + 1] == end:
            ends[place] = ends.pop(place + 1)
            del begins[place + 1]
        if begins[0] == self.mark == self.known:
            self.known = self.mark = ends.pop(0)
            del begins[0]
        elif len(begins) > RANGES:
            self.mark = ends.pop(0)
            del begins[0]

    def save(self) -> list[Any]:
        """Return the bounds and the ranges as plain values."""
        return [self.known, self.mark, list(self._begins), list(self._ends)]

    @classmethod
    def load(cls, state: Sequence[Any]) -> NumberRanges:
        """Return the set from the result of ``save``."""
        numbers = cls()
        numbers.known, numbers.mark = state[0], state[1]
        numbers._begins, numbers._ends = list(state[2]), list(state[3])
        return numbers


class SeenNumbers:
    """The sequence numbers of one input, and the answer if a row's number has come before.

    A repeat has the number and the start of its row. So a number that is there, on a row that
    starts later than all rows of the input, is that of another row: the sender has begun to count
    anew, as a device does that has lost its memory. Rows up to then belong to the earlier count.
    Two counts are remembered; a row of an earlier one may be a repeat.

    >>> seen = SeenNumbers()
    >>> [seen.add(number, start).name for number, start in [(0, 10), (1, 20), (1, 20), (0, 30)]]
    ['NEW', 'NEW', 'REPEAT', 'UNSURE']
    >>> [seen.add(number, start).name for number, start in [(1, 20), (1, 40), (0, 30)]]
    ['REPEAT', 'NEW', 'REPEAT']
    """

    __slots__ = ("_before", "_early", "_latest", "_now", "_since", "_until")

    def __init__(self) -> None:
        self._now = NumberRanges()
        # of the rows that start after the first bound, and not after the second
        self._before = NumberRanges()
        self._since = self._until = NO_CTI
        # the highest start so far, without rows ahead of the wall clock; and these, in their order
        self._latest = NO_CTI
        self._early: dict[tuple[int, int], None] = {}

    def add(self, number: int, start: int, *, ahead: bool = False) -> Seen:
        """Add the number of a row; ``ahead`` says that it starts ahead of the wall clock."""
        if self._early and (number, start) in self._early:
            return REPEAT
        if start <= self._until:
            return self._before.add(number) if start > self._since else UNSURE
        found = self._now.add(number)
        if found is REPEAT:
            if start <= self._latest:
                return REPEAT
            self._begin_anew()
            self._now.add(number)
            found = UNSURE
        if ahead:
            self._note_early(number, start)
        elif start > self._latest:
            self._latest = start
        return found

    def add_all(self, numbers: Int64s, start: Int64s, ahead: Bools | None = None) -> Int64s:
        """Add the numbers of rows in order; return the answer to each.

        A negative number stands for a row without one, which is new.
        """
        if ahead is None and self._add_run(numbers, start):
            return np.full(len(numbers), NEW, np.int64)
        flags = [False] * len(numbers) if ahead is None else ahead.tolist()
        rows = zip(numbers.tolist(), start.tolist(), flags, strict=True)
        found = (NEW if n < 0 else self.add(n, at, ahead=is_ahead) for n, at, is_ahead in rows)
        return np.fromiter(found, np.int64, len(numbers))

    def _add_run(self, numbers: Int64s, start: Int64s) -> bool:
        """Add numbers that follow each other, above all others; return False for other ones."""
        first, last, highest = int(numbers[0]), int(numbers[-1]), self._now.highest
        is_above = first >= 0 if highest is None else first > highest
        if not is_above or self._early or int(start.min()) <= self._until:
            return False
        if last - first != len(numbers) - 1 or not (np.diff(numbers) == 1).all():
            return False
        self._now.add_range(first, last + 1)
        self._latest = max(self._latest, int(start.max()))
        return True

    def _begin_anew(self) -> None:
        self._before, self._now = self._now, NumberRanges()
        self._since, self._until = self._until, self._latest

    def _note_early(self, number: int, start: int) -> None:
        early = self._early
        early[number, start] = None
        if len(early) > EARLY:
            # most are in time by now
            self._early = {row: None for row in early if row[1] > self._latest}
        if len(self._early) > EARLY:
            del self._early[next(iter(self._early))]

    def save(self) -> list[Any]:
        """Return the state as plain values."""
        bounds = [self._since, self._until, self._latest]
        return [self._now.save(), self._before.save(), bounds, [*map(list, self._early)]]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        now, before, bounds, early = state
        self._now, self._before = NumberRanges.load(now), NumberRanges.load(before)
        self._since, self._until, self._latest = bounds
        # as it was saved, each is a list
        self._early = dict.fromkeys(map(tuple, early))


# the input of what is pushed into the source itself
OWN = "source"
# each input that has come costs memory for good
MOST_INPUTS = 100_000


def check_input(name: Any) -> str:
    """Return the name of an input; raise if it is not valid, or that of the source's own rows."""
    if check_name(name) == OWN:
        raise ArgumentError(
            f"no input can be called {OWN!r}: so the rows are called that are pushed without "
            "input=, and both would have the same sequence numbers. Hint: give it another name."
        )
    return name  # type: ignore[no-any-return]


# rows are rejected on several threads, of which those that read bodies do not wait for the query
_REJECTING = threading.Lock()


class PushedInput(InputState):
    """State of one input of a source, with the sequence numbers that have come."""

    __slots__ = ("accepted", "duplicates", "rejected", "seen", "sender", "unsure")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # as a log tells it; None for what is pushed without an input
        self.sender = None if name == OWN else name
        self.accepted = self.duplicates = self.unsure = self.rejected = 0
        self.seen = SeenNumbers()

    def judge_number(self, seq: int, event: RowEvent, *, ahead: bool) -> Seen:
        """Note the number of a row; return and count the answer if it has come before."""
        found = self.seen.add(seq, event.start, ahead=ahead)
        if found is UNSURE:
            self.unsure += 1
        elif not found:
            self.duplicates += 1
        return found

    def judge_numbers(self, seq: Int64s, start: Int64s, ahead: Bools | None) -> Int64s:
        """Note the numbers of rows; return and count the answers."""
        found = self.seen.add_all(seq, start, ahead)
        self.unsure += int((found == UNSURE).sum())
        self.duplicates += int((found == REPEAT).sum())
        return found

    def count_rejected(self, rows: int) -> None:
        """Count rows that were rejected, on any thread."""
        with _REJECTING:
            self.rejected += rows

    def count_rows(self, batch: EventBatch, verdicts: Verdicts, ahead: Bools | None) -> None:
        """Count complete rows with the verdicts on them."""
        self.accepted += len(batch) - len(verdicts.late)
        self.late.update(verdicts.count_reasons())
        self.note_behind(verdicts.behind)
        start = batch.start
        if ahead is not None:
            self.count_ahead(int(ahead.sum()))
            start = start[~ahead]
        if len(start):
            self.reach(int(start.max()))

    def stats(self, most_advanced: int, open_rows: int, is_open: bool) -> SourceStats:
        """Return the current counters; ``most_advanced`` is the highest time of any input."""
        return self.make_stats(
            self.accepted + self.late.total(), most_advanced,
            is_open=is_open, open_rows=open_rows,
            duplicates=self.duplicates, unsure=self.unsure, rejected=self.rejected,
        )  # fmt: skip

    def save(self) -> list[Any]:
        """Return the state as plain values."""
        late = {reason.value: count for reason, count in self.late.items()}
        counts = [self.accepted, self.duplicates, self.unsure, self.rejected, self.ahead, late]
        return [counts, self.largest_lateness, self.reached, self.seen.save()]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        counts, self.largest_lateness, self.reached, seen = state
        self.accepted, self.duplicates, self.unsure, self.rejected, self.ahead, late = counts
        self.late = Counter({LateReason(value): count for value, count in late.items()})
        self.seen.load(seen)


class PushedInputs(dict[str, PushedInput]):
    """The inputs of one source, by name. Holds an entry for each input there has been."""

    def __missing__(self, name: str) -> PushedInput:
        # in one step, since another thread may count what it rejects of the same input
        return self.setdefault(name, PushedInput(name))

    def save(self) -> list[Any]:
        """Return the states of all inputs as plain values."""
        return [[name, each.save()] for name, each in list(self.items())]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Continue from the result of ``save``."""
        for name, each in state:
            self[name].load(each)
