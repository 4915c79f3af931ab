"""The table at the end of a run of the crash matrix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cells import crash_table, never_hit
from moments import POINTS


def report(outcome: str, *crashes: Any, when: str = "call") -> Any:
    """Return pytest's report of a test that has recorded its crashes."""
    return SimpleNamespace(outcome=outcome, when=when, user_properties=[("crashes", crashes)])


def test_each_kill_is_counted_where_it_hit() -> None:
    """Cells stand in the order of a row's way, several points of one cell below it."""
    lines = crash_table(
        [
            report("passed", "jvm", 7, [("after handler", "z"), ("during segment", "b")]),
            report("passed", "jvm", 7, [("after handler", "z")], when="teardown"),
            report("failed", "ingest", 8, [("during segment", "a")]),
            report("passed", "jvm", 9, [("during segment", "a")]),
        ]
    )
    assert [line.split() for line in lines] == [
        ["killed", "jvm", "ingest"],
        ["during", "segment", "2", "of", "2", "0", "of", "1"],
        ["a", "1", "of", "1", "0", "of", "1"],
        ["b", "1", "of", "1", "0", "of", "0"],
        ["after", "handler", "1", "of", "1", "0", "of", "0"],
        ["3", "of", "4", "kills", "left", "the", "rows", "the", "same;", "seeds:"],
        ["jvm", "7", "9"],
        ["ingest", "8"],
    ]


def test_without_crashes_there_is_no_table() -> None:
    """A run of other tests ends without it."""
    assert list(crash_table([])) == []


@pytest.mark.parametrize("noted", ["its note is half", "its note is named"])
def test_a_point_that_no_round_has_hit_is_named(noted: str) -> None:
    """The point that a kill met counts, not the point it aimed at; over all rounds."""
    met = {"during checkpoint": noted, "after checkpoint": "its note is named"}
    hits = [
        [f"{part} {step}", met.get(f"{part} {step}", point)]
        for (step, part), points in POINTS.items()
        for point in points
    ]
    runs = [report("passed", who, 7, hits) for who in ("ingest", "driver", "jvm", "executor")] * 10
    missing = [] if noted == "its note is half" else ["during checkpoint: its note is half"]
    assert never_hit(runs, POINTS) == missing
    assert never_hit(runs[:-1], POINTS) == [], "fewer rounds need not have hit each"
