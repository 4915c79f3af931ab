"""A recorded stream as a source: its records go through a door as they did when they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.ingress.batch_door import ColumnDoor
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.settings import AdvanceTimeSettings, Liveliness
from rxtemporal.ingress.sources import SIZED_ROWS
from rxtemporal.storage.event_log import Recording
from rxtemporal.storage.event_log.cursors import BatchSteps, EventSteps, RowSteps

# what a door for columns can be brought
_COMPLETE = {"point", "interval", "outside", "completed", "failed"}


class RecordedSource:
    """One stream of a recording. All streams of it in one run are read in the recorded order."""

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording = recording
        self.number = number
        self.records = recording.streams[number]
        self.name = self.records.facts.name
        # what was silent has been recorded with the time that passed meanwhile
        self.lively: Liveliness | None = None
        self.settings: AdvanceTimeSettings | None = self.records.facts.settings
        self.schema: pl.Schema | None = self.records.schema
        # the other streams of the recording by name: one whose CTIs are imported is read, too
        self.beside: Mapping[str, Any] = {}

    def open(self, name: str | None = None) -> OpenRecorded:
        """Return the stream, ready to be read from its beginning, under a name."""
        return OpenRecorded(self, name or self.name)


class OpenRecorded:
    """A recorded stream being read; ``steps`` reads it, and has the door."""

    def __init__(self, source: RecordedSource, name: str) -> None:
        records = source.records
        self.time: TimeForm | None = records.facts.time
        self.steps: RowSteps | EventSteps | BatchSteps
        kinds = set(records.facts.kinds)
        # verdicts are the same for columns, and sooner reached
        if records.facts.columns or kinds <= _COMPLETE:
            self.steps = RowSteps(records, source.schema, ColumnDoor(Door(source.settings, name)))
            return
        steps, least = (BatchSteps, 1) if "row" in kinds else (EventSteps, SIZED_ROWS)
        packer = Packer(Door(source.settings, name), PayloadReader(source.schema), least)
        self.steps = steps(records, source.schema, packer)

    def __iter__(self) -> Iterator[EventBatch]:
        """Yield what goes on of the stream alone, whatever else was recorded beside it."""
        while not self.steps.ended:
            self.steps.allowed = self.steps.at_hand()
            batch = self.steps.take(MAX_TIME, inclusive=True)
            if batch is not None:
                yield batch

    @property
    def in_columns(self) -> bool:
        """Whether its records are brought as rows, to a door for columns."""
        return isinstance(self.steps, RowSteps)

    @property
    def packer(self) -> Packer | None:
        """What collects events until a CTI; columns need none."""
        return None if isinstance(self.steps, RowSteps) else self.steps.entrance

    @property
    def door(self) -> Door:
        """The stream's door, with what it has counted."""
        return self.steps.door

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        return self.steps.entrance.import_cti(cti)

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return what was accepted before the stream failed, and the first thing wrong."""
        return self.steps.rescue(error)

    def due(self) -> EventBatch | None:
        """Return a batch if it is time for one."""
        return self.steps.due()
