"""What users test their queries with: tables, histories, laws, restarts and virtual time."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import oracle
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import agg, testing
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.operator import Keys, Operator, PartialOperator, TwoInputs
from rxtemporal.testing.arrivals import TrialInput, cut_batches, draw_cuts, interleave, reorder

start, end = rxt.EdgeEvent.create_start, rxt.EdgeEvent.create_end


def events(tuples: list[Any]) -> list[rxt.Cti]:
    """The events of one of the oracle's streams."""
    return [physical.event(item) for item in tuples]


# Tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("5 x=2", rxt.PointEvent(5, {"x": 2})),
        ("point  -5   x=2.5", rxt.PointEvent(-5, {"x": 2.5})),
        ("0..10", rxt.IntervalEvent(0, 10, {})),
        ("0.. k='a b' n=null", rxt.IntervalEvent(0, MAX_TIME, {"k": "a b", "n": None})),
        ("interval min..max b=True", rxt.IntervalEvent(MIN_TIME, MAX_TIME, {"b": True})),
        ("start 3 k=#1  # a note", start(3, {"k": "#1"})),
        ('end 3..8 {"x y": [1, 2]}', end(3, 8, {"x y": [1, 2]})),
        ("point 3 17", rxt.PointEvent(3, 17)),
        ("cti max", rxt.Cti(MAX_TIME)),
        (
            "2026-01-01T12:00:00Z d=2026-01-02T00:00:00+00:00",
            rxt.PointEvent(
                datetime(2026, 1, 1, 12, tzinfo=UTC), {"d": datetime(2026, 1, 2, tzinfo=UTC)}
            ),
        ),
    ],
)
def test_a_line_of_a_table_is_an_event(line: str, event: Any) -> None:
    """Kinds, times and values of every form are read as what they say, and shown so again."""
    assert testing.table(f"\n{line}\n\n# nothing\n") == [event]
    assert testing.table(testing.show_events([event])) == [event]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("interval 5 x=1", "the time of interval is start..end"),
        ("start 5..6 x=1", "the time of start is one time"),
        ("5 x=1 y", "'y' is not name=value"),
        ("5 x=1 x=2", "field 'x' occurs twice"),
        ("cti 5 x=1", "a CTI has no payload"),
        ("soon x=1", "Invalid isoformat string"),
        ("9..5 x=1", "an event ends after it starts"),
        ("2026-01-01T12:00:00 x=1", "names no instant"),
    ],
)
def test_a_line_that_is_no_event_is_refused(line: str, said: str) -> None:
    """The message names the line, what is wrong with it, and what a line looks like."""
    with pytest.raises(rxt.ArgumentError, match="line 2 of the table") as raised:
        testing.table(f"0 x=1\n{line}")
    assert said in str(raised.value)
    assert "Hint: write 'point 5 x=2'" in str(raised.value)


@given(strategies.streams(payload=strategies.payloads(strange=False)))
def test_tables_and_events_are_each_others_inverse(items: list[Any]) -> None:
    """What is shown of a stream reads as the same stream, the ends of time included."""
    stream = events(items)
    assert testing.table(testing.show_events(stream)) == stream


@pytest.mark.parametrize(
    "value", ["a", "a b", "1", "nan", "True", "null", "", "it's", b"\0 x", "é"]
)
def test_texts_that_look_like_something_else_are_quoted(value: Any) -> None:
    """Text comes back as text, whatever it looks like."""
    (event,) = testing.table(testing.show_events([rxt.PointEvent(0, {"x": value, "y": 1})]))
    assert event.payload == {"x": value, "y": 1}


# Histories --------------------------------------------------------------------------------------


@given(strategies.streams(payload=strategies.few_payloads()))
def test_a_history_is_the_oracles(items: list[Any]) -> None:
    """End edges are applied, identical open rows closed oldest first; events and batches agree."""
    stream = events(items)
    assert oracle.history([oracle.Row(*row) for row in testing.history(stream)]) == oracle.history(
        oracle.canonical(items)
    )
    streamable = rxt.from_events(stream, schema=physical.SCHEMA)
    testing.assert_same_history(streamable, stream, tolerance=0)
    testing.assert_same_history(streamable.to_polars(time="ticks"), stream, tolerance=0)


def test_every_form_of_a_history_is_taken() -> None:
    """A table, events, batches, a batch, rows, a frame and a query all describe the same rows."""
    text = "start 3 x=1\n0.. x=2\nend 3..8 x=1\ncti 9"
    rows = [(0, MAX_TIME, {"x": 2}), (3, 8, {"x": 1})]
    query = rxt.from_events(testing.table(text))
    for form in (
        text,
        testing.table(text),
        query,
        list(query.to_batches()),
        rxt.EventBatch.concat(list(query.to_batches(rxt.EventShape.INTERVAL))),
        query.to_polars(time="ticks"),
        query.to_polars(time="datetime"),
        [(0, None, {"x": 2}), rows[1]],
    ):
        assert testing.history(form) == rows
        assert testing.show(form) == "0..   x=2\n3..8  x=1"


def test_a_frame_without_ends_is_points() -> None:
    """Without end_time a frame's rows are points."""
    frame = pl.DataFrame({"start_time": [5], "x": [1]})
    assert testing.history(frame) == [(5, 6, {"x": 1})]


@pytest.mark.parametrize("x", [[1, 2], [rxt.Cti(3), (1, 2, {})]])
def test_what_has_no_history_is_refused(x: Any) -> None:
    """The message says what has one."""
    with pytest.raises(rxt.ArgumentError, match="a history is made of a Streamable, events, batch"):
        testing.history(x)


def batch(*rows: tuple[int, int, int, int], cti: int = MIN_TIME) -> rxt.EventBatch:
    """A batch of (start, end, edge, x)."""
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    payload = pl.DataFrame({"x": [row[3] for row in rows]}, schema={"x": pl.Int64})
    return rxt.EventBatch(*columns, payload, cti)


@pytest.mark.parametrize(
    "batches",
    [
        [batch((0, 5, 1, 1))],
        [batch((0, MAX_TIME, 1, 1), (0, 5, 1, 2))],
        [batch((0, MAX_TIME, 1, 1), (1, 5, 1, 1))],
        [batch((0, MAX_TIME, 1, 1)), batch((0, MAX_TIME, 1, 1))],
        [batch((0, MAX_TIME, 1, 1), (0, 5, 1, 1)), batch((0, 6, 1, 1))],
    ],
)
def test_edges_that_do_not_fit_have_no_history(batches: Any) -> None:
    """An end edge names the id, start and payload of an open row; an id is open once."""
    with pytest.raises(rxt.EventError):
        testing.history(batches)


def test_an_end_edge_without_its_start_has_no_history() -> None:
    """Among events an end edge names the start and payload of an open row."""
    with pytest.raises(rxt.EventError, match="ends a row that is not open"):
        testing.history([end(0, 5, "a")])


def test_times_are_shown_as_people_read_them() -> None:
    """Beyond the first day of 1970 times are ISO 8601, and read so again."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    shown = testing.show([rxt.IntervalEvent(noon, rxt.to_datetime(MAX_TIME), {"x": 1})])
    assert shown == "2026-01-01T12:00:00Z..  x=1"
    assert testing.show(shown) == shown


# Comparing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ("0..5 x=1\n0..5 x=2", "0..5 x=2\n0..5 x=1", {}),
        ("0..5 x=nan", "0..5 x=nan", {"tolerance": 0}),
        ("0..5 x=-0.0", "0..5 x=0.0", {"tolerance": 0}),
        ("0..5 x=inf", "0..5 x=inf", {}),
        ("0..5 x=0.30000000000000004", "0..5 x=0.3", {}),
        ("0..5 x=1.0", "0..5 x=1.01", {"tolerance": 0.1}),
        ("0..5 x=5.5e-14\n9 x=1.0", "0..5 x=0.0\n9 x=1.0", {}),
        ("0..5 x=1.0 y=2\n0..5 x=1.0 y=3", "0..5 x=1.0000000000001 y=3\n0..5 x=1.0 y=2", {}),
        ("0..9 x=1\n6..7 x=1", "0..5 x=1", {"up_to": 5}),
        ("0.. x=1", "start 0 x=1\nend 0..5 x=1", {"up_to": rxt.to_datetime(5)}),
        ("", "cti 5", {}),
    ],
)
def test_histories_that_are_the_same(a: str, b: str, options: Any) -> None:
    """Order, the sign of zero, NaN and what arithmetic leaves over make no difference."""
    testing.assert_same_history(a, b, **options)
    testing.assert_same_history(b, a, **options)


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ("0..5 x=1", "", {}),
        ("0..5 x=1\n0..5 x=1", "0..5 x=1", {}),
        ("0..5 x=1", "0..5 y=1", {}),
        ("0..5 x=1.0", "0..5 x=null", {}),
        ("0..5 x=1.0", "0..5 x=nan", {}),
        ("0..5 x=inf", "0..5 x=-inf", {}),
        ("0..5 x=0.30000000000000004", "0..5 x=0.3", {"tolerance": 0}),
        ("0..5 x=1.0", "0..5 x=1.00001", {}),
        ("0..5 x=1e-6\n9 x=1.0", "0..5 x=0.0\n9 x=1.0", {}),
        ("0..5 x=1", "0..5 x='1'", {}),
        ("0..4 x=1", "0..5 x=1", {"up_to": 5}),
    ],
)
def test_histories_that_differ(a: str, b: str, options: Any) -> None:
    """A row more, another field, value, type or end is a difference, from either side."""
    for first, second in ((a, b), (b, a)):
        with pytest.raises(AssertionError, match="the histories differ"):
            testing.assert_same_history(first, second, **options)


def test_the_message_lists_the_rows_in_question() -> None:
    """Rows in both are counted, others shown as tables; of many the first ones."""
    with pytest.raises(AssertionError) as raised:
        testing.assert_same_history("0..5 x=1\n7 k='a b'", "0..5 x=1\n7 k=a\n7..9 x=20", up_to=8)
    assert str(raised.value) == (
        "the histories differ up to 8; of 2 and 3 rows 1 is in both\n"
        "only in the first:\n"
        "  7..8  k='a b'\n"
        "only in the second:\n"
        "  7..8  k=a\n"
        "  7..8  x=20"
    )
    with pytest.raises(AssertionError, match=r"11..12  x=1\n  … and 1,989 more$"):
        testing.assert_same_history([rxt.PointEvent(t, {"x": 1}) for t in range(2001)], "")


def test_many_rows_that_arithmetic_has_moved_are_compared_quickly() -> None:
    """Rows are looked up, so ten thousand floats that all differ a little do not matter."""
    one = [rxt.PointEvent(t, {"x": 1.1 * t}) for t in range(10_000)]
    other = [rxt.PointEvent(t, {"x": 1.1 * t + 1e-12}) for t in reversed(range(10_000))]
    testing.assert_same_history(one, other)


# Arrivals ---------------------------------------------------------------------------------------


@given(strategies.streams(), st.integers(0, 9), st.booleans())
def test_every_order_drawn_is_legal_and_means_the_same(
    items: list[Any], seed: int, more: bool
) -> None:
    """No CTI forbids it, the history is the same, and further CTIs promise nothing further."""
    stream = events(items)
    moved = reorder(stream, Random(seed), more_ctis=more)
    made = rxt.from_events(moved, schema=physical.SCHEMA)  # which refuses what is not legal
    testing.assert_same_history(made, stream, tolerance=0)
    highest = [
        max((e.start for e in s if isinstance(e, rxt.Cti)), default=None) for s in (stream, moved)
    ]
    assert highest[0] == highest[1]
    assert len(moved) == len(stream) or (more and len(moved) > len(stream))


def test_rows_move_across_the_ctis_that_allow_it() -> None:
    """A row may come before a CTI that it came after, and after one that it does not break."""
    stream = testing.table("0 x=1\n9 x=2\ncti 5\n6 x=3")
    orders = {testing.show_events(reorder(stream, Random(n))) for n in range(200)}
    places = {
        name: {
            text.splitlines().index("cti    5") > text.splitlines().index(f"point  {name}  x={x}")
            for text in orders
        }
        for x, name in enumerate((0, 9, 6), 1)
    }
    assert places == {0: {True}, 9: {True, False}, 6: {True, False}}


@given(strategies.streams(), strategies.streams(), st.integers(0, 9))
def test_cuts_and_interleavings_lose_nothing(one: list[Any], two: list[Any], seed: int) -> None:
    """The batches of each stream describe it and keep their contract."""
    inputs = [
        TrialInput(name, pl.Schema(physical.SCHEMA), events(s))
        for name, s in zip("ab", (one, two), strict=True)
    ]
    random = Random(seed)
    arrivals = interleave([each.events for each in inputs], random)
    made = list(cut_batches(inputs, arrivals, draw_cuts(len(arrivals), random)))
    for number, each in enumerate(inputs):
        batches = [p.batch for p in made if p.stream == number]
        testing.assert_same_history(batches, each.events, tolerance=0)
        cti = MIN_TIME
        for some in batches:
            cti = some.check(cti).cti
        assert cti == max(
            (e.start for e in each.events if isinstance(e, rxt.Cti)), default=MIN_TIME
        )


# Laws -------------------------------------------------------------------------------------------


class Kept(Stateful):
    """A step made of a function, with a dict of state that is saved or, wrongly, not."""

    rows = 0

    def __init__(
        self, change: Callable[[rxt.EventBatch, dict[str, Any]], Any], saved: bool
    ) -> None:
        self.state: dict[str, Any] = {}
        self.held = ("state",) if saved else ()
        self._change = change

    def on_batch(self, batch: rxt.EventBatch) -> rxt.EventBatch:
        """Return what the function makes of a batch and the state."""
        return self._change(batch, self.state)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Wrong(Operator):
    """An operator with a fault."""

    change: Callable[[rxt.EventBatch, dict[str, Any]], Any]
    saved: bool = True
    name = "wrong"

    def make(self, schema: pl.Schema, keys: Keys) -> Any:
        """Return a new step."""
        return Kept(self.change, self.saved)


def sized(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Put the size of its batch into every row."""
    return batch.replace(payload=batch.payload.with_columns(x=pl.lit(len(batch), pl.Int64)))


def numbered(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Put its number into every row, in order of arrival."""
    first = state.get("next", 0)
    state["next"] = first + len(batch)
    numbers = pl.Series("x", range(first, first + len(batch)), dtype=pl.Int64)
    return batch.replace(payload=batch.payload.with_columns(numbers))


def hasty(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Promise one tick too much."""
    return batch.replace(cti=min(batch.cti + 1, MAX_TIME) if batch.cti > MIN_TIME else batch.cti)


def lazy(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Never reach the end of time."""
    return batch.replace(cti=min(batch.cti, 50))


def slow(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Promise what could have been promised with the batch before."""
    state["cti"], cti = batch.cti, state.get("cti", MIN_TIME)
    return batch.replace(cti=MAX_TIME if batch.cti == MAX_TIME else cti)


def forgetful(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Lose every second batch of rows."""
    state["n"] = state.get("n", 0) + (len(batch) > 0)
    return batch if state["n"] % 2 else batch.none(batch.cti)


def once(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Keep, rightly, the first row alone of each x: of intervals of one start and end."""
    seen = state.setdefault("seen", [])
    kept = [not (x in seen or seen.append(x)) for x in batch.payload["x"].to_list()]
    return batch.take(np.array(kept, bool))


def emptied(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Give every row an end at its start."""
    return batch.replace(end=batch.start)


def shut(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Lose the start edges, and keep their end edges."""
    return batch.take((batch.edge == 0) | (batch.end != MAX_TIME))


def failing(batch: rxt.EventBatch, state: dict[str, Any]) -> rxt.EventBatch:
    """Cannot take a batch without rows."""
    if not len(batch):
        raise ZeroDivisionError("no rows")
    return batch


STREAM = """
    0..5  x=1
    0..5  x=1
    2..9  x=2
    start 4 x=3
    cti 3
    6 x=4
    end 4..8 x=3
    cti 7
    7 x=5
"""


def wrong(change: Any, **options: Any) -> Callable[[Any], Any]:
    """A query that has the fault."""

    def query(readings: Any) -> Any:
        return readings.select("x")._compose(Wrong(change=change, **options))

    return query


@pytest.mark.parametrize(
    ("change", "law"),
    [
        (sized, "batch invariance"),
        (slow, "batch invariance"),
        (forgetful, "batch invariance"),
        (failing, "batch invariance"),
        (numbered, "order insensitivity"),
        (hasty, "CTI soundness"),
        (lazy, "liveliness"),
        (emptied, "the contract of batches"),
        (shut, "the contract of edges"),
    ],
)
def test_a_broken_law_is_found_and_named(change: Any, law: str) -> None:
    """Each kind of fault breaks its law, which the message names, with the query."""
    stream = STREAM if change is not numbered else "0..5 x=1\n2..9 x=2"
    with pytest.raises(AssertionError) as raised:
        testing.check_laws(wrong(change), stream)
    assert str(raised.value).startswith(f"{law} does not hold for the query wrong.<locals>.query: ")


def test_a_state_that_is_not_saved_breaks_restart() -> None:
    """Steps go on from what was saved, unless the check is switched off."""
    stream = "0..5 x=1\ncti 0\n0..5 x=1"
    testing.check_laws(wrong(once), stream)
    testing.check_laws(wrong(once, saved=False), stream, restart=False)
    with pytest.raises(AssertionError, match=r"^restart does not hold"):
        testing.check_laws(wrong(once, saved=False), stream)


def test_the_message_shows_the_smallest_streams() -> None:
    """Rows that play no part are taken out, and the arrangement is shown with its cuts."""
    with pytest.raises(AssertionError) as raised:
        testing.check_laws(wrong(sized), STREAM)
    said, shown = str(raised.value).split("the smallest streams found, in the order in which they ")
    assert "only in the history of one batch:" in said
    assert "only in this one:" in said
    assert re.fullmatch(
        r"came; -- ends a batch:\n"
        r"  readings  \S+ +\S+ +x=\d\n  --\n  readings  \S+ +\S+ +x=\d\n(  --\n)?"
        r"  readings  cti +max\n  --",
        shown,
    )


def test_the_laws_warn_of_no_cti_that_they_have_made(caplog: pytest.LogCaptureFixture) -> None:
    """There is no wall clock that CTIs of a test could be ahead of."""
    rows = [rxt.PointEvent(1, {"x": 1}), rxt.Cti(3), rxt.PointEvent(4, {"x": 2})]
    for seed in range(5):
        testing.check_laws(
            lambda rows: rows.tumbling_window(5).aggregate(n=agg.count()),
            {"rows": rows},
            rounds=3,
            seed=seed,
        )
    assert not caplog.records


def test_an_error_over_some_cut_is_a_broken_law_and_over_all_is_itself() -> None:
    """What the query raises whatever the cut is not a matter of laws."""
    with pytest.raises(AssertionError, match="ZeroDivisionError: no rows") as raised:
        testing.check_laws(wrong(failing), STREAM)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        testing.check_laws(wrong(failing), "cti 5", schema={"x": int})
    with pytest.raises(rxt.CtiViolationError):
        testing.check_laws(lambda readings: readings, "cti 5\n3 x=1")


@given(strategies.streams(), st.integers(0, 99))
def test_the_laws_hold_of_queries(items: list[Any], seed: int) -> None:
    """A sound query passes, over any legal stream."""

    def query(readings: Any) -> Any:
        return readings.where(pl.col("x") > 0).snapshot_window().aggregate(n=agg.count())

    testing.check_laws(query, events(items), schema=physical.SCHEMA, seed=seed, rounds=1)


@pytest.mark.parametrize(
    ("streams", "schema"),
    [
        ({"left": "0..5 x=1\ncti 3", "right": "2 x=5"}, None),
        (["0..5 x=1\ncti 3", [rxt.PointEvent(2, {"x": 1})]], None),
        ([rxt.from_events([rxt.PointEvent(2, {"x": 1})]), "cti 3"], [None, {"x": int}]),
        ({"right": "0 x=1", "left": rxt.from_events([], schema={"x": int})}, {}),
    ],
)
def test_streams_of_every_form(streams: Any, schema: Any) -> None:
    """Streams come by name or in order, as tables, events or Streamables."""
    testing.check_laws(lambda left, right: both(left, right), streams, schema=schema, rounds=2)


def test_one_stream_needs_no_list() -> None:
    """A query of one stream takes it alone: a table, events, a Streamable, no events at all."""
    stream = testing.table(STREAM)
    for form in (STREAM, stream, rxt.from_events(stream), []):
        testing.check_laws(lambda readings: readings.where(pl.col("x") > 1), form, rounds=1)


def test_a_query_may_read_sources_of_its_own() -> None:
    """What is made inside the query is read to its end, at a restart too."""
    rooms = [rxt.IntervalEvent(0, 9, {"x": 7})]
    testing.check_laws(
        lambda readings: both(readings, rxt.from_events(rooms, schema={"x": int}, name="rooms")),
        STREAM,
        rounds=2,
    )


def test_streams_without_an_end_are_compared_so_far() -> None:
    """Without the end of time laws hold up to the CTI that was reached, endless rows included."""
    stream = "start 0 x=1\ncti 5\n6 x=2\ncti 9\n9 x=3"
    testing.check_laws(
        lambda readings: readings.snapshot_window().aggregate(n=agg.count()), stream, complete=False
    )
    testing.check_laws(wrong(lazy), stream, complete=False)
    with pytest.raises(AssertionError, match="the last output CTI is 5, but min over one batch"):
        testing.check_laws(wrong(slow), "cti 5\ncti 5\n9 x=1", complete=False)


@pytest.mark.parametrize(
    ("query", "streams", "said"),
    [
        (7, STREAM, "a query is a function of streams, got 7"),
        (lambda readings: None, STREAM, "a query returns a Streamable, but this one returned None"),
        (lambda readings: readings, {"visits": STREAM}, "keys are the names of the query's param"),
        (lambda readings: readings, [STREAM, STREAM], "the streams are 2"),
        (lambda readings: readings, 7, "streams are a mapping of names to streams"),
    ],
)
def test_what_is_no_query_of_these_streams_is_refused(query: Any, streams: Any, said: str) -> None:
    """The message says what was given and what is taken."""
    with pytest.raises(rxt.ArgumentError, match=said):
        testing.check_laws(query, streams)


# Steps by hand ----------------------------------------------------------------------------------


class BothStep(Stateful):
    """Passes rows of complete lifetimes on; the CTI is the lower of the two."""

    held = ("ctis",)
    rows = 0

    def __init__(self) -> None:
        self.ctis = [MIN_TIME, MIN_TIME]

    def on_left(self, batch: rxt.EventBatch) -> rxt.EventBatch:
        """Take a batch of the left input."""
        return self._take(0, batch)

    def on_right(self, batch: rxt.EventBatch) -> rxt.EventBatch:
        """Take a batch of the right input."""
        return self._take(1, batch)

    def _take(self, side: int, batch: rxt.EventBatch) -> rxt.EventBatch:
        self.ctis[side] = batch.cti
        # ids of the two sides must not meet
        return batch.replace(cti=min(self.ctis), edge=batch.edge * 2 + side * (batch.edge != 0))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Both(TwoInputs):
    """Both streams' rows."""

    name = "both"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left schema."""
        return left

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Any:
        """Return a new step."""
        return BothStep()


def both(left: Any, right: Any) -> Any:
    """Both streams' rows."""
    return left._compose(PartialOperator(Both(), right))


def source(name: str) -> rxt.Streamable:
    """A stream to be pushed by hand."""
    return rxt.from_events([], schema={"x": int}, name=name)


def test_a_stepper_pushes_batches_through_a_plan() -> None:
    """Batches of either source come through; what brings neither rows nor time does not."""
    stepper = testing.Stepper(both(source("a").where(pl.col("x") > 1), source("b")))
    assert stepper.sources == ["a", "b"]
    (out,) = stepper.push("a", batch((0, 5, 0, 1), (3, 6, 0, 2), cti=4))
    assert (testing.history(out), out.cti) == ([(3, 6, {"x": 2})], MIN_TIME)
    assert stepper.push("a", batch((4, 6, 0, 1), cti=4)) == []
    assert [out.cti for out in stepper.push("b", batch(cti=9))] == [4]


def test_a_stream_used_twice_is_pushed_once_to_each_use() -> None:
    """A plan that comes together again gets a batch through both of its ways."""
    readings = source("a")
    stepper = testing.Stepper(both(readings.where(pl.col("x") > 1), readings))
    out = stepper.push("a", batch((0, 5, 0, 1), (3, 6, 0, 2), cti=4))
    assert [len(each) for each in out] == [1, 2]
    assert out[-1].cti == 4


def test_a_query_without_operators_is_its_source() -> None:
    """What is pushed comes out."""
    stepper, given_batch = testing.Stepper(source("a")), batch((0, 5, 0, 1), cti=4)
    assert stepper.push("a", given_batch) == [given_batch]
    assert (stepper.rows, stepper.save()) == (0, [])


def test_a_stepper_counts_what_is_held_and_goes_on_after_a_restart() -> None:
    """State moves from one stepper to another of the same query, and no other."""

    def query() -> rxt.Streamable:
        return source("a").snapshot_window().aggregate(n=agg.count())

    stepper, later = testing.Stepper(query()), testing.Stepper(query())
    out = stepper.push("a", batch((0, 5, 0, 1), (3, 6, 0, 2), cti=4))
    assert stepper.rows > 0
    later.load(stepper.save())
    out += later.push("a", batch(cti=MAX_TIME))
    testing.assert_same_history(out, "0..3 n=1\n3..5 n=2\n5..6 n=1")
    with pytest.raises(rxt.CheckpointError, match="the query has 0 steps, but 1 were saved"):
        testing.Stepper(source("a")).load(stepper.save())


def test_what_a_stepper_cannot_run_is_refused() -> None:
    """A stream of unknown fields, a name that no source has or that two have, and no query."""
    unknown = rxt.from_events([])
    with pytest.raises(rxt.ArgumentError, match="Hint: give schema="):
        testing.Stepper(unknown.where(pl.col("x") > 1))
    with pytest.raises(rxt.ArgumentError, match="no sources of the query are called 'b'"):
        testing.Stepper(source("a")).push("b", batch())
    with pytest.raises(rxt.ArgumentError, match="2 sources of the query are called 'a'"):
        testing.Stepper(both(source("a"), source("a"))).push("a", batch())
    with pytest.raises(rxt.ArgumentError, match="a Stepper takes a Streamable"):
        testing.Stepper([1])


# Virtual time -----------------------------------------------------------------------------------


def test_events_are_pushed_and_noted_at_their_moments() -> None:
    """A query over what is pushed at virtual moments gives its results at these moments."""
    scheduler = TestScheduler()
    seen = testing.Recorder(scheduler)
    pushes = testing.hot(
        scheduler, [(0, rxt.PointEvent(5, "a")), (10.5, rxt.Cti(6)), (20, rxt.PointEvent(6, "b"))],
        completed=30,
    )  # fmt: skip
    rxt.from_observable(pushes).subscribe(seen, ctis=True)
    scheduler.start()
    assert seen.events == [
        (10.5, rxt.IntervalEvent(5, 6, "a")),
        (10.5, rxt.Cti(6)),
        (30, rxt.IntervalEvent(6, 7, "b")),
        (30, rxt.Cti(MAX_TIME)),
    ]
    assert (seen.completed, seen.failed) == (30, None)


def test_a_failure_is_noted_at_its_moment() -> None:
    """An event that breaks a CTI ends the stream when it comes."""
    scheduler = TestScheduler()
    seen = testing.Recorder(scheduler)
    pushes = testing.hot(scheduler, [(1, rxt.Cti(6)), (2, rxt.PointEvent(5, "a"))])
    rxt.from_observable(pushes).subscribe(seen)
    scheduler.start()
    assert seen.failed is not None
    moment, error = seen.failed
    assert (moment, type(error), seen.completed) == (2, rxt.CtiViolationError, None)


# The package ------------------------------------------------------------------------------------


def test_the_kit_needs_no_test_library_and_loads_nothing_heavy() -> None:
    """It works with any test runner; compiled code is loaded by the first query that needs it."""
    code = (
        "import sys, rxtemporal.testing\n"
        "print({'pytest', 'hypothesis', 'numba', 'pyspark', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_nan_is_shown_and_read() -> None:
    """NaN, which equals nothing, comes back as NaN."""
    (event,) = testing.table(testing.show_events([rxt.PointEvent(0, {"x": math.nan})]))
    assert math.isnan(event.payload["x"])
