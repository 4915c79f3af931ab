"""chop and sample: lifetimes cut, and read, at the boundaries of a grid."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.operators.causes.carried_rows import carry, get_cti, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.operator import Keys, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step

# a text that is a span: a number with a unit
_SPAN = re.compile(r"\s*-?\s*\d+(\.\d+)?\s*[a-z]")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Chop(RowOperator):
    """Lifetimes cut at every boundary ``offset + n * period`` strictly inside them."""

    name = "chop"
    period: int
    offset: int
    holds = "open rows and rows that never end, until they end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.chop.step import ChopStep

        return ChopStep(self.period, self.offset, schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_chopped_rows(self, inputs, output, rows)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SampleRows(RowOperator):
    """A point at every boundary ``offset + n * every`` at which a row is alive."""

    name = "sample"
    every: int
    offset: int
    holds = "open rows and rows that never end, until they end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.chop.step import SampleStep

        return SampleStep(self.every, self.offset, schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_chopped_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return the times between which a row lives."""
        from rxtemporal.engine.kernels.lifetimes import find_boundary_after, reduce_grid

        every, offset = reduce_grid(self.every, self.offset)
        after = find_boundary_after(np.array([lost.start - 1]), every, offset).item()
        if lost.end <= after:
            between = f"{lost.write(after - every)} and {lost.write(after)}"
            return lost.tell("outside", f"gives no row in {lost.place}: it lives between {between}")
        return lost.wait(after + 1) if after >= lost.cti else lost.tell_end()


def chop(period: Span, offset: TimeLike | timedelta = 0) -> Chop:
    """Cut each lifetime at every boundary ``offset + n * period`` strictly inside it.

    All pieces of a row with a known end are emitted at once. For a row that is open or never ends,
    the pieces that start before the CTI are emitted: complete if they end by then, and the last one
    as a start edge. The CTI passes unchanged. Rows that are open or never end are held until they
    end.

    Errors: ``UnboundedWindowError`` at the end of time if a row never ends, since it has infinitely
    many pieces, and for more than 2**27 pieces at once. The default offset is
    1970-01-01T00:00:00Z, a Thursday.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.chop(5).to_polars().rows()
    [(3, 5, 'a'), (5, 10, 'a'), (8, 9, 'b'), (10, 14, 'a')]
    """
    return Chop(
        period=span(period, "period", least=1),
        offset=_read_offset(offset),
        time=find_span_form(period, offset),
    )


def sample(every: Span, offset: TimeLike | timedelta = 0) -> SampleRows:
    """Return a point for each row that is alive at a time ``offset + n * every``.

    The point has the row's payload. A row gives as many points as there are such times in its
    lifetime, and none if there is none; an end that is such a time does not count, as it is
    exclusive. Behind ``to_signal`` this is resampling: the last reading of each key at regular
    times; ``max_gap`` says how old it may be. Two signals that are sampled alike can be joined.

    All points of a row with a known end are emitted at once. For a row that is open or never ends,
    a point is emitted with the first CTI above it. The CTI passes unchanged. Rows that are open or
    never end are held until they end.

    Errors: ``UnboundedWindowError`` at the end of time if a row never ends, since it has infinitely
    many points, and for more than 2**27 points at once. The default offset is
    1970-01-01T00:00:00Z, a Thursday.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in ((3, 5), (14, 7))])
    >>> readings.to_signal(max_gap=20).sample(10).to_polars().rows()
    [(10, 11, 5), (20, 21, 7), (30, 31, 7)]
    """
    return SampleRows(
        every=span(every, "every", least=1),
        offset=_read_offset(offset),
        time=find_span_form(every, offset),
    )


def _read_offset(offset: TimeLike | timedelta) -> int:
    """Return a time, or a span since 1970-01-01T00:00:00Z, as ticks."""
    spans = isinstance(offset, timedelta) or (isinstance(offset, str) and _SPAN.match(offset))
    return span(offset, "offset") if spans else time_ticks(offset)  # type: ignore[arg-type]


def find_chopped_rows(
    operator: Chop | SampleRows, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each piece, or point, its row."""
    # a run with rows that never end fails at the end of time, and what has left came before
    made = carry(operator, inputs, get_cti(output))
    of, at = match_output(output, made, rows)
    return Causes.of_pairs(of, made.numbers[0][at])
