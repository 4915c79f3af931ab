"""Work in slices: a generator that yields now and then, and returns its result in the end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finish(slices: Generator[None, None, T]) -> T:
    """Do all the work at once, and return its result.

    >>> def add_up(numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         yield
    ...         total += number
    ...     return total
    >>> finish(add_up([1, 2, 3]))
    6
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
