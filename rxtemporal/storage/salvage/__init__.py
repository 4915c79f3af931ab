"""Inspection of an event log, a checkpoint or a recording, and a copy of what is whole in it.

Nothing is changed in the folder that is inspected. Readers elsewhere refuse a damaged folder; these
leave out what is damaged, and say what it was.
"""

from __future__ import annotations

from rxtemporal.storage.salvage.inspection import Inspection
from rxtemporal.storage.salvage.reports import inspect, salvage

__all__ = ["Inspection", "inspect", "salvage"]
