"""One-shot limits: the workloads in one pass over all data at once, by polars and by numba.

They need no CTIs and keep no state. Both give the result as columns in memory; neither gives the
end of a snapshot, which is the start of the key's next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import polars as pl
from workloads import OVERLAP, THRESHOLD, Columns, Workload

# polars ------------------------------------------------------------------------------------------


def _polars_w2(load: Workload) -> pl.DataFrame:
    window = pl.col("start") // load.window * load.window
    return (
        load.rows.lazy()
        .group_by(window, "key")
        .agg(n=pl.len(), avg=pl.col("value").mean())
        .collect()
    )


def _polars_w3(load: Workload) -> pl.DataFrame:
    # by panes: group_by_dynamic takes longer, and does not give the windows that start before the
    # first point. (One integer for window and key would take half the time, where keys allow it.)
    pane = pl.col("start") // load.window * load.window
    return (
        load.rows.lazy()
        .group_by(pane, "key")
        .agg(n=pl.len(), s=pl.col("value").sum())
        .with_columns(back=pl.lit([i * load.window for i in range(OVERLAP)]))
        .explode("back")
        .group_by(pl.col("start") - pl.col("back"), "key")
        .agg(avg=pl.col("s").sum() / pl.col("n").sum())
        .collect()
    )


def _polars_w4(load: Workload) -> pl.DataFrame:
    assert load.validity is not None
    return (
        load.rows.lazy()
        .join_asof(
            load.validity.lazy(), on="start", by="key", strategy="backward", check_sortedness=False
        )
        .filter(pl.col("start") < pl.col("end"))
        .select("start", "key", "value", "attr")
        .collect()
    )


def _polars_w5(load: Workload) -> pl.DataFrame:
    kept = load.rows.lazy().filter(pl.col("value") > THRESHOLD)
    return kept.select("key", pl.col("value") * 2 + 1).collect()


def _polars_w6(load: Workload) -> pl.DataFrame:
    rows = load.rows.lazy()
    begins = rows.select("key", "start", n=pl.lit(1, pl.Int64), s="value")
    ends = rows.select("key", start="end", n=pl.lit(-1, pl.Int64), s=-pl.col("value"))
    return (
        pl.concat([begins, ends])
        .group_by("key", "start")
        .agg(pl.col("n").sum(), pl.col("s").sum())
        .sort("key", "start")
        .with_columns(pl.col("n").cum_sum(), pl.col("s").cum_sum())
        .filter(pl.col("n") > 0)
        .collect()
    )


# numba -------------------------------------------------------------------------------------------


@numba.njit(cache=True)
def _tumble(start: Any, key: Any, value: Any, window: int, keys: int) -> Any:
    rows = len(start)
    at, by = np.empty(rows, np.int64), np.empty(rows, np.int32)
    n, avg = np.empty(rows, np.int64), np.empty(rows)
    count, total = np.zeros(keys, np.int64), np.zeros(keys)
    seen = np.empty(keys, np.int32)
    found, out, first = 0, 0, start[0] // window
    for i in range(rows + 1):
        pane = start[i] // window if i < rows else -1
        if pane != first:
            for k in seen[:found]:
                at[out], by[out], n[out] = first * window, k, count[k]
                avg[out] = total[k] / count[k]
                out += 1
                count[k], total[k] = 0, 0.0
            found, first = 0, pane
        if i < rows:
            k = key[i]
            if count[k] == 0:
                seen[found] = k
                found += 1
            count[k] += 1
            total[k] += value[i]
    return at[:out], by[:out], n[:out], avg[:out]


@numba.njit(cache=True)
def _hop(start: Any, key: Any, value: Any, pane: int, overlap: int, keys: int) -> Any:
    rows = len(start)
    first, last = start[0] // pane, start[-1] // pane + overlap - 1
    most = min((last - first + 1) * keys, rows * overlap)
    at, by, avg = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most)
    count, total = np.zeros((overlap, keys), np.int64), np.zeros((overlap, keys))
    i, out = 0, 0
    for p in range(first, last + 1):
        new = p % overlap
        count[new], total[new] = 0, 0.0
        while i < rows and start[i] // pane == p:
            count[new, key[i]] += 1
            total[new, key[i]] += value[i]
            i += 1
        for k in range(keys):
            n, s = 0, 0.0
            for each in range(overlap):
                n += count[each, k]
                s += total[each, k]
            if n > 0:
                at[out], by[out], avg[out] = (p - overlap + 1) * pane, k, s / n
                out += 1
    return at[:out], by[:out], avg[:out]


@numba.njit(cache=True)
def _valid(
    start: Any, key: Any, value: Any, begin: Any, end: Any, of: Any, attr: Any, keys: int
) -> Any:
    rows = len(start)
    at, by = np.empty(rows, np.int64), np.empty(rows, np.int32)
    kept, joined = np.empty(rows), np.empty(rows)
    until, now = np.zeros(keys, np.int64), np.zeros(keys)
    j, out = 0, 0
    for i in range(rows):
        while j < len(begin) and begin[j] <= start[i]:
            until[of[j]], now[of[j]] = end[j], attr[j]
            j += 1
        k = key[i]
        if start[i] < until[k]:
            at[out], by[out], kept[out], joined[out] = start[i], k, value[i], now[k]
            out += 1
    return at[:out], by[:out], kept[:out], joined[:out]


@numba.njit(cache=True)
def _keep(key: Any, value: Any, threshold: float) -> Any:
    by, doubled = np.empty(len(key), np.int32), np.empty(len(key))
    out = 0
    for i in range(len(key)):
        if value[i] > threshold:
            by[out], doubled[out] = key[i], value[i] * 2 + 1
            out += 1
    return by[:out], doubled[:out]


@numba.njit(cache=True)
def _snapshots(start: Any, end: Any, order: Any, key: Any, value: Any, keys: int) -> Any:
    rows = len(start)
    at, by = np.empty(2 * rows, np.int64), np.empty(2 * rows, np.int32)
    n, s = np.empty(2 * rows, np.int64), np.empty(2 * rows)
    count, total, last = np.zeros(keys, np.int64), np.zeros(keys), np.zeros(keys, np.int64)
    i, j, out = 0, 0, 0
    while j < rows:
        begins = i < rows and start[i] <= end[order[j]]
        row = i if begins else order[j]
        time, k = start[i] if begins else end[row], key[row]
        if count[k] > 0 and last[k] < time:
            at[out], by[out], n[out], s[out] = last[k], k, count[k], total[k]
            out += 1
        last[k] = time
        if begins:
            count[k] += 1
            total[k] += value[row]
            i += 1
        else:
            count[k] -= 1
            total[k] -= value[row]
            j += 1
    return at[:out], by[:out], n[:out], s[:out]


def _arrays(frame: pl.DataFrame, *names: str) -> tuple[Any, ...]:
    return tuple(frame[name].to_numpy() for name in names)


def _numba_w2(load: Workload) -> Columns:
    found = _tumble(*_arrays(load.rows, "start", "key", "value"), load.window, load.keys)
    return dict(zip(("start", "key", "n", "avg"), found, strict=True))


def _numba_w3(load: Workload) -> Columns:
    found = _hop(*_arrays(load.rows, "start", "key", "value"), load.window, OVERLAP, load.keys)
    return dict(zip(("start", "key", "avg"), found, strict=True))


def _numba_w4(load: Workload) -> Columns:
    assert load.validity is not None
    valid = _arrays(load.validity, "start", "end", "key", "attr")
    found = _valid(*_arrays(load.rows, "start", "key", "value"), *valid, load.keys)
    return dict(zip(("start", "key", "value", "attr"), found, strict=True))


def _numba_w5(load: Workload) -> Columns:
    found = _keep(*_arrays(load.rows, "key", "value"), THRESHOLD)
    return dict(zip(("key", "value"), found, strict=True))


def _numba_w6(load: Workload) -> Columns:
    start, end, key, value = _arrays(load.rows, "start", "end", "key", "value")
    found = _snapshots(start, end, np.argsort(end, kind="stable"), key, value, load.keys)
    return dict(zip(("start", "key", "n", "s"), found, strict=True))


POLARS: dict[str, Callable[[Workload], pl.DataFrame]] = {
    "w2": _polars_w2, "w3": _polars_w3, "w4": _polars_w4, "w5": _polars_w5, "w6": _polars_w6,
}  # fmt: skip
NUMBA: dict[str, Callable[[Workload], Columns]] = {
    "w2": _numba_w2, "w3": _numba_w3, "w4": _numba_w4, "w5": _numba_w5, "w6": _numba_w6,
}  # fmt: skip
