"""The ordered spool: numbered Arrow segments in a folder, published atomically, read in order.

::

    spool.json            format version, an id, the query's name, the fields
    lock                  held by the one writer; holds its pid
    000000000007.done     the mark: segments up to 7 are gone; what 7 held, and the CTI after it
    000000000008.json     what segment 8 holds: rows, bytes, CRC-32, and the CTI after it
    000000000008.arrow    segment 8, a plain Arrow IPC file

1. Numbers are contiguous from 1. A segment *is published* when its ``.arrow`` has its name; the
   ``.json`` gets its own name before. Both are written aside, flushed and synced first.
2. ``discard`` turns the last discarded segment's ``.json`` into the mark before it deletes
   anything: what lies at or below the mark is a leftover, and any other gap is damage.
3. One writer; any number of readers, in any process. Readers may also discard what they are done
   with: they touch only numbers that the writer has left behind.
"""

from __future__ import annotations

from rxtemporal.segments.folder import SEGMENT, Segment, SegmentFolder
from rxtemporal.segments.spool import Spool

__all__ = ["SEGMENT", "Segment", "SegmentFolder", "Spool"]
