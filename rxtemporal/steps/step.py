"""The contract of a step."""

from __future__ import annotations

from typing import Protocol

from rxtemporal.batch import EventBatch

__all__ = ["Step"]


class Step(Protocol):
    """One operator's state in one subscription.

    1. Batches come in order and keep the contract of ``EventBatch``; so do those returned.
    2. A returned batch has the operator's output schema, also when it has no rows.
    3. The returned CTI is the operator's output CTI for the CTI that came, and never goes back.
    4. However a stream is cut into batches, the rows returned describe the same history.
    5. After a batch only what can still affect the future is held; ``rows`` counts it.
    """

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take one batch and return what has become known."""

    @property
    def rows(self) -> int:
        """How many rows are held."""
