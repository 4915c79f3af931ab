"""Number of forks that led to this process: it tells what was made in a parent of it."""

from __future__ import annotations

import os


class ForkCount:
    """Count of the forks on the way from the first process to this one.

    What is made with another ``count`` belongs to a parent. Reading it costs a tenth of
    ``os.getpid``.
    """

    def __init__(self) -> None:
        self.count = 0
        os.register_at_fork(after_in_child=self._add)

    def _add(self) -> None:
        self.count += 1


FORKS = ForkCount()
FORKED = (
    "a run belongs to the process that started it, and this one was forked from that: it can push "
    "nothing into the run, its log or its recording. Hint: push in the process that runs the "
    "query, or start others with multiprocessing's method spawn."
)
