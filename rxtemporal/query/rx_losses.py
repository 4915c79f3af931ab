"""Rx operators in front of a query that take its CTIs away."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from reactivex import Observable

from rxtemporal.errors import RxTemporalWarning

# modules of operators that drop items by the wall clock, and the name that users know
_PACKAGE = "reactivex.operators."
_DROPS = {
    "_debounce": "debounce",
    "_sample": "sample",
    "_throttlefirst": "throttle_first",
}
# a chain longer than this is not searched to its end
_MOST = 100


def warn_of_lost_ctis(observable: Any, name: str) -> None:
    """Warn if an Rx operator in front of a stream drops items by the wall clock.

    Such an operator also drops CTIs, and a stream without ``advance_time`` has no others.
    """
    found = next((each for each in _list_operators(observable) if each in _DROPS), None)
    if found is not None:
        warnings.warn(
            f"{_DROPS[found]} stands in front of the stream {name!r} and drops CTIs as it drops "
            "events, so results may never become final. Hint: put it behind the query "
            "(stream.pipe(…)), or give from_observable advance_time=, which makes CTIs out of the "
            "events that come through.",
            RxTemporalWarning,
            stacklevel=3,
        )


def _list_operators(observable: Any) -> Iterator[str]:
    """Yield the modules of the Rx operators that an observable is made with, the last one first."""
    waiting, seen = [observable], 0
    while waiting and seen < _MOST:
        seen += 1
        observable = waiting.pop()
        subscribe = getattr(observable, "_subscribe", None)
        module = str(getattr(subscribe, "__module__", ""))
        if module.startswith(_PACKAGE):
            yield module.removeprefix(_PACKAGE)
        waiting += _list_sources(subscribe)
        shared = getattr(observable, "source", None)
        if isinstance(shared, Observable):
            waiting.append(shared)


def _list_sources(subscribe: Any) -> list[Any]:
    """Return the observables that a subscribe function closes over."""
    sources = []
    for cell in getattr(subscribe, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
        values = value if isinstance(value, list | tuple) else (value,)
        sources += [each for each in values if isinstance(each, Observable)]
    return sources
