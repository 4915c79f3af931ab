"""The crash matrix as a table: how often who was killed when, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["crash_table"]


def crash_table(reports: Iterable[Any]) -> Iterator[str]:
    """Yield the table's lines, from the reports of tests that have recorded their crashes."""
    runs = [
        (report.outcome == "passed", *value)
        for report in reports
        for name, value in getattr(report, "user_properties", [])
        if name == "crashes" and report.when == "call"
    ]
    killed: Counter[tuple[str, str]] = Counter()
    same: Counter[tuple[str, str]] = Counter()
    for passed, who, _, cells in runs:
        killed.update((cell, who) for cell in cells)
        same.update((cell, who) for cell in cells if passed)
    everybody = list(dict.fromkeys(who for _, who, _, _ in runs))
    order = {"before": 0, "during": 1, "after": 2}
    whens = sorted(
        {cell for cell, _ in killed}, key=lambda cell: (cell.split()[1], order[cell.split()[0]])
    )
    if not killed:
        return
    yield f"{'killed':<22}" + "".join(f"{who:>12}" for who in everybody)
    for when in whens:
        counts = (f"{same[when, who]} of {killed[when, who]}" for who in everybody)
        yield f"{when:<22}" + "".join(f"{count:>12}" for count in counts)
    yield f"{sum(same.values())} of {sum(killed.values())} kills left the rows the same; seeds:"
    for who in everybody:
        yield f"  {who:<10}" + " ".join(str(seed) for _, name, seed, _ in runs if name == who)
