"""Collector of the metrics of processes, computed at each scrape."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rxtemporal.errors import BindingError
from rxtemporal.metrics.samples import Sample, list_samples
from rxtemporal.metrics.totals import Totals
from rxtemporal.runtime.process import Process


class Collector:
    """Collector of the samples of processes; it costs them nothing between scrapes.

    Counters of a process with the name of an earlier one continue those. Threads: any.

    >>> import rxtemporal as rxt
    >>> collector = Collector()
    >>> for life in range(2):
    ...     process = rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect(), name="visits")
    ...     with process:
    ...         collector.add(process)
    ...     found = {each.metric.name: each.value for each in collector.collect()}
    ...     print(found["events"], found["running"])
    1 0.0
    2 0.0
    """

    def __init__(self, *processes: Process, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._totals: dict[str, Totals] = {}
        for each in processes:
            self.add(each)

    def add(self, process: Process) -> None:
        """Add a process, or the next run of the same name. Idempotent.

        ``BindingError``: another one of this name is running.
        """
        with self._lock:
            self._add(process)

    def _add(self, process: Process) -> None:
        before = self._processes.get(process.name)
        if before is process:
            return
        if before is not None and before.running:
            raise BindingError(
                f"two running processes are called {process.name!r}, and their metrics would have "
                "the same labels. Hint: run(sink, name=...) gives each its own name."
            )
        self._processes[process.name] = process
        totals = self._totals.setdefault(process.name, Totals())
        if before is not None:
            # what it has counted since it was last asked
            totals.add_up(list_samples(before.diagnostics(), self._now()))
            totals.begin_life(continues=process.diagnostics().storage is not None)

    def remove(self, process: Process) -> None:
        """Forget a process and its counters."""
        with self._lock:
            if self._processes.get(process.name) is process:
                del self._processes[process.name], self._totals[process.name]

    def collect(self) -> list[Sample]:
        """Return the current samples of all processes."""
        with self._lock:
            return [
                sample
                for name, process in self._processes.items()
                for sample in self._totals[name].add_up(
                    list_samples(process.diagnostics(), self._now())
                )
            ]
