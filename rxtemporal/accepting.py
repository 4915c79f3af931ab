"""In which order the events of several streams are accepted: as their times stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.ingress.batch_door import admit_merged
from rxtemporal.pacing import Pacing
from rxtemporal.readings import Reading


class Asked(Protocol):
    """What has to be asked for what comes next: one source, or several that stand together."""

    unread: bool
    place: int

    def next_place(self) -> int:
        """Return the place of the next event."""

    def step(self, until: int, inclusive: bool) -> None:
        """Accept what comes next, up to a place."""

    def advance(self) -> None:
        """Accept what comes next, as much as is at hand."""


def accept_next(waiting: Sequence[Asked], pacing: Pacing | None = None) -> None:
    """Accept the event with the lowest place of all streams next; ties go by order of the streams.

    What follows it on its own stream before any other stream's next event is accepted with it: no
    CTI comes to it from outside in between, so the verdicts are those of one event at a time. Where
    all have rows of frames at hand, these are merged and judged at once, with the same verdicts.
    With a pace it is waited for, and no more is accepted than it is time for.
    """
    places = [reading.next_place() for reading in waiting]
    if pacing is None and _accepted_at_once(waiting):
        return
    first = min(range(len(places)), key=lambda i: (places[i], i))
    others = [(place, i) for i, place in enumerate(places) if i != first]
    until, other = min(others, default=(MAX_TIME, len(places)))
    inclusive = first < other
    if pacing is not None and (due := pacing.wait_for(places[first])) < until:
        until, inclusive = due, True
    waiting[first].step(until, inclusive)


def _accepted_at_once(asked: Sequence[Asked]) -> bool:
    """Accept all rows that come before the first one that is not at hand yet, if all are frames.

    Of the stream whose rows at hand end first nobody knows what follows: so far and no farther.
    """
    waiting = [each for each in asked if isinstance(each, Reading)]
    frames = [steps for each in waiting if (steps := each.together_with(waiting))]
    if len(frames) < len(asked):
        return False
    until, last = min((steps.last, i) for i, steps in enumerate(frames))
    cuts = [steps.cut(until, i <= last) for i, steps in enumerate(frames)]
    numbers = {id(each): i for i, each in enumerate(waiting)}
    importers = [
        [numbers[id(other)] for other in each.importers if id(other) in numbers] for each in waiting
    ]
    doors = [steps.door for steps in frames]
    batches = admit_merged(doors, [rows for rows, _ in cuts], [at for _, at in cuts], importers)
    for reading, batch in zip(waiting, batches, strict=True):
        reading.push(batch)
    return True
