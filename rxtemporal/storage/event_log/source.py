"""Source of a recorded stream: its records pass a door as the original events did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rxtemporal.ingress.source import StreamSource
from rxtemporal.ingress.sources import SIZED_ROWS
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.reader import Recording

# the kinds of record that can be rows of a batch
_COMPLETE = {"point", "interval", "outside", "completed", "failed"}


class RecordedSource(StreamSource):
    """One stream of a recording. In one run, all its streams are read in the recorded order.

    The recording of a silent stream has the CTIs of its heartbeat or idle time.
    """

    bounded = True
    resumes = False
    replays = True

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording = recording
        self.number = number
        self.records = recording.streams[number]
        facts = self.records.facts
        self.name = facts.name
        self.settings = facts.settings
        self.delays_ctis = facts.delays_ctis
        self.schema = self.records.schema
        self.time = facts.time
        kinds = set(facts.kinds)
        # verdicts are the same for columns, and faster
        self.in_columns = facts.columns or kinds <= _COMPLETE
        self.min_rows = 1 if self.in_columns or "row" in kinds else SIZED_ROWS
        # the other streams of the recording by name; those whose CTIs are imported are read, too
        self.beside: Mapping[str, Any] = {}

    def open(self, position: Any = None) -> RecordedCursor:
        """Return a cursor at the beginning."""
        return RecordedCursor(self.records, self.schema, as_rows=self.in_columns)
