"""Inspection of logs, checkpoints, recordings and spools, and copies of what is whole in them.

Nothing is changed in the folder that is inspected. Readers elsewhere refuse a damaged folder; these
leave out what is damaged, and say what it was.
"""

from __future__ import annotations

from rxtemporal.storage.salvage.inspection import Inspection
from rxtemporal.storage.salvage.reports import find_spool, inspect, inspect_spool, salvage

__all__ = ["Inspection", "find_spool", "inspect", "inspect_spool", "salvage"]
