"""An observer that acknowledges an event once it is durable in the event log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import abc

from rxtemporal.errors import BindingError
from rxtemporal.storage.event_log.log import Tape, count_pushed


class Acknowledger(abc.ObserverBase[Any]):
    """Observer whose ``on_next`` returns once the event is durable in the event log.

    Producers wait outside of the run's lock, so those of several streams share a commit. ``failed``
    is called with the error if an event cannot be logged; the producer gets it, too. ``safe`` is
    called when events have become durable.
    """

    def __init__(
        self,
        observer: abc.ObserverBase[Any],
        tape: Tape,
        failed: Callable[[Exception], None],
        safe: Callable[[], object],
    ) -> None:
        self._observer = observer
        self._tape = tape
        self._failed = failed
        self._on_safe = safe

    def on_next(self, item: Any) -> None:
        """Push an event or a batch; it is durable afterwards, or else an error is raised."""
        whole = self._tape.accepted + count_pushed(item)
        self._observer.on_next(item)
        # a hand-off takes a large batch in parts, and the run may have ended between them
        if self._tape.accepted < whole:
            raise BindingError(
                f"stream {self._tape.facts.name!r} has not accepted this event or batch, and it is "
                "not in the event log: the run has ended, or ends because of it. Hint: wait() of "
                "the process raises the error; a run with the same log continues after the last "
                "accepted event."
            )
        self._make_durable()

    def on_error(self, error: Exception) -> None:
        """Fail the source; this is not logged, since the source may work in the next run."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the source; its end is durable afterwards."""
        self._observer.on_completed()
        self._make_durable()

    def _make_durable(self) -> None:
        try:
            self._tape.flush()
            self._on_safe()
        except Exception as error:
            self._failed(error)
            raise
