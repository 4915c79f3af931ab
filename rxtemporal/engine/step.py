"""Steps: the base classes of operators at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.codec import Captured, Saved
from rxtemporal.engine.holdings import Hold, Moves, Selection
from rxtemporal.engine.state import IdCounter, Stateful

if TYPE_CHECKING:
    from rxtemporal.engine.cut_windows import Windows


class StepState(Protocol):
    """State of a step: counted, saved and loaded."""

    windows: Windows | None
    """The windows of the rows returned last, of a step that knows them."""

    def identify(self, made_for: str) -> None:
        """Note what the step is made for: it loads the state of no other."""

    @property
    def rows(self) -> int:
        """The number of rows held."""

    def capture(self) -> Captured:
        """Return the state as it is now, to be encoded later."""

    def save(self) -> bytes:
        """Return the state as bytes; see ``rxtemporal.engine.codec``."""

    def load(self, data: Saved) -> None:
        """Continue from the saved state of an equal step."""

    def load_copy(self, data: Saved) -> None:
        """Continue from the saved state of a step of the same query, whatever it was made for."""

    def keep_selected(self, selection: Selection) -> None:
        """Drop the state of all keys that are not selected."""

    def merge_from(self, other: Any, moves: Moves) -> None:
        """Take over the state of an equal step that holds other keys, at the same CTI."""

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys that hold the output CTI, and where; see ``Stateful``."""

    def list_counters(self) -> list[IdCounter]:
        """Return where the step notes the next edge id that it gives out."""


class Step(StepState, Protocol):
    """One operator's state in one subscription.

    1. Batches come in order and keep the contract of ``EventBatch``; so do returned batches.
    2. A returned batch has the operator's output schema, even if it has no rows.
    3. The returned CTI is the operator's output CTI for the batch's CTI, and never goes back.
    4. However a stream is cut into batches, the rows returned describe the same history.
    5. After a batch only rows that can still affect results are held; ``rows`` counts them.
    6. A step that loads the state of another continues as that one would have.
    """

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take one batch; return the rows and the CTI that are known now."""


class TwoInputStep(StepState, Protocol):
    """State of an operator with two inputs, whose batches may be interleaved in any order.

    The rules are those of ``Step``; the output CTI is that for the lower of the two input CTIs.
    """

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take one batch of the left input; return the rows and the CTI that are known now."""

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take one batch of the right input; return the rows and the CTI that are known now."""


class Stateless(Stateful):
    """Step that holds nothing."""

    rows = 0


# no time, for what has none
_NOT_THERE: Any = object()


def find_earliest_due(held: Any) -> int | None:
    """Return the earliest start or end, in ticks, that waits for the CTI; None if nothing waits.

    No row that is held leaves before the CTI has reached it. The time is read from the step's
    state: the first entry of queues, the first start of batches; a step for which that is wrong has
    its own ``next_due``. It is computed only on request, so that a batch costs nothing, and without
    a lock, while the step may be running.
    """
    own: int | None = getattr(held, "next_due", _NOT_THERE)
    if own is not _NOT_THERE:
        return own
    if isinstance(held, EventBatch):
        return int(held.start.min()) if len(held) else None
    if isinstance(held, Stateful):
        return _first([getattr(held, name) for name in held.held])
    return _first(list(held)) if isinstance(held, (list, tuple)) else None


def _first(parts: list[Any]) -> int | None:
    return min(
        (time for part in parts if (time := find_earliest_due(part)) is not None), default=None
    )
