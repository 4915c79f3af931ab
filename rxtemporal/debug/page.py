"""Event-flow page of a captured run: one HTML file, and what has been written."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from rxtemporal.debug.bundle import build_page
from rxtemporal.debug.data import describe_flow, write_json
from rxtemporal.operators.causes.history import CTI

if TYPE_CHECKING:
    from rxtemporal.lineage.flow import Flow


@dataclasses.dataclass(frozen=True)
class WrittenPage:
    """A page that has been written: its size in bytes, and what is in it.

    ``events`` is the number of events of the run, ``shown`` how many of them the page shows, and
    ``rows`` the number of rows of the result. ``failed`` is True if an error ended the run.
    """

    path: Path
    size: int
    events: int
    shown: int
    operators: int
    rows: int
    sentence: str
    failed: bool

    def __str__(self) -> str:
        """Return one line that says what has been written."""
        events = _count(self.events, "event")
        if self.shown < self.events:
            events += f" (a sample of {self.shown:,} is shown)"
        plan, rows = _count(self.operators, "operator"), _count(self.rows, "row")
        return f"{self.path}: {events}, {plan}, {rows} of the result, {self.size / 1e6:.1f} MB"


def write_page(flow: Flow, path: Path, *, title: str) -> WrittenPage:
    """Write the page of a run. The folder is made if it is not there."""
    data = describe_flow(flow, title)
    page = build_page(write_json(data), title=title).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(page)
    kinds = [arrivals.kind != CTI for arrivals in flow.arrivals.values()]
    events = sum(int(each.sum()) for each in kinds)
    sampled = data["sampled"]
    return WrittenPage(
        path=path,
        size=len(page),
        events=events,
        shown=events if sampled is None else min(events, sampled["shown"]),
        operators=sum(each.kind == "operator" for each in flow.histories),
        rows=len(flow.result),
        sentence=data["sentence"],
        failed=flow.error is not None,
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
