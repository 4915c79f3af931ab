"""Inputs of a source that is pushed into: counters and sequence numbers, which a run saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.events import RowEvent
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.batch_verdicts import REASONS, Verdicts
from rxtemporal.ingress.clock_guard import ClockOffset
from rxtemporal.ingress.input_stats import SourceStats, check_name
from rxtemporal.ingress.lateness import NO_CTI, LateReason
from rxtemporal.ingress.seen_numbers import REPEAT, UNSURE, Seen, SeenNumbers

# the input of what is pushed into the source itself
OWN = "source"
# each input that has come costs memory for good
MOST_INPUTS = 100_000


def check_input(name: Any) -> str:
    """Return the name of an input; raise if it is none, or that of the source's own rows."""
    if check_name(name) == OWN:
        raise ArgumentError(
            f"no input can be called {OWN!r}: so the rows are called that are pushed without "
            "input=, and both would have the same sequence numbers. Hint: give it another name."
        )
    return name  # type: ignore[no-any-return]


class PushedInput:
    """State of one input of a source: its counters, and the sequence numbers that have come.

    It outlives the handles that are opened on the input. Its owner serialises calls.
    """

    __slots__ = (
        "accepted",
        "ahead",
        "clock",
        "duplicates",
        "largest_lateness",
        "late",
        "name",
        "reached",
        "rejected",
        "seen",
        "unsure",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.accepted = self.duplicates = self.unsure = self.rejected = self.ahead = 0
        self.late: Counter[LateReason] = Counter()
        # the smallest delay with which none of its rows would have been late
        self.largest_lateness = 0
        # the highest time that has come from it, of an event or a CTI, unless its clock was ahead
        self.reached = NO_CTI
        self.seen = SeenNumbers()
        self.clock = ClockOffset()

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

    def count(self, reason: LateReason | None, behind: int) -> None:
        """Count a row; ``behind`` is its distance from the highest time that made a CTI."""
        if reason is None:
            self.accepted += 1
        else:
            self.late[reason] += 1
        if behind > self.largest_lateness:
            self.largest_lateness = behind

    def count_rows(self, batch: EventBatch, verdicts: Verdicts, ahead: Bools | None) -> None:
        """Count complete rows with the verdicts on them."""
        self.accepted += len(batch) - len(verdicts.late)
        counts = np.bincount(verdicts.reason, minlength=len(REASONS)).tolist()
        self.late.update({r: n for r, n in zip(REASONS, counts, strict=True) if r and n})
        self.largest_lateness = max(self.largest_lateness, verdicts.behind)
        start = batch.start
        if ahead is not None:
            self.ahead += int(ahead.sum())
            start = start[~ahead]
        if len(start):
            self.reached = max(self.reached, int(start.max()))

    def stats(self, most_advanced: int, open_rows: int, is_open: bool) -> SourceStats:
        """Return the current counters; ``most_advanced`` is the highest time of any input."""
        return SourceStats(
            name=self.name,
            open=is_open,
            events=self.accepted + self.late.total(),
            late=self.late.total(),
            late_by_reason={reason: count for reason, count in self.late.items() if count},
            largest_lateness=self.largest_lateness,
            lag=None if self.reached == NO_CTI else most_advanced - self.reached,
            open_rows=open_rows,
            failed=None,
            duplicates=self.duplicates,
            unsure=self.unsure,
            rejected=self.rejected,
            ahead=self.ahead,
            clock_offset=self.clock.ticks,
        )

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
        found = self[name] = PushedInput(name)
        return found

    def save(self) -> list[Any]:
        """Return the states of all inputs as plain values."""
        return [[name, each.save()] for name, each in self.items()]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        """Continue from the result of ``save``."""
        for name, each in state:
            self[name].load(each)
