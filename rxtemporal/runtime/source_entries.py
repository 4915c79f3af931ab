"""Entries of a plan's sources into a run, with those of their side streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from rxtemporal.engine.driver import Entry
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.reject_source import RejectSource
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.wiring import Wiring
from rxtemporal.runtime.rejected_rows import RejectedRows


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SourceEntry:
    """One source of a plan, with its entry and the entries of its side streams."""

    source: StreamSource
    main: Entry
    sides: list[tuple[SideSource, Entry]]

    @property
    def lates(self) -> list[tuple[LateSource, Entry]]:
        """The streams of late events."""
        return [(side, entry) for side, entry in self.sides if isinstance(side, LateSource)]

    def put_rejected_beside(self) -> Entry | RejectedRows:
        """Return the stream's entry, beside that of its rejected rows if a query reads them."""
        for side, entry in self.sides:
            if isinstance(side, RejectSource):
                return RejectedRows(self.main, side, entry)
        return self.main


def list_entries(wiring: Wiring, clock: Callable[[], float]) -> list[SourceEntry]:
    """Return the sources of a plan, including those of which only side streams are used."""
    found: dict[int, SourceEntry] = {}
    for source, entry in wiring.entries:
        if isinstance(source, SideSource):
            origin = source.origin
            found.setdefault(id(origin), SourceEntry(origin, Entry(wiring.driver, clock), []))
            found[id(origin)].sides.append((source, entry))
        else:
            sides = found[id(source)].sides if id(source) in found else []
            found[id(source)] = SourceEntry(source, entry, sides)
    return list(found.values())
