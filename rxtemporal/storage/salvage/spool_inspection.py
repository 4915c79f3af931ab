"""Inspection of a spool: what waits there, and what of it is damaged."""

from __future__ import annotations

from pathlib import Path

from rxtemporal.core.ticks import describe
from rxtemporal.errors import SpoolError
from rxtemporal.storage.salvage.inspection import Inspection
from rxtemporal.storage.segments import SegmentFolder

HEADER = "spool.json"


def find_spool(path: Path) -> Path | None:
    """Return the folder of the spool at a path or in the folder of a ``SparkSink``; else None."""
    places = (path, path / "spool")
    return next((place for place in places if (place / HEADER).exists()), None)


def inspect_spool(path: Path) -> Inspection:
    """Read the segments of a spool that have not been discarded, and return what was found.

    ``records`` counts their rows.
    """
    folder = SegmentFolder(path)
    try:
        header = folder.header()
        mark, last = folder.bounds()
        cti = describe(folder.describe(last).cti) if last else "none yet"
    except SpoolError as error:
        return Inspection(f"spool {path}", [], str(error), ["all of it"], 0)
    rows, damage, lost = 0, "", []
    for number in range(mark + 1, last + 1):
        try:
            folder.content(number)
            rows += folder.describe(number).rows
        except SpoolError as error:
            damage = damage or str(error)
            lost.append(f"segment {number}")
    facts = [
        f"fields: {', '.join(folder.read(last).columns)}" if last > mark and not lost else "",
        f"segments: {last - mark:,} wait to be read, {mark:,} were read and are discarded",
        f"CTI: {cti}",
    ]
    title = f"spool of query {header['query']!r}"
    return Inspection(title, [fact for fact in facts if fact], damage, lost, rows)
