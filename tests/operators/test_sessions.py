"""Sessions: lifetimes until a session's end, and the rows of session and count windows."""

from __future__ import annotations

from typing import Any

import arrangements
import numpy as np
import oracle
import oracle_lifetimes
import oracle_windows
import physical
import polars as pl
import pytest
import strategies
from forgetting import forgetful
from hypothesis import given, settings
from hypothesis import strategies as st
from law_functions import Tally, values
from oracle import MAX_TIME, MIN_TIME, Row
from tables import history_by_ctis

import rxtemporal as rxt
from rxtemporal import EventBatch, agg
from rxtemporal.operators.count_window.bounds import CountBounds
from rxtemporal.operators.sessions.plan import session_lifetimes, session_window
from rxtemporal.operators.sessions.step import SessionBounds
from rxtemporal.operators.windows.start_windows import StartBounds
from rxtemporal.testing import Stepper

SCHEMA = pl.Schema(physical.SCHEMA)
# timeout and max_duration: some that never meet, and grids that rows fall on and between
SPANS = [(3, None), (5, 4), (4, 10), (12, 5), (1, 1), (MAX_TIME, None), (2, 10**18)]
NS = (1, 2, 2, 3, 5)
KEYS: list[list[str]] = [[], ["k", "x"]]


def points(*starts: int) -> list[Any]:
    """Return points that say when they start, and the end of time."""
    return [*(("point", t, {"k": "a", "x": t, "y": None}) for t in starts), ("cti", MAX_TIME)]


def lifetimes(items: list[Any], *spans: int | None) -> list[tuple[int, int]]:
    """Return the lifetimes that session_lifetimes gives these rows, sorted."""
    made = physical.batches(items, [slice(0, len(items))])
    found = physical.rows(physical.run(made, session_lifetimes(*spans)))
    return sorted((row.start, row.end) for row in found)


# session_lifetimes -------------------------------------------------------------------------------


def test_rows_live_until_their_session_ends() -> None:
    """Starts that follow each other by less than the timeout share a session."""
    assert lifetimes(points(0, 4, 9, 20), 6) == [(0, 15), (4, 15), (9, 15), (20, 26)]


def test_a_gap_of_exactly_the_timeout_closes_a_session() -> None:
    """The session ends at the tick at which the next one begins."""
    assert lifetimes(points(0, 5, 11), 5) == [(0, 5), (5, 10), (11, 16)]


def test_a_session_is_capped_on_the_grid() -> None:
    """A session that begins on a boundary ends at the next, any other one boundary later."""
    assert lifetimes(points(10, 12, 14, 17), 4, 10) == [(t, 20) for t in (10, 12, 14, 17)]
    assert lifetimes(points(11, 14, 17, 20, 23, 26, 28), 4, 10)[-1] == (28, 30)
    assert lifetimes(points(-3, 0), 4, 10) == [(-3, 4), (0, 4)]


def test_a_session_that_goes_on_after_a_cap_is_capped_at_its_own_boundary() -> None:
    """It starts less than the timeout after the last start of the capped session."""
    starts = [11, 14, 17, 20, 23, 26, 29, 31, 34, 37]
    ends = [end for _, end in lifetimes(points(*starts), 4, 10)]
    assert ends == [30] * 7 + [40] * 3
    capped = (9, 12, 15, 18)
    assert lifetimes(points(*capped, 21, 24, 27, 29), 4, 10)[4:] == [
        (t, 30) for t in (21, 24, 27, 29)
    ]


def test_a_session_that_begins_the_timeout_after_a_capped_one_is_a_new_one() -> None:
    """Its cap is that of a first session, so nothing of the capped one has to be kept."""
    capped = (9, 12, 15, 18)
    assert lifetimes(points(*capped, 22, 25, 28, 29), 4, 10)[4:] == [
        (t, 33) for t in (22, 25, 28, 29)
    ]
    starts = (11, 12, 21, 25, 31, 32, 41, 45, 51, 62, 71, 75)
    found = gathered(SessionBounds(10, 20, SCHEMA, ()), one_batch(points(*starts)))
    assert of_starts(found) == [
        (11, 40, [11, 12, 21, 25, 31, 32]), (41, 60, [41, 45, 51]), (62, 85, [62, 71, 75]),
    ]  # fmt: skip


def test_a_capped_session_goes_on_though_its_key_may_be_forgotten() -> None:
    """Its key is held until the timeout after its last start: what comes by then belongs to it."""
    a, b = ({"k": k, "x": 1, "y": None} for k in "ab")
    first, then = (10, 13, 16, 19), (22, 25, 28, 31, 34, 36, 38)
    items = [
        *(("point", t, a) for t in first), ("cti", 20),
        ("point", 21, b), ("cti", 22),
        *(("point", t, a) for t in then), ("cti", 60),
    ]  # fmt: skip
    with forgetful():
        found = history_by_ctis(
            lambda s: s.group_by("k").session_window(4, 10).aggregate(n=agg.count()), items
        )
    assert [(start, end) for start, end, row in found if row["k"] == "a"] == [
        (10, 20), (22, 30), (31, 40),
    ]  # fmt: skip


def test_a_session_at_the_end_of_time_never_ends() -> None:
    """Its end is limited to the end of time, so its rows never end."""
    late = MAX_TIME - 3
    assert lifetimes(points(late), 5) == [(late, MAX_TIME)]
    items = [("point", late, {"k": None, "x": 1, "y": None}), ("cti", late + 1), ("cti", MAX_TIME)]
    made = physical.batches(items, [slice(0, 2), slice(2, 3)])
    out = physical.run(made, session_lifetimes(5))
    assert [len(batch) for batch in out] == [1, 0]
    assert physical.rows(out) == [Row(late, MAX_TIME, items[0][-1])]


def test_a_row_leaves_when_it_is_committed_and_ends_when_its_session_does() -> None:
    """A start edge leaves once the CTI has passed it; the end edge leaves at the session's end."""
    row = {"k": "a", "x": 1, "y": None}
    items = [("point", 2, row), ("cti", 2), ("cti", 3), ("cti", 6), ("cti", 7)]
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    out = physical.run(made, session_lifetimes(5))
    told = [
        (batch.cti, start, end, bool(edge))
        for batch in out
        for start, end, edge in zip(batch.start, batch.end, batch.edge, strict=True)
    ]
    assert told == [(3, 2, MAX_TIME, True), (7, 2, 7, True)]


def test_ends_of_rows_are_ignored() -> None:
    """End edges are dropped: an open row ends with its session like any other."""
    row = {"k": "a", "x": 1, "y": None}
    items = [("start", 0, row), ("interval", 3, MAX_TIME, row), ("cti", 2), ("end", 0, 90, row)]
    assert lifetimes([*items, ("cti", MAX_TIME)], 5) == [(0, 8), (3, 8)]


@given(data=st.data(), spans=st.sampled_from(SPANS), keys=st.sampled_from(KEYS))
@settings(max_examples=3 * settings().max_examples)
@pytest.mark.long
def test_lifetimes_are_the_definitions(
    data: st.DataObject, spans: tuple[int, int | None], keys: list[str]
) -> None:
    """Under any cut and restarts before each batch, lifetimes are those of the definition."""
    items = arrangements.finish(data.draw(strategies.streams(payload=strategies.few_payloads())))
    cut = physical.batches(items, data.draw(strategies.cuts(len(items))))
    made = physical.group(cut, keys)
    operator = session_lifetimes(*spans)
    out = physical.run_with_restarts(made, lambda: operator.make(SCHEMA, tuple(keys)))
    expected = oracle_lifetimes.session_lifetimes(oracle.canonical(items), *spans, key=keys)
    cti = MIN_TIME
    for upto, (batch, given_batch) in enumerate(zip(out, made, strict=True), 1):
        cti = batch.check(cti).cti
        assert cti == given_batch.cti
        assert batch.keys == tuple(keys)
        assert oracle.equal_up_to(expected, physical.rows(out[:upto]), cti)
    assert oracle.history(physical.rows(out)) == oracle.history(expected)


@pytest.mark.full
def test_renumbering_rows_changes_no_lifetimes() -> None:
    """Renumbering the rows held does not change the results."""
    items = arrangements.make_tangled_stream(2_000)
    cut = arrangements.cut_evenly(items, 97)
    for spans, keys in (((4, None), ["x"]), ((900, 2_000), []), ((5, 700), ["k", "x"])):
        made = physical.group(physical.batches(items, cut), keys)
        found = physical.rows(physical.run(made, session_lifetimes(*spans)))
        expected = oracle_lifetimes.session_lifetimes(oracle.canonical(items), *spans, key=keys)
        assert oracle.history(found) == oracle.history(expected)


@pytest.mark.long
def test_only_open_sessions_are_held() -> None:
    """Rows are held only until their session has ended."""
    items: list[Any] = []
    for t in range(1_500):
        items += [("point", 10 * t, {"k": str(t % 3), "x": t, "y": None}), ("cti", 10 * t)]
    step = session_lifetimes(25).make(SCHEMA, ("k",))
    cut = arrangements.cut_evenly(items, 2)
    held = []
    for batch in physical.group(physical.batches(items, cut), ["k"]):
        step.on_batch(batch)
        held.append(step.rows)
    assert max(held) <= 5


def test_spans_are_checked_when_composed() -> None:
    """Both spans have to be positive."""
    with pytest.raises(rxt.RxTemporalError, match="timeout must be positive, got 0"):
        session_lifetimes(0)
    with pytest.raises(rxt.RxTemporalError, match="max_duration must be positive, got -1"):
        session_lifetimes(5, -1)


# The bounds of session and count windows ----------------------------------------------------------


def gathered(bounds: StartBounds, batch: EventBatch) -> list[tuple[int, int, Any, list[Row]]]:
    """Return the windows final with a batch: start, end, key, and the rows that they hold."""
    bounds.take(batch)
    found = bounds.close(batch.cti)
    keys = bounds.keys.decode(found.key).frame.rows() if batch.keys else []
    windows: list[tuple[int, int, Any, list[Row]]] = [
        (int(start), int(end), keys[i] if keys else None, [])
        for i, (start, end) in enumerate(zip(found.start, found.end, strict=True))
    ]
    payloads = bounds.payload(found.row).frame.to_dicts()
    for window, row, payload in zip(found.window, found.row, payloads, strict=True):
        windows[window][3].append(Row(int(bounds.starts[row]), int(bounds.ends[row]), payload))
    return windows


def of_starts(windows: list[Any]) -> list[Any]:
    """Return windows with only the starts of their rows."""
    return [(start, end, [row.start for row in rows]) for start, end, _, rows in windows]


def one_batch(items: list[Any]) -> EventBatch:
    """Return a stream as one batch."""
    return physical.batches(items, [slice(0, len(items))])[0]


def test_a_session_window_holds_the_rows_that_start_in_it() -> None:
    """The window reaches from the session's first start to its end."""
    found = gathered(SessionBounds(5, None, SCHEMA, ()), one_batch(points(1, 4, 9, 4)))
    assert of_starts(found) == [(1, 9, [1, 4, 4]), (9, 14, [9])]


def test_a_count_window_holds_n_distinct_starts() -> None:
    """The window slides by one distinct start; fewer than n starts make none."""
    found = gathered(CountBounds(2, SCHEMA, ()), one_batch(points(1, 4, 9, 4)))
    assert of_starts(found) == [(1, 5, [1, 4, 4]), (4, 10, [4, 4, 9])]
    assert gathered(CountBounds(4, SCHEMA, ()), one_batch(points(1, 4, 9, 4))) == []
    assert of_starts(gathered(CountBounds(1, SCHEMA, ()), one_batch(points(1, 4, 4)))) == [
        (1, 2, [1]), (4, 5, [4, 4]),
    ]  # fmt: skip


def test_a_window_shows_the_end_known_so_far() -> None:
    """An end edge counts if it arrives before its row's window is final."""
    a, b = ({"k": k, "x": 1, "y": None} for k in "ab")
    items = [("start", 0, a), ("start", 1, b), ("end", 0, 7, a), ("cti", 6), ("end", 1, 8, b)]
    bounds = SessionBounds(5, None, SCHEMA, ())
    made = physical.batches([*items, ("cti", 9)], [slice(0, 4), slice(4, 6)])
    assert gathered(bounds, made[0]) == [(0, 6, None, [Row(0, 7, a), Row(1, MAX_TIME, b)])]
    assert gathered(bounds, made[1]) == []
    assert bounds.rows == 0


def expected_cti(kind: str, t: int, items: list[Any], args: Any, keys: list[str]) -> int:
    """Return the output CTI by definition, for results that live for the whole window."""
    if kind == "session":
        return oracle_windows.cti_session_window(t, items, *args, key=keys)
    return oracle_windows.cti_count_window(t, items, *args, key=keys)


def assert_windows(
    items: list[Any], cut: list[slice], window: tuple[str, Any], keys: list[str]
) -> None:
    """Say that under a cut each window comes when it is final, with its rows, under the CTI rule.

    The bounds are saved and loaded anew before each batch.
    """
    kind, args = window
    bounds: Any = SessionBounds if kind == "session" else CountBounds
    model: Any = (
        oracle_windows.session_windows if kind == "session" else oracle_windows.count_windows
    )
    state, found, reached = bounds(*args, SCHEMA, tuple(keys)), [], MIN_TIME
    for run, batch in zip(cut, physical.group(physical.batches(items, cut), keys), strict=True):
        saved, state = state.save(), bounds(*args, SCHEMA, tuple(keys))
        state.load(saved)
        new = gathered(state, batch)
        assert [end for _, end, *_ in new] == sorted(end for _, end, *_ in new)
        assert all(reached < end <= batch.cti for _, end, *_ in new)
        reached = batch.cti
        found += new
        ctis = [state.cti(batch.cti, points=points) for points in (True, False)]
        promised = expected_cti(kind, batch.cti, items[: run.stop], args, keys)
        assert ctis == [batch.cti, promised]
    rows = oracle.canonical(items)
    expected = [
        (each.start, each.end, sorted(row.start for row in each.rows), fields)
        for fields, members in oracle.groups(rows, keys)
        for each in model(members, *args)
    ]
    got = [
        (start, end, [row.start for row in held], dict(zip(keys, key or (), strict=True)))
        for start, end, key, held in found
    ]
    assert sorted(map(oracle.freeze, got), key=repr) == sorted(
        map(oracle.freeze, expected), key=repr
    )


@given(
    data=st.data(),
    window=st.sampled_from([("session", spans) for spans in SPANS] + [("count", (n,)) for n in NS]),
    keys=st.sampled_from(KEYS),
)
@settings(max_examples=4 * settings().max_examples)
@pytest.mark.long
def test_windows_are_the_definitions(
    data: st.DataObject, window: tuple[str, Any], keys: list[str]
) -> None:
    """Under any cut and restarts before each batch, windows leave once, when they are final."""
    items = arrangements.finish(data.draw(strategies.streams(payload=strategies.few_payloads())))
    assert_windows(items, data.draw(strategies.cuts(len(items))), window, keys)


@pytest.mark.full
@pytest.mark.parametrize(
    "window", [("session", (4, None)), ("session", (50, 700)), ("count", (9,))]
)
def test_renumbering_rows_changes_no_windows(window: tuple[str, Any]) -> None:
    """Renumbering the rows held does not change the results."""
    items = arrangements.make_tangled_stream(2_000)
    cut = arrangements.cut_evenly(items, 97)
    assert_windows(items, cut, window, ["x"])


@pytest.mark.parametrize(
    "make", [lambda: SessionBounds(25, 100, SCHEMA, ("k",)), lambda: CountBounds(3, SCHEMA, ("k",))]
)
@pytest.mark.long
def test_only_rows_of_windows_to_come_are_held(make: Any) -> None:
    """Rows, their edges and waiting times do not pile up."""
    items: list[Any] = [("start", 0, {"k": "silent", "x": 0, "y": None})]
    for t in range(1_500):
        row = {"k": str(t % 3), "x": t, "y": None}
        items += [("start", 10 * t, row), ("cti", 10 * t)]
    step = make()
    cut = arrangements.cut_evenly(items, 2)
    held, waits = [], []
    for batch in physical.group(physical.batches(items, cut), ["k"]):
        gathered(step, batch)
        step.cti(batch.cti, points=False)
        held.append((step.rows, len(step._open)))
        waits.append(len(step._waiting._time))
    assert max(map(max, held)) <= 12
    assert max(waits) <= 128


@pytest.mark.parametrize(
    "query",
    [
        lambda s: s.session_lifetimes(10, 3),
        lambda s: s.session_window(10, 3).aggregate(n=agg.count()),
        lambda s: s.session_window(10).aggregate(n=agg.count()),
    ],
    ids=["session_lifetimes", "session_window", "without a cap"],
)
@pytest.mark.long
def test_keys_of_sessions_that_are_over_are_forgotten(query: Any) -> None:
    """A key is held until ``timeout`` after its last start, also if its session was capped.

    So with ten times the keys, none of which comes again, no more is held or saved at the peak.
    """

    def peak(batches: int) -> tuple[int, int]:
        stream = rxt.from_events([], schema={"k": int}, name="clicks")
        stepper, most = Stepper(query(stream.group_by("k"))), (0, 0)
        for number in range(batches):
            start = np.arange(100 * number, 100 * (number + 1))
            clicks = EventBatch.of_rows(start, start + 1, pl.DataFrame({"k": start}), start[-1])
            stepper.push("clicks", clicks)
            most = max(most[0], stepper.rows), max(most[1], sum(map(len, stepper.save())))
        return most

    (rows, size), (more_rows, more_size) = peak(60), peak(600)
    assert more_rows == rows <= 10
    assert more_size <= 1.1 * size


# Sums of open sessions ---------------------------------------------------------------------------


SUMS: dict[str, Any] = {
    "n": (agg.count(), oracle.count()),
    "nx": (agg.count("x"), oracle.count("x")),
    "sx": (agg.sum("x"), oracle.sum_("x")),
    "lx": (agg.min("x"), oracle.min_("x")),
    "gy": (agg.max("y"), oracle.max_("y")),
    "lk": (agg.min("k"), oracle.min_("k")),
    "tally": (
        Tally("x"),
        lambda rows: sum(v := values(rows, "x")) * 10 + len(set(v)),
    ),
}  # fmt: skip


def make_sums(*spans: int | None, **options: Any) -> Any:
    """Return session windows whose aggregates are all incremental."""
    windows = session_window(*spans, **options)  # type: ignore[arg-type]
    (operator,) = windows.aggregate(**{name: pair[0] for name, pair in SUMS.items()}).operators
    return operator


@given(data=st.data(), spans=st.sampled_from(SPANS), keys=st.sampled_from(KEYS))
@settings(max_examples=3 * settings().max_examples)
@pytest.mark.long
def test_sums_of_sessions_are_the_definitions(
    data: st.DataObject, spans: tuple[int, int | None], keys: list[str]
) -> None:
    """Under any cut and restarts before each batch, with the CTIs of the definition."""
    items = arrangements.finish(data.draw(strategies.streams(payload=strategies.few_payloads())))
    cut = data.draw(strategies.cuts(len(items)))
    made = physical.group(physical.batches(items, cut), keys)
    out = physical.run_with_restarts(made, lambda: make_sums(*spans).make(SCHEMA, tuple(keys)))
    for run, batch, result in zip(cut, made, out, strict=True):
        promised = expected_cti("session", batch.cti, items[: run.stop], spans, keys)
        assert result.cti == promised
    expected = oracle_windows.window_aggregate(
        oracle.canonical(items),
        lambda rows: oracle_windows.session_windows(rows, *spans),
        {name: pair[1] for name, pair in SUMS.items()},
        keys,
    )
    assert oracle.history(physical.rows(out)) == oracle.history(expected)


def count_clicks(start: list[int], cti: int) -> EventBatch:
    """Return points whose value is their start, as one batch."""
    rows = [{"k": "a", "x": t, "y": None} for t in start]
    times = np.array(start, np.int64)
    return EventBatch.of_rows(times, times + 1, pl.DataFrame(rows, schema=physical.SCHEMA), cti)


def list_sums(batch: EventBatch) -> list[tuple[Any, ...]]:
    """Return start, end, count, sum and least value of each session."""
    found = batch.payload.select("n", "sx", "lx").rows()
    return [(*times, *row) for *times, row in zip(batch.start, batch.end, found, strict=True)]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_row_that_comes_late_joins_two_sessions(restarts: bool) -> None:
    """Rows on both sides of it would be sessions of their own; the CTI has passed neither.

    So does one that comes after the CTI has passed the first session, but not its end.
    """
    step: Any = make_sums(5).make(SCHEMA, ())

    def push(start: list[int], cti: int) -> list[tuple[Any, ...]]:
        nonlocal step
        if restarts:
            saved, step = step.save(), make_sums(5).make(SCHEMA, ())
            step.load(saved)
        return list_sums(step.on_batch(count_clicks(start, cti)))

    # 8 would begin a session of its own, without 4
    assert push([8, 1, 0], 3) == []
    assert push([4], 5) == []
    assert push([16, 9], 13) == []
    assert push([], 14) == [(0, 14, 5, 22, 0)]
    # 20 joins 16 with 24, which has come before
    assert push([24], 17) == []
    assert push([20], 29) == [(16, 29, 3, 60, 16)]
    # 36 comes when all others are there
    assert push([38, 30, 33], 30) == []
    assert push([36], 50) == [(30, 43, 4, 137, 30)]


def test_a_step_that_loads_a_state_forgets_rows_that_are_not_added_up() -> None:
    """Rows of small batches are added up together; a loaded state replaces those that wait."""
    first, second = (make_sums(5).make(SCHEMA, ()) for _ in range(2))
    first.on_batch(count_clicks([0, 1, 2], 3))
    second.on_batch(count_clicks([1], 2))
    assert (first.rows, second.rows) == (3, 1)
    first.load(second.save())
    assert first.rows == 1
    for step in first, second:
        assert list_sums(step.on_batch(count_clicks([], MAX_TIME))) == [(1, 6, 1, 1, 1)]


@pytest.mark.parametrize("step_size", [1, 100])
def test_an_open_session_holds_sums_and_no_rows(step_size: int) -> None:
    """Of rows that the CTI has passed nothing is held or saved but what they add up to."""

    def hold(count: int) -> tuple[int, int]:
        step: Any = make_sums(10**6).make(SCHEMA, ("k",))
        for at in range(0, count, step_size):
            times = np.arange(at, at + step_size)
            rows = pl.DataFrame(
                {"k": [f"{t % 5}" for t in times], "x": times % 7, "y": times * 0.1},
                schema=physical.SCHEMA,
            )
            step.on_batch(EventBatch.of_rows(times, times + 1, rows, at + step_size, ("k",)))
            assert step.rows == at + step_size
        size = len(step.save())
        assert len(step._rows) == 0
        last = step.on_batch(EventBatch.empty(SCHEMA, MAX_TIME, ("k",)))
        assert last.payload["n"].to_list() == [count // 5] * 5
        return size, step.rows

    (size, rest), (more_size, more_rest) = hold(500), hold(5_000)
    assert abs(more_size - size) < 500
    assert rest == more_rest == 0


@pytest.mark.parametrize(
    ("windows", "held"),
    [
        (lambda s: s.aggregate(n=agg.count(), s=agg.std("y")), False),
        (lambda s: s.aggregate(n=agg.count(), first=agg.first("y")), True),
        (lambda s: s.aggregate(n=agg.count(), mean=agg.time_mean("y")), True),
        (lambda s: s.top_k(1, "y"), True),
    ],
    ids=["sums", "a list", "by time", "top_k"],
)
def test_rows_of_open_sessions_are_held_where_a_result_needs_them(windows: Any, held: bool) -> None:
    """A single such result is enough; what is saved then grows with the rows."""
    stream = rxt.from_events([], schema=physical.SCHEMA, name="clicks", unit="ticks")

    def save(count: int) -> int:
        stepper = Stepper(windows(stream.group_by("k").session_window(10**6)))
        rows = [{"k": "a", "x": 1, "y": 0.5}] * count
        times = np.arange(count)
        payload = pl.DataFrame(rows, schema=physical.SCHEMA)
        stepper.push("clicks", EventBatch.of_rows(times, times + 1, payload, count))
        return sum(map(len, stepper.save()))

    grown = save(1_100) - save(100)
    assert (grown > 30_000) if held else (grown < 500)


@pytest.mark.long
def test_numbers_of_ended_sessions_are_given_up() -> None:
    """Many short sessions beside one that stays open leave no more than a few thousand do."""
    step: Any = make_sums(5).make(SCHEMA, ("k",))
    ended, counts = 0, []
    for at in range(0, 60_000, 60):
        times = np.arange(at, at + 60, 2)
        keys = ["open" if time % 4 == 0 else f"{time}" for time in times]
        rows = pl.DataFrame({"k": keys, "x": 1, "y": 0.0}, schema=physical.SCHEMA)
        ended += len(step.on_batch(EventBatch.of_rows(times, times + 1, rows, at + 60, ("k",))))
        counts.append((step._count, len(step._results._outputs[2].by._total[0])))
    assert ended > 14_000
    assert max(map(max, counts)) < 5_000
    last = step.on_batch(EventBatch.empty(SCHEMA, MAX_TIME, ("k",)))
    assert last.payload.filter(pl.col("k") == "open")["n"].to_list() == [15_000]


def test_the_oldest_of_many_open_sessions_holds_the_cti() -> None:
    """However many of other keys begin while it is open."""
    clicks = rxt.from_events([], schema={"user": str}, name="clicks")
    sessions = clicks.group_by("user").session_window(1_000).aggregate(n=agg.count())
    stepper, ctis = Stepper(sessions), set()
    for time in range(200):
        row = {"start_time": time, "end_time": time + 1, "user": f"{time}"}
        made = stepper.push("clicks", EventBatch.from_dicts([row], cti=time + 1))
        ctis |= {batch.cti for batch in made}
    assert ctis == {0}


def test_the_stream_has_it_as_an_operator() -> None:
    """In a grouped stream each key has its own sessions, and the keys are kept."""
    clicks = [rxt.PointEvent(t, {"user": user}) for t, user in [(0, "a"), (3, "b"), (6, "a")]]
    batches = rxt.from_events(clicks).group_by("user").to_batches()
    out = physical.run(list(batches), session_lifetimes(5))
    assert out[-1].keys == ("user",)
    assert sorted((r.start, r.end, r.payload["user"]) for r in physical.rows(out)) == [
        (0, 5, "a"), (3, 8, "b"), (6, 11, "a"),
    ]  # fmt: skip
