"""Causes of the results of count windows: the rows that start in the window."""

from __future__ import annotations

from functools import partial

import numpy as np

from rxtemporal.core.ticks import TICK
from rxtemporal.operators.causes.history import Pairs, TimeIndex, expand
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_values
from rxtemporal.operators.count_window.plan import CountWindows
from rxtemporal.operators.windows.members import (
    Asked,
    Candidates,
    code_keys,
    has_own_lifetimes,
    list_members,
)


def list_rows(operator: CountWindows, asked: Asked) -> Pairs:
    """Return the rows with the starts that a window counts."""
    windows = _list_windows(operator, asked)
    index = TimeIndex(asked.codes, asked.source.start)
    counted = index.between(asked.key[windows.of], windows.start, windows.end)
    return list_members(asked, operator.result, windows, counted)


def _list_windows(operator: CountWindows, asked: Asked) -> Candidates:
    """Return the windows that may have given the results."""
    if not operator.points and not has_own_lifetimes(operator.result, points=False):
        return Candidates(np.arange(len(asked.rows)), asked.start, asked.end)
    code, time = np.unique(np.stack([asked.codes, asked.source.start]), axis=1)
    starts = TimeIndex(code, time)  # distinct and in order: places are numbers
    if operator.points:
        last = starts.search(asked.key, asked.start - TICK)
        begin = last - operator.n + 1
        if operator.partial:
            begin = np.maximum(begin, starts.first(asked.key))
        return Candidates(np.arange(len(last)), time[begin], time[last] + TICK)
    # from the window that starts latest back to the one that ends earliest
    latest = starts.search(asked.key, asked.start + 1) - 1
    earliest = starts.search(asked.key, asked.end - TICK) - operator.n + 1
    known = starts.search(asked.key, np.full_like(asked.start, np.iinfo(np.int64).max))
    latest = np.minimum(latest, known - operator.n)
    first = starts.first(asked.key)
    of, place = expand(np.maximum(earliest, first), latest + 1)
    end = place + operator.n - 1
    if operator.partial:  # those that begin with the first start
        short, last = expand(first, np.minimum(first + operator.n - 1, known))
        around = (time[first[short]] <= asked.start[short]) & (
            asked.end[short] <= time[last] + TICK
        )
        of, place = np.append(of, short[around]), np.append(place, first[short[around]])
        end = np.append(end, last[around])
        order = np.argsort(of, kind="stable")
        of, place, end = of[order], place[order], end[order]
    return Candidates(of, time[place], time[end] + TICK)


def explain_too_few(operator: CountWindows, lost: LostRow) -> Fate:
    """Return how many starts there are, if they are too few."""
    codes, _ = code_keys(lost.source, lost.source.payload.head(0))
    same = codes == codes[lost.row]
    starts = np.unique(lost.source.start[same])
    committed = int((starts < lost.cti).sum())
    if committed < operator.least:
        values = {key: lost.payload[key] for key in lost.source.keys}
        of = f" of {write_values(values)}" if values else ""
        return lost.tell(
            "outside",
            f"in no window of {lost.place}: it takes {operator.n} starts, and there are "
            f"{committed}{of}",
            values=values,
        )
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    return operator.result.explain_loss(lost, partial(list_rows, operator))
