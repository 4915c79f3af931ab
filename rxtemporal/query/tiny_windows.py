"""Notice about windows of a few microseconds over datetimes: a bare number is one of ticks."""

from __future__ import annotations

from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import SECOND, UNITS, describe_span
from rxtemporal.operators.hopping_windows import HoppingWindows
from rxtemporal.operators.snap import SnapToWindowIntervals
from rxtemporal.operators.stream import Stream
from rxtemporal.runtime.execution import Execution

_log = get_logger(__name__)


def warn_of_tiny_windows(stream: Stream, run: Execution) -> None:
    """Log each window shorter than a second that is no whole number of milliseconds.

    ``tumbling_window(60)`` is one of 60 microseconds where times are datetimes. In ticks any
    length is usual. The text is the same for ``"60us"``, for a plan does not know how it was given.
    """
    if run.time == "ticks":
        return
    for node in stream._node.list_nodes():
        operator = node.operator
        if isinstance(operator, HoppingWindows | SnapToWindowIntervals):
            length = operator.duration
            if length < SECOND and length % UNITS["ms"]:
                name = getattr(operator, "window", operator.name)
                _log.warning(
                    f"{name} over datetimes has windows of {describe_span(length)}, microseconds: "
                    f"a number without a unit counts them. Hint: '{length}s' or '{length}ms' name "
                    "a unit."
                )
