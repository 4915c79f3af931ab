"""The temporal operators as values for ``pipe``: ``batches.pipe(ops.where(…), …)``.

Each is described where a ``Streamable`` has it as a method. State is made for each subscription. An
operator of two streams takes the other observable: ``left.pipe(ops.join(right, on="key"))``.
"""

from rxtemporal.operators.alter import (
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
)
from rxtemporal.operators.clip import clip_event_duration, to_signal
from rxtemporal.operators.distinct import distinct
from rxtemporal.operators.group import apply, group_by, multicast, ungroup
from rxtemporal.operators.join import (
    cross_join,
    full_outer_join,
    join,
    left_anti_join,
    left_outer_join,
)
from rxtemporal.operators.lifetimes import (
    chop,
    extend_lifetime,
    point_at_end,
    shift_event_time,
    to_point_events,
)
from rxtemporal.operators.scan import scan
from rxtemporal.operators.session_lifetimes import session_lifetimes
from rxtemporal.operators.session_windows import count_window, session_window
from rxtemporal.operators.stitch import stitch
from rxtemporal.operators.union import union
from rxtemporal.operators.where_select import drop, explode, select, where, with_columns
from rxtemporal.operators.windows import (
    hopping_window,
    hopping_window2,
    snap_to_window_intervals,
    snapshot_window,
    tumbling_window,
)

__all__ = [
    "alter_event_duration",
    "alter_event_lifetime",
    "alter_event_start_time",
    "apply",
    "chop",
    "clip_event_duration",
    "count_window",
    "cross_join",
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
    "point_at_end",
    "scan",
    "select",
    "session_lifetimes",
    "session_window",
    "shift_event_time",
    "snap_to_window_intervals",
    "snapshot_window",
    "stitch",
    "to_point_events",
    "to_signal",
    "tumbling_window",
    "ungroup",
    "union",
    "where",
    "with_columns",
]
