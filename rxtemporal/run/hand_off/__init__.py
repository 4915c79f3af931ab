"""The bounded hand-off between ingest and query.

With a hand-off, a source that pushes is a producer and the query is its consumer. The door still
judges each event in the order of arrival: on the producer's thread, or, if nobody can tell, later
and many at once (see ``rxtemporal.reactive.inbox``). Accepted rows then wait in a bounded queue,
and a thread of the run takes all waiting rows as one batch, pushes it through the query and writes
the results to the sink. So a hand-off never changes a verdict, and a query under load sees larger
batches.

1. A source's rows, CTIs and end keep the order in which they were accepted. Of several sources the
   one whose rows have waited longest is served first.
2. A source without a hand-off in the same run is served in the same order; its producer waits until
   the query has processed its rows, as in a run that has no hand-off.
3. When a queue is full its producer waits in front of the door (``BLOCK``), or new rows go to disk
   behind the waiting ones (``SPILL``).
4. An error of a source is delivered after all rows accepted before it. An error of the
   query releases all waiting producers at once.
"""

from __future__ import annotations

from rxtemporal.run.hand_off.bounded_queue import BoundedQueue, Producer
from rxtemporal.run.hand_off.buffer import QueueCopy
from rxtemporal.run.hand_off.consumer import Consumer
from rxtemporal.run.hand_off.gate import StreamLock

__all__ = ["BoundedQueue", "Consumer", "Producer", "QueueCopy", "StreamLock"]
