"""The segment store: numbered Arrow segments in a folder, published atomically, read in order.

A query's spool and the streams of a recording are such folders.

::

    spool.json            format version, an id, the query's name, the fields
    lock                  held by the writer, with its pid (one for all streams of a recording)
    000000000007.done     the mark: segments up to 7 are discarded; facts of 7, as in ``.json``
    000000000008.json     facts of segment 8: rows, bytes, CRC-32, and the CTI after it; if a field
                          numbers rows, the highest number so far
    000000000008.arrow    segment 8, a plain Arrow IPC file

1. Numbers are contiguous from 1. A segment *is published* when its ``.arrow`` file is renamed to
   its final name; the ``.json`` file before. Both are written aside, flushed and synced first.
2. ``discard`` turns the last discarded segment's ``.json`` into the mark before it deletes
   anything: files at or below the mark are leftovers, and any other gap is damage.
3. One writer; any number of readers, in any process. Readers may also discard segments: only
   numbers below those that the writer works on.
"""

from __future__ import annotations

from rxtemporal.storage.segments.folder import SEGMENT, Segment, SegmentFolder
from rxtemporal.storage.segments.spool import Spool
from rxtemporal.storage.segments.writer import SegmentWriter

__all__ = ["SEGMENT", "Segment", "SegmentFolder", "SegmentWriter", "Spool"]
