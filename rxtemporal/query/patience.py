"""Notices in the log about calls and subscriptions that have waited for a while."""

from __future__ import annotations

from reactivex import abc
from reactivex.disposable import Disposable

from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import Span
from rxtemporal.errors import BindingError
from rxtemporal.operators.stream import Stream
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.stall_watch import StallWatch

# seconds after which a call that waits for the end of its sources says so
PATIENCE = 5.0
_DELIVER = "subscribe(on_next) or run(sink) deliver results as they come"
_log = get_logger(__name__)


def refuse_endless(stream: Stream, call: str) -> None:
    """Raise an error if a call waits for the end of a source that has none."""
    for node in stream._node.list_nodes():
        if node.source is not None and getattr(node.source, "endless", False):
            raise BindingError(
                f"{call} returns when its sources have ended, and {node.source.name!r} never "
                f"ends. Hint: {_DELIVER}; head(n) returns the first n rows."
            )


def start_notice(run: Execution, call: str) -> abc.DisposableBase:
    """Log, once, which sources a call waits for, if it waits for ``PATIENCE`` seconds.

    Only sources that are not known to end are waited for in this way.
    """
    if all(reader.source.bounded for reader in run.readers):
        return Disposable()
    return run.clock.schedule(PATIENCE, lambda: _tell(run, call))


def _tell(run: Execution, call: str) -> None:
    waited = [reader for reader in run.readers if not reader.ended]
    if run.ended or not waited:
        return
    names = ", ".join(repr(reader.name) for reader in waited)
    rows = sum(reader.meter.rows for reader in run.readers)
    ended = "has" if len(waited) == 1 else "have"
    _log.warning(
        f"{call} is still waiting: {names} {ended} not ended, after {rows:,} rows in. "
        f"Hint: a source that pushes ends with on_completed() or close(); {_DELIVER}."
    )


class _Results:
    """The results of a subscription, as the watch over stalls sees them."""

    name = "query"

    def __init__(self, run: Execution) -> None:
        self._run, self._meter = run, run.wiring.leaving[0][1].output
        self._seen, self._wrote = (0, 0), run.clock.elapsed()

    @property
    def cti(self) -> int:
        """The CTI of the results."""
        return self._meter.cti

    @property
    def wrote(self) -> float:
        """Seconds of the wall clock when a row or a CTI was last seen to come out."""
        if (seen := (self._meter.rows, self._meter.cti)) != self._seen:
            self._seen, self._wrote = seen, self._run.clock.elapsed()
        return self._wrote


def watch_results(run: Execution, warn_after: Span | None) -> StallWatch:
    """Return a watch that warns when a subscription gets neither rows nor CTIs; not started."""
    return StallWatch("subscribe", run, [_Results(run)], warn_after, _log)


def may_wait(run: Execution) -> bool:
    """Return True if a run may wait for a source: it pushes, or its end is not known."""
    return run.may_block or not run.pulls
