"""Causes of the rows of clip_event_duration and to_signal: the row, and those that end it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.operators.causes.carried_rows import match_rows
from rxtemporal.operators.causes.causes import BOUNDARY, Causes
from rxtemporal.operators.causes.history import History, find_at
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.clip.plan import Clip, ToSignal
from rxtemporal.operators.join.causes import code_keys
from rxtemporal.operators.join.keys import KeyMatcher


def find_clipped_rows(
    operator: Clip, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its left row, and the right rows that begin where it was clipped."""
    of, number = match_rows(operator, inputs, output, rows)
    mine, others = code_keys(operator, inputs)
    clipped = output.end[of] < inputs[0].end[number]
    whose, by = find_at(
        of[clipped], mine[number[clipped]], output.end[of[clipped]], others, inputs[1].start
    )
    clips = Causes.of_pairs(whose, by, side=1, role=BOUNDARY)
    return Causes.concat([Causes.of_pairs(of, number), clips])


def find_signal_rows(
    operator: ToSignal, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the point that it was made of, and the next points of its key."""
    of, number = match_rows(operator, inputs, output, rows)
    payload, keys = inputs[0].payload, inputs[0].keys
    matcher = KeyMatcher(keys, operator.on, operator._key_types(payload.schema, keys))
    key = matcher.encode(0, Columns.from_frame(payload))
    ends = output.end[of] < MAX_TIME
    whose, by = find_at(of[ends], key[number[ends]], output.end[of[ends]], key, inputs[0].start)
    follow = Causes.of_pairs(whose, by, role=BOUNDARY)
    return Causes.concat([Causes.of_pairs(of, number), follow])


def explain_clipping(operator: Clip, lost: LostRow) -> Fate:
    """Return the left rows that end where a right row begins."""
    if lost.side == 0:
        return lost.tell_end()
    left, right = lost.inputs
    codes = code_keys(operator, lost.inputs)
    code, begin = codes[1][lost.row], lost.start
    before = right.start[(codes[1] == code) & (right.start < begin)].max(initial=MIN_TIME)
    alive = (left.start >= before) & (left.start < begin) & (left.end > begin)
    return lost.tell_removal(np.flatnonzero(alive & (codes[0] == code) & (code >= 0)), "ends")
