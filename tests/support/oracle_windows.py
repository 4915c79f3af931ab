"""The oracle, windows: which there are, which rows each holds, and what is computed over them.

A function of windows takes the rows of one key and gives a list of `Window`; `snapshot_windows`
and `hopping_window2` of `oracle` are two more. What is computed over them takes the rows, such a
function, and the key: windows are found for each key on its own.

    window_aggregate(rows, lambda rows: tumbling_windows(rows, 10), {"n": count()}, key=["k"])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from oracle import (
    MAX_TIME,
    MIN_TIME,
    Aggregate,
    Event,
    Payload,
    Row,
    Window,
    canonical,
    exact_sum,
    first_window_ending_after,
    groups,
    last_window_starting_before,
    saturate,
    snapshot_windows,
)
from oracle_lifetimes import (
    UnboundedWindow,
    counted,
    lasting,
    ordered,
    place,
    read_line,
    sessions,
    starts_by_key,
)

Windows = Callable[[list[Row]], list[Window]]

# windows


def hopping_windows(
    rows: Iterable[Row], d: int, p: int, a: int = 0, upto: int | None = None
) -> list[Window]:
    """“The windows [a + np, a + np + d) for every integer n; a row belongs to each one that its
    lifetime touches; none for empty windows”.

    “A window that saturates at an end of time is cut there.” “Over a row that never ends it emits
    those up to the CTI”: with `upto`, the windows that start before it and no others; without,
    “asked for the end of time it raises UnboundedWindowError”.
    """
    rows, numbers = list(rows), set[int]()
    for row in rows:
        if row.end == MAX_TIME and upto is None:
            raise UnboundedWindow(f"{row} has no last window")
        end = row.end if upto is None else min(row.end, upto)
        earliest = first_window_ending_after(row.start, d, p, a)
        latest = last_window_starting_before(end, p, a)
        numbers.update(counted(range(earliest, latest + 1)))
    bounds = [(a + n * p, a + n * p + d) for n in sorted(numbers)]
    return [
        Window(saturate(s), saturate(e), [r for r in rows if r.start < e and r.end > s])
        for s, e in bounds
        if saturate(s) < saturate(e)
    ]


def tumbling_windows(
    rows: Iterable[Row], d: int, a: int = 0, upto: int | None = None
) -> list[Window]:
    """“Hopping with p = d”."""
    return hopping_windows(rows, d, d, a, upto)


def session_windows(
    rows: Iterable[Row], timeout: int, max_duration: int | None = None
) -> list[Window]:
    """“One window [first start, session end) for each session; it holds the rows that *start* in
    it, whatever their ends”.
    """
    return sessions(rows, timeout, max_duration)


def count_windows(rows: Iterable[Row], n: int, *, partial: bool = False) -> list[Window]:
    """“n consecutive distinct start times: [first start, n-th start + 1 tick), sliding by one
    distinct start; fewer than n, no window; holds the rows that start in it”. With `partial` “each
    start ends a window of the last starts, at most n”.
    """
    rows = list(rows)
    starts = sorted({row.start for row in rows})
    bounds = [*zip(starts, starts[n - 1 :], strict=False)]
    if partial:
        bounds = [(starts[max(at - n + 1, 0)], last) for at, last in enumerate(starts)]
    return [
        Window(first, saturate(last + 1), [row for row in rows if first <= row.start <= last])
        for first, last in bounds
    ]


def whole_window(rows: Iterable[Row]) -> list[Window]:
    """“One window over all time”."""
    rows = list(rows)
    return [Window(MIN_TIME, MAX_TIME, rows)] if rows else []


# what is computed over windows


def by_key(
    rows: Iterable[Row], windows: Windows, key: Sequence[str]
) -> list[tuple[dict[str, Any], Window]]:
    """The windows of each key with the key's fields, rows in the order in which user code gets
    them.
    """
    return [
        (fields, window._replace(rows=ordered(window.rows)))
        for fields, members in groups(rows, key)
        for window in windows(members)
    ]


def result(window: Window, payload: Payload, output: str) -> list[Row]:
    """“A window's result lives for the whole window or is a point that starts at the window's
    end”; a window that never ends has no such point.
    """
    if output == "window":
        return [Row(window.start, window.end, payload)]
    if output != "point":
        raise ValueError(f"output is 'window' or 'point', got {output!r}")
    return [] if window.end == MAX_TIME else lasting(window.end, 1, payload)


def clipped(window: Window) -> list[Row]:
    """“Time-sensitive ones see lifetimes clipped to the window”."""
    return [
        row._replace(start=max(row.start, window.start), end=min(row.end, window.end))
        for row in window.rows
    ]


def window_aggregate(
    rows: Iterable[Row],
    windows: Windows,
    aggregates: dict[str, Aggregate],
    key: Sequence[str] = (),
    output: str = "window",
    time_sensitive: dict[str, Callable[[list[Row], Window], Any]] | None = None,
) -> list[Row]:
    """“One row for each window (and key)”, the keys first.

    A time-sensitive aggregate gets the rows clipped to the window, and the window.
    """
    results: list[Row] = []
    for fields, window in by_key(rows, windows, key):
        payloads = [row.payload for row in window.rows]
        values = {name: aggregate(payloads) for name, aggregate in aggregates.items()}
        for name, aggregate in (time_sensitive or {}).items():
            values[name] = aggregate(clipped(window), window)
        results += result(window, fields | values, output)
    return results


def top_k(
    rows: Iterable[Row],
    windows: Windows,
    k: int,
    by: str,
    descending: bool = True,
    key: Sequence[str] = (),
    output: str = "window",
) -> list[Row]:
    """“The rows of rank k or better in each window, with the field `rank` (competition rank: ties
    share it, so there may be more than k); rank 1 is the greatest unless `descending=False`,
    nulls last in both”. NaN is the greatest.
    """
    results: list[Row] = []
    for fields, window in by_key(rows, windows, key):
        for row in window.rows:
            better = [r for r in window.rows if _beats(r.payload[by], row.payload[by], descending)]
            if len(better) < k:
                payload = fields | row.payload | {"rank": len(better) + 1}
                results += result(window, payload, output)
    return results


def top_k_by_two(
    rows: Iterable[Row],
    windows: Windows,
    k: int,
    by: tuple[str, str],
    ties: str,
    rank: str,
    key: Sequence[str] = (),
    output: str = "window",
) -> list[Row]:
    """“Of several, the next one orders rows that are equal by the ones before”: the greatest value
    of the first field, and of those the least of the second. “With `ties="first"` the first one in
    order of (start, payload) is before the others”.
    """
    results: list[Row] = []
    for fields, window in by_key(rows, windows, key):
        for number, row in enumerate(window.rows):
            before = [
                other
                for at, other in enumerate(window.rows)
                if (order := _compare_two(other.payload, row.payload, by)) < 0
                or (order == 0 and ties == "first" and at < number)
            ]
            if len(before) < k:
                payload = fields | row.payload | {rank: len(before) + 1}
                results += result(window, payload, output)
    return results


def _compare_two(one: Payload, other: Payload, by: tuple[str, str]) -> int:
    for field, descending in zip(by, (True, False), strict=True):
        if _beats(one[field], other[field], descending):
            return -1
        if _beats(other[field], one[field], descending):
            return 1
    return 0


def _beats(a: Any, b: Any, descending: bool) -> bool:
    if a is None or b is None:
        return a is not None
    return place(a) > place(b) if descending else place(a) < place(b)


def window_apply(
    rows: Iterable[Row],
    windows: Windows,
    fn: Callable[..., Iterable[Any]],
    key: Sequence[str] = (),
    output: str = "window",
    time_sensitive: bool = False,
    clip: bool = True,
) -> list[Row]:
    """“A user-defined operator: rows of the window in, rows out, for each window”, keys first.

    A plain fn gets payloads and returns payloads, each a result of the window. A time-sensitive
    one gets (rows clipped to the window, window) and “may return events within the window”, which
    keep their lifetimes, unless the output is a point.
    """
    results: list[Row] = []
    for fields, window in by_key(rows, windows, key):
        if time_sensitive:
            found = list(fn(clipped(window) if clip else window.rows, window))
        else:
            found = [Row(*window[:2], payload) for payload in fn([r.payload for r in window.rows])]
        if any(not window.start <= row.start < row.end <= window.end for row in found):
            raise ValueError(f"{found} leave the window [{window.start}, {window.end})")
        for row in found:
            lived = Window(row.start, row.end, []) if output == "window" else window
            results += result(lived, fields | row.payload, output)
    return results


# aggregates: each takes the payloads of a window in order


def _values(payloads: list[Payload], field: Any) -> list[Any]:
    """“Nulls are ignored.”"""
    return [p[field] for p in payloads if p[field] is not None]


def var(field: Any) -> Aggregate:
    """“std, var: ddof 1, null for one row”, and so for none; NaN if a value is not finite."""

    def variance(payloads: list[Payload]) -> float | None:
        values = _values(payloads, field)
        if len(values) < 2:
            return None
        if not all(map(math.isfinite, values)):
            return math.nan
        exact = [Fraction(value) for value in values]
        mean = sum(exact) / len(exact)
        squares = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
        try:
            return float(squares)
        except OverflowError:
            return math.inf

    return variance


def std(field: Any) -> Aggregate:
    """The square root of the variance."""

    def deviation(payloads: list[Payload]) -> float | None:
        variance = var(field)(payloads)
        return None if variance is None else math.sqrt(variance)

    return deviation


def count_distinct(field: Any) -> Aggregate:
    """“Null is no value; NaN equals NaN, and -0.0 equals 0.0”."""
    return lambda payloads: len({
        "NaN" if isinstance(value, float) and math.isnan(value) else value
        for value in _values(payloads, field)
    })  # fmt: skip


def first(field: Any) -> Aggregate:
    """“first, last skip nulls”; of nothing it is null."""
    return lambda payloads: next(iter(_values(payloads, field)), None)


def last(field: Any) -> Aggregate:
    """“first, last skip nulls”; of nothing it is null."""
    return lambda payloads: next(iter(_values(payloads, field)[::-1]), None)


def quantile(field: Any, q: float, interpolation: str = "nearest") -> Aggregate:
    """The quantile as polars defines it, “Float64”; NaN is the greatest; of nothing it is null."""

    def at(payloads: list[Payload]) -> float | None:
        values = sorted(map(float, _values(payloads, field)), key=place)
        return _interpolated(values, q, interpolation) if values else None

    return at


def _interpolated(values: list[float], q: float, interpolation: str) -> float:
    position = (len(values) - 1) * q
    below, above = values[math.floor(position)], values[math.ceil(position)]
    equiprobable = max(math.ceil(len(values) * q) - 1, 0)
    choices: dict[str, Callable[[], float]] = {
        "lower": lambda: below,
        "higher": lambda: above,
        "nearest": lambda: values[math.floor(position + 0.5)],  # a half goes up
        "equiprobable": lambda: values[equiprobable],
        "midpoint": lambda: below if position == int(position) else (below + above) / 2,
        "linear": lambda: (
            below
            # equal infinities have no distance
            if position == int(position) or below == above
            else (position - math.floor(position)) * (above - below) + below
        ),
    }
    return choices[interpolation]()


# aggregates by time: each takes the rows of a window, clipped to it, and the window

Timed = Callable[[list[Row], Window], Any]


def _weighed(rows: list[Row], field: str) -> list[tuple[float, int]]:
    """“Each row counts with the length of its overlap with the window; nulls have neither”."""
    return [
        (float(row.payload[field]), row.end - row.start)
        for row in rows
        if row.payload[field] is not None
    ]


def _exact_products(weighed: list[tuple[float, int]]) -> float:
    if all(math.isfinite(value) for value, _ in weighed):
        return float(sum((Fraction(value) * length for value, length in weighed), Fraction(0)))
    return float(exact_sum([value for value, _ in weighed]))


def time_mean(field: str) -> Timed:
    """“Sum of value × overlap / sum of overlap”; null without values."""

    def mean(rows: list[Row], window: Window) -> float | None:
        weighed = _weighed(rows, field)
        lengths = sum(length for _, length in weighed)
        return _exact_products(weighed) / lengths if weighed else None

    return mean


def integral(field: str, per: int) -> Timed:
    """The sum of value × overlap, in units of time."""
    return lambda rows, window: _exact_products(_weighed(rows, field)) / per


def duration(rows: list[Row], window: Window) -> int:
    """“The sum of overlaps”."""
    return sum(row.end - row.start for row in rows)


def coverage(rows: list[Row], window: Window) -> float:
    """“The time in which any row is alive / length of the window”."""
    lived, upto = 0, window.start
    for row in sorted(rows, key=lambda row: row.start):
        lived += max(0, row.end - max(row.start, upto))
        upto = max(upto, row.end)
    return lived / (window.end - window.start)


def at_start(field: str) -> Timed:
    """“The value of the row alive at the window's start”, null if none is; of a signal."""

    def value(rows: list[Row], window: Window) -> Any:
        alive = [row for row in rows if row.start == window.start]
        assert len(alive) < 2
        return alive[0].payload[field] if alive else None

    return value


def at_end(field: str) -> Timed:
    """“… and one tick before its end”."""

    def value(rows: list[Row], window: Window) -> Any:
        alive = [row for row in rows if row.end == window.end]
        assert len(alive) < 2
        return alive[0].payload[field] if alive else None

    return value


# of linear signals


def _weigh_lines(rows: list[Row], field: str) -> list[tuple[Any, int]]:
    """“Over a stretch the mean of a line is its value in the middle”."""
    middles = [
        (read_line(row.payload, field, Fraction(row.start + row.end, 2)), row.end - row.start)
        for row in rows
    ]
    return [(value, length) for value, length in middles if value is not None]


def line_mean(field: str) -> Timed:
    """The mean over the time that the lines cover; null without one."""

    def mean(rows: list[Row], window: Window) -> float | None:
        weighed = _weigh_lines(rows, field)
        lengths = sum(length for _, length in weighed)
        return (
            float(sum(value * length for value, length in weighed) / lengths) if weighed else None
        )

    return mean


def line_integral(field: str, per: int) -> Timed:
    """The area below the lines."""
    return lambda rows, window: float(sum(v * n for v, n in _weigh_lines(rows, field)) / per)


def line_at(field: str, *, end: bool) -> Timed:
    """“Of a line: its limit at the end”, or its value at the start."""

    def value(rows: list[Row], window: Window) -> float | None:
        at = window.end if end else window.start
        alive = [row for row in rows if (row.end if end else row.start) == at]
        assert len(alive) < 2
        found = read_line(alive[0].payload, field, at) if alive else None
        return None if found is None else float(found)

    return value


def line_increase(field: str) -> Timed:
    """“Each row's rise, after a fall the new value, × overlap / lifetime”."""

    def increase(rows: list[Row], window: Window) -> float:
        total: Any = 0
        for start, end, payload in rows:
            before, after = payload[field], payload[f"{field}_after"]
            if before is not None and after is not None:
                rise = after if after < before else after - before
                length = payload[f"{field}_line_end"] - payload[f"{field}_line_start"]
                total += rise * (end - start) / length
        return float(total)

    return increase


# CTIs, for an input CTI t; with the result as a point at the window's end it is t


def cti_hopping_window(t: int, d: int, p: int, a: int = 0) -> int:
    """“Start of the earliest window that ends after t”; infinities stay."""
    if t in (MIN_TIME, MAX_TIME):
        return t
    return saturate(a + first_window_ending_after(t, d, p, a) * p)


def cti_session_window(
    t: int,
    events: Iterable[Event],
    timeout: int,
    max_duration: int | None = None,
    key: Sequence[str] = (),
) -> int:
    """“min(t, start of the oldest open session)”, over the keys; events as they came before t.

    A session is open while a row that starts at t, which is still legal, would belong to it.
    """
    held = [
        window.start
        for members in starts_by_key(events, key)
        for window in sessions(members, timeout, max_duration)
        if window.end > t
    ]
    return min([t, *held])


def cti_count_window(t: int, events: Iterable[Event], n: int, key: Sequence[str] = ()) -> int:
    """“min(t, start of the oldest unfinished window)”, over the keys; events as they came before t.

    A window is finished once its n-th start is committed, that is, before t.
    """
    if t == MAX_TIME:
        return t
    held = [t]
    for members in starts_by_key(events, key):
        committed = sorted({row.start for row in members if row.start < t})
        unfinished = committed[-(n - 1) :] if n > 1 else []
        held += unfinished[:1]
    return min(held)


def cti_time_sensitive_snapshot(t: int, events: Iterable[Event], key: Sequence[str] = ()) -> int:
    """“On a snapshot window they hold the CTI at the start of the snapshot that contains t”."""
    if t == MAX_TIME:
        return t
    rows = canonical(events)
    windows = [w for _, members in groups(rows, key) for w in snapshot_windows(members)]
    return min([t, *(w.start for w in windows if w.start <= t < w.end)])
