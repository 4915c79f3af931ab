"""Recordings and event logs: the events of the streams of a run, in order of arrival.

A **recording** (``record=``) is a folder of Arrow files, which users exchange::

    recording.json        format version, an id, the process's name, ``complete``, its streams: the
                          name, folder, settings, kinds of records, form of times and error of each
    lock                  held by the process that records
    order/                the order of records over all streams: segments of (stream, records)
    0001/                 the records of the first stream, one row each, in segments
    0002/                 those of the second

An **event log** (``log=`` and ``resume=``) has the same records in one SQLite file, see
``stored_log``.

A record is an event (``point``, ``interval``, ``start``, ``end``, ``cti``), a row of a frame or a
batch (``row``, and for a batch ``cti`` after its rows), or another change: time that advanced from
``outside``, or without a time a device that became silent; ``completed``, ``failed``. Its columns:
``kind``, ``start_time`` and ``end_time`` (ticks), ``edge`` if rows of batches have one, and
``payload``, a struct. Where records have a sender there are ``input``, ``seq``, ``ahead`` and
``named_start``, see ``senders``.

1. A recording has the events *before* the door's verdict, so that the door can judge them again;
   an event log has the accepted events, since only those are acknowledged.
2. A segment of ``order`` is published after the records that it counts. Records that ``order`` does
   not count are not part of the recording: they are left by a crash.
3. The first segment of a stream with a declared schema is empty and has that schema. If the first
   events define the fields, a field that is null at first has its type only in a later segment.
"""
