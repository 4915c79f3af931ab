"""The bounded hand-off between ingest and query.

A source that pushes has its verdicts at the door, on the producer's thread, in the order in which
events are accepted. With a hand-off the accepted rows then wait in a line of bounded length, and a
thread of the run takes all that waits as one batch, puts it through the query and gives the results
to the sink. So nothing that the hand-off does changes a verdict, and a loaded query sees larger
batches.

1. Each source's rows, CTIs and end go on in the order in which they were accepted. Of several
   sources the one whose rows have waited longest is served first.
2. A source without a hand-off in the same run is served in the same order, and its producer waits
   until the query has had its rows, as in a run that has no hand-off.
3. When a line is full its producer waits before the door (``BLOCK``), or its rows go to disk behind
   those that wait (``SPILL``).
4. An error of a source comes after everything that was accepted before it. An error of the query
   ends all waiting at once.
"""

from __future__ import annotations

from rxtemporal.runtime.hand_off.bounded_queue import Line
from rxtemporal.runtime.hand_off.consumer import Drain

__all__ = ["Drain", "Line"]
