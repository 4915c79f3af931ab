"""The crash matrix as a table: kills by process and moment, and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["PARTS", "STEPS", "crash_table", "never_hit"]

# in the order in which a row goes through them
STEPS = ("segment", "handler", "publication", "checkpoint")
PARTS = ("before", "during", "after")


def crash_table(reports: Iterable[Any]) -> Iterator[str]:
    """Yield the table's lines, from the reports of tests that have recorded their crashes.

    A test records who was killed, the seed, and for each kill the cell and the point that it hit;
    where a cell has several points, each has a line below it.
    """
    runs = list(_runs(reports))
    everybody = list(dict.fromkeys(who for _, who, _, _ in runs))
    kills = [(passed, who, *hit) for passed, who, _, hits in runs for hit in hits]
    if not kills:
        return
    yield f"{'killed':<30}" + "".join(f"{who:>12}" for who in everybody)
    for cell in sorted({cell for *_, cell, _ in kills}, key=_place):
        here = [kill for kill in kills if kill[2] == cell]
        yield _line(cell, here, everybody)
        points = sorted({point for *_, point in here})
        for point in points if len(points) > 1 else []:
            yield _line(f"  {point}", [kill for kill in here if kill[3] == point], everybody)
    same = sum(passed for passed, *_ in kills)
    yield f"{same} of {len(kills)} kills left the rows the same; seeds:"
    for who in everybody:
        yield f"  {who:<10}" + " ".join(str(seed) for _, name, seed, _ in runs if name == who)


def never_hit(reports: Iterable[Any], points: Mapping[tuple[str, str], list[str]]) -> list[str]:
    """Return the points that no kill has hit, in a matrix that had ten rounds or more.

    Where a process stands still it is hit at that point. Spark notes a micro-batch by itself, so
    what is hit there is what was met; in so many rounds each has been, if the killer does its work.
    """
    runs = list(_runs(reports))
    rounds = Counter(who for _, who, _, _ in runs)
    if len(rounds) < 4 or min(rounds.values()) < 10:
        return []
    wanted = {f"{part} {step}": points for (step, part), points in points.items()}
    wanted |= {"during checkpoint": ["its note is half"], "after checkpoint": ["its note is named"]}
    hit = {tuple(each) for *_, hits in runs for each in hits}
    return [
        f"{cell}: {point}"
        for cell, points in wanted.items()
        for point in points
        if (cell, point) not in hit
    ]


def _runs(reports: Iterable[Any]) -> Iterator[tuple[bool, str, int, list[Any]]]:
    for report in reports:
        for name, value in getattr(report, "user_properties", []):
            if name == "crashes" and report.when == "call":
                yield (report.outcome == "passed", *value)


def _place(cell: str) -> tuple[int, int]:
    part, step = cell.split()
    # what has no place in a row's way comes last
    return (STEPS.index(step), PARTS.index(part)) if step in STEPS else (len(STEPS), 0)


def _line(name: str, kills: Iterable[Any], everybody: Iterable[str]) -> str:
    killed = Counter(who for _, who, *_ in kills)
    same = Counter(who for passed, who, *_ in kills if passed)
    return f"{name:<30}" + "".join(f"{f'{same[who]} of {killed[who]}':>12}" for who in everybody)
