"""A rehearsal as a timeline: the rows of one query alone above those of both."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.lanes import make_lane
from rxtemporal.display.timeline import Lane, Timeline
from rxtemporal.display.timeline_svg import timeline_svg
from rxtemporal.testing.frame_difference import END, START, Difference

# rows of a lane that are drawn
MOST_ROWS = 60


def draw_difference(found: Difference) -> str:
    """Return the timeline as SVG; empty if both queries give the same rows.

    It has the first rows of one query alone, and those of both that start between them.
    """
    if not len(found.only_old) and not len(found.only_new):
        return ""
    frames = {"only in old": found.only_old, "only in new": found.only_new}
    shown = pl.concat(
        [frame.select(START).head(MOST_ROWS) for frame in frames.values()], how="vertical_relaxed"
    )
    around = pl.col(START).is_between(shown[START].min(), shown[START].max())
    frames["in both"] = found.both.filter(around)
    lanes = [_make_lane(name, frame) for name, frame in frames.items()]
    is_time = found.both.schema[START].is_temporal()
    return timeline_svg(Timeline(tuple(lanes), "datetime" if is_time else "ticks"))


def _make_lane(name: str, frame: pl.DataFrame) -> Lane:
    batch = EventBatch.from_polars(frame, start=START, end=END)
    lane = make_lane(name, [batch], most=MOST_ROWS, result=name == "in both")
    # the end of time, which the batch of a frame has no say in
    return Lane(name, lane.bars, note=lane.note, more=lane.more, result=lane.result)
