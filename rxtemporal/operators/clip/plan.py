"""clip_event_duration, by another stream or to a limit, and to_signal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.carried_rows import match_rows
from rxtemporal.operators.causes.causes import BOUNDARY, Causes
from rxtemporal.operators.causes.history import History, find_at
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.join.key_pairs import KeyPairs, On, read_pairs
from rxtemporal.operators.join.plan import Handed, Matcher, code_keys
from rxtemporal.operators.linear_signal.plan import (
    LinearSignal,
    find_key_types,
    refuse_adjusted,
)
from rxtemporal.operators.operator import (
    ADDED_LATER,
    Keys,
    Operator,
    PartialOperator,
    RowOperator,
)
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step, TwoInputStep
    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Clip(Matcher):
    """Left rows that end where the next matching right row begins."""

    name = "clip_event_duration"

    @property
    def holds(self) -> str:
        """Rows that may still be clipped."""
        return "left rows until they are clipped or end before both CTIs"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left's fields."""
        self.key_types(left, right, keys)
        return left

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """The left's fields."""
        return [(name, (name, None)) for name in left]

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.clip.step import ClipStep

        return ClipStep(KeyMatcher(keys, self.on, self.key_types(left, right, keys)), left, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_clipped_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_clipping(self, lost)

    def only_removes(self, side: int) -> bool:
        """Return True for the right input."""
        return side == 1


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ToSignal(Operator):
    """Rows that last until the next row of their key, at most ``max_gap`` ticks."""

    name = "to_signal"
    on: tuple[tuple[str, str], ...]
    max_gap: int | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    @property
    def holds(self) -> str:
        """The rows that have not been replaced."""
        until = "" if self.max_gap is None else ", until their gap has passed"
        return f"the latest rows of each key{until}"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if a field of ``on`` is missing."""
        find_key_types(self.on, schema, keys)
        return schema

    def check_sources(self, sources: Sequence[StreamSource | SideSource]) -> None:
        """Refuse imports with ADJUST: a point told late is dropped, and an old row lasts on."""
        refuse_adjusted(sources, self.place)

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys((*keys, *(name for name, _ in self.on)), schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.clip.step import SignalStep

        matcher = KeyMatcher(keys, self.on, find_key_types(self.on, schema, keys))
        return SignalStep(matcher, schema, keys, self.max_gap)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_signal_rows(self, inputs, output, rows)


def clip_event_duration(other_or_limit: Other | Span, on: On = None) -> PartialOperator | Operator:
    """End each row where the next matching row of another stream begins, or after a limit.

    A row that begins at the same time or is already alive does not clip; only starts count. A row
    is emitted when both CTIs have passed its start, and its end follows. Rows are held until they
    are clipped or have ended.

    With a limit (a span of time) a row lives at most that long; then the CTI passes unchanged and
    only open rows are held, until they reach the limit.
    Source: StreamInsight's ``ClipEventDuration``.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.clip_event_duration(5).to_polars().rows()
    [(3, 8, 'a'), (8, 9, 'b')]
    """
    if isinstance(other_or_limit, (int, timedelta, str)):
        if on is not None:
            raise ArgumentError("clip_event_duration takes on= only with another stream")
        return clip_to_limit(other_or_limit)
    keys = KeyPairs.read(on, "clip_event_duration")
    return keys.bind(Clip(on=keys.names), other_or_limit)


def to_signal(
    on: str | Sequence[str] | None = None,
    max_gap: Span | None = None,
    *,
    linear: str | Sequence[str] = (),
) -> ToSignal | LinearSignal:
    """Make a signal of points: each row lasts until the next one of the same key.

    Only starts count. Rows of a key that start together last equally long; the last row of a key
    never ends. Nor does a row with a null in ``on``, where null matches nothing; in
    ``group_by("room").to_signal()`` null is a key. With ``max_gap`` a row lasts at most so long:
    there is no value from then until the next row, and a key that falls silent has none any more. A
    row is emitted as a start edge when the CTI passes its start, and the next row, or the gap, ends
    it. The CTI passes unchanged. Held: the latest rows of each key; with ``max_gap`` until their
    gap has passed.

    A late point is dropped before it comes here, also with ADJUST, so the point before it would
    last on. If the stream imports its CTIs with ADJUST, ``to_signal`` therefore raises an
    ``AdvanceTimeError``. Use ``rxt.reference`` instead: there a late point counts from the CTI on.

    The fields named in ``linear`` move along a straight line from each reading to the next. Such a
    row carries its line: beside ``x`` there is ``x_after``, the value of the next reading, and
    ``x_line_start`` and ``x_line_end`` are the times of the two. Where a row is cut, the piece
    keeps them. ``time_mean``, ``integral``, ``at_start``, ``at_end``,
    ``increase(interpolate=True)`` and ``sample`` follow the line; to all else the field is the
    value of the reading, and what is computed from it is a plain field. A reading whose next one
    does not come within ``max_gap``, or at all, is a point with its value. Rows leave when the next
    reading has come, or the gap has passed; until then the CTI is held at the
    start of the oldest reading that waits. Without ``max_gap`` a silent key holds it for ever.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in ((0, 5), (4, 7))])
    >>> readings.to_signal(max_gap=3).to_polars().rows()
    [(0, 3, 5), (4, 7, 7)]
    >>> readings.to_signal(linear="v").sample(1).to_polars().rows()
    [(0, 1, 5.0), (1, 2, 5.5), (2, 3, 6.0), (3, 4, 6.5), (4, 5, 7.0)]
    """
    if isinstance(on, Mapping):
        raise ArgumentError(f"to_signal takes a field's name or names in on=, got {on!r}")
    pairs = read_pairs(on, "to_signal")
    gap = None if max_gap is None else span(max_gap, "max_gap", least=1)
    form = None if max_gap is None else find_span_form(max_gap)
    names = (linear,) if isinstance(linear, str) else linear
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        raise ArgumentError(f"linear is a field's name, or names, got {linear!r}")
    if not names:
        return ToSignal(on=pairs, max_gap=gap, time=form)
    fields = tuple(dict.fromkeys(names))
    return LinearSignal(on=pairs, linear=fields, max_gap=gap, time=form)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ClipToLimit(RowOperator):
    """Rows that end at most a fixed span after their start."""

    name = "clip_event_duration"
    limit: int
    holds = "open rows, until their limit"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.clip.step import LimitStep

        return LimitStep(self.limit, schema)


def clip_to_limit(limit: Span) -> ClipToLimit:
    """End each row at most ``limit`` after its start."""
    return ClipToLimit(limit=span(limit, "limit", least=1), time=find_span_form(limit))


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
    matcher = KeyMatcher(keys, operator.on, find_key_types(operator.on, payload.schema, keys))
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
