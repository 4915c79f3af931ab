"""The temporal operators as values for ``pipe``: ``batches.pipe(ops.where(…), …)``.

Each is also a method of ``Streamable``. Every subscription has its own state. An operator of two
streams takes the other observable as an argument: ``left.pipe(ops.join(right, on="key"))``.
"""

from rxtemporal.operators.alter.plan import (
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
    never_ends,
)
from rxtemporal.operators.anti_join.plan import left_anti_join
from rxtemporal.operators.chop.plan import chop, sample
from rxtemporal.operators.clip.plan import clip_event_duration, to_signal
from rxtemporal.operators.count_window.plan import count_window
from rxtemporal.operators.deadband.plan import deadband
from rxtemporal.operators.detect.plan import detect
from rxtemporal.operators.distinct.plan import distinct
from rxtemporal.operators.explode.plan import explode
from rxtemporal.operators.group_by import apply, group_by, multicast, ungroup
from rxtemporal.operators.hopping_window.plan import (
    hopping_window,
    hopping_window2,
    tumbling_window,
)
from rxtemporal.operators.join.plan import cross_join, join
from rxtemporal.operators.lifetimes.plan import (
    extend_lifetime,
    point_at_end,
    shift_event_time,
    to_point_events,
)
from rxtemporal.operators.outer_join import full_outer_join, left_outer_join
from rxtemporal.operators.previous.plan import previous
from rxtemporal.operators.relate.plan import relate
from rxtemporal.operators.scan.plan import scan
from rxtemporal.operators.sessions.plan import session_lifetimes, session_window
from rxtemporal.operators.snap.plan import snap_to_window_intervals
from rxtemporal.operators.snapshot_window.plan import snapshot_window
from rxtemporal.operators.stitch.plan import stitch
from rxtemporal.operators.synchronize.plan import synchronize
from rxtemporal.operators.union import union
from rxtemporal.operators.where import drop, select, where, with_columns
from rxtemporal.operators.whole_window.plan import whole_window

__all__ = [
    "alter_event_duration",
    "alter_event_lifetime",
    "alter_event_start_time",
    "apply",
    "chop",
    "clip_event_duration",
    "count_window",
    "cross_join",
    "deadband",
    "detect",
    "distinct",
    "drop",
    "explode",
    "extend_lifetime",
    "full_outer_join",
    "group_by",
    "hopping_window",
    "hopping_window2",
    "join",
    "left_anti_join",
    "left_outer_join",
    "multicast",
    "never_ends",
    "point_at_end",
    "previous",
    "relate",
    "sample",
    "scan",
    "select",
    "session_lifetimes",
    "session_window",
    "shift_event_time",
    "snap_to_window_intervals",
    "snapshot_window",
    "stitch",
    "synchronize",
    "to_point_events",
    "to_signal",
    "tumbling_window",
    "ungroup",
    "union",
    "where",
    "whole_window",
    "with_columns",
]
