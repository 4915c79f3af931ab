"""End of a run, as those who push see it."""

from __future__ import annotations

import threading

from rxtemporal.core.safe_text import describe_failure
from rxtemporal.errors import ProcessEndedError

COMPLETED = (
    "on_completed() and close() end a stream for good, also for later runs: at shutdown call "
    "process.stop() in their place; to begin anew, use a new folder"
)


class RunEnd:
    """End of a run: whether it accepts what is pushed, whether it has ended, and by which error.

    ``accepts`` is False as soon as nothing more is accepted; ``ended`` once nothing more is
    delivered. ``error`` is set before both, and stays the first one.

    Threads: a run that fails sets these while it holds the lock under which pushes are accepted, so
    a later push finds them. Any thread may read them.
    """

    def __init__(self) -> None:
        self.accepts = True
        self.ended = False
        self.error: BaseException | None = None
        self._lock = threading.Lock()

    def close(self, error: BaseException | None = None) -> None:
        """Accept nothing more; the error ends the run once the accepted rows are delivered."""
        with self._lock:
            if not self.ended:
                self._set(error)

    def end(self, error: BaseException | None = None) -> None:
        """End the run; nothing more is delivered. Idempotent."""
        with self._lock:
            if not self.ended:
                self._set(error)
                self.ended = True

    def _set(self, error: BaseException | None) -> None:
        if self.error is None:
            self.error = error
        self.accepts = False

    def refuse(self, stream: str, *, completed: bool = False) -> ProcessEndedError:
        """Return the error for the producer of an item that was not accepted.

        ``completed`` is True if the stream has completed, in this run or an earlier one.
        """
        error = self.error
        if error is not None:
            why = f"its run has failed with {describe_failure(error)}".removesuffix(".")
            hint = "mend the cause and run the query again"
        elif completed or self.accepts:
            why = "the stream has completed"
            hint = COMPLETED
        else:
            why = "its run has been stopped or has completed"
            hint = "run the query again; with resume= it continues where it stopped"
        refused = ProcessEndedError(
            f"stream {stream!r} has not accepted this event or batch: {why}. Hint: {hint}."
        )
        refused.__cause__ = error
        return refused
