"""The segment store: numbered Arrow segments in a folder, published atomically, read in order.

A query's spool and the streams of a recording are such folders.

::

    spool.json            format version, an id, the query's name, the fields
    lock                  held by the one writer; holds its pid (a recording has one for all of it)
    000000000007.done     the mark: segments up to 7 are gone; what 7 held, and the CTI after it
    000000000008.json     what segment 8 holds: rows, bytes, CRC-32, and the CTI after it; where
                          a field numbers rows, the highest number up to there
    000000000008.arrow    segment 8, a plain Arrow IPC file

1. Numbers are contiguous from 1. A segment *is published* when its ``.arrow`` has its name; the
   ``.json`` gets its own name before. Both are written aside, flushed and synced first.
2. ``discard`` turns the last discarded segment's ``.json`` into the mark before it deletes
   anything: what lies at or below the mark is a leftover, and any other gap is damage.
3. One writer; any number of readers, in any process. Readers may also discard what they are done
   with: they touch only numbers that the writer has left behind.
"""

from __future__ import annotations

from rxtemporal.storage.segments.folder import SEGMENT, Segment, SegmentFolder
from rxtemporal.storage.segments.spool import Spool
from rxtemporal.storage.segments.writer import SegmentWriter

__all__ = ["SEGMENT", "Segment", "SegmentFolder", "SegmentWriter", "Spool"]
