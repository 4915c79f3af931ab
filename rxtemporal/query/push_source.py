"""Source that programs push into: each push gets a verdict."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import polars as pl
from reactivex import Observable
from reactivex.disposable import Disposable

from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EventShape,
    IntervalEvent,
    PlainRow,
    PointEvent,
)
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME, Time, TimeLike, time_ticks
from rxtemporal.core.time_forms import Unit
from rxtemporal.core.turns import FORKS
from rxtemporal.errors import (
    ArgumentError,
    BindingError,
    EventError,
    ProcessEndedError,
    SchemaError,
    explain_calls,
)
from rxtemporal.ingress.arrivals import ARRIVAL, ArrivalTime, check_arrival
from rxtemporal.ingress.clock_settings import (
    ClockFields,
    ClockSettings,
    add_clock,
    list_fields,
)
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.ingress.pushed_inputs import (
    MOST_INPUTS,
    OWN,
    PushStats,
    check_input,
    check_name,
)
from rxtemporal.ingress.pushed_source import PushedSource, make_push_settings
from rxtemporal.ingress.row_reader import RowReader
from rxtemporal.ingress.settings import (
    AdvanceTimePolicy,
    HandOff,
    Heartbeat,
    Liveliness,
    WhenAhead,
    check_hand_off,
)
from rxtemporal.ingress.verdict import Extra, ReadRows, Rejected, Rejects, Verdict, choose
from rxtemporal.operators.plan import Node
from rxtemporal.query.async_pushes import AsyncPushes
from rxtemporal.query.push_input import (
    Numbers,
    PushInput,
    RejectFeed,
    check_number,
    judge_all,
    number_rows,
)
from rxtemporal.query.streamable import Streamable
from rxtemporal.reactive.subjects import TransformSubject
from rxtemporal.reactive.synchronize import synchronize

if TYPE_CHECKING:
    from reactivex import abc

    from rxtemporal.run.push_entry import PushEntry

_ONE = frozenset({dict, PointEvent, IntervalEvent, EdgeEvent, Cti})

# names that other libraries have for a push
_PUSHES = frozenset(
    {"on_next", "send", "emit", "put", "write", "add", "append", "push_cti", "push_many"}
)


class RowLayout(NamedTuple):
    """The parts of a row that a ``PushSource`` takes."""

    schema: pl.Schema
    # None: rows start when they arrive
    start: str | None
    end: str | None
    seq: str | None
    unit: Unit | None


class PushSource:
    """Source that programs push into: each row of a push has a verdict.

    ``schema`` has the fields of a row, as a mapping name → type or as a class with typed fields (a
    dataclass, a NamedTuple, a TypedDict, a pydantic model, a msgspec Struct or an attrs class);
    dicts and objects of such classes are rows. ``start`` and ``end`` name the fields of its times.
    Without ``end`` rows are points; with it, ``shape`` says whether they are intervals (the
    default) or edges. Events, CTIs, batches, polars frames and Arrow tables can be pushed as well,
    mixed.

    * Times: datetimes, ISO 8601 texts with an offset, or numbers. With ``unit`` numbers are Unix
      times (``"s"``, ``"ms"``, ``"us"`` or ``"ns"`` since 1970-01-01T00:00:00Z, with fractions too)
      and the stream has datetimes. Without it they are ticks. A number in a stream of datetimes, or
      under a query whose spans have units, is rejected, and so is a datetime among ticks.
      With ``start=rxt.ARRIVAL`` rows have no time of their own and start when they are accepted:
      at the time of the wall clock, never before an earlier row of the stream or its CTI. Logs and
      recordings have these starts, so that a replay and a run that resumes repeat them.
    * Rows: each is accepted, late, a duplicate or rejected, as its ``Verdict`` says. A row that
      cannot be read never ends the run: with ``Rejects.KEEP`` it is in the verdict, and with
      ``Rejects.RAISE`` the push raises and none of its rows is accepted. ``extra`` says what is
      done about a field that the schema does not have.
    * CTIs: each row makes one, at its start less ``delay``, and a CTI that is pushed counts less
      ``delay``, too. ``policy`` decides about a row that breaks the CTI. ``heartbeat``,
      ``idle_after``, ``batch_rows`` and ``hand_off`` are as in ``from_observable``: a push that
      advances the CTI sends a batch through the query, unless fewer than ``batch_rows`` rows wait.
    * Clocks: ``clock`` names the field, or the fields, that name a device. Each device then has a
      CTI of its own, made by its own rows, and a row is late only behind that; one without a device
      is rejected. The others move a device only to ``behind`` the most advanced one, and once
      nothing has been heard of it for ``silent_after``, or ``forget_after``, to that distance. This
      silence is measured by the wall clock, and each is a record of the log, which a recovery
      repeats. While nothing comes from any device, none follows the others. Results of devices that
      are within ``spread`` of each other, by default the delay, leave together.
    * Inputs: a device that comes and goes has an ``input`` with counters of its own, in which its
      end edges find their rows and its sequence numbers their repeats. ``seq`` is the field that
      has the numbers; a row where it is missing or null has none, and is not a duplicate.
    * Runs: one at a time takes what is pushed. In a run with ``log=`` or ``resume=`` a push returns
      when its rows are durable, and after a restart the source has its CTI, its open rows and its
      inputs again. ``process.stop()`` ends a run, ``close()`` the source.
    * Held: counters for each input there has been, its open rows, and at most 16,384 gaps in its
      sequence numbers. With more gaps the lowest is given up: a row with a number in it, or below
      it, is accepted, and counted as ``unsure``, since it may be a duplicate.
    * Errors: ``ProcessEndedError`` if no run takes the push.

    Threads: any, also event loops, with ``push_async``. Results are delivered on the thread that
    pushes, unless there is a hand-off.

    >>> import rxtemporal as rxt
    >>> fields = {"device": str, "temp": float}
    >>> readings = PushSource("readings", schema=fields, start="ts", delay=5)
    >>> hot = rxt.Collect()
    >>> process = readings.stream.where(lambda row: row["temp"] > 20).run(hot)
    >>> readings.push({"ts": 100, "device": "a", "temp": 20.5})
    Verdict(accepted=1, duplicates=0, late=(), rejected=(), cti=95, unsure=0)
    >>> verdict = readings.push([{"ts": 90, "device": "a", "temp": 21.0}, {"ts": "?"}])
    >>> len(verdict.late), verdict.late[0].by, len(verdict.rejected)
    (1, 5, 1)
    >>> readings.close()
    >>> process.wait()
    True
    """

    @explain_calls("PushSource('readings', schema={'temp': float}, delay='5m')")
    def __init__(
        self,
        name: str,
        *,
        schema: Any,
        start: str | ArrivalTime = "time",
        end: str | None = None,
        delay: Span = 0,
        shape: EventShape | None = None,
        policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
        ahead: Span | None = None,
        when_ahead: WhenAhead = WhenAhead.KEEP,
        batch_rows: int = 1,
        hand_off: HandOff | None = None,
        rejects: Rejects = Rejects.KEEP,
        extra: Extra = Extra.IGNORE,
        seq: str | None = None,
        heartbeat: Heartbeat | None = None,
        idle_after: Span | None = None,
        unit: Unit | None = None,
        clock: ClockFields | None = None,
        behind: Span | None = None,
        silent_after: Span | None = None,
        forget_after: Span | None = None,
        spread: Span | None = None,
    ) -> None:
        self.name = check_name(name, "a source's name")
        self._rejects = choose(Rejects, rejects, "rejects")
        check_hand_off(hand_off, batch_rows)
        if start is ARRIVAL:
            check_arrival(ahead=ahead, clock=clock)
        settings = make_push_settings(delay, policy, ahead, when_ahead, self._rejects)
        # the fields of a row that are not in its payload
        self._layout: dict[str, Any] = {
            "start": start, "end": end, "seq": seq, "shape": shape, "unit": unit
        }  # fmt: skip
        self._make_rows = partial(
            RowReader,
            name,
            payload_schema(schema),
            start=start,
            end=end,
            shape=shape,
            seq=seq,
            extra=choose(Extra, extra, "extra"),
            required=list_fields(clock),
        )
        self._rows = self._make_rows(unit=unit)
        self._entry: PushEntry | None = None
        self._closed = False
        # the number of open handles of each input
        self._handles: Counter[str] = Counter()
        self._async = AsyncPushes(
            name, self._read, self._judge_in_slices, self._tell, self._accepts
        )
        self._late: TransformSubject[LateEvent, LateEvent] = TransformSubject(synchronize())
        source = PushedSource(
            name,
            self._rows.schema,
            settings,
            Liveliness.check(heartbeat, idle_after, settings),
            hand_off,
            self._attach,
            self,
            self._input_stats,
            min_rows=batch_rows,
            refuses_ahead=when_ahead is WhenAhead.REJECT,
            time=self._rows.time,
            arrives=self._rows.arrives,
        )
        add_clock(source, clock, behind, silent_after, forget_after, spread)
        self._stream = Streamable(Node(source.schema, (), source=source))
        self._feed = RejectFeed(source)

    @property
    def stream(self) -> Streamable:
        """The rows that are pushed, as a stream for queries."""
        return self._stream

    @property
    def late(self) -> Observable[LateEvent]:
        """The late rows of all pushes, as they come, each with the CTI that it broke."""
        return self._late

    @property
    def rejects(self) -> RejectFeed:
        """The rejected rows of all pushes, as they come; its ``stream`` has them for queries.

        >>> import rxtemporal as rxt
        >>> source = PushSource("readings", schema={"temp": float})
        >>> process = source.rejects.stream.select("reason").run(rxt.Collect())
        >>> _ = source.rejects.subscribe(lambda each: print(each.reason))
        >>> verdict = source.push([{"time": 1, "temp": "hot"}, {"time": 2, "temp": 20}])
        field 'temp' is Float64 and cannot hold 'hot' (str)
        >>> source.close()
        """
        return self._feed

    @property
    def cti(self) -> Time | None:
        """The stream's CTI, in the form of the source's times; None before the first."""
        return None if self._entry is None else self._entry.cti

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            message = f"'PushSource' object has no attribute {name!r}"
            if not name.startswith("_") and hasattr(Streamable, name):
                message += f". Hint: its stream has the operators: source.stream.{name}(…)."
            elif name in _PUSHES:
                message += (
                    ". Hint: source.push(row), source.push([row, …]), source.push(rxt.Cti(time))."
                )
            raise AttributeError(message, name=name, obj=self)

    def __repr__(self) -> str:
        return f"PushSource({self.name!r}, {self._state()})"

    @property
    def layout(self) -> RowLayout:
        """The names of the times and of the number in a row, and the fields of its payload."""
        names = {name: self._layout[name] for name in ("end", "seq", "unit")}
        start = None if self._rows.arrives else self._layout["start"]
        return RowLayout(schema=self._rows.schema, start=start, **names)

    @property
    def unit(self) -> Unit | None:
        """The unit of the numbers among the times; None: they are ticks."""
        return self._layout["unit"]  # type: ignore[no-any-return]

    def use_unit(self, unit: Unit) -> None:
        """Take the numbers among the times as Unix times of a unit; before any run.

        ``ArgumentError``: the source has another unit.
        """
        if self.unit == unit:
            return
        if self.unit is not None:
            raise ArgumentError(f"source {self.name!r} has the unit {self.unit!r}, got {unit!r}")
        if self._entry is not None:
            raise ArgumentError(f"source {self.name!r} is in a run already, without a unit")
        self._layout["unit"] = unit
        self._rows = self._make_rows(unit=unit)
        self._entrance.use_time(self._rows.time)

    @property
    def clock(self) -> ClockSettings | None:
        """The settings of the clocks of devices; None if all rows have one time."""
        return self._entrance.clock

    def use_clock(self, clock: ClockFields, **spans: Span | None) -> None:
        """Give each device its own time, as ``clock=`` does, before any run.

        ``stream`` is another one afterwards; streams composed before have one time.
        ``ArgumentError``: the source has clocks already, or is in a run.
        """
        if self.clock is not None:
            raise ArgumentError(f"source {self.name!r} has clock={self.clock.fields!r} already")
        if self._rows.arrives:
            check_arrival(clock=clock)
        if self._entry is not None:
            raise ArgumentError(f"source {self.name!r} is in a run already, with one time")
        add_clock(self._entrance, clock, **spans)
        self._require(list_fields(clock))

    def drop_clock(self) -> None:
        """Give all rows one time again, before any run, as before ``use_clock``."""
        self._entrance.use_clock(None)
        self._require(())

    def _require(self, fields: Sequence[str]) -> None:
        """Reject rows in which one of these fields is null; make the stream again."""
        self._make_rows = partial(self._make_rows, required=fields)
        self._rows = self._make_rows(unit=self._layout["unit"])
        self._stream = Streamable(Node(self._entrance.schema, (), source=self._entrance))

    @property
    def _entrance(self) -> PushedSource:
        source = self._stream._node.source
        assert isinstance(source, PushedSource)
        return source

    def _make_double(self) -> PushSource:
        """Return a source of such rows and settings that is in no run."""
        double = PushSource(self.name, schema=self._rows.schema, **self._layout)
        theirs = double._entrance
        theirs.set_up_as(self._entrance)
        double._stream = Streamable(Node(theirs.schema, (), source=theirs))
        return double

    def _state(self) -> str:
        if self._closed:
            return "closed"
        if self._entry is None:
            return "no run has begun"
        return "running" if self._entry.accepts else "its run has ended"

    # Pushes ---------------------------------------------------------------------------------------

    def push(self, item: Any, *, input: str | None = None, seq: Numbers = None) -> Verdict:
        """Push a row or several, and return the verdict on them.

        With a log or a checkpoint this waits until the accepted rows are durable; those who push at
        the same time share one write. Otherwise they are in the query, or in the hand-off.
        ``input`` is the input that sends them. ``seq`` is the row's number in its input, or has one
        for each of several rows; an ``itertools.count`` numbers as many rows as there are, those
        that are rejected too, and continues after them. A row whose number has come before is a
        duplicate.

        ``ProcessEndedError``: no run takes the rows; its cause is the error of the run. A row of
        this push may still be in the log, so push again with the same number.
        """
        # this runs once for each row that is pushed
        name = OWN if input is None else check_input(input)
        entry = self._entry
        if entry is None or self._closed or FORKS.count != entry.forks:
            entry = self._find_entry()
        point = None if seq is not None else self._rows.read_plain(item)
        if point is None:
            verdict = self._judge(entry, item, name, seq)
        else:
            verdict = entry.judge_one(point, name, None, type(item) is list)
        if entry.is_logged:
            entry.settle()
        if verdict.late or verdict.rejected:
            self._tell(verdict, name)
        return verdict

    async def push_async(
        self, item: Any, *, input: str | None = None, seq: Numbers = None, durable: bool = True
    ) -> Verdict:
        """Push as ``push`` does, without blocking the event loop.

        One thread accepts the pushes of all event loops, those of one input in their order, and
        makes durable all that wait at once. A push that is cancelled may have been accepted. With
        ``durable=False`` the verdict does not wait for the disk: the rows are lost if the process
        ends before that.
        """
        entry = self._find_entry()
        if not entry.accepts:
            raise entry.refuse()
        name = OWN if input is None else check_input(input)
        return await self._async.push(entry, item, name, seq, durable)

    def advance(self, time: TimeLike, *, device: Any = None) -> None:
        """Advance the stream to a time, which is not reduced by the delay.

        With ``device`` only the clock of this device is advanced, in a source with ``clock=``; of
        several fields that name a device, it is a tuple. Otherwise those of all devices that are
        below. A time before the CTI changes nothing. When this returns, the results that are final
        then have been delivered, as with a push, and the time is durable.

        ``EventError``: ``device`` is none of this source. ``ProcessEndedError`` as from ``push``.

        >>> import rxtemporal as rxt
        >>> fields = {"device": str}
        >>> source = PushSource("r", schema=fields, clock="device", delay=60, spread=0)
        >>> with source.stream.run(rxt.Print()):
        ...     _ = source.push([{"time": 5, "device": "a"}, {"time": 7, "device": "b"}])
        ...     source.advance(10, device="a")
        ...     source.close()
        start_time  end_time  device
        5           6         a
        7           8         b
        """
        entry = self._find_entry()
        event, _ = self._rows.read_one(Cti(time, device))
        if isinstance(event, Rejected):
            raise EventError(event.reason)
        entry.advance(event.start, getattr(event, "device", None))
        if entry.is_logged:
            entry.settle()

    def has_room(self, rows: int, waiting: int = 0) -> bool:
        """Return True if a push of so many rows would not wait for room in the hand-off.

        ``waiting`` is the number of rows in pushes that have no verdict yet. True without a
        hand-off, and if no run takes the rows: then the push raises at once.

        >>> import rxtemporal as rxt
        >>> hand_off = rxt.HandOff(max_rows=100)
        >>> PushSource("readings", schema={"temp": float}, hand_off=hand_off).has_room(10)
        True
        """
        entry = self._entry
        return entry is None or not entry.accepts or entry.has_room(rows, waiting)

    def has_room_for_input(self, name: str) -> bool:
        """Return True if rows of this input can be pushed by a service or a feed.

        Each input that has come, also in an earlier life of the run, costs memory for good: so
        there are at most 100,000.
        """
        inputs = {} if self._entry is None else self._entry.inputs
        return name in inputs or len(inputs) < MOST_INPUTS

    def push_all(self, pushes: Iterable[tuple[str | None, Any]]) -> list[Verdict]:
        """Push for several inputs, each with its rows, and make all durable at once.

        None stands for no input. Otherwise as ``push``, and much cheaper with a log or a
        checkpoint.
        """
        return judge_all(self._find_entry(), pushes, self._judge, self._tell)

    def _find_entry(self) -> PushEntry:
        if self._entry is None or self._closed:
            raise self._refuse()
        self._entry.refuse_fork()
        return self._entry

    def _accepts(self) -> bool:
        return self._entry is not None and self._entry.accepts

    def _read(self, item: Any, seq: Any) -> PlainRow | None:
        """Return a row as a point that may only have to wait; None for any other push."""
        return None if seq is not None else self._rows.read_plain(item)

    def _judge(self, entry: PushEntry, item: Any, name: str, seq: Numbers) -> Verdict:
        """Return the verdict on a push, which is not durable yet."""
        if type(item) in _ONE:
            return self._judge_one(entry, item, name, seq)
        return self._judge_rows(entry, self._rows.read(item), name, seq)

    def _judge_in_slices(
        self, entry: PushEntry, item: Any, name: str, seq: Numbers
    ) -> Generator[None, None, Verdict]:
        """Return what ``_judge`` does; yield now and then while its rows are read."""
        if type(item) in _ONE:
            return self._judge_one(entry, item, name, seq)
        rows = yield from self._rows.read_in_slices(item)
        return self._judge_rows(entry, rows, name, seq)

    def _judge_one(self, entry: PushEntry, item: Any, name: str, seq: Numbers) -> Verdict:
        own = None if seq is None else check_number(seq)
        event, number = self._rows.read_one(item)
        if isinstance(event, Rejected):
            return self._judge_rows(entry, ReadRows((), (), None, (event,), 1), name, None)
        return entry.judge_one(event, name, number if own is None else own)

    def _judge_rows(self, entry: PushEntry, rows: ReadRows, name: str, seq: Numbers) -> Verdict:
        if seq is not None:
            rows = dataclasses.replace(rows, seq=number_rows(seq, rows))
        if rows.rejected and self._rejects is Rejects.RAISE:
            raise self._reject(rows)
        return entry.judge(rows, name)

    def _tell(self, verdict: Verdict, name: str) -> None:
        """Publish what a push has not brought in time, outside of all locks."""
        for late in verdict.late:
            self._late.on_next(late)
        if verdict.rejected:
            self._feed.push(verdict.rejected, name)

    def _count_rejected(self, rows: int, input: str | None) -> None:
        """Count rows that could not be read and so were not pushed, without waiting for the query.

        An input for which there is no room has no counter.
        """
        name = OWN if input is None else input
        if rows and self._entry is not None and self.has_room_for_input(name):
            self._entry.inputs[name].count_rejected(rows)

    def _refuse(self) -> ProcessEndedError:
        if self._closed:
            return ProcessEndedError(
                f"source {self.name!r} is closed, and takes nothing any more. Hint: close() ends a "
                "source for good; process.stop() ends only this run of it."
            )
        return ProcessEndedError(
            f"no run takes what is pushed into {self.name!r}: none has begun. Hint: run a query "
            "over its .stream first, for example query(source.stream).run(sink)."
        )

    def _reject(self, rows: ReadRows) -> SchemaError:
        first = rows.rejected[0]
        return SchemaError(
            f"row {first.index} of a push into {self.name!r} cannot be read: {first.reason}; "
            f"{len(rows.rejected)} of {rows.rows} rows, and none has been accepted. "
            "Hint: with rejects=rxt.Rejects.KEEP the others are."
        )

    # Runs -----------------------------------------------------------------------------------------

    def _attach(self, entry: Any) -> abc.DisposableBase:
        """Take the entry of a run that begins."""
        if self._accepts():
            raise BindingError(
                f"source {self.name!r} is in a run already, and has one at a time. Hint: queries "
                "over one source run together in an Application; or stop() the first process."
            )
        self._entry = entry
        self._rows = self._rows.join(entry.times)
        if self._closed:
            entry.end()
        return Disposable(self._async.wake)

    def close(self) -> None:
        """End the source for good: its stream completes, with a CTI at the end of time.

        A run with ``resume=`` or ``log=`` cannot be continued afterwards. To end only this run,
        and continue after a restart, call ``process.stop()``.
        """
        self._closed = True
        if self._entry is not None:
            self._entry.end()
        self._feed.end()

    # Inputs ---------------------------------------------------------------------------------------

    def input(self, name: str) -> PushInput:
        """Return a handle for the input called ``name``, also a context manager.

        Inputs come and go without ending the source. One that returns under its name continues with
        its counters, its open rows and its sequence numbers.
        """
        handle = PushInput(self, check_input(name))
        self._handles[name] += 1
        return handle

    def _release(self, name: str) -> None:
        self._handles[name] -= 1

    def _end_rows(self, name: str, end: TimeLike) -> Verdict:
        entry, last = self._find_entry(), time_ticks(end)
        ends = [
            EdgeEvent.create_end(edge.start_time, max(last, edge.start + 1), edge.payload)
            for owner, edge in entry.open_rows
            if owner == name
        ]
        verdict = entry.judge(ReadRows(ends, range(len(ends)), None, (), len(ends)), name)
        entry.settle()
        self._tell(verdict, name)
        return verdict

    def stats(self) -> PushStats:
        """Return the current counters, of all lives of the source that its run continues.

        Duplicates and rejected rows are not logged: those since the last checkpoint of an earlier
        life are not counted, and with ``log=`` none of an earlier life.
        """
        inputs = self._input_stats(None)
        entry = self._entry
        states = [] if entry is None else list(entry.inputs.values())
        return PushStats(
            accepted=sum(each.accepted for each in states),
            duplicates=sum(each.duplicates for each in states),
            late=sum(each.late for each in inputs.values()),
            rejected=sum(each.rejected for each in states),
            largest_lateness=max((each.largest_lateness for each in states), default=0),
            open_rows=sum(each.open_rows for each in inputs.values()),
            cti=self.cti,
            ignored=dict(self._rows.ignored),
            inputs=inputs,
            unsure=sum(each.unsure for each in states),
        )

    def _input_stats(self, entry: PushEntry | None) -> Mapping[str, SourceStats]:
        entry = self._entry if entry is None else entry
        if entry is None:
            return {}
        states = list(entry.inputs.values())
        most_advanced = max((each.reached for each in states), default=MIN_TIME)
        rows = Counter(owner for owner, _ in entry.open_rows)
        return {
            each.name: each.stats(
                most_advanced, rows[each.name], each.name == OWN or self._handles[each.name] > 0
            )
            for each in states
        }
