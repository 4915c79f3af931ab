"""Branches of a pipe: one stream used twice and computed once, and a branch for each key."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable
from reactivex import operators as rx_operators

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.grouping import Ungroup
from rxtemporal.reactive.synchronize import composed_at

Batches = Observable[EventBatch]
Branch = Callable[[Batches], Batches]


def multicast(fn: Branch) -> Branch:
    """Give ``fn`` the stream as one that may be used several times and is computed once."""
    return rx_operators.publish(_branch(fn, "multicast"))


def apply(fn: Branch) -> Branch:
    """Run a whole branch for each key of a grouped stream, and end the grouping.

    The keys come first in the payload.
    """
    branch = multicast(_branch(fn, "apply"))
    end = Ungroup(keys_first=True, line=composed_at())
    return lambda source: end(branch(source))


def _branch(fn: Branch, operator: str) -> Branch:
    if not callable(fn):
        raise ArgumentError(f"{operator} takes a function from a stream to a stream, got {fn!r}")
    return fn
