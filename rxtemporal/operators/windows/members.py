"""Causes of the results of windows: which rows of a window a result stands on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns, make_series
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.operators.causes.causes import BOUNDARY, ROW, Causes
from rxtemporal.operators.causes.history import History, Pairs
from rxtemporal.operators.causes.lost_row import (
    MOST_OTHERS,
    Fate,
    LostRow,
    write_expression,
    write_values,
)
from rxtemporal.operators.windows.results import ResultRows
from rxtemporal.operators.windows.results_plan import Apply, ResultSpec, TopK
from rxtemporal.operators.windows.rows import Contents, find_changes


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
    """The result rows that are asked about, and the codes of their keys and of the input's.

    ``rows``: their numbers in ``output``. ``start``, ``end``: their lifetimes.
    """

    source: History
    output: History
    rows: Int64s
    codes: Int64s
    key: Int64s

    @classmethod
    def of(cls, source: History, output: History, rows: Int64s) -> Asked:
        """Return the rows with the codes of their keys."""
        codes, key = code_keys(source, output.payload[rows])
        return cls(source, output, rows, codes, key)

    @property
    def start(self) -> Int64s:
        """The starts of the result rows."""
        return self.output.start[self.rows]

    @property
    def end(self) -> Int64s:
        """The ends of the result rows."""
        return self.output.end[self.rows]


WindowRows = Callable[[Asked], Pairs]
"""Pairs (number of the result asked about, row of the input): all rows of the result's window."""


def code_keys(source: History, results: pl.DataFrame) -> Pairs:
    """Return a code for the key of each row of the input, and of each result."""
    keys = list(source.keys)
    if not keys:
        return np.zeros(len(source.start), np.int64), np.zeros(results.height, np.int64)
    coder = KeyCoder({key: source.payload.schema[key] for key in keys})
    coded = (
        coder.encode(Columns.from_frame(rows.select(keys))) for rows in (source.payload, results)
    )
    return next(coded), next(coded)


def has_own_lifetimes(result: ResultSpec, *, points: bool) -> bool:
    """Return True if user code chooses the lifetimes of results within their windows."""
    return isinstance(result, Apply) and result.time_sensitive and not points


def join_causes(asked: Asked, members: Pairs, bounds: Sequence[Pairs] = ()) -> Causes:
    """Return the causes of results: pairs (number of the result asked about, row of the input)."""
    parts = [members, *bounds]
    of, row = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    role = np.full(len(of), BOUNDARY)
    role[: len(members[0])] = ROW
    return Causes.of_pairs(asked.rows[of], row, role=role)


def find_window_rows(
    result: ResultSpec, source: History, output: History, rows: Int64s, list_rows: WindowRows
) -> Causes:
    """Return the rows of the windows of results; those that a result does not stand on are bounds.

    ``list_rows`` returns the rows of the windows.
    """
    asked = Asked.of(source, output, rows)
    members, others = split_members(asked, result, list_rows(asked))
    return join_causes(asked, members, [others])


def split_members(asked: Asked, result: ResultSpec, members: Pairs) -> tuple[Pairs, Pairs]:
    """Return the members of windows that a result stands on, and the others.

    A result of ``top_k`` stands on its row and on those that rank before it; every other result
    on all rows of its window.
    """
    if not isinstance(result, TopK):
        return members, (members[0][:0], members[1][:0])
    wanted = _find_better(asked, result, members)
    return (members[0][wanted], members[1][wanted]), (members[0][~wanted], members[1][~wanted])


def _find_better(asked: Asked, result: TopK, members: Pairs) -> npt.NDArray[np.bool_]:
    """Return the mask of the members that a ranked row is, and of those that rank before it."""
    of, row = members
    place = _rank(asked.source, result)
    own = _find_ranked(asked, members, place)
    limit = np.full(len(asked.rows), np.iinfo(np.int64).min)
    limit[of[own]] = place[row[own]]
    better = place[row] < limit[of]
    better[own] = True
    return np.asarray(better)


def _rank(source: History, result: TopK) -> Int64s:
    """Return the place of each row in the order of the ranks; ties have one only if they share."""
    names = [f"__by_{number}__" for number in range(len(result.by))]
    given = [each.alias(name) for each, name in zip(result.expressions, names, strict=True)]
    by = [
        series + 0.0 if series.dtype.is_float() else series  # -0.0 ties with 0.0
        for series in source.payload.with_columns(given).select(names)
    ]
    falls, nulls_last = [*result.descending], [True] * len(names)
    if not result.shares:  # then by start and payload, nulls first
        payload = (each for each in source.payload if not isinstance(each.dtype, pl.List))
        rest = [pl.Series("__start__", source.start), *payload]
        by, names = [*by, *rest], [*names, *(series.name for series in rest)]
        falls += [False] * len(rest)
        nulls_last += [False] * len(rest)
    order = (
        pl.DataFrame(by)
        .with_row_index("__row__")
        .sort(names, descending=falls, nulls_last=nulls_last, maintain_order=True)
    )
    place = np.zeros(len(order), np.int64)
    if len(order):
        is_next = find_changes(order, names) if result.shares else np.ones(len(order), np.bool_)
        place[order["__row__"].to_numpy()] = np.cumsum(is_next)
    return place


def _find_ranked(asked: Asked, members: Pairs, place: Int64s) -> Int64s:
    """Return the place among the members of the row that each result repeats.

    Results of a window that are equal but for their rank are its equal rows in order of rank.
    """
    of, row = members
    # the times of rows, which ranks may be by, are not in the results
    fields = [name for name in asked.source.payload.columns if name in asked.output.payload]
    places = np.flatnonzero(_is_equal(asked, fields, of, row))
    places = places[np.lexsort((row[places], place[row[places]], of[places]))]
    first, count = np.unique(of[places], return_index=True, return_counts=True)[1:]
    number = number_equal(asked.output, fields)[asked.rows[of[places[first]]]]
    return places[first + np.minimum(number, count - 1)]


def _is_equal(
    asked: Asked, fields: Sequence[str], of: Int64s, row: Int64s
) -> npt.NDArray[np.bool_]:
    """Return the mask of the pairs whose result has the same values as the row."""
    equal = np.ones(len(of), np.bool_)
    results = asked.rows[of]
    for name in fields:
        ours, theirs = asked.output.payload[name][results], asked.source.payload[name][row]
        equal &= ours.eq_missing(theirs).to_numpy()
    return equal


def number_equal(history: History, fields: Sequence[str] | None = None) -> Int64s:
    """Return for each row the number of rows before it that are equal in lifetime and fields.

    The fields are all those of the payload unless some are named.
    """
    names = history.payload.columns if fields is None else fields
    lifetimes = pl.DataFrame({"__start__": history.start, "__end__": history.end})
    rows = lifetimes.with_columns(history.payload[name] for name in names)
    return rows.select(pl.int_range(pl.len()).over(rows.columns)).to_series().to_numpy()


def explain_rank(result: TopK, lost: LostRow, windows: WindowRows) -> Fate:
    """Return the rows that ranked before it in its windows."""
    others = _find_results(lost, windows)
    names = [each if isinstance(each, str) else write_expression(each) for each in result.by]
    computed = lost.source.payload[lost.row].select(
        each.alias(name) for each, name in zip(result.expressions, names, strict=True)
    )
    values, by = computed.to_dicts()[0], " and ".join(names)
    better = ", ".join(lost.write_row(lost.output, row) for row in others[:MOST_OTHERS].tolist())
    return lost.tell(
        "worse",
        f"not among the {result.k} best by {by} in {lost.place}: {write_values(values)}"
        + (f"; there are {better}" if better else ""),
        values=values,
        others=lost.frame(lost.output, others[:MOST_OTHERS]),
    )


def _find_results(lost: LostRow, windows: WindowRows) -> Int64s:
    """Return the results of the windows that held the row, those of the time asked about first."""
    output = lost.output
    asked = Asked.of(lost.source, output, np.arange(len(output)))
    same = np.flatnonzero(asked.key == asked.codes[lost.row])
    of, row = windows(Asked(asked.source, output, same, asked.codes, asked.key[same]))
    results = np.unique(same[of[row == lost.row]])
    if lost.at is not None and len(alive := lost.find_alive(output, results)):
        results = alive
    return lost.order_by_stretch(output, results)


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """Windows that may have given the results asked about, in order of the result.

    ``of`` is the number of the result; ``start`` and ``end`` are the window's.
    """

    of: Int64s
    start: Int64s
    end: Int64s


def list_members(asked: Asked, result: ResultSpec, windows: Candidates, members: Pairs) -> Pairs:
    """Return pairs (number of the result, row of the input) of the windows that gave the results.

    ``members`` are pairs (number of the candidate, row of the input). A user's function is called
    again for each candidate. All candidates of a result stay if none of them returns it again.
    """
    of, row = members
    if isinstance(result, Apply):
        kept = _choose_windows(asked, result, windows, members)
        of, row = of[kept[of]], row[kept[of]]
    return windows.of[of], row


def _choose_windows(
    asked: Asked, result: Apply, windows: Candidates, members: Pairs
) -> npt.NDArray[np.bool_]:
    """Return the mask of the candidates that gave the results."""
    if len(np.unique(windows.of)) == len(windows.of):
        return np.ones(len(windows.of), np.bool_)
    try:
        made = _call(asked, result, windows, members)
    except Exception:  # the user's function fails when called again
        return np.ones(len(windows.of), np.bool_)
    assert made.of is not None
    assert made.lifetimes is not None
    matches = np.flatnonzero(_is_repeated(asked, result, windows.of[made.of], made))
    found = windows.of[made.of[matches]]
    results, first, count = np.unique(found, return_index=True, return_counts=True)
    number = number_equal(asked.output)[asked.rows[results]]
    chosen = made.of[matches[first + np.minimum(number, count - 1)]]
    mask = ~np.isin(windows.of, results)
    mask[chosen] = True
    return np.asarray(mask)


def _call(asked: Asked, result: Apply, windows: Candidates, members: Pairs) -> ResultRows:
    """Call the user's function for each candidate, in order."""
    of, row = members
    source = asked.source
    contents = Contents.from_pairs(
        of, source.payload[row], source.start[row], source.end[row], windows.start, windows.end
    )
    return result.make(source.payload.schema, source.keys).compute([], contents)


def _is_repeated(
    asked: Asked, result: Apply, of: Int64s, made: ResultRows
) -> npt.NDArray[np.bool_]:
    """Return the mask of the results that are equal to the one asked about."""
    assert made.lifetimes is not None
    start, end = made.lifetimes
    equal = (asked.start[of] == start) & (asked.end[of] == end)
    known = asked.output.payload[asked.rows[of]]
    for (name, dtype), column in zip(result.schema.items(), made.columns, strict=True):
        again: pl.Series = make_series(name, column, dtype)
        equal &= known[name].eq_missing(again).to_numpy()
    return np.asarray(equal)
