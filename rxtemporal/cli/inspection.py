"""Text of ``rxtemporal inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rxtemporal.storage.salvage import Inspection


def describe(found: Inspection, out: Path | None) -> Iterator[str]:
    """Yield the lines about a folder, and about the copy ``out`` of what is whole in it."""
    yield found.title
    yield from (f"  {fact}" for fact in found.facts)
    yield f"  {found.records:,} records are whole"
    if found.damage:
        yield f"DAMAGED: {found.damage.partition(' Hint: ')[0]}"
        yield from (f"  lost: {each}" for each in found.lost)
        if not found.lost:
            yield "  lost: nothing"
    if out is not None:
        yield f"copied to {out}: {found.records:,} records"
