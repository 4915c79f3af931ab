"""Frames that import CTIs are judged many rows at once: as event by event, to the row."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from importing_streams import (
    ADJUST,
    DROP,
    NAMES,
    Stream,
    all_drawn,
    not_of_itself,
    reference,
    settings,
)
from oracle import MAX_TIME, MIN_TIME, lifetime
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal.run import ordering as accepting


def stream(rows: list[Any], imports: str | None = None, every: int | None = 1, **more: Any) -> Any:
    """A stream as it is drawn."""
    given = {"delay": 0, "to_infinity": True, "policy": DROP, "batch_rows": 2, **more}
    return {"rows": rows, "imports": imports, "every": every, **given}


# b hands on what c sends until b ends
CHAIN = {
    "a": stream([(12, 1), (3, 1), (22, 1), (8, 1)], "b", None),
    "b": stream([(2, 1), (9, 1)], "c", None),
    "c": stream([(1, 1), (5, 1), (10, 1), (20, 1)]),
}
# each imports from the other, and their rows are those of the same times
LOOP = {
    "a": stream([(t, 2) for t in range(0, 20, 2)], "b", policy=ADJUST),
    "b": stream([(t, 2) for t in range(19, 0, -3)], "a"),
    "c": stream([], "a", None),
}


class Ran:
    """One run of the drawn streams as frames: what came in of each, and what was late."""

    def __init__(self, drawn: dict[str, Stream], at_once: bool) -> None:
        app = rxt.Application("merged")
        sinks = {}
        for name, each in drawn.items():
            rows = [(t, t + d, n) for n, (t, d) in enumerate(each["rows"])]
            frame = pl.DataFrame(rows, schema={"s": int, "e": int, "n": int}, orient="row")
            source = rxt.from_polars(
                frame,
                start="s",
                end="e",
                advance_time=settings(each),
                batch_rows=each["batch_rows"],
            )
            app.query("out " + name, app.define_stream(name, source))
            sinks["out " + name] = Log()
            if settings(each) is not None:
                app.query("late " + name, app.stream(name).late_events())
                sinks["late " + name] = Log(rxt.EventShape.POINT)
        with pytest.MonkeyPatch.context() as patch:
            if not at_once:
                patch.setattr(accepting, "_accept_at_once", lambda *_: False)
            process = app.run(sinks=sinks)
            process.wait(SOON)
        self.told = {each.name: each for each in process.diagnostics().streams}
        self.sinks = sinks

    def rows(self, name: str, which: str = "out") -> list[Any]:
        """The rows that came out, or the late ones, without the batches they came in."""
        sink = self.sinks.get(f"{which} {name}", Log())
        return sorted(row for batch in sink.batches for row in batch.to_polars("ticks").rows())

    def figures(self, name: str) -> tuple[Any, ...]:
        """What diagnostics tell of a stream."""
        told = self.told[name]
        late = {reason.value: n for reason, n in told.late.items()}
        return told.events_in, late, told.late_by_import, told.cti, told.largest_lateness


@given(all_drawn)
@example(CHAIN)
@example(LOOP)
def test_frames_are_judged_as_event_by_event(drawn: dict[str, Stream]) -> None:
    """Any imports, delays and policies, frames of any size: what comes in is what the gate lets in.

    So are late rows, with the CTI that each broke, and the CTI that each stream has at the end.
    """
    drawn = not_of_itself(drawn)
    ran = Ran(drawn, at_once=True)
    for name, gate in reference(drawn).items():
        out = [(*lifetime(event), event[-1]) for event in gate.out if event[0] == "interval"]
        if drawn[name]["to_infinity"] or not drawn[name]["every"]:
            assert ran.rows(name) == sorted(out)
        assert ran.told[name].cti == max(gate.cti, MIN_TIME)
        assert sum(ran.told[name].late.values()) == len(gate.late)
        # a late event is a point at the CTI that it broke
        late = sorted((each.cti, each.event[-1]) for each in gate.late if each.cti < MAX_TIME)
        assert sorted((row[0], row[-1]) for row in ran.rows(name, "late")) == late


@given(all_drawn)
@example(CHAIN)
@example(LOOP)
def test_the_outcome_is_that_of_small_steps(drawn: dict[str, Stream]) -> None:
    """Judged at once or cut at each change of streams: same rows, late rows and figures."""
    drawn = not_of_itself(drawn)
    once, stepwise = Ran(drawn, at_once=True), Ran(drawn, at_once=False)
    for name in NAMES:
        assert once.figures(name) == stepwise.figures(name)
        assert once.rows(name) == stepwise.rows(name)
        assert once.rows(name, "late") == stepwise.rows(name, "late")


def test_what_an_ended_stream_imports_goes_no_further() -> None:
    """b handed c's CTI 5 on to a; after its end at 9 it does not, so nothing that follows is late.

    Of a's rows at 12, 3, 22 and 8 all come after that end: 3 breaks the 5, and 8 breaks none.
    """
    ran = Ran(CHAIN, at_once=True)
    assert [row[0] for row in ran.rows("a")] == [8, 12, 22]
    assert ran.figures("a")[:3] == (4, {"dropped": 1}, 1)


def test_streams_that_alternate_go_on_in_large_batches() -> None:
    """Rows that alternate, a CTI each, imported both ways: as many batches as frames, about."""
    rows = [(t, 1) for t in range(300)]
    drawn = {
        "a": stream(rows, "b", batch_rows=150),
        "b": stream(rows, "a", batch_rows=100),
    }
    once, stepwise = Ran(drawn, at_once=True), Ran(drawn, at_once=False)
    assert len(once.sinks["out a"].batches) <= 10
    assert len(stepwise.sinks["out a"].batches) >= 300
    assert once.rows("a") == stepwise.rows("a")
