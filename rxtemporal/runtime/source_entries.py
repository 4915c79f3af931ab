"""Entries of a plan's sources into a run, with those of their streams of late events."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.wiring import Wiring
from rxtemporal.reactive.lift import Entry


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SourceEntry:
    """One source of a plan, with its entry and the entries of its streams of late events."""

    source: StreamSource
    main: Entry
    lates: list[tuple[LateSource, Entry]]


def list_entries(wiring: Wiring, clock: Callable[[], float]) -> list[SourceEntry]:
    """Return the sources of a plan, including those of which only late events are used."""
    found: dict[int, SourceEntry] = {}
    for source, entry in wiring.entries:
        if isinstance(source, LateSource):
            origin = source.origin
            found.setdefault(id(origin), SourceEntry(origin, Entry(clock), []))
            found[id(origin)].lates.append((source, entry))
        else:
            lates = found[id(source)].lates if id(source) in found else []
            found[id(source)] = SourceEntry(source, entry, lates)
    return list(found.values())
