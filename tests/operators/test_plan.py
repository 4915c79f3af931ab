"""Plans: streams used twice, several sources, what is said of them before and while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, IntervalEvent, PointEvent, agg
from rxtemporal.errors import ArgumentError

SCHEMA = {"k": str, "x": int}
ROWS = [
    IntervalEvent(0, 10, {"k": "a", "x": 1}),
    PointEvent(4, {"k": "b", "x": 2}),
    IntervalEvent(5, 8, {"k": "a", "x": 3}),
]


class Counted:
    """Events that count how often they are iterated."""

    def __init__(self) -> None:
        self.times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return iter(ROWS)


def count_windows(rows: rxt.Streamable, duration: int) -> rxt.Streamable:
    """The number of rows of each window."""
    return rows.tumbling_window(duration).aggregate(n=agg.count())


# branches whose operators would see the rows of all keys, and the operator that would
MIXING: list[tuple[Callable[[Any], rxt.Streamable], str]] = [
    (lambda g: count_windows(count_windows(g, 5), 10), "tumbling_window"),
    (lambda g: count_windows(count_windows(g, 5).where(pl.col("n") > 0), 10), "tumbling_window"),
    (lambda g: count_windows(count_windows(g, 5).select("n"), 10), "tumbling_window"),
    (lambda g: count_windows(g, 5).cross_join(count_windows(g, 5).select(m="n")), "cross_join"),
    (lambda g: count_windows(g, 5).join(count_windows(g, 2).select("n"), on="n"), "join"),
    (lambda g: count_windows(g, 5).previous("n"), "previous"),
    # grouped by more than the key, and then not even by the key
    (
        lambda g: count_windows(
            count_windows(count_windows(g, 5).select("k", m="n").group_by("k", "m"), 10), 20
        ),
        "tumbling_window",
    ),
]


@pytest.mark.parametrize("number", range(len(MIXING)))
def test_a_branch_that_mixes_its_keys_is_refused(number: int) -> None:
    """Windows end the grouping in a branch, too, and what follows would silently see all keys."""
    branch, name = MIXING[number]
    rows = rxt.from_events(ROWS, schema=SCHEMA)
    with pytest.raises(ArgumentError, match=rf"^{name}.* different keys .*Hint: group_by\('k'\)"):
        rows.group_by("k").apply(branch)


def test_a_branch_may_group_again_or_say_that_it_takes_all_keys() -> None:
    """As may what takes rows one by one, pairs rows of a key, or rows from outside."""
    rows = rxt.from_events(ROWS, schema=SCHEMA)

    def run(branch: Callable[[Any], rxt.Streamable]) -> list[Any]:
        return sorted(rows.group_by("k").apply(branch).to_polars(time="ticks").rows())

    again = run(lambda g: count_windows(count_windows(g, 5).group_by("k"), 10))
    assert again == [(0, 10, "a", 2), (0, 10, "b", 1)]
    by_both = rows.group_by("k", "x").apply(
        lambda g: count_windows(count_windows(g, 5).group_by("k"), 10)
    )
    assert sorted(by_both.to_polars(time="ticks").rows()) == [(0, 10, "a", 3), (0, 10, "b", 1)]
    assert run(lambda g: count_windows(count_windows(g, 5).ungroup(), 10)) == [(0, 10, 3)]
    counts = run(lambda g: count_windows(g, 5))
    assert run(lambda g: count_windows(g, 5).where(pl.col("n") > 0)) == counts
    paired = run(lambda g: count_windows(g, 5).join(count_windows(g, 5).select("k", m="n"), on="k"))
    assert paired == [(*row, row[-1]) for row in counts]
    outside = run(lambda g: count_windows(g, 5).cross_join(count_windows(rows, 100).select(m="n")))
    assert outside == [(*row, 3) for row in counts]
    both = run(lambda g: count_windows(g.union(rows.group_by("k")), 100))
    assert both == [(0, 100, "a", 4), (0, 100, "b", 2)]
    cast = run(
        lambda g: count_windows(
            count_windows(g, 5).select("n", k=pl.col("k") + "!").group_by("k"), 10
        )
    )
    assert cast == [(0, 10, "a!", 2), (0, 10, "b!", 1)]


def test_a_stream_used_twice_is_read_and_computed_once() -> None:
    """A join of a stream with itself reads its source once and calls its function once per row."""
    source, called = Counted(), []
    rows = rxt.from_events(source, schema=SCHEMA).where(lambda row: not called.append(row["x"]))
    joined = rows.join(rows.select("k", y="x"), on="k").to_events()
    assert sorted(e.payload["x"] * 10 + e.payload["y"] for e in joined) == [11, 13, 22, 31, 33]
    assert (source.times, sorted(called)) == (1, [1, 2, 3])


def test_each_run_has_a_state_of_its_own() -> None:
    """The same query, run twice, gives the same results twice."""
    stream = rxt.from_events(ROWS)
    query = stream.union(stream).snapshot_window().aggregate(n=agg.count())
    assert query.to_events() == query.to_events() != []


def test_bounded_sources_are_read_side_by_side() -> None:
    """The source that is furthest behind is read next, so none runs ahead."""
    asked: list[str] = []

    def noting(name: str, times: range) -> Iterator[Any]:
        for time in times:
            asked.append(name)
            yield PointEvent(time, {"k": name, "x": time})
            yield Cti(time + 1)

    class Source:
        def __init__(self, name: str, times: range) -> None:
            self.name, self.times = name, times

        def __iter__(self) -> Iterator[Any]:
            return noting(self.name, self.times)

    slow = rxt.from_events(Source("slow", range(0, 40, 10)), schema=SCHEMA, name="slow")
    fast = rxt.from_events(Source("fast", range(40)), schema=SCHEMA, name="fast")
    assert len(slow.union(fast).to_polars()) == 44
    for upto in range(1, len(asked)):
        ahead = 10 * asked[:upto].count("slow") - asked[:upto].count("fast")
        assert -2 <= ahead <= 20


def test_two_threads_push_into_one_query() -> None:
    """Nothing is lost in a union of subjects that are pushed by different threads."""
    left, right = Subject[Any](), Subject[Any]()
    streams = [rxt.from_observable(each, schema=SCHEMA) for each in (left, right)]
    seen: list[Any] = []
    ended = threading.Event()
    query = streams[0].union(streams[1])
    query.subscribe(seen.append, on_completed=ended.set)

    def push(subject: Subject[Any], name: str) -> None:
        for time in range(500):
            subject.on_next(PointEvent(time, {"k": name, "x": time}))
            subject.on_next(Cti(time + 1))
        subject.on_completed()

    threads = [
        threading.Thread(target=push, args=pair) for pair in ((left, "left"), (right, "right"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.wait(60)
    assert sorted((e.start, e.payload["k"]) for e in seen) == [
        (time, name) for time in range(500) for name in ("left", "right")
    ]


def test_one_side_that_fails_ends_the_query_once() -> None:
    """An error of either input reaches on_error once, and nothing comes after it."""
    left, right = Subject[Any](), Subject[Any]()
    streams = [rxt.from_observable(each, schema=SCHEMA) for each in (left, right)]
    seen: list[Any] = []
    errors: list[Exception] = []
    streams[0].join(streams[1], on="k", suffix="_r").subscribe(seen.append, errors.append)
    right.on_error(OSError("the line is dead"))
    left.on_next(PointEvent(1, {"k": "a", "x": 1}))
    left.on_next(Cti(9))
    left.on_completed()
    assert [str(error) for error in errors] == ["the line is dead"]
    assert seen == []


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_side_without_events_matches_nothing(side: str, early: bool) -> None:
    """A source that ends before its first event, with fields unknown, is like an empty one."""
    subjects = [Subject[Any](), Subject[Any]()]
    full = subjects[side == "left"]
    empty = subjects[side == "right"]
    left, right = (rxt.from_observable(each) for each in subjects)
    seen: dict[str, list[Any]] = {}
    errors: list[Exception] = []
    queries = {
        "union": left.union(right),
        "join": left.join(right, on="k", suffix="_r"),
        "anti": left.left_anti_join(right, on="k"),
        "outer": left.full_outer_join(right, on="k", suffix="_r"),
        "clip": left.clip_event_duration(right, on="k"),
    }
    for name, query in queries.items():
        query.subscribe(seen.setdefault(name, []).append, errors.append)
    if early:
        empty.on_completed()
    full.on_next(PointEvent(1, {"k": "a", "x": 1}))
    full.on_completed()
    if not early:
        empty.on_completed()
    assert errors == []
    lonely = {"union": 1, "join": 0, "anti": 1, "outer": 1, "clip": 1}
    if side == "left":
        lonely |= {"anti": 0, "clip": 0}
    assert {name: len(events) for name, events in seen.items()} == lonely


def test_explain_draws_the_plan() -> None:
    """Each operator is above its inputs, with its CTI rule; a shared stream is named."""
    rows = rxt.from_events([], schema=SCHEMA, name="rows").where(pl.col("x") > 1)
    text = rows.join(rows.select("k", y="x"), on="k").explain()
    assert text.splitlines() == [
        "join: k String, x Int64, y Int64",
        "  | CTI: the lower of the two; holds rows of both inputs until they end before both CTIs,"
        " and open pairs",
        "  stream 1: where: k String, x Int64",
        "    | CTI: t; holds nothing",
        "    source 'rows': k String, x Int64",
        "      | time: the CTIs that it sends; if it sends none, nothing is final before its end",
        "      | hint: advance_time= makes CTIs out of its events",
        "  select: k String, y Int64",
        "    | CTI: t; holds nothing",
        "    stream 1, as above",
        "t: the CTI of the operator's input, which is the line below it",
    ]


def test_explain_names_what_polars_computes() -> None:
    """An expression that is not compiled is named; the others are not."""
    rows = rxt.from_events([], schema=SCHEMA, name="rows")
    length = pl.col("k").str.len_chars()
    for stream, named in (
        (rows.where(pl.col("x") > 1), []),
        (rows.where(length > 1), ["the predicate"]),
        (rows.select("k", y=pl.col("x") * 2), []),
        (rows.select(y=pl.col("x") * 2, n=length, m=length + 1), ["n", "m"]),
        (rows.snapshot_window().aggregate(n=agg.count(), s=agg.sum("x")), []),
        (rows.snapshot_window().aggregate(n=agg.count(), s=agg.sum(length)), ["s"]),
        (rows.session_window(5).aggregate(s=agg.sum(length)), ["s"]),
        (rows.join(rows.select("k", y="x"), on="k", where=pl.col("x") > pl.col("y")), []),
        (
            rows.left_outer_join(rows.select("k", y="x"), on="k", where=length > pl.col("y")),
            ["where"],
        ),
        (rows.left_anti_join(rows, on="k", where=length > pl.col("x_right")), ["where"]),
    ):
        _, rule, third, *_ = stream.explain().splitlines()
        assert "CTI" in rule
        if named:
            assert third == f"  | computed by polars: {', '.join(named)}"
        else:
            assert "polars" not in stream.explain()


DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST
FIVE = timedelta(seconds=5)


def generated(frequency: Any, delay: Any, flag: bool = True, policy: Any = DROP) -> Any:
    """Return settings that generate CTIs from events."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay, flag)
    return rxt.AdvanceTimeSettings(generation, policy=policy)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"advance_time": rxt.INCREASING_START_TIME},
            "a CTI after each event, at its start; late events are dropped",
        ),
        (
            {"advance_time": rxt.STRICTLY_INCREASING_START_TIME},
            "a CTI after each event, 1 tick ahead of it; late events are dropped",
        ),
        (
            {"advance_time": generated(1000, timedelta(hours=24), False, ADJUST)},
            "a CTI after every 1,000 events, 1 d behind it; late events are cut to begin at the "
            "CTI; at its end only what is final comes out",
        ),
        (
            {
                "advance_time": rxt.AdvanceTimeSettings(
                    rxt.AdvanceTimeGenerationSettings(FIVE, timedelta(minutes=1)),
                    rxt.AdvanceTimeImportSettings("clock"),
                    policy=DROP,
                )
            },
            "a CTI each 5 s of event time, 1 min behind it; the CTIs of 'clock'; late events are "
            "dropped",
        ),
        (
            {
                "advance_time": rxt.INCREASING_START_TIME,
                "heartbeat": rxt.Heartbeat(every=FIVE, delay=timedelta(milliseconds=1500)),
                "idle_after": timedelta(minutes=90),
            },
            "a CTI after each event, at its start; late events are dropped; heartbeat: the wall "
            "clock less 1500 ms, after 5 s of silence and each 5 s of it; idle after 90 min of "
            "silence",
        ),
    ],
)
def test_explain_says_where_time_comes_from(options: Any, words: str) -> None:
    """The plan describes generation, delay, imports, policy, heartbeat and time-out of a source."""
    text = rxt.from_observable(Subject[Any](), schema=SCHEMA, **options).explain()
    assert text.splitlines()[1] == f"  | time: {words}"


def test_explain_says_that_a_frame_is_final_at_its_end() -> None:
    """A frame without settings sends no CTIs; the hint says which settings generate them."""
    text = rxt.from_polars(pl.DataFrame({"t": [1]}), start="t").explain()
    assert "| time: it sends no CTIs, so nothing is final before its end\n  | hint: adv" in text


def test_diagnostics_count_the_rows_held() -> None:
    """Diagnostics of a running query show the rows that each operator holds."""
    source = Subject[Any]()
    query = rxt.from_observable(source, schema=SCHEMA).snapshot_window().aggregate(n=agg.count())

    process = query.run(rxt.Collect(rxt.EventShape.EDGE))
    source.on_next(IntervalEvent(0, 10, {"k": "a", "x": 1}))
    source.on_next(Cti(5))
    (operator,) = process.diagnostics().operators
    assert (operator.name, operator.rows) == ("snapshot_window().aggregate", 1)
    assert operator.line.startswith(__file__)
    process.dispose()


def test_a_plan_says_what_is_computed_from_all_rows() -> None:
    """Of a window the results that are not updated as rows come and go."""
    stream = rxt.from_events([], schema={"x": int}, name="s")
    windows = stream.tumbling_window(4)
    mixed = windows.aggregate(
        n=agg.count_distinct("x"), q=agg.quantile("x", 0.5), at=agg.at_end("x"), last=agg.last("x")
    )
    said = "| computed from all rows of each window: "
    assert f"{said}q, at, last\n" in mixed.explain()
    assert f"{said}top_k\n" in windows.top_k(2, "x").explain()
    assert said not in windows.aggregate(n=agg.count(), high=agg.max("x")).explain()
