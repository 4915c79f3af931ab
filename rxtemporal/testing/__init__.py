"""Tools for testing queries: event tables, histories, laws, restarts and virtual time.

They need neither pytest nor hypothesis and work with any test runner: a failure is an
``AssertionError`` whose message is a small table.
"""

from __future__ import annotations

from rxtemporal.testing.clock import Recorder, hot
from rxtemporal.testing.histories import Row, assert_same_history, history, show
from rxtemporal.testing.laws import check_laws
from rxtemporal.testing.rehearsal import Rehearsal, rehearse
from rxtemporal.testing.stepper import Stepper
from rxtemporal.testing.tables import show_events, table
from rxtemporal.view.lineage.clock_losses import find_clock_losses
from rxtemporal.view.lineage.delays import Delays, find_delays

__all__ = [
    "Delays",
    "Recorder",
    "Rehearsal",
    "Row",
    "Stepper",
    "assert_same_history",
    "check_laws",
    "find_clock_losses",
    "find_delays",
    "history",
    "hot",
    "rehearse",
    "show",
    "show_events",
    "table",
]
