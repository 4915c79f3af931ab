"""Recordings: what the doors of a run were brought, in the order in which they were brought it.

::

    recording.json        format version, an id, the process's name, whether its run has ended it,
                          its streams: each one's name, folder, settings, kinds of records, the form
                          of its times, what it failed with
    lock                  held by the process that records
    order/                which stream brought how many records next: segments of (stream, records)
    0001/                 the records of the first stream: a row each, in segments
    0002/                 those of the second

A record is an event (``point``, ``interval``, ``start``, ``end``, ``cti``), a row that came in a
frame or a batch (``row``, and for a batch ``cti`` after its rows), or what came from elsewhere:
time that advanced from ``outside``, ``completed``, ``failed``. Its columns: ``kind``,
``start_time`` and ``end_time`` (ticks), ``edge`` where rows of batches have one, and ``payload``, a
struct. All folders are segment folders, so each file can be read with Arrow.

An *input log* has the same files and one more, see ``logstore``; a run appends to it.

1. Records are those that came *before* the door's verdict, so that it can be reached anew.
2. A segment of ``order`` is published after the records that it counts. What no order counts has
   not been recorded: that is what a crash leaves, at most.
3. The first segment of a stream with a schema of its own is empty and shows it. Where the first
   events show the fields, one that was null so far may have its type in a later segment only.
"""

from __future__ import annotations

from rxtemporal.storage.event_log.inputlog import InputLog, LogTape, pushed
from rxtemporal.storage.event_log.layout import KINDS
from rxtemporal.storage.event_log.logstore import LogStore, Wanted, settled
from rxtemporal.storage.event_log.reader import Recording, StreamRecords
from rxtemporal.storage.event_log.recorder import Recorder, Tape

__all__ = [
    "KINDS",
    "InputLog",
    "LogStore",
    "LogTape",
    "Recorder",
    "Recording",
    "StreamRecords",
    "Tape",
    "Wanted",
    "pushed",
    "settled",
]
