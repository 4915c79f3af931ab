"""Live event-flow page: what it reads from a running process while somebody looks at it.

Nothing is kept, and nothing costs anything, before the first looker comes and after the last one
has gone.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.log import get_logger
from rxtemporal.debug.columns import cut_text
from rxtemporal.debug.data import VERSION
from rxtemporal.debug.live_nodes import News, list_nodes
from rxtemporal.debug.live_rows import encode_late
from rxtemporal.debug.newest import Newest
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.runtime.process import Process
from rxtemporal.runtime.stall_search import find_stalls

_log = get_logger(__name__)


@dataclasses.dataclass
class Place:
    """Numbers that a looker has read: of rows and CTIs of each node, and of late events."""

    rows: list[int]
    ctis: list[int]
    late: int = 0


class LiveFlow:
    """The newest rows of each node of a running process, from ``open`` to ``close``.

    A step is a batch that enters the query. Threads: any.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._execution = process._execution
        self.nodes = list_nodes(self._execution)
        self._late: Newest[tuple[int, LateEvent]] = Newest()
        self._lock = threading.Lock()
        self._step = -1
        self._listener: Any = None

    def open(self) -> None:
        """Begin to keep the newest rows."""
        self._listener = self.process.late.subscribe(self._note_late)
        for node in self.nodes:
            node.begin()
            node.watch(partial(self._note, node.number))

    def close(self) -> None:
        """Keep nothing more."""
        for node in self.nodes:
            node.watch(None)
        if self._listener is not None:
            self._listener.dispose()

    def _note(self, number: int, batch: EventBatch) -> None:
        """Keep a batch; never raises, for it is called in the middle of the run."""
        try:
            with self._lock:
                self._step += self.nodes[number].node.source is not None
                self.nodes[number].newest.put(self._step, batch)
        except Exception:
            _log.exception("the live page cannot keep a batch", node=number)

    def _note_late(self, late: LateEvent) -> None:
        with self._lock:
            self._late.put((self._step, late))

    @property
    def known(self) -> int:
        """The number of nodes whose fields are known; if it grows, all has to be read again."""
        return sum(each.schema is not None for each in self.nodes)

    def read_all(self, title: str) -> tuple[dict[str, Any], Place]:
        """Return the plan with all rows that are kept, and the place after them."""
        place = Place([0] * len(self.nodes), [0] * len(self.nodes))
        plan, part = self._describe(title), self.read(place)
        nodes = [{**a, **b} for a, b in zip(plan["nodes"], part["nodes"], strict=True)]
        return {**plan, **part, "nodes": nodes}, place

    def _describe(self, title: str) -> dict[str, Any]:
        """Return the plan, without rows and counters."""
        numbers = {id(each.node): each.number for each in self.nodes}
        outputs = [numbers[id(node)] for node, _ in self._execution.wiring.leaving]
        nodes = [
            {
                **each.describe([numbers[id(below)] for below in each.node.inputs]),
                "output": each.number in outputs,
            }
            for each in self.nodes
        ]
        delays = {each.name: each.node.cti_delay for each in self.nodes if each.reader}
        return {
            **describe_shell(title), "time": self._execution.time, "output": outputs[0],
            "nodes": nodes, "delay": delays,
        }  # fmt: skip

    def read(self, place: Place) -> dict[str, Any]:
        """Return the counters of each node, and what is new since ``place``, which moves on."""
        execution = self._execution
        stalls = find_stalls(execution, [each.name for each in self.process._outlets])
        with self._lock:
            step, late = self._step, self._late.read(place.late)
            news = [
                News(each.newest.read(rows), each.newest.ctis.read(ctis))
                for each, rows, ctis in zip(self.nodes, place.rows, place.ctis, strict=True)
            ]
            place.rows = [each.newest.count for each in self.nodes]
            place.ctis = [each.newest.ctis.count for each in self.nodes]
            place.late = self._late.count
        holding = {each.stream for each in stalls}
        counted = [
            {
                **each.read(new, step, execution.time),
                "holdsBack": each.reader is not None and each.name in holding,
            }
            for each, new in zip(self.nodes, news, strict=True)
        ]
        return {
            "step": step, "steps": step + 1, "time": execution.time, "nodes": counted,
            "sentence": self._write_sentence([str(each) for each in stalls]),
            "arrivals": list(self._list_late(late)),
        }  # fmt: skip

    def _write_sentence(self, stalls: Sequence[str]) -> str:
        if self.process.error is not None:
            return "The run has failed."
        if self.process.ended:
            return "The run has ended: everything is final."
        waits = [f"{each[:1].upper()}{each[1:]}." for each in stalls]
        return " ".join([*waits, *self._count_late()]) or "Nothing is held back."

    def _count_late(self) -> Iterator[str]:
        for each in self.nodes:
            if each.reader is not None and (late := sum(each.reader.door.late.values())):
                yield f"Of {each.reader.door.events:,} events of {each.name!r}, {late:,} came late."

    def _list_late(self, late: Sequence[tuple[int, LateEvent]]) -> Iterator[dict[str, Any]]:
        """Yield the late events of each stream."""
        for node in self.nodes:
            own = [each for each in late if each[1].source == node.name]
            if node.reader is not None and own:
                yield encode_late(node.number, node.name, own, node.schema or pl.Schema())


def describe_shell(title: str, events: str = "debug/events") -> dict[str, Any]:
    """Return the data of a live page before its first event: ``events`` is where it asks."""
    return {
        "version": VERSION, "title": cut_text(title), "live": True, "events": events,
        "time": "datetime", "zone": "UTC", "every": 1, "steps": 0, "sampled": None, "sentence": "",
        "output": 0, "nodes": [], "arrivals": [], "delay": {}, "latency": None, "diff": None,
    }  # fmt: skip
