"""detect by example: preference, skips, limits of time, absence, and what is refused."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import pattern as pt
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.detect import text
from rxtemporal.operators.detect.automaton import build
from rxtemporal.operators.detect.layout import THREAD_COUNT
from rxtemporal.operators.detect.step import DetectStep
from rxtemporal.testing import Stepper

X = pl.col("x")
FALLS, RISES = pt.prev("x") > X, pt.prev("x") < X


def points(values: list[Any], dtype: Any = float) -> rxt.Streamable:
    """Return a stream of values at ticks 0, 1, 2 …."""
    rows = [rxt.PointEvent(time, {"x": x}) for time, x in enumerate(values)]
    return rxt.from_events(rows, schema={"x": dtype}, name="readings")


def find(values: list[Any], pattern: str, **options: Any) -> list[str]:
    """Return the matches as texts: the number of each row from 1 on, and its variable."""
    made = points(values).detect(pattern, rows="all", **options).to_polars(time="ticks")
    found = dict[int, str]()
    for start, match, variable in made.select("start_time", "match", "variable").rows():
        found[match] = f"{found.get(match, '')} {start + 1}{variable}".strip()
    return list(found.values())


def test_a_fall_and_a_rise() -> None:
    """Greedy quantifiers take as many rows as they can; the next match begins behind the last."""
    values = [90, 80, 70, 80, 90, 50, 40, 60]
    assert find(values, "A B+ C+", B=FALLS, C=RISES) == ["1A 2B 3B 4C 5C", "6A 7B 8C"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("B+?", ["2B", "3B", "4B"]), ("B{2,}?", ["2B 3B"]), ("B{5,}", [])],
)
def test_reluctant_quantifiers(pattern: str, expected: list[str]) -> None:
    """They take as few rows as they can."""
    assert find([90, 80, 70, 70], pattern, B=pt.prev("x") >= X) == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("past_last", [(0, 4)]),
        ("next", [(0, 4), (1, 4), (3, 6)]),
        (("first", "C"), [(0, 4), (3, 6)]),
        (("last", "C"), [(0, 4), (3, 6)]),
        (("last", "D"), [(0, 4)]),
    ],
)
def test_skips(skip: Any, expected: list[tuple[int, int]]) -> None:
    """Where the next match may begin."""
    query = points([90, 80, 70, 80, 70, 80]).detect(
        "A B+ C+ D?", B=FALLS, C=RISES, D=False, skip=skip
    )
    assert query.to_polars(time="ticks").select("start_time", "end_time").rows() == expected


def test_running_aggregates() -> None:
    """A condition sees the rows matched so far, and its own row among them."""
    values = [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]
    query = points(values).detect(
        "A+ B", A=pt.mean("A.x") < 15, measures={"mean": pt.mean("A.x"), "n": pt.count("A")}
    )
    assert query.to_polars(time="ticks").rows() == [(0, 5, 14.5, 4), (5, 12, 13.5, 6)]


def test_a_limit_of_time_chooses_a_later_start() -> None:
    """Within an hour, half-open: starts whose match would be too long give none."""
    minutes = [0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200]
    values = [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19]
    rows = [rxt.PointEvent(m, {"x": x}) for m, x in zip(minutes, values, strict=True)]
    query = rxt.from_events(rows).detect(
        "A B* C",
        B=pt.first("A.x") - 10 < X,
        C=pt.first("A.x") - 10 > X,
        within=60,
        measures={"a": pt.first("A.x"), "began": pt.first("A.start"), "c": pt.last("C.start")},
    )
    assert query.to_polars(time="ticks").rows() == [(140, 181, 14, 140, 180)]


LETTERS = [(1, "a"), (2, "b"), (4, "a"), (5, "c"), (10, "b"), (11, "a"), (13, "b")]


def absence(stream: rxt.Streamable, **options: Any) -> rxt.Streamable:
    """Return the rows a that no b follows within three ticks."""
    k = pl.col("k")
    return stream.detect("A !B", A=k == "a", B=k == "b", within=3, **options)


def test_a_match_that_waits_for_an_absence_holds_the_time_of_its_last_row() -> None:
    """It may still leave, as a point there, so the CTI cannot pass it."""
    k = pl.col("k")
    stream = rxt.from_events([], schema={"k": str}, name="rows")
    made = stream.detect(
        "A B !C", A=k == "a", B=k == "b", C=k == "c", within=9, skip="next", at="last"
    )
    stepper = Stepper(made)
    rows = [{"start_time": time, "k": k} for time, k in ((1, "a"), (3, "b"), (5, "x"))]
    (out,) = stepper.push("rows", rxt.EventBatch.from_dicts(rows, cti=8))
    assert (len(out), out.cti) == (0, 3)
    (out,) = stepper.push("rows", rxt.EventBatch.from_dicts(rows[:0], cti=10))
    assert (out.start.tolist(), out.cti) == ([3], 10)


def test_an_absence_leaves_by_a_cti_alone() -> None:
    """As soon as no row that may come is early enough, and no sooner."""
    stream = rxt.from_events([], schema={"k": str}, name="left")
    stepper = Stepper(absence(stream))
    rows = [{"start_time": t, "k": k} for t, k in LETTERS]
    given = [rxt.EventBatch.from_dicts(rows[:4], cti=6), rxt.EventBatch.from_dicts(rows[:0], cti=7)]
    first, second = given[0], given[0].none(7)
    (out,) = stepper.push("left", first)
    assert (len(out), out.cti) == (0, 4)
    (out,) = stepper.push("left", second)
    assert (out.start.tolist(), out.cti, stepper.rows) == ([4], 7, 0)


@pytest.mark.parametrize("at", ["span", "last"])
def test_an_absence(at: Any) -> None:
    """Only the second a is alone for long enough."""
    stream = rxt.from_events([rxt.PointEvent(t, {"k": k}) for t, k in LETTERS])
    assert absence(stream, at=at).to_polars(time="ticks").rows() == [(4, 5, 1)]


def test_of_two_ways_that_wait_for_an_absence_the_preferred_one_is_the_match() -> None:
    """Both end in one moment, and there is one match from their row on."""
    for pattern, expected in (("A B !C | A !D", "1A 2B"), ("A !D | A B !C", "1A")):
        assert find([1, 2], pattern, A=X == 1, B=X == 2, C=X == 3, D=X == 4, within=5) == [expected]


def test_skipped_rows() -> None:
    """The connectors skip to the next row that matches, or to any later one."""
    values = [1, 5, 2, 7, 2, 3]
    one, two, three = (pl.col("x") == n for n in (1, 2, 3))
    assert find(values, "A B", A=one, B=two) == []
    assert find(values, "A ~> B", A=one, B=two) == ["1A 3B"]
    assert find(values, "A ~> B C", A=one, B=two, C=three) == []
    assert find(values, "A ~>> B C", A=one, B=two, C=three) == ["1A 5B 6C"]
    assert find(values, "A !N ~> B", A=one, B=two, N=X == 7) == ["1A 3B"]
    assert find(values, "A !N ~>> B C", A=one, B=two, C=three, N=X == 7) == []


def test_a_group_behind_skipped_rows() -> None:
    """The first row with which it can begin is not passed, though the group fails behind it."""
    values = [1, 5, 2, 7, 2, 3]
    one, two, three, seven = (pl.col("x") == n for n in (1, 2, 3, 7))
    names = {"A": one, "B": two, "C": three, "D": seven}
    assert find(values, "A ~> (B C | D)", **names) == []
    assert find(values, "A ~>> (B C | D)", **names) == ["1A 4D"]
    assert find(values, "A ~> (D | B C)", **names) == []
    del names["C"]
    assert find(values, "A ~> (B D)+", **names) == ["1A 3B 4D"]


def test_alternatives_and_permutations() -> None:
    """The leftmost alternative is preferred, and a permutation is all of them."""
    assert find([1, 1], "A | B C", A=X == 1) == ["1A", "2A"]
    assert find([1, 1], "B C | A", A=X == 1) == ["1B 2C"]
    assert find([2, 1, 1, 2], "PERMUTE(A, B)", A=X == 1, B=X == 2) == ["1B 2A", "3A 4B"]
    six = {name: number == X for number, name in enumerate("ABCDEF")}
    assert find([3, 0, 4, 1, 5, 2], "PERMUTE(A, B, C, D, E, F)", **six) == ["1D 2A 3E 4B 5F 6C"]


def test_the_greatest_gap() -> None:
    """It is allowed; no row starts later than that after the row before."""
    rows = [rxt.PointEvent(t, {"x": 1}) for t in (0, 3, 7, 9)]
    query = rxt.from_events(rows).detect("A+", max_gap=3)
    assert query.to_polars(time="ticks").rows() == [(0, 4, 2), (7, 10, 2)]


def test_of_ways_within_the_greatest_gap_the_nearest_rows_are_taken() -> None:
    """Also where another way that came first has ended meanwhile, as 1A 2B 3C does at 9."""
    rows = [
        rxt.PointEvent(t, {"k": k}) for t, k in zip((1, 2, 3, 4, 8, 9, 10), "abcbccd", strict=True)
    ]
    k = pl.col("k")
    query = rxt.from_events(rows).detect(
        "A ~>> B ~>> C ~>> D", A=k == "a", B=k == "b", C=k == "c", D=k == "d",
        max_gap=5, rows="all",
    )  # fmt: skip
    assert query.to_polars(time="ticks")["start_time"].to_list() == [1, 4, 8, 10]


def test_starts_that_time_out() -> None:
    """Each gives its longest part, once, and what became a match gives none."""
    values = [(0, "start"), (2, "ready"), (3, "start"), (5, "stop"), (20, "start"), (21, "stop")]
    rows = [rxt.PointEvent(t, {"k": k}) for t, k in values]
    k = pl.col("k")
    query = rxt.from_events(rows).detect(
        "A ~> R ~> Z",
        A=k == "start", R=k == "ready", Z=k == "stop",
        within=5,
        timeouts=True,
        measures={"ready": pt.first("R.start")},
    )  # fmt: skip
    assert query.to_polars(time="ticks").rows() == [
        (0, 3, 2, False),
        (3, 4, None, False),
        (20, 21, None, False),
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        # the first row that matches the element, or what follows it
        ("A ~> B? ~> C", ["1A 3B 5C", "6A 7C"]),
        ("A ~> B?? ~> C", ["1A 5C", "6A 7C"]),
        ("A ~> B? C", ["6A 7C"]),
        ("A ~> B* D? C", ["1A 3B 4D 5C", "6A 7C"]),
        ("(A ~> B? | D) C", ["4D 5C", "6A 7C"]),
        ("A ~>> B? C", ["1A 5C", "6A 7C"]),
        # no row between two connectors: the more liberal one, and the absences of both
        ("A ~>> B? ~> D C", ["1A 3B 4D 5C"]),
        ("A !B ~> E? !D ~> C", ["6A 7C"]),
        ("A !D ~> B? ~> C", ["1A 3B 5C", "6A 7C"]),
        ("(A ~> E?){2}", ["1A 6A"]),
    ],
)
def test_connectors_around_an_optional_element(pattern: str, expected: list[str]) -> None:
    """What follows it ends the skip of ``~>``, too."""
    names = [name for name in "ABCDE" if name in pattern]
    conditions = {name: X.eq("ABCDE".index(name)) for name in names}
    assert find([0, 9, 1, 3, 2, 0, 2, 0], pattern, **conditions) == expected


@pytest.mark.parametrize(("pattern", "joined"), [("A ~> B? ~> C", True), ("A ~> B ~> C", False)])
def test_a_state_with_joined_connectors_is_told_from_earlier_ones(
    pattern: str, joined: bool
) -> None:
    """Earlier versions read such a pattern in another way."""
    stepper = Stepper(points([]).detect(pattern))
    (step,) = (each for each in stepper._steps if isinstance(each, DetectStep))
    assert step.made_for.endswith(", with joined connectors") is joined


def test_measures() -> None:
    """They are over all rows of a match; fields are those of the last row."""
    query = points([3, 1, 2, 5]).detect(
        "A B C",
        at="last",
        measures={
            "x": X,
            "before": pt.prev("x", 3),
            "who": pt.variable(),
            "began": pt.match_start(),
            "span": pl.col("start") - pt.match_start(),
            "sum": pt.sum("A.x") + pt.sum("B.x"),
            "second": pt.last("A.x", 1),
            "constant": pl.lit(7),
        },
    )
    assert query.to_polars(time="ticks").rows() == [(2, 3, 2, None, "C", 0, 2, 4, None, 7)]


def test_each_row_of_a_match() -> None:
    """It has all fields, its variable, the start of the match, and the measures."""
    query = points([3, 1]).detect("A B", rows="all", measures={"n": pt.variable() + pt.variable()})
    assert query.to_polars(time="ticks").rows() == [
        (0, 1, 3, "A", 0, "AA"),
        (1, 2, 1, "B", 0, "BB"),
    ]


def test_windows_and_detect_follow() -> None:
    """A match is a row like any other."""
    pairs = points([1, 2, 1, 2, 1, 2]).detect("A B", A=X == 1, B=X == 2)
    counted = pairs.tumbling_window(6).aggregate(n=agg.count())
    assert counted.to_polars(time="ticks").rows() == [(0, 6, 3)]
    again = pairs.detect("P Q", P=pl.col("rows") == 2)
    assert again.to_polars(time="ticks").rows() == [(0, 3, 2)]


def test_times_are_those_of_the_stream() -> None:
    """Over datetimes starts are datetimes, and so is what is computed with them."""
    rows = [rxt.PointEvent(f"2026-05-01T12:00:0{n}Z", {"x": n}) for n in (0, 2)]
    query = rxt.from_events(rows).detect(
        "A B",
        B=pl.col("start") - pt.first("A.start") < pl.duration(seconds=3),
        measures={"began": pt.match_start()},
    )
    assert query.schema["began"] == pl.Datetime("us", "UTC")
    assert query.to_polars()["began"].to_list() == [rxt.to_datetime(rxt.ticks(rows[0].start_time))]


def test_equal_values_take_one_pass() -> None:
    """Threads in one state have one future, so 5,000 equal rows are no more work than others."""
    query = points([1.0] * 5_000).detect("A+ B+")
    assert query.to_polars(time="ticks").rows() == [(0, 5_000, 5_000)]


@pytest.mark.parametrize("pattern", ["A ~> B", "A+? ~> B", "A+ ~> B", "(A | A A) ~>> B ~> C"])
def test_few_ways_take_or_skip_a_row_though_gaps_end_at_many_times(pattern: str) -> None:
    """Each row may begin a match, but of the ways in one state one takes or skips the next row."""
    stream = rxt.from_events([], schema={"x": int}, name="left")
    conditions = {"A": X == 1, "B": X == 2, "C": X == 3}
    used = {name: each for name, each in conditions.items() if name in pattern}
    stepper = Stepper(stream.detect(pattern, max_gap=500, **used))
    frame = pl.DataFrame({"start_time": range(5_000), "x": 1})
    stepper.push("left", rxt.EventBatch.from_polars(frame, end=None, cti=5_000))
    (step,) = (each for each in stepper._steps if isinstance(each, DetectStep))
    states = len(build(text.parse(pattern)).states)
    assert step._stores.by_key[0, THREAD_COUNT] <= states
    # those that wait for another to end are as many as the rows in its gap, also within a batch
    assert step._stores.threads.height < states * 600


def test_the_next_way_takes_over_when_the_gap_behind_one_has_passed() -> None:
    """Also over restarts, and when most of what is held has been given up."""
    stream = rxt.from_events([], schema={"k": int, "x": int}, name="left").group_by("k")
    query = stream.detect("A ~> B", A=X == 1, B=X == 2, max_gap=50).ungroup()
    ends = range(97, 3_000, 97)
    rows = [
        {"start_time": t, "k": k, "x": 2 if t in ends else 1}
        for t in range(3_000)
        for k in (0, 1, 2)
    ]
    found = list[tuple[int, int, int]]()
    stepper = Stepper(query)
    for begin in range(0, 3_000, 100):
        some = pl.DataFrame(rows[3 * begin : 3 * begin + 300]).with_columns(pl.col("k").cast(int))
        batch = rxt.EventBatch.from_polars(some, end=None, cti=begin + 100)
        for made in stepper.push("left", batch):
            found += zip(
                made.columns.frame["k"], made.start.tolist(), made.end.tolist(), strict=True
            )
        saved, stepper = stepper.save(), Stepper(query)
        stepper.load(saved)
    # each end has the first row of its gap, which is still the first of a match when it comes
    assert sorted(found) == [(k, end - 50, end + 1) for k in range(3) for end in ends]


@pytest.mark.parametrize("pattern", ["A B", "A ~> B", "A !B"])
def test_silent_keys_hold_nothing(pattern: str) -> None:
    """Once the CTI has passed their deadline."""
    stream = rxt.from_events([], schema={"k": int, "x": int}, name="left").group_by("k")
    condition = (0 if pattern == "A !B" else 1) < X
    stepper = Stepper(stream.detect(pattern, B=condition & (pl.col("k") < 0), within=100))
    frame = pl.DataFrame({"start_time": range(5_000), "k": range(5_000), "x": 1})
    batch = rxt.EventBatch.from_polars(frame, end=None, cti=5_000)
    stepper.push("left", batch)
    assert 0 < stepper.rows <= 101
    stepper.push("left", batch.none(6_000))
    assert stepper.rows == 0
    assert sum(map(len, stepper.save())) < 100_000


def test_rows_that_are_skipped_are_held_while_prev_may_ask_for_them() -> None:
    """Also where time passes between the rows."""
    stream = rxt.from_events([], schema={"x": int}, name="rows")
    stepper = Stepper(stream.detect("A ~> B", A=X == 1, B=pt.prev("x") == 7, within=20))
    found = []
    for time, x in ((1, 1), (3, 7), (5, 3)):
        batch = rxt.EventBatch.from_dicts([{"start_time": time, "x": x}], cti=time + 1)
        found += [out.start.tolist() for out in stepper.push("rows", batch) if len(out)]
    assert found == [[1]]


def test_last_rows_are_held_where_a_match_may_begin_with_prev() -> None:
    """And explain says so; where it cannot, nothing is held."""
    stream = rxt.from_events([], schema={"k": int, "x": int}, name="left").group_by("k")
    held = {}
    for pattern in ("B", "A A B"):
        query = stream.detect(pattern, B=pt.prev("x", 2) < X, within=5)
        held[pattern] = "last 2 rows of each key" in query.explain()
        stepper = Stepper(query)
        frame = pl.DataFrame({"start_time": range(9), "k": 1, "x": 1})
        stepper.push("left", rxt.EventBatch.from_polars(frame, end=None, cti=100))
        assert stepper.rows == 2 * held[pattern]
    assert held == {"B": True, "A A B": False}


def test_too_many_ways() -> None:
    """Where each way has to be followed by itself, an error names pattern, key and row."""
    rows = [rxt.PointEvent(t, {"k": "lab", "x": 1}) for t in range(20)]
    query = rxt.from_events(rows).group_by("k").detect(
        "(A | B)* C", C=pt.sum("A.x") > 99, A=X == 1, B=X == 1
    )  # fmt: skip
    with pytest.raises(ArgumentError, match=r"\(A \| B\)\* C.*more than 1,000.*'lab'.*'x': 1"):
        query.ungroup().to_polars()


def test_sums_that_overflow() -> None:
    """They are an error, as in windows."""
    with pytest.raises(SchemaError, match="overflows Int64"):
        points([2**62, 2**62], int).detect("A{2}", measures={"s": pt.sum("A.x")}).to_polars()


def test_aggregates_of_nothing() -> None:
    """A count and a sum are 0, the others null, in conditions and measures alike."""
    functions = {"count": 0, "sum": 0, "mean": None, "min": None, "max": None, "first": None}
    for name, expected in functions.items():
        value = getattr(pt, name)("B.x")
        condition = value.is_null() if expected is None else value == expected
        query = points([1, None]).detect("A B?", A=condition, B=False, measures={"v": value})
        assert query.to_polars()["v"].to_list() == [expected, expected]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(pl.Decimal(10, 2), Decimal("1.25")), (pl.String, "a"), (pl.Binary, b"a"), (pl.Null, None)],
)
def test_values_of_rows_that_are_not_there(dtype: Any, value: Any) -> None:
    """They are null, in conditions and measures, whatever the type of the field is."""
    made = points([value, value], dtype).detect(
        "A B? C",
        B=pt.prev("x").is_null(),
        C=pt.prev("x", 2).is_null() & pt.first("B.x").is_null(),
        measures={"a": pt.first("A.x"), "b": pt.last("B.x"), "before": pt.prev("x", 2)},
    )
    assert made.to_polars().rows() == [(0, 2, value, None, None)]


def test_an_empty_match_gives_nothing() -> None:
    """A pattern that prefers no row is accepted."""
    assert find([1, 1], "A*?") == []


REFUSED: dict[str, tuple[Any, str]] = {
    "lower case": (lambda s: s.detect("a b"), "variables begin with an upper-case letter"),
    "permute": (lambda s: s.detect("permute(A, B)"), "Hint: write PERMUTE"),
    "a caret": (lambda s: s.detect("A (B"), r"'\(' without '\)':\n    A \(B\n      \^\n"),
    "an anchor": (lambda s: s.detect("^A"), "no beginning and no end to which to anchor"),
    "no text": (lambda s: s.detect(5), "takes a pattern as text, got 5"),
    "empty": (lambda s: s.detect(" "), "no variable"),
    "numbers": (lambda s: s.detect("A{3,2}"), "a quantifier from 3 to 2"),
    "never a row": (lambda s: s.detect("A{0}"), "no way in which it matches a row"),
    "nested": (lambda s: s.detect("(A*)+"), "without a bound over what may be empty"),
    "open": (lambda s: s.detect("A ~>> B? !D ~> C"), "an absence behind ~>> and what may be empty"),
    "an absence": (lambda s: s.detect("A !B C"), "nothing lies between two neighbours"),
    "no limit": (lambda s: s.detect("A !B"), "needs within= for an absence"),
    "no deadline": (lambda s: s.detect("A B", timeouts=True), "needs within= for timeouts=True"),
    "too large": (lambda s: s.detect("(A{1000}){1000}"), "has more than 4,000 states"),
    "an option": (lambda s: s.detect("A", withn=5), "no option 'withn'.*Hint: the options are"),
    "a condition": (lambda s: s.detect("A", B=X > 1), "names the variable 'B'.*variables are A"),
    "a function": (lambda s: s.detect("A", A=pt.first("C.x") > 1), "names the variable 'C'"),
    "a measure": (lambda s: s.detect("A", measures={"n": pt.count("C")}), "the variable 'C'"),
    "a skip": (lambda s: s.detect("A", skip=("first", "C")), "skip= of detect names"),
    "a skip back": (lambda s: s.detect("A B", skip=("first", "A")), "always leads to the first"),
    "no skip": (lambda s: s.detect("A", skip="last"), "skip of detect has no value 'last'"),
    "rows": (lambda s: s.detect("A", rows="some"), "rows of detect is 'one' or 'all'"),
    "at": (lambda s: s.detect("A", rows="all", at="last"), "no at= with rows='all'"),
    "no predicate": (lambda s: s.detect("A", A=5), "A= of detect is a polars expression, got 5"),
    "not by row": (lambda s: s.detect("A", A=X.mean() < X), "looks at other rows"),
    "no measure": (lambda s: s.detect("A", measures={"n": 5}), "maps names to expressions"),
    "a variable": (lambda s: s.detect("A", A=pt.variable() == "A"), "it is for measures"),
    "a number": (lambda s: s.detect("A", A=X), "has to be true or false"),
    "a text": (lambda s: s.detect("A", measures={"n": pt.sum("A.k")}), "computes with 'k'"),
    "a field": (lambda s: s.detect("A", A=pt.prev("z") > 1), "no field 'z'"),
    "a key": (lambda s: s.group_by("k").detect("A", measures={"k": X}), "exists already"),
    "complete": (
        lambda s: s.detect("A", within=5, timeouts=True, measures={"complete": X}),
        "'complete' with timeouts=True",
    ),
    "no name": (lambda s: s.detect("A", A=pt.first("x") > 1), "takes a variable and a field"),
    "n": (lambda s: s.detect("A", A=pt.prev("x", 0) > 1), "from 1 on, got 0"),
    "a start": (lambda s: s.detect("A", A=pl.col("start_time") > 1), r"pl.col\('start'\) is the"),
    "a start of A": (lambda s: s.detect("A", A=pt.first("A.start_time") > 1), "that of a row of A"),
    "an expression": (lambda s: s.detect("A", A=pt.last(rxt.start()) > 1), "'A.start'.*starts"),
    "an expression before": (lambda s: s.detect("A", A=pt.prev(rxt.start()) > 1), r"'start'\) is"),
    "an end time": (lambda s: s.detect("A", A=pl.col("end_time") > 1), "ends of rows play no part"),
    "a text, running": (lambda s: s.detect("A", A=pt.max("A.k") > 1), "computes with 'k'"),
    "a measure that is called variable": (
        lambda s: s.detect("A", rows="all", measures={"variable": pt.count("A")}),
        "adds the field 'variable' with rows='all'",
    ),
    "a measure that is called match": (
        lambda s: s.detect("A", rows="all", measures={"match": pt.count("A")}),
        "adds the field 'match' with rows='all'",
    ),
    "a comma": (
        lambda s: s.detect("A, B"),
        "',' outside of PERMUTE:\n    A, B\n     \\^\n.*A B is",
    ),
    "a comma in a group": (lambda s: s.detect("(A, B)"), "',' outside of PERMUTE"),
    "absence in a group": (lambda s: s.detect("PERMUTE(A !B, C)"), "an absence in PERMUTE"),
    "many digits": (lambda s: s.detect(f"A{{{'9' * 5_000}}}"), "a quantifier above 1,000"),
    "many groups": (
        lambda s: s.detect("PERMUTE(" * 400 + "A" + ")" * 400),
        "more than 50 parentheses inside each other",
    ),
    "PERMUTE in PERMUTE": (
        lambda s: s.detect("PERMUTE(PERMUTE(A, B, C, D, E, F), G, H, I, J, K)"),
        "a PERMUTE whose alternatives have 3,114,000 variables",
    ),
    "many states": (lambda s: s.detect("(A B C D E){900}"), "has more than 4,000 states"),
    "an end": (lambda s: s.detect("A", A=rxt.end() > 1), "the ends of rows play no part"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    """When the query is composed, with a hint."""
    compose, message = REFUSED[name]
    stream = rxt.from_events([], schema={"k": str, "x": int})
    with pytest.raises((ArgumentError, SchemaError), match=message) as caught:
        compose(stream)
    assert "Hint: " in str(caught.value) or name == "a field"


def test_why_a_match_is_there() -> None:
    """It stands on its rows; a row of a match is itself, and the others are history."""
    values = [90, 80, 70, 80, 90, 50]
    query = points(values).detect("A B+ C+", B=FALLS, C=RISES)
    found = rxt.why(query, {"rows": 5}).causes["readings"]
    assert found["start_time"].to_list() == [0, 1, 2, 3, 4]
    rows = points(values).detect("A B+ C+", B=FALLS, C=RISES, rows="all")
    assert rxt.why(rows, {"x": 70.0}).causes["readings"].height == 5


def test_why_names_the_variable_of_each_row() -> None:
    """As the part that it has in the match, also below operators that leave the row as it is."""
    query = points([90, 80, 70, 80]).where(X > 0).detect("A B+ C+", B=FALLS, C=RISES)
    (step,) = (each for each in rxt.why(query, 0).steps if each.name == "readings")
    assert [row.part for row in step.shown] == ["A", "B", "B", "C"]
    assert "2 x=70 (B)" in str(rxt.why(query, 0))
    each = points([90, 80, 70, 80]).detect("A B+ C+", B=FALLS, C=RISES, rows="all")
    assert "0 x=90 (A, history)" in str(rxt.why(each, {"variable": "C"}))


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (0, r"ends at 2 x=80, since no way goes on with it: it does not satisfy B: .*prev"),
        (3, "ends at 3 x=5, since no match begins with it: it does not satisfy A: x > 10"),
        (5, "the rows behind it complete no match"),
    ],
)
def test_why_there_is_no_match(time: int, message: str) -> None:
    """The way from the row is followed up to where it ends, with the condition that failed."""
    query = points([90, 70, 80, 5, 20, 19]).detect("A B B", A=X > 10, B=FALLS)
    assert re.search(message, str(rxt.why_not(query, at=time)))


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        ("A ~> C", {"within": 2}, "ends at 2 x=2, since the time of within has passed"),
        ("A ~> C", {"max_gap": 2}, "ends at 3 x=3, since max_gap has passed"),
        (
            "A C",
            {"within": 2},
            "ends at 2 x=2, since no way goes on with it: it does not satisfy C",
        ),
        (
            "A !N ~> C",
            {"within": 9},
            "ends at 2 x=2, .* it satisfies N: x == 2, which may not come",
        ),
        (
            "A !N",
            {"within": 9},
            "ends at 2 x=2, .* it satisfies N: x == 2, which may not come",
        ),
    ],
)
def test_what_ended_the_way(pattern: str, options: dict[str, Any], message: str) -> None:
    """A deadline, a gap, or a row that may not come."""
    values = {"A": 1, "N": 2, "C": 9}
    names = {name: pl.col("x") == x for name, x in values.items() if name in pattern}
    query = points([0, 1, 2, 3, 4, 9]).detect(pattern, **names, **options)
    assert re.search(message, str(rxt.why_not(query, at=1)))


def test_which_match_took_a_start() -> None:
    """It is named by its first row."""
    query = points([0, 1, 2, 9, 3, 9]).detect("A ~> B", A=X < 3, B=X == 9, rows="all")
    fate = rxt.why_not(query, at=1).candidates["readings"][0].fate
    assert fate.message.endswith("skip='past_last' lets the next match begin behind that of 0 x=0")
    assert fate.others is not None
    assert fate.others["start_time"].to_list() == [0]


def test_skips_that_lead_nowhere_are_counted() -> None:
    """To the first row of the match itself, and to a variable that is not in it."""
    query = points([1, 2, 1, 1]).detect("B? A C?", A=X == 1, B=X == 2, C=False, skip=("first", "B"))
    with query.run(lambda event: None) as process:
        process.wait(10)
        (found,) = (each for each in process.diagnostics().operators if each.name == "detect")
    assert query.to_polars()["rows"].to_list() == [1, 2, 1, 1]
    assert found.counts == {
        "skips to the same start": 1,
        "skips to a variable that is not in the match": 3,
    }


@pytest.mark.parametrize("ctis", [[40], [12, 40], [11, 12, 15, 16, 40]])
def test_starts_whose_ways_have_ended_time_out(ctis: list[int]) -> None:
    """However far a step of time goes, and whatever ended them: a gap, or another row."""
    source = rxt.PushSource("s", schema={"x": int}, unit="ticks")
    partial = source.stream.detect(
        "A A B", A=pl.col("x") == 1, B=pl.col("x") == 2, within=10, max_gap=8, timeouts=True
    )
    with partial.run(found := rxt.Collect()):
        for time, x in ((1, 1), (7, 1), (8, 3), (9, 2)):
            source.push({"time": time, "x": x})
        for cti in ctis:
            source.push(rxt.Cti(cti))
        source.close()
    assert found.to_polars(time="ticks").rows() == [(1, 8, 2, False), (7, 8, 1, False)]


def test_the_longest_part_may_be_of_a_less_preferred_way() -> None:
    """Also where both ways are in one state, and the shorter one is preferred."""
    names = {name: number == X for number, name in enumerate("ABCDE", 1)}
    query = points([1, 2, 3, 4, 0]).detect(
        "A ~>> B?? ~>> C D E", **names, within=9, timeouts=True, measures={"b": pt.count("B")}
    )
    assert query.to_polars(time="ticks").rows() == [(0, 4, 1, False)]


def test_of_parts_of_the_same_rows_the_preferred_one_is_given() -> None:
    """The variables of a part are those of the way that would have been the match."""
    names = {"A": X == 1, "B": X == 1, "C": X == 2, "D": X == 3}
    query = points([1, 2, 5]).detect("(A | B) C D", **names, within=9, timeouts=True, rows="all")
    assert query.to_polars()["variable"].to_list() == ["A", "C"]


def test_a_match_stays_when_a_way_that_began_after_it_takes_over() -> None:
    """Though the way that it takes over from began before the match."""
    rows = [(0, 1), (1, 3), (2, 4), (3, 1), (7, 2)]
    stream = rxt.from_events([rxt.PointEvent(time, {"x": x}) for time, x in rows])
    query = stream.detect("A ~> B | C D", A=X == 1, B=X == 2, C=X == 3, D=X == 4, max_gap=5)
    assert query.to_polars(time="ticks").rows() == [(1, 3, 2), (3, 8, 2)]


def test_sums_at_the_ends_of_int64() -> None:
    """One that fits is given, one that does not is an error, in measures and in conditions."""
    for value in (-(2**63), 2**63 - 1):
        alone = rxt.from_events([rxt.PointEvent(1, {"x": value})])
        total = alone.detect("A", measures={"m": pt.sum("A.x")})
        assert total.to_polars()["m"].to_list() == [value]
    large = rxt.from_events([rxt.PointEvent(t, {"x": 2**62}) for t in range(4)])
    for given in ({"measures": {"m": pt.sum("A.x")}}, {"A": pt.sum("A.x") > 0}):
        with pytest.raises(rxt.SchemaError, match="overflows Int64"):
            large.detect("A+", **given).to_polars()


@pytest.mark.parametrize("by_columns", [True, False])
def test_a_sum_is_of_rows_that_match(by_columns: bool) -> None:
    """A row that is none of A overflows no sum of A, in the kernel and by columns."""
    large = 2**62
    rows = [rxt.PointEvent(t, {"x": x}) for t, x in enumerate([large, 1, large, 2])]
    small = pt.sum("A.x") > 0
    query = rxt.from_events(rows).detect(
        "A B ~> C",
        A=large > X - 1,
        B=X == 1,
        C=(pt.count("A") % 1 == 0) & small if by_columns else small,
    )
    assert query.to_polars()["rows"].to_list() == [3]


def test_sums_of_short_floats_are_long() -> None:
    """They are Float64, as elsewhere."""
    values = pl.Series("x", [0.1, 0.2, 16777216.5], dtype=pl.Float32)
    rows = rxt.from_polars(pl.DataFrame({"t": [1, 2, 3]}).with_columns(values), start="t")
    found = rows.detect("A+", measures={"s": pt.sum("A.x"), "m": pt.mean("A.x")}).to_polars()
    wide = values.cast(pl.Float64)
    assert found.select("s", "m").rows() == [(wide.sum(), wide.mean())]


def test_a_field_that_is_called_start() -> None:
    """It would be taken for the start of the row, so it has to be renamed where that is read."""
    rows = rxt.from_events([rxt.PointEvent(5, {"start": 2, "x": 1})])
    for given in ({"A": pl.col("start") > 1}, {"measures": {"v": pt.last("A.start")}}):
        with pytest.raises(rxt.SchemaError, match="Hint: rename the field first"):
            rows.detect("A", **given)
    assert rows.detect("A", A=pl.col("x") > 0).to_polars().height == 1


def test_the_start_by_its_function() -> None:
    """As in other operators; it is that of the row also where a field is called start."""
    rows = rxt.from_events([rxt.PointEvent(t, {"start": 9}) for t in (1, 2, 5, 6)])
    query = rows.detect(
        "A B", B=rxt.start() - pt.match_start() < 2, measures={"began": rxt.start() - 1}
    )
    assert query.to_polars(time="ticks").rows() == [(1, 3, 1), (5, 7, 5)]


def test_a_field_or_a_key_that_is_called_start_keeps_its_values() -> None:
    """Results that have it show the field, not the start of the row."""
    rows = rxt.from_events([rxt.PointEvent(t, {"start": 100 + t, "x": t}) for t in range(3)])
    pair = rows.detect("A B", rows="all").to_polars()
    assert pair["start"].to_list() == [100, 101]
    keyed = rows.group_by("start").detect("A").ungroup().to_polars()
    assert keyed["start"].to_list() == [100, 101, 102]


@pytest.mark.parametrize("counted", ["A", "A.x"])
def test_a_count_has_a_sign(counted: str) -> None:
    """It is Int64, so that what is computed with it may be below zero."""
    count = pt.count(counted)
    query = points([1]).detect("A", measures={"n": count - 5, "ok": count - 5 < 0})
    assert query.to_polars(time="ticks").rows() == [(0, 1, -4, True)]


def test_fields_that_are_called_like_functions() -> None:
    """Where a function has the name of a field, the field has to be renamed; others are read."""
    names = "pt.count(A)", "pt.prev(x, 1)", "pt.prev(x)", "pt.first(A)"
    rows = rxt.from_events([rxt.PointEvent(t, dict.fromkeys(names, t)) for t in range(3)])
    for name in names[:2]:
        for given in ({"A": pl.col(name) > 0}, {"measures": {"v": pl.col(name)}}):
            with pytest.raises(SchemaError, match=r"is a function of a match.*rename the field"):
                rows.detect("A", **given)
    for name in names[2:]:
        assert rows.detect("A", A=pl.col(name) > 1).to_polars().height == 1
        with pytest.raises(SchemaError, match=re.escape(name)):
            points([1]).detect("A", A=pl.col(name) > 1)


@pytest.mark.parametrize("ticks", [True, False])
def test_why_has_the_times_of_the_run(ticks: bool) -> None:
    """Also where a condition reads the start in a way that the other form does not have."""
    times = range(4) if ticks else [f"2026-05-01T0{n}:00:00Z" for n in range(4)]
    rows = rxt.from_events([rxt.PointEvent(t, {"x": n}) for n, t in enumerate(times)], name="rows")
    start = pl.col("start")
    query = rows.detect("A B", A=start % 4 == 1 if ticks else start.dt.hour() == 1)
    assert rxt.why(query, 0).causes["rows"]["x"].to_list() == [1, 2]
    (fate, *_) = (each.fate for each in rxt.why_not(query, at=times[0]).candidates["rows"])
    assert "no match begins with it" in fate.message


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("A !B", "ends at 2 k='b', .* it satisfies B: .*, which may not come"),
        ("A !B ~> C", "ends at 2 k='b', .* it satisfies B: .*, which may not come"),
        ("A ~> C", "ends at 2 k='b', since the time of within has passed"),
        ("A C", "ends at 2 k='b', .* it does not satisfy C"),
    ],
)
def test_what_ended_the_way_in_the_last_tick(pattern: str, message: str) -> None:
    """A row that may not come ends it, though the deadline passes with it."""
    rows = rxt.from_events([rxt.PointEvent(t, {"k": k}) for t, k in [(0, "a"), (2, "b"), (3, "c")]])
    names = {name: pl.col("k") == name.lower() for name in "ABC" if name in pattern}
    fate = rxt.why_not(rows.detect(pattern, **names, within=3), at=0).candidates["events"][0].fate
    assert re.search(message, fate.message)


@pytest.mark.parametrize(("pattern", "waits"), [("A", 0), ("A | B", 0), ("A?", 0), ("A B", 1)])
def test_what_may_wait_for_ever(pattern: str, waits: bool) -> None:
    """No match of one row does: it is decided at once."""
    assert ("may wait for ever" in points([1]).detect(pattern).explain()) == waits
    assert "may wait for ever" not in points([1]).detect(pattern, within=5).explain()


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0]])
def test_zeros_of_both_signs_have_an_order(values: list[float]) -> None:
    """The order of arrival does not show: -0.0 comes first."""
    rows = rxt.from_events([rxt.PointEvent(1, {"x": x}) for x in values])
    query = rows.detect("A B", measures={"a": 1 / pt.first("A.x"), "b": 1 / pt.first("B.x")})
    assert query.to_polars().select("a", "b").rows() == [(-math.inf, math.inf)]
