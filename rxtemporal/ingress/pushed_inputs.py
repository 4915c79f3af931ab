"""Inputs of a source that is pushed into: counters and sequence numbers, which a run saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rxtemporal.ingress.lateness import NO_CTI, LateReason
from rxtemporal.ingress.seen_numbers import SeenNumbers


class PushedInput:
    """State of one input of a source: its counters, and the sequence numbers that have come.

    It outlives the handles that are opened on the input. Its owner serialises calls.
    """

    __slots__ = (
        "accepted",
        "duplicates",
        "largest_lateness",
        "late",
        "name",
        "reached",
        "rejected",
        "seen",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.accepted = self.duplicates = self.rejected = 0
        self.late: Counter[LateReason] = Counter()
        self.largest_lateness = 0
        # the highest time that has come from it, of an event or a CTI
        self.reached = NO_CTI
        self.seen = SeenNumbers()

    def save(self) -> list[Any]:
        """Return the state as plain values."""
        late = {reason.value: count for reason, count in self.late.items()}
        counts = [self.accepted, self.duplicates, self.rejected, late]
        return [counts, self.largest_lateness, self.reached, self.seen.save()]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        counts, self.largest_lateness, self.reached, seen = state
        self.accepted, self.duplicates, self.rejected, late = counts
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
