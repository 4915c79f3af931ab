"""Log of several streams: records in order of arrival, written in groups."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.columns import Item
from rxtemporal.storage.event_log.tape import Tape


class Log:
    """Base class of event logs and recordings, which write the records noted on tapes.

    ``noted`` is the number of the next record, counted over all streams.

    Threads: any may call ``flush`` and the methods of tapes. If several call ``flush`` at once, one
    writes; the next write has all records that the others have noted meanwhile.
    """

    def __init__(self) -> None:
        self.noted = 0
        self.tapes: list[Tape] = []
        self._changed = threading.Condition(threading.Lock())
        self._runs: list[list[int]] = []
        # how many records have been written
        self._durable = 0
        self._writing = self._closed = False
        self._error: BaseException | None = None

    def note(self, tape: Tape, items: Sequence[Item], records: int) -> None:
        """Append items, which are ``records`` records. Used by tapes."""
        with self._changed:
            if not self._admits(tape):
                return
            if self._error is not None:
                raise self._error
            tape.items += items
            if self._runs and self._runs[-1][0] == tape.number:
                self._runs[-1][1] += records
            else:
                self._runs.append([tape.number, records])
            self.noted += records

    def flush(self) -> None:
        """Wait until all records noted so far are durable; raise the error that prevents it."""
        with self._changed:
            upto = self.noted
            while self._writing and self._error is None and self._durable < upto:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._durable >= upto:
                return
            self._writing = True
            runs, self._runs = self._runs, []
            items = {tape: tape.take() for tape in self.tapes if tape.items}
            noted = self.noted
        try:
            self._write(runs, items)
            self._durable = noted
        except BaseException as error:
            interrupted = SpoolError("writing the log was interrupted")
            self._error = error if isinstance(error, Exception) else interrupted
            raise
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _admits(self, tape: Tape) -> bool:
        """Return True if a tape may note; called with the lock held; may wait on it."""
        return not self._closed

    def _write(self, runs: list[list[int]], items: Mapping[Tape, list[Item]]) -> None:
        """Write the noted records, durably."""
        raise NotImplementedError
