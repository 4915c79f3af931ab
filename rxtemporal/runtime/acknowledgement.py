"""Where what is pushed into a run with an input log comes in: it returns when that is on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import abc

from rxtemporal.errors import BindingError
from rxtemporal.storage.event_log import Tape, count_pushed


class Acknowledging(abc.ObserverBase[Any]):
    """Stands before what takes a source's pushes, and lets no producer go before its own is safe.

    Producers wait outside of the run's lock, so those of several streams share a sync. ``failed``
    is told what keeps things from being logged; the producer is told, too. ``safe`` is called when
    something is.
    """

    def __init__(
        self,
        pusher: abc.ObserverBase[Any],
        tape: Tape,
        failed: Callable[[Exception], None],
        safe: Callable[[], object],
    ) -> None:
        self._pusher = pusher
        self._tape = tape
        self._failed = failed
        self._on_safe = safe

    def on_next(self, item: Any) -> None:
        """Push an event or a batch; it is on disk afterwards, or else an error is raised."""
        whole = self._tape.accepted + count_pushed(item)
        self._pusher.on_next(item)
        # of a batch that a hand-off takes in parts the run's end may have cut off some
        if self._tape.accepted < whole:
            raise BindingError(
                f"stream {self._tape.facts.name!r} has not accepted what was pushed, and it is not "
                "in the input log: the run has ended, or ends by it. Hint: wait() of the process "
                "tells why; a run with the same log goes on after what was accepted."
            )
        self._safe()

    def on_error(self, error: Exception) -> None:
        """Fail the source, which is not logged: in the next run it may be there again."""
        self._pusher.on_error(error)

    def on_completed(self) -> None:
        """End the source; on disk afterwards."""
        self._pusher.on_completed()
        self._safe()

    def _safe(self) -> None:
        try:
            self._tape.flush()
            self._on_safe()
        except Exception as error:
            self._failed(error)
            raise
