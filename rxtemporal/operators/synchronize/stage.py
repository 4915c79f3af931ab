"""Stage of synchronize, which counts the rows that came too late for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.codec import Saved
from rxtemporal.engine.stage import Run, Stage
from rxtemporal.ingress.batch_verdicts import LateRows
from rxtemporal.ingress.lateness import LateReason

if TYPE_CHECKING:
    from rxtemporal.operators.synchronize.step import SynchronizeStep


class SynchronizeStage(Stage):
    """Stage that counts its late rows in ``late``, and gives them to ``report_late``."""

    step: SynchronizeStep | None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.late: Counter[LateReason] = Counter()
        self.report_late: Callable[[LateRows], object] = lambda late: None

    def report_late_to(self, report_late: Callable[[LateRows], object]) -> None:
        """Give late rows to ``report_late``."""
        self.report_late = report_late

    def take(self, side: int, batch: EventBatch | None, run: Run) -> None:
        """Take a batch, or the end, and report the rows that came too late."""
        super().take(side, batch, run)
        step = self.step  # another thread may end the run
        if step is None or not step.unreported:
            return
        for rows in step.take_unreported():
            self.late.update(rows.reasons)
            self.report_late(rows)

    def load(self, data: Saved, *, is_copy: bool = False) -> None:
        """Resume from a state, also with the number of rows that have been late so far."""
        super().load(data, is_copy=is_copy)
        if self.step is not None:
            self.late = Counter(self.step.door.late)
