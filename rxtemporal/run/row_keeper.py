"""Keeper of pushed rows that only have to wait for others: most of them, at little cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from rxtemporal.core.events import PointEvent
from rxtemporal.core.ticks import MIN_TIME, Time, to_datetime
from rxtemporal.ingress.lateness import NO_CTI
from rxtemporal.ingress.pushed_inputs import OWN, PushedInputs
from rxtemporal.ingress.source import Sent
from rxtemporal.ingress.verdict import Verdict, make_accepted
from rxtemporal.run.input_stream import StreamState
from rxtemporal.run.reader import Reader

_READING = StreamState.READING
_make_sent = partial(tuple.__new__, Sent)
# of so many rows that come one by one, one is compared with the wall clock
CLOCK_ROWS = 16


class RowKeeper:
    """Keeper of the rows of one source that only have to wait: in time, and no batch is due.

    A row whose source is watched, guarded, recorded or followed is not for it, nor one for which
    there may be no room. ``fail`` ends the run and returns the error for those who push, and
    ``check_failed`` raises if the run has failed meanwhile.

    Threads: any; ``tell`` is called with the stream's lock held.
    """

    def __init__(
        self,
        reader: Reader,
        inputs: PushedInputs,
        fail: Callable[[BaseException], Exception],
        check_failed: Callable[[], None],
    ) -> None:
        self._reader, self._inputs = reader, inputs
        self._packer, self._door = reader.packer, reader.door
        self._run_end, self._flow = reader.run_end, reader.flow
        # of a lock inside of which no batch is made
        self._acquire, self._release = reader.lock.acquire, reader.lock.release
        self._fail, self._check_failed = fail, check_failed
        is_asked = reader.guard is not None or reader.source.lively is not None
        is_bounded = reader.queue is not None and reader.queue.settings is not None
        # True if nobody wants to know more of a row than the row
        self.is_plain = not (is_asked or is_bounded or reader.is_recorded)
        # True if nobody but the log does
        self._is_logged = reader.held is not None and not (is_asked or reader.tape)
        # the verdict on one row in time, and the CTI that it tells
        self._in_time, self._told = Verdict(1), NO_CTI
        # True if CTIs are known to be shown as ticks
        self._shows_ticks = False

    def keep(self, event: PointEvent, name: str) -> Verdict | None:
        """Accept a row without a number that only has to wait, and of which nobody wants to know.

        None, with nothing changed, for another row: it is for ``judge_one``.
        """
        # This runs once for each row that is pushed, and calls only what it must. Nothing waits
        # while it has the lock, and no batch is made.
        run_end, verdict = self._run_end, None
        failed: BaseException | None = None
        self._acquire()
        try:
            reader, door = self._reader, self._door
            high = door.high
            if (
                reader.state is _READING
                and run_end.accepts
                and not self._flow.active
                and self._packer.keep(event)
            ):
                of, start = self._inputs[name], event.start
                accepted = of.accepted
                of.accepted = accepted + 1
                if start > of.reached:
                    of.reached = start
                if start < high and high - start > of.largest_lateness:
                    of.largest_lateness = high - start
                if not accepted % CLOCK_ROWS:
                    of.clock.note(start, reader.clock.now())
                reader.sender = name
                cti = door.cti
                if cti == self._told:
                    verdict = self._in_time
                elif self._shows_ticks and cti > MIN_TIME:
                    self._told = cti
                    self._in_time = verdict = make_accepted(cti)
                else:
                    verdict = self.tell()
        except BaseException as error:
            failed = error
        finally:
            self._release()
        if failed is not None:
            with self._reader.lock:
                raise self._fail(failed) from failed
        if not run_end.accepts:
            self._check_failed()
        return verdict

    def keep_all(self, rows: Iterable[tuple[PointEvent, str]]) -> list[Verdict]:
        """Accept the first of some rows, up to one that ``keep`` would not; return the verdicts.

        Each has the name of its input. This also takes rows into a log.
        """
        reader, tape = self._reader, self._reader.event_log
        verdicts: list[Verdict] = []
        sent: list[Sent] = []
        if not (self.is_plain or self._is_logged):
            return []
        with reader.lock:
            if reader.state is not _READING or not self._run_end.accepts or self._flow.active:
                return []
            if reader.held is not None:
                reader.held.hold()
            try:
                for event, name in rows:
                    if (verdict := self.keep(event, name)) is None:
                        break
                    verdicts.append(verdict)
                    sent.append(
                        _make_sent((event, None if name == OWN else name, None, False, None))
                    )
                if tape is not None and sent:
                    reader.sender = sent[-1].input
                    tape.events(sent)
            except BaseException as error:  # rows are in the query, and not in the log
                raise self._fail(error) from error
        self._check_failed()
        return verdicts

    def tell(self) -> Verdict:
        """Return the verdict on one row in time that has just been accepted."""
        cti = self._door.cti
        if cti != self._told:
            self._told, self._in_time = cti, make_accepted(self.find_cti())
            self._shows_ticks = self._packer.time == "ticks"
        return self._in_time

    def find_cti(self) -> Time | None:
        """Return the stream's CTI in the form of the source's times; None before the first."""
        cti = self._door.cti
        if cti <= MIN_TIME:
            return None
        return to_datetime(cti) if self._packer.time == "datetime" else cti
