"""The smallest streams over which something is still wrong."""

from __future__ import annotations

from collections.abc import Callable

from rxtemporal.core.events import Cti
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.testing.arrivals import rows_of
from rxtemporal.testing.trials import BrokenLawError, Trial

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
