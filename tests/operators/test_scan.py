"""scan: a user's function, called with each row of a key in order and with the key's state."""

from __future__ import annotations

import dataclasses
from typing import Any

import arrangements
import oracle
import oracle_lifetimes
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Row

import rxtemporal as rxt
from rxtemporal import (
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    Cti,
    EdgeEvent,
    EventBatch,
)
from rxtemporal.operators.group_by import GroupStep
from rxtemporal.operators.scan.plan import scan

SCHEMA = pl.Schema(physical.SCHEMA)
RESULT = {"n": int, "seen": str}


def remember(state: dict[str, Any], start: int, payload: dict[str, Any]) -> tuple[Any, Any]:
    """Number the rows; return no, one or two results that contain the last rows."""
    state["last"] = [*state["last"], (start, payload["x"], payload["k"])][-3:]
    state["n"] += 1
    result = {"n": state["n"], "seen": repr(state["last"])}
    choices = (None, result, [result, {**result, "n": -1}], [])
    return state, choices[state["n"] % 4]


SEED: dict[str, Any] = {"n": 0, "last": []}


def row(k: str, x: int | None = None) -> dict[str, Any]:
    """Return a payload."""
    return {"k": k, "x": x, "y": None}


def scanned(items: list[Any], fn: Any, seed: Any = 0, schema: Any = None) -> list[Row]:
    """Return the results of a stream in one batch, by start."""
    made = physical.batches(arrangements.finish(items), [slice(0, len(items) + 1)])
    out = physical.run(made, scan(seed, fn, schema=schema or {"n": int}))
    return sorted(physical.rows(out), key=lambda each: (each.start, str(each.payload)))


def test_the_function_is_called_in_order_of_start() -> None:
    """The function gets starts as ticks, payloads as dicts, and its last state."""
    seen: list[Any] = []

    def total(state: int, start: int, payload: dict[str, Any]) -> tuple[int, dict[str, int]]:
        seen.append((state, start, payload["k"]))
        return state + payload["x"], {"n": state + payload["x"]}

    items = [("point", 5, row("b", 1)), ("interval", 2, 9, row("a", 2)), ("point", 7, row("c", 4))]
    found = scanned(items, total)
    assert seen == [(0, 2, "a"), (2, 5, "b"), (3, 7, "c")]
    assert found == [Row(2, 9, {"n": 2}), Row(5, 6, {"n": 3}), Row(7, 8, {"n": 7})]


def test_rows_of_one_start_come_in_order_of_payload() -> None:
    """Rows are sorted by the fields in the schema's order, nulls first, NaN last."""
    seen: list[Any] = []

    def note(state: int, start: int, payload: dict[str, Any]) -> tuple[int, None]:
        seen.append(tuple(payload.values()))
        return state, None

    values = [
        ("b", 1, 0.5),
        ("a", 2, float("nan")),
        ("a", 2, 7.0),
        ("a", None, None),
        (None, 9, 0.0),
    ]
    items = [("point", 1, dict(zip("kxy", value, strict=True))) for value in values]
    assert scanned(items, note) == []
    assert repr(seen) == repr(
        [(None, 9, 0.0), ("a", None, None), ("a", 2, 7.0), ("a", 2, float("nan")), ("b", 1, 0.5)]
    )


def test_a_call_returns_no_one_or_several_results() -> None:
    """A result is None, a payload or a list of payloads; a dataclass is a payload too."""

    @dataclasses.dataclass
    class Told:
        n: int

    given = iter([None, {"n": 1}, [{"n": 2}, Told(3)], [], Told(4)])
    items = [("point", t, row("a")) for t in range(5)]
    found = scanned(items, lambda state, start, payload: (state, next(given)), schema=Told)
    assert [(each.start, each.payload["n"]) for each in found] == [(1, 1), (2, 2), (2, 3), (4, 4)]


def test_results_live_as_long_as_the_row() -> None:
    """Results of an open row leave as start edges once it is committed, and end with it.

    They do so at the CTI that reaches its end: no row to come ends before.
    """
    items = [
        ("start", 3, row("a")), ("cti", 3), ("cti", 4),
        ("start", 5, row("b")), ("end", 3, 8, row("a")), ("end", 5, 9, row("b")), ("cti", 6),
        ("cti", 8), ("cti", 9),
    ]  # fmt: skip
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    twice = scan(None, lambda state, start, payload: (state, [{"t": start}] * 2), schema={"t": int})
    told = [
        (batch.cti, start, end, edge)
        for batch in physical.run(made, twice)
        for start, end, edge in zip(
            batch.start.tolist(), batch.end.tolist(), batch.edge.tolist(), strict=True
        )
    ]
    assert told == [
        (4, 3, MAX_TIME, 1), (4, 3, MAX_TIME, 2), (6, 5, 9, 0), (6, 5, 9, 0),
        (8, 3, 8, 1), (8, 3, 8, 2),
    ]  # fmt: skip


def test_the_first_of_equal_rows_to_end_ends_the_first_results() -> None:
    """Rows that differ only in their ends are treated alike, whichever arrives first."""

    def number(state: int, start: int, payload: dict[str, Any]) -> tuple[int, dict[str, int]]:
        return state + 1, {"n": state + 1}

    a = row("a")
    ends = [("end", 0, 9, a), ("end", 0, 4, a)]
    rows = [("start", 0, a), ("interval", 0, MAX_TIME, a), ("start", 0, a), ("interval", 0, 6, a)]
    for items in (
        [*rows, ("cti", 2), *ends],
        [*rows[::-1], ("cti", 2), *ends[::-1]],
        [*rows, *ends],
    ):
        assert [(each.end, each.payload["n"]) for each in scanned(items, number)] == [
            (4, 1), (6, 2), (9, 3), (MAX_TIME, 4),
        ]  # fmt: skip


def test_each_key_has_a_state_of_its_own() -> None:
    """A key's state begins as a copy of the seed; results begin with the keys."""

    def collect(state: list[Any], start: int, payload: dict[str, Any]) -> tuple[Any, Any]:
        state.append(payload["x"])
        return state, {"n": len(state)}

    seed: list[Any] = []
    events = [rxt.PointEvent(t, row("ab"[t % 2], t)) for t in range(4)]
    batches = list(rxt.from_events(events).group_by("k").to_batches())
    out = physical.run(batches, scan(seed, collect, schema={"n": int}))
    assert out[-1].keys == ("k",)
    assert sorted((each.start, *each.payload.values()) for each in physical.rows(out)) == [
        (0, "a", 1), (1, "b", 1), (2, "a", 2), (3, "b", 2),
    ]  # fmt: skip
    assert seed == []


@given(data=st.data(), keys=st.sampled_from([(), ("k",)]))
def test_scan_is_the_definition(data: st.DataObject, keys: tuple[str, ...]) -> None:
    """Under any cut and restarts before each batch, each row is read once and in order."""
    values = data.draw(st.sampled_from([strategies.payloads(), strategies.few_payloads()]))
    items = arrangements.finish(data.draw(strategies.streams(payload=values)))
    made = physical.batches(items, data.draw(strategies.cuts(len(items))))
    made = physical.group(made, keys)
    expected = oracle_lifetimes.scan(oracle.canonical(items), SEED, remember, keys)
    operator = scan(SEED, remember, schema=RESULT)
    step, cti = operator.make(SCHEMA, keys), MIN_TIME
    out: list[EventBatch] = []
    for batch in made:
        saved, step = step.save(), operator.make(SCHEMA, keys)
        step.load(saved)
        out.append(step.on_batch(batch))
        cti = out[-1].check(cti).cti
        assert (cti, out[-1].keys) == (batch.cti, keys)
        assert out[-1].schema == operator.output(SCHEMA, keys)
        assert oracle.equal_up_to(expected, physical.rows(out), cti)
    assert oracle.history(physical.rows(out)) == oracle.history(expected)


@pytest.mark.full
def test_renumbering_rows_changes_no_results() -> None:
    """Renumbering the rows held does not change the results."""
    items = arrangements.make_tangled_stream(2_000)
    cut = arrangements.cut_evenly(items, 97)
    out = physical.run(physical.batches(items, cut), scan(SEED, remember, schema=RESULT))
    expected = oracle_lifetimes.scan(oracle.canonical(items), SEED, remember)
    assert oracle.history(physical.rows(out)) == oracle.history(expected)


@pytest.mark.long
def test_only_open_rows_and_results_are_held() -> None:
    """Rows are held until committed, and results of open rows until the rows end."""
    items: list[Any] = []
    for t in range(300):
        items += [("start", t, row("a", t)), ("point", t + 1, row("b", t))]
        items += [("end", t - 3, t, row("a", t - 3))] if t >= 3 else []
        items.append(("cti", t))
    cut = arrangements.cut_at_ctis(items)
    results = [{"n": 1}, {"n": 2}]
    step: Any = scan(0, lambda s, t, p: (s, results), schema={"n": int}).make(SCHEMA, ())
    held = []
    for batch in physical.batches(items, cut):
        step.on_batch(batch)
        held.append((step.rows, len(step._open_results._calls), len(step._open)))
    assert max(map(max, held)) <= 12


# What goes wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"n": 1}, r"returns a pair \(state, result\), got \{'n': 1\}"),
        ((0, {}), "field 'n' is missing"),
        ((0, {"n": 1, "m": 2}), "field 'm' appears"),
        ((0, {"n": "one"}), "cannot hold 'one'"),
        ((0, "one"), "field 'payload'|field 'n' is missing"),
    ],
)
def test_a_result_that_does_not_fit_is_refused(told: Any, message: str) -> None:
    """The error shows the result and the schema."""
    with pytest.raises(rxt.SchemaError, match=message):
        scanned([("point", 1, row("a"))], lambda state, start, payload: told)


def test_an_exception_of_the_function_is_raised() -> None:
    """The exception keeps its type and gets a note of where the operator was composed."""

    def bad(state: int, start: int, payload: dict[str, Any]) -> Any:
        raise ZeroDivisionError("a user's own")

    with pytest.raises(ZeroDivisionError, match="a user's own") as raised:
        scanned([("point", 1, row("a"))], bad)
    assert "in scan, composed at" in raised.value.__notes__[0]


def test_a_group_key_is_not_returned() -> None:
    """A schema or result with a group key is refused, since keys are added to each result."""
    operator = scan(0, lambda state, start, payload: (state, payload), schema={"x": int})
    batch = EventBatch.from_dicts([{"start_time": 1, "k": "a", "x": 2}], cti=9)
    step = GroupStep(("k",))
    with pytest.raises(rxt.SchemaError, match="returns 'k', which is a group key"):
        physical.run([step.on_batch(batch)], operator)
    with pytest.raises(rxt.SchemaError, match="'k' is a group key"):
        scan(0, print, schema={"k": str}).output(batch.schema, ("k",))


@pytest.mark.parametrize(
    ("seed", "done", "other"),
    [(None, None, 0), (0, 0, False), ([], [], ()), ({}, {}, {"x": 1}), (0.0, 0.0, -0.0)],
)
@pytest.mark.long
def test_a_key_is_forgotten_when_its_state_is_the_seed_again(
    seed: Any, done: Any, other: Any
) -> None:
    """Keys whose state is surely the seed are gone from what is saved; any other state stays."""

    def save_size(last: Any) -> int:
        operator = scan(seed, lambda state, start, payload: (last, None), schema={"n": int})
        step = operator.make(SCHEMA, ("k",))
        for first in range(0, 10_000, 1_000):
            numbers = range(first, first + 1_000)
            rows = [{"start_time": n, "k": f"key {n}", "x": 1, "y": None} for n in numbers]
            batch = EventBatch.from_dicts(rows, schema=SCHEMA, cti=first + 1_000)
            step.on_batch(batch.replace(keys=("k",)))
        return len(step.save())

    assert 3 * save_size(done) < save_size(other)


def test_a_state_that_cannot_be_saved_is_named() -> None:
    """A state is made of plain values; the error names any other value."""
    operator = scan(None, lambda state, start, payload: (object, None), schema={"n": int})
    step = operator.make(SCHEMA, ())
    step.on_batch(physical.batches([("point", 1, row("a")), ("cti", 2)], [slice(0, 2)])[0])
    with pytest.raises(rxt.CheckpointError, match="cannot be saved"):
        step.save()


def test_arguments_are_checked_when_composed() -> None:
    """A seed in the function's place and an invalid schema are refused."""
    with pytest.raises(rxt.RxTemporalError, match="takes a seed and a function"):
        scan(print, 0, schema={"n": int})  # type: ignore[arg-type]
    with pytest.raises(rxt.SchemaError, match="schema= is a mapping"):
        scan(0, print, schema=3)


@pytest.mark.parametrize("name", ["scan", "deadband", "previous"])
def test_an_end_at_the_last_cti_leaves(name: str) -> None:
    """However the events come together, and though time goes no further."""
    queries: dict[str, Any] = {
        "scan": lambda s: s.scan(0, lambda n, *_: (n + 1, {"n": n}), schema={"n": int}),
        "deadband": lambda s: s.deadband("x", 1),
        "previous": lambda s: s.previous("x"),
    }
    generation = AdvanceTimeGenerationSettings(1000, 0, advance_to_infinity_on_shutdown=False)
    settings = AdvanceTimeSettings(generation, policy=AdvanceTimePolicy.DROP)
    payload = {"x": 1}
    events = [
        EdgeEvent.create_start(7, payload),
        Cti(8),
        EdgeEvent.create_end(7, 11, payload),
        Cti(11),
    ]
    for each in (events, iter(events)):
        stream = rxt.from_events(each, schema={"x": int}, advance_time=settings, unit="ticks")
        assert queries[name](stream).to_polars().rows()[0][:2] == (7, 11)
