"""Causes of the rows of shift_event_time, extend_lifetime, to_point_events and point_at_end."""

from __future__ import annotations

from rxtemporal.operators.causes.carried_rows import find_carried_rows
from rxtemporal.operators.causes.causes import find_causes
from rxtemporal.operators.lifetimes.plan import (
    ExtendLifetime,
    PointAtEnd,
    ShiftEventTime,
    ToPointEvents,
)

for described in (ShiftEventTime, ExtendLifetime, ToPointEvents, PointAtEnd):
    find_causes.register(described, find_carried_rows)
