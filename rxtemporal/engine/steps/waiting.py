"""What waits in a step: the earliest time that its CTI still has to pass."""

from __future__ import annotations

from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.steps.state import Stateful


def earliest_due(held: Any) -> int | None:
    """Return the earliest start or end, in ticks, that waits for the CTI; None where nothing does.

    Before the CTI has reached it, nothing of what is held leaves. Found in what the step would
    save: queues say what is due first, batches which row starts first; where that is not it, the
    step has a ``next_due`` of its own. Looked for only when somebody asks, so that it costs a batch
    nothing; read without a lock, while the step may be at work.
    """
    if hasattr(held, "next_due"):
        own: int | None = held.next_due
        return own
    if isinstance(held, EventBatch):
        return int(held.start.min()) if len(held) else None
    if isinstance(held, Stateful):
        return _first([getattr(held, name) for name in held.held])
    return _first(list(held)) if isinstance(held, (list, tuple)) else None


def _first(parts: list[Any]) -> int | None:
    return min((time for part in parts if (time := earliest_due(part)) is not None), default=None)
