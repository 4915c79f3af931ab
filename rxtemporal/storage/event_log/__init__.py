"""Recordings and event logs: what the streams of a run were brought, in order.

A **recording** (``record=``) is a folder of Arrow files, which users exchange::

    recording.json        format version, an id, the process's name, whether its run has ended it,
                          its streams: each one's name, folder, settings, kinds of records, the form
                          of its times, what it failed with
    lock                  held by the process that records
    order/                which stream brought how many records next: segments of (stream, records)
    0001/                 the records of the first stream: a row each, in segments
    0002/                 those of the second

An **event log** (``log=`` and ``resume=``) has the same records in one SQLite file, see
``stored_log``.

A record is an event (``point``, ``interval``, ``start``, ``end``, ``cti``), a row that came in a
frame or a batch (``row``, and for a batch ``cti`` after its rows), or what came from elsewhere:
time that advanced from ``outside``, ``completed``, ``failed``. Its columns: ``kind``,
``start_time`` and ``end_time`` (ticks), ``edge`` where rows of batches have one, and ``payload``, a
struct.

1. A recording has what came *before* the door's verdict, so that the door can judge it again; an
   event log has what the door has accepted, since nobody is told of anything else.
2. A segment of ``order`` is published after the records that it counts. What no order counts has
   not been recorded: a crash leaves no more than that.
3. The first segment of a stream with a schema of its own is empty and shows it. Where the first
   events show the fields, one that was null so far may have its type in a later segment only.
"""
