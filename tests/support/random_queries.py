"""Queries put together at random from operators, each with its model.

Every piece takes streams of k, x and y and gives such a stream, so that any piece can follow any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import arrangements
import compositions
import oracle
import oracle_joins
import oracle_lifetimes
import oracle_relations
import oracle_windows
import polars as pl
import strategies
from compositions import FIELDS, Rows, Stream, on, same
from hypothesis import strategies as st
from oracle import MIN_TIME, Event
from oracle_lifetimes import per_key

from rxtemporal import agg
from rxtemporal.operators.reference.plan import SINCE, SINCE_TYPE, Reference

# the count and the least of what a window holds, under the names of the fields
LEAST = {"x": agg.count(), "y": agg.min("y")}
LEAST_MODEL = {"x": oracle.count(), "y": oracle.min_("y")}


@dataclasses.dataclass(frozen=True)
class Piece:
    """An operator over one stream or two, and its model."""

    query: Callable[..., Stream]
    model: Callable[..., Rows]
    inputs: int = 1


def pick_fields(rows: Rows) -> Rows:
    """Return the rows with the fields that every piece takes."""
    return oracle.select(rows, lambda p: {name: p[name] for name in FIELDS})


def make_window(
    kind: Callable[[Any], Any], windows: oracle_windows.Windows, **output: str
) -> Piece:
    """Return a kind of window by key, with its count and its least value."""
    return Piece(
        lambda s: kind(s.group_by("k")).aggregate(**LEAST),
        lambda rows: oracle_windows.window_aggregate(rows, windows, LEAST_MODEL, ["k"], **output),
    )


def make_snapping_window(d: int, p: int, a: int) -> Piece:
    """Return hopping windows that snap."""
    return make_window(
        lambda s: s.hopping_window2(d, p, a),
        lambda rows: oracle.hopping_window2(rows, d, p, a),
    )


def make_snap(d: int, p: int, a: int) -> Piece:
    """Return lifetimes snapped to windows."""
    return Piece(
        lambda s: s.snap_to_window_intervals(d, p, a),
        lambda rows: oracle.snap_to_window_intervals(rows, d, p, a),
    )


def make_shift(d: int) -> Piece:
    """Return lifetimes moved in time."""
    return Piece(lambda s: s.shift_event_time(d), lambda rows: oracle.shift_event_time(rows, d))


def make_extension(d: int) -> Piece:
    """Return lifetimes that end later, or earlier."""
    return Piece(
        lambda s: s.extend_lifetime(d), lambda rows: oracle_lifetimes.extend_lifetime(rows, d)
    )


def make_join(kind: str) -> Piece:
    """Return a join of two streams by key, with the fields of the left one."""
    model = getattr(oracle_joins, kind)
    return Piece(
        lambda a, b: getattr(a, kind)(b, on="k", suffix="_right").select(*FIELDS),
        lambda a, b: pick_fields(model(a, b, on("k"), same(("k",)))),
        inputs=2,
    )


def make_relation(how: tuple[str, ...], within: int) -> Piece:
    """Return the rows that are related by key, with the fields of the left one."""
    return Piece(
        lambda a, b: a.relate(b, how, "k", within, suffix="_right").select(*FIELDS),
        lambda a, b: pick_fields(oracle_relations.relate(a, b, how, on("k"), within, same(("k",)))),
        inputs=2,
    )


def apply_by_key(stream: Stream, make: Callable[[Any], Any]) -> Stream:
    """Return what is made of a stream by key, no longer grouped."""
    made: Stream = make(stream.group_by("k")).ungroup()
    return made


def number_rows(stream: Stream) -> Stream:
    """Return the rows counted by key."""
    return apply_by_key(
        stream, lambda s: s.scan(0, compositions.numbered, schema=compositions.NUMBERED)
    )


def rank_rows(stream: Stream) -> Stream:
    """Return the least row of each snapshot, by key."""
    ranked: Stream = stream.group_by("k").snapshot_window().top_k(1, "x", descending=False)
    return ranked.select(*FIELDS)


def rank_rows_of_model(rows: Rows) -> Rows:
    """Return the least row of each snapshot, by key."""
    windows = oracle.snapshot_windows
    return pick_fields(oracle_windows.top_k(rows, windows, 1, "x", descending=False, key=["k"]))


def refer(stream: Stream) -> Stream:
    """Return reference data by key, where x says since when a row is so."""
    x = pl.col("x").fill_null(0)
    told = stream.select("k", x=x, y=pl.lit(None, pl.Float64), **{SINCE: (x * 7).cast(SINCE_TYPE)})
    return apply_by_key(told, lambda group: group._compose(Reference()))


def refer_of_model(rows: Rows) -> Rows:
    """Return reference data by key, where x says since when a row is so."""
    told = oracle.select(rows, lambda p: {"k": p["k"], "x": p["x"] or 0, "y": None})
    return oracle_lifetimes.reference(told, ["k"], lambda row: 7 * int(row.payload["x"]))


PIECES: dict[str, Piece] = {
    "where": Piece(lambda s: s.where(pl.col("x") >= 1), lambda rows: compositions.holding(rows, 1)),
    "shift forwards": make_shift(5),
    "shift back": make_shift(-5),
    "shift far": make_shift(3 * 10**17),
    "extend": make_extension(3),
    "shorten": make_extension(-3),
    "limit": Piece(
        lambda s: s.clip_event_duration(6), lambda rows: oracle_lifetimes.clip_to_limit(rows, 6)
    ),
    "to_point_events": Piece(lambda s: s.to_point_events(), oracle_lifetimes.to_point_events),
    "point_at_end": Piece(lambda s: s.point_at_end(), oracle_lifetimes.point_at_end),
    "duration": Piece(
        lambda s: s.alter_event_duration(9),
        lambda rows: oracle_lifetimes.alter_event_duration(rows, 9, False),
    ),
    # of complete rows: the end of one that starts at MIN_TIME does not move with its start
    "start": Piece(
        lambda s: s.to_point_events().alter_event_start_time(pl.col("start") + 9),
        lambda rows: oracle_lifetimes.alter_event_start_time(
            oracle_lifetimes.to_point_events(rows), lambda t: t + 9
        ),
    ),
    "to_signal": Piece(
        lambda s: s.to_signal("k"), lambda rows: oracle_lifetimes.to_signal(rows, ["k"])
    ),
    "reference": Piece(refer, refer_of_model),
    "stitch": Piece(lambda s: s.stitch(), oracle_lifetimes.stitch),
    "distinct": Piece(lambda s: s.distinct(), oracle_lifetimes.distinct),
    "chop of points": Piece(
        lambda s: s.to_point_events().chop(3, 1),
        lambda rows: oracle_lifetimes.chop(oracle_lifetimes.to_point_events(rows), 3, 1),
    ),
    "signal, at most so long": Piece(
        lambda s: s.to_signal("k", max_gap=6),
        lambda rows: oracle_lifetimes.clip_to_limit(oracle_lifetimes.to_signal(rows, ["k"]), 6),
    ),
    "sample of points": Piece(
        lambda s: s.to_point_events().sample(2, 1),
        lambda rows: oracle_lifetimes.sample(oracle_lifetimes.to_point_events(rows), 2, 1),
    ),
    "deadband": Piece(
        lambda s: s.group_by("k").deadband("x", 1).ungroup(),
        lambda rows: oracle_lifetimes.deadband(rows, "x", 1, ["k"]),
    ),
    "previous": Piece(
        lambda s: apply_by_key(
            # a number of ticks, longer than all time, says that times are ticks
            s,
            lambda g: (
                g.previous("x", n=2, max_gap=10**18)
                .with_columns(x=pl.col("x_before"))
                .select(*FIELDS)
            ),
        ),
        lambda rows: oracle.select(
            oracle_lifetimes.previous(rows, ["x"], ["k"], n=2),
            lambda p: {"k": p["k"], "x": p["x_before"], "y": p["y"]},
        ),
    ),
    "scan": Piece(
        number_rows, lambda rows: oracle_lifetimes.scan(rows, 0, compositions.numbered, ["k"])
    ),
    "snap": make_snap(5, 2, 0),
    "snap, tumbling": make_snap(4, 4, 1),
    "snap, gaps": make_snap(5, 8, 1),
    "snap, a gap at the beginning of time": make_snap(2, 40, MIN_TIME + 12),
    "snapshots": make_window(lambda s: s.snapshot_window(), oracle.snapshot_windows),
    "hopping_window2": make_snapping_window(5, 2, 1),
    "hopping_window2, gaps": make_snapping_window(2, 5, 3),
    "session_lifetimes": Piece(
        lambda s: apply_by_key(s, lambda group: group.session_lifetimes(4)),
        lambda rows: per_key(rows, ["k"], lambda m: oracle_lifetimes.session_lifetimes(m, 4)),
    ),
    "session_window": make_window(
        lambda s: s.session_window(4, 10),
        lambda rows: oracle_windows.session_windows(rows, 4, 10),
    ),
    "count_window": make_window(
        lambda s: s.count_window(2), lambda rows: oracle_windows.count_windows(rows, 2),
        output="point",
    ),
    "top_k": Piece(rank_rows, rank_rows_of_model),
    "union": Piece(lambda a, b: a.union(b), oracle_joins.union, inputs=2),
    "join": make_join("join"),
    "left_outer_join": make_join("left_outer_join"),
    "full_outer_join": make_join("full_outer_join"),
    "relate": make_relation(("before", "overlaps", "during"), 5),
    "left_anti_join": Piece(
        lambda a, b: a.left_anti_join(b, on="k"),
        lambda a, b: oracle_joins.left_anti_join(a, b, on("k")),
        inputs=2,
    ),
    "clip_event_duration": Piece(
        lambda a, b: a.clip_event_duration(b, on="k"),
        lambda a, b: oracle_joins.clip_event_duration(a, b, on("k")),
        inputs=2,
    ),
}  # fmt: skip


UNARY = tuple(name for name, piece in PIECES.items() if piece.inputs == 1)


ENDS = strategies.streams_at_the_ends(payload=strategies.matching_payloads()).map(
    arrangements.finish
)


@dataclasses.dataclass(frozen=True)
class Chain:
    """Pieces that follow each other on the left; those of two inputs take the right as well."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def inputs(self) -> int:
        """The number of streams that the query reads."""
        return max(PIECES[name].inputs for name in self.left)

    def query(self, left: Stream, *right: Stream) -> Stream:
        """Return the query over its streams."""
        made: Stream = self._follow("query", left, *right)
        return made

    def model(self, left: Rows, *right: Rows) -> Rows:
        """Return the history that the models of the pieces give."""
        return list(self._follow("model", left, *right))

    def _follow(self, side: str, left: Any, right: Any = None) -> Any:
        for name in self.right if right is not None else ():
            right = getattr(PIECES[name], side)(right)
        for name in self.left:
            piece = PIECES[name]
            streams = (left,) if piece.inputs == 1 else (left, right)
            left = getattr(piece, side)(*streams)
        return left


def draw_chain(first: str) -> st.SearchStrategy[Chain]:
    """An operator, up to three that follow it, and up to two before the other stream."""
    return st.builds(
        Chain,
        st.lists(st.sampled_from(tuple(PIECES)), max_size=3).map(lambda rest: (first, *rest)),
        st.lists(st.sampled_from(UNARY), max_size=2).map(tuple),
    )


@cache
def draw_query(first: str) -> st.SearchStrategy[tuple[Chain, tuple[list[Event], ...], int]]:
    """A query that begins with an operator, its streams, and the number that arranges them."""
    sides = st.tuples(ENDS, ENDS | compositions.STREAM)
    drawn = st.tuples(draw_chain(first), sides, st.integers(0, 2**20))
    return drawn.map(lambda one: (one[0], one[1][: one[0].inputs], one[2]))
