"""Complete rows of one batch, as a CTI synchronizing subject takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rxtemporal.core.batch import EventBatch


class SubjectRows(NamedTuple):
    """A batch of complete rows that fit a subject, and their lowest and highest start.

    Without rows the lowest is the end of time, and the highest lies before its beginning.
    """

    batch: EventBatch
    low: int
    high: int
