"""Stages of a run: the step of one operator, made once its fields are known, and its counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeAlias

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured, Saved, loads
from rxtemporal.engine.cut_windows import CutWindows
from rxtemporal.engine.holdings import Moves, Selection
from rxtemporal.engine.open_tail import OpenTail
from rxtemporal.engine.state import IdCounter
from rxtemporal.engine.step import Step, TwoInputStep, find_earliest_due
from rxtemporal.errors import blame

AnyStep: TypeAlias = Step | TwoInputStep
# makes the step from a batch of each input, for their fields
Make: TypeAlias = Callable[..., AnyStep]
# makes the first batch of an input (0 or 1) that ends without one, from that of the other
Absent: TypeAlias = Callable[[int, EventBatch], EventBatch]
Tap: TypeAlias = Callable[[EventBatch], object]
OnNext: TypeAlias = Callable[[EventBatch], object]


class RowHolder(Protocol):
    """Something that holds rows until their time has come."""

    @property
    def rows(self) -> int:
        """The number of rows held."""

    @property
    def next_due(self) -> int | None:
        """The earliest time, in ticks, that the CTI has to pass for a row to leave; None: none."""


class Run(Protocol):
    """The run that a stage is part of."""

    ended: bool

    def fail(self, error: Exception) -> None:
        """End the run with an error."""


# takes a batch of an input (0 or 1), or its end, in a run
Take: TypeAlias = Callable[[int, EventBatch | None, Run], None]


def _ignore(side: int, batch: EventBatch | None, run: Run) -> None:
    """Discard results that nobody gets any more."""


def _do_nothing() -> None:
    """Ignore the end."""


class Meter:
    """Counter of the batches that pass one place: their rows, the CTI, and when that advanced.

    ``clock`` returns seconds. A batch costs some 0.2 µs, whatever its rows.
    """

    __slots__ = ("_clock", "_tap", "cti", "moved", "rows_out", "tail")

    def __init__(self, clock: Callable[[], float] = float) -> None:
        self._clock = clock
        self._tap: Tap | None = None
        # the open rows, in a run whose query may change
        self.tail: OpenTail | None = None
        self.rows_out = 0
        self.cti = MIN_TIME
        self.moved = clock()

    def tally(self, batch: EventBatch) -> None:
        """Count a batch."""
        self.rows_out += len(batch.start)  # without a call of the batch
        if batch.cti > self.cti:
            self.cti = batch.cti
            self.moved = self._clock()
        if self.tail is not None:
            self.tail.add(batch)
        if self._tap is not None:
            self._tap(batch)

    def keep_tail(self) -> None:
        """Keep the open rows; call before the first batch."""
        self.tail = OpenTail()

    def resume(self, rows_out: int, cti: int) -> None:
        """Go on from the counters of an earlier run."""
        self.rows_out, self.cti = rows_out, cti

    def watch(self, tap: Tap | None) -> None:
        """Call ``tap`` with each batch that is counted; None: stop calling it."""
        self._tap = tap


def _order(item: tuple[int, EventBatch | None]) -> tuple[bool, int]:
    """Order what waits: of one batch the left use comes first, and ends come last."""
    side, batch = item
    return batch is None, side


def _forget_rows(batch: EventBatch) -> EventBatch:
    """Return an empty batch with the fields of another, whose rows it does not keep in memory."""
    empty = EventBatch.empty(batch.schema, MIN_TIME, batch.keys)
    return empty.replace(time=batch.time)


def _drop(batch: EventBatch) -> EventBatch:
    """Drop a batch that comes after the end of the run."""
    return EventBatch.empty(batch.schema, MIN_TIME)


def _pass_results(first: EventBatch) -> Step:
    """Return a step that leaves results as they are."""
    from rxtemporal.engine.shape import EdgeStep

    return EdgeStep()


class Feed(Meter):
    """Meter of batches that stages read, one or several.

    ``then`` gets each batch that leaves, and None for the end. It is ``take`` of the only reader
    if that reads nothing else; otherwise batches wait in front of the ``readers``.
    """

    __slots__ = ("readers", "then")

    def __init__(self, clock: Callable[[], float] = float) -> None:
        super().__init__(clock)
        # each with the number of the input
        self.readers: list[tuple[Stage, int]] = []
        self.then: Take = self._queue

    def _queue(self, side: int, batch: EventBatch | None, run: Run) -> None:
        for reader, at in self.readers:
            reader.pending.append((at, batch))


class Stage(Feed):
    """One operator in one run: its step, the batches that wait for it, the meter of its results.

    The step is made at the first batch that has fields, of an operator with two inputs at the first
    of both. Before that time passes alone, unless the operator alters it (``passes_time``); batches
    of two inputs wait. Of two inputs one that ends without a batch gets that which ``absent``
    derives from the other. ``place`` is where the operator was composed, for its errors.
    """

    __slots__ = (
        "_absent", "_make", "_on", "_open", "_passes_time", "_seen", "_waiting", "cut",
        "inputs", "is_limited", "limit", "pending", "place", "readers", "step", "then",
    )  # fmt: skip

    def __init__(
        self,
        make: Make,
        place: str,
        inputs: Iterable[Meter],
        *,
        passes_time: bool = True,
        absent: Absent | None = None,
        clock: Callable[[], float] = float,
    ) -> None:
        super().__init__(clock)
        self._make, self._absent, self._passes_time = make, absent, passes_time
        self.place = place
        # each input is metered where it leaves the preceding stage or the source
        self.inputs = tuple(inputs)
        # batches of inputs in order of arrival, and None where one has ended
        self.pending: deque[tuple[int, EventBatch | None]] = deque()
        self.step: AnyStep | None = None
        # drops incomplete windows, if this operator began in the middle of its input
        self.cut: CutWindows | None = None
        # the stage of another lane, whose CTI is the highest that leaves this one
        self.limit: Meter | None = None
        # True if a CTI was higher than that
        self.is_limited = False
        # the methods of the step, one for each input
        self._on: tuple[Callable[[EventBatch], EventBatch], ...] | None = None
        # an empty batch with the fields of each input, once they are known
        self._seen: list[EventBatch | None] = [None] * len(self.inputs)
        # batches from before the step was there
        self._waiting: list[tuple[int, EventBatch]] = []
        self._open = set(range(len(self.inputs)))

    @classmethod
    def of_output(
        cls, output: Meter, shape: Make | None = None, clock: Callable[[], float] = float
    ) -> Self:
        """Return the last stage of an output; without ``shape`` results leave as they are."""
        return cls(shape or _pass_results, "on the way out", [output], clock=clock)

    def work(self, run: Run) -> None:
        """Take the batches that wait."""
        pending = self.pending
        if len(pending) > 1 and len(self.inputs) > 1:
            ordered = sorted(pending, key=_order)
            pending.clear()
            pending.extend(ordered)
        while pending and not run.ended:
            self.take(*pending.popleft(), run)

    def take(self, side: int, batch: EventBatch | None, run: Run) -> None:
        """Take a batch of an input, or its end; give what leaves to those that read it.

        A batch that brings neither rows nor time does not leave.
        """
        on = self._on
        result: EventBatch | None = None
        try:
            if batch is None:
                goes_on = self._complete(side)
            elif on is None:
                result = self._take_first(side, batch)
                goes_on = result is not None
            else:
                result = on[side](batch)
                if self.limit is not None and result.cti > self.limit.cti:
                    result = result.replace(cti=max(self.cti, self.limit.cti))
                    self.is_limited = True
                goes_on = (
                    len(result.start) > 0 or result.cti > self.cti or result.clocks is not None
                )
        except Exception as error:
            run.fail(blame(error, self.place))
            return
        if goes_on:
            if result is not None:
                if self.cut is not None:
                    windows = None if self.step is None else self.step.windows
                    result = self.cut.drop_incomplete(result, windows)
                self.tally(result)
            self.then(0, result, run)
        elif on is None and self.pending:  # what has waited for the step
            self.work(run)

    def drop_windows(self, cut: CutWindows) -> None:
        """Drop the results of incomplete windows."""
        self.cut = cut

    @contextmanager
    def give_only_to(self, readers: Collection[Stage]) -> Iterator[None]:
        """Return a context in which results reach these readers alone, in the plan's order."""
        before, then = self.readers, self.then
        self.readers = [(each, side) for each, side in before if each in readers]
        self.then = self._queue
        try:
            yield
        finally:
            self.readers, self.then = before, then

    def limit_to(self, other: Meter | None) -> None:
        """Let no CTI leave that is above that of another stage; None: let each leave."""
        self.limit = other

    def deliver_to(self, receive: OnNext, complete_run: Callable[[], object] = _do_nothing) -> None:
        """Hand results to ``receive`` from now on, and report the end to ``complete_run``."""

        def hand_over(side: int, batch: EventBatch | None, run: Run) -> None:
            if batch is not None:
                receive(batch)
            elif not run.ended:
                complete_run()

        self.then = hand_over

    @property
    def floor(self) -> int:
        """The CTI of the only input: of an output's last stage, all results below it have come."""
        return self.inputs[0].cti

    def give_endless(self, run: Run) -> None:
        """Give the rows of an output of which no end is known; nothing more comes."""
        if (first := self._seen[0]) is not None:
            self.take(0, first.none(MAX_TIME), run)

    def retry_time(self, run: Run, *, anyway: bool = False) -> None:
        """Give out the CTI that the limit did not allow, as far as it does now.

        ``anyway``: also without a limit, after keys that held it back have been dropped.
        """
        if self.is_limited or anyway:
            self.is_limited = False
            first = self._seen[0]
            assert first is not None
            self.pending.append((0, first.none(self.inputs[0].cti)))
        self.work(run)

    def _take_first(self, side: int, batch: EventBatch) -> EventBatch | None:
        if batch.schema or len(batch):
            if self._seen[side] is None:
                self._seen[side] = batch
        elif self._absent is None:  # time alone, of the only input
            passes = self._passes_time or batch.cti == MAX_TIME
            return batch if passes and batch.cti > self.cti else None
        self._waiting.append((side, batch))
        self._try_to_begin()
        return None

    def _try_to_begin(self) -> bool:
        """Make the step if all fields are known, and have it take the batches that have waited."""
        for side in self._list_unseen():
            other = self._seen[side - 1]  # of two
            if self._absent is not None and side not in self._open and other is not None:
                self._seen[side] = self._absent(side, other)
        first = [batch for batch in self._seen if batch is not None]
        if len(first) < len(self._seen):
            return False
        self._use(self._make(*first), first)
        waiting, self._waiting = self._waiting, []
        for side, batch in reversed(waiting):
            if not batch.schema and first[side].schema:  # time alone, from before the first event
                batch = first[side].none(batch.cti)
            self.pending.appendleft((side, batch))
        return True

    def wrap_step(self, wrap: Callable[[AnyStep], AnyStep]) -> None:
        """Have the step that is made later work inside of what ``wrap`` returns for it."""
        make = self._make
        self._make = lambda *first: wrap(make(*first))

    def begin(self, *first: EventBatch) -> AnyStep:
        """Make the step before any batch, for inputs with the fields of these; return it."""
        return self._use(self._make(*first), list(first))

    def _use(self, step: AnyStep, first: list[EventBatch]) -> AnyStep:
        used: Any = step
        self.step = step
        self._on = (used.on_batch,) if len(first) == 1 else (used.on_left, used.on_right)
        self._seen = [_forget_rows(batch) for batch in first]
        return step

    def _complete(self, side: int) -> bool:
        """Note that an input has ended; return True if no other is left, and nothing waits."""
        self._open.discard(side)
        if self._on is None and self._try_to_begin():
            self.pending.append((side, None))  # behind what has waited
            return False
        return not self._open

    @property
    def rows(self) -> int:
        """The number of rows held."""
        waiting = sum(len(batch) for _, batch in list(self._waiting))
        return waiting + (0 if self.step is None else self.step.rows)

    @property
    def next_due(self) -> int | None:
        """The earliest time that the CTI has to pass for a row to leave; None for none."""
        return find_earliest_due([self.step, *(batch for _, batch in list(self._waiting))])

    @property
    def missing(self) -> int | None:
        """The input (0 or 1) whose fields have to be known before it can begin; None for none."""
        if self.step is not None or len(unseen := self._list_unseen()) != 1:
            return None
        return unseen[0] if len(self._seen) > 1 else None

    def _list_unseen(self) -> list[int]:
        return [side for side, batch in enumerate(self._seen) if batch is None]

    def release(self) -> None:
        """Drop the step with all that it holds, and who gets results, after the end of the run.

        Another thread may just be inside: what comes to this stage from there is dropped.
        """
        self.step, self._on, self.then = None, (_drop, _drop), _ignore
        self._waiting, self.pending = [], deque()

    def capture(self) -> Captured:
        """Return the state as it is now, to be encoded by any thread, or loaded by one stage."""
        seen = [None if batch is None else batch.none(MIN_TIME) for batch in self._seen]
        step = None if self.step is None else self.step.capture()
        return Captured("operator", [seen, self._waiting, step])

    def copy_from(self, other: Stage) -> None:
        """Continue from the state of a stage of the same operator, which goes on as well."""
        self.load(other.capture(), is_copy=True)
        self.cti = other.cti
        self.resume_limit(is_limited=other.is_limited)

    def resume_limit(self, *, is_limited: bool) -> None:
        """Go on with a CTI that the limit did not allow, if there was one."""
        self.is_limited = is_limited

    def keep_selected(self, selection: Selection) -> None:
        """Drop what belongs to keys that are not selected; the step has been made."""
        assert self.step is not None
        self.step.keep_selected(selection)

    def merge_from(self, other: Stage, moves: Moves) -> None:
        """Take over the state of a stage of the same operator that holds other keys.

        Both have the same CTIs. The other one is not used afterwards; its results count here.
        """
        assert self.step is not None
        assert other.step is not None
        self.step.merge_from(other.step, moves)
        self.rows_out += other.rows_out

    def list_counters(self) -> list[IdCounter]:
        """Return where the step, which has been made, notes the next edge id that it gives out."""
        assert self.step is not None
        return self.step.list_counters()

    def load(self, data: Saved, *, is_copy: bool = False) -> None:
        """Resume from what ``capture`` of a stage of the same operator returned, or its bytes.

        ``is_copy``: of the same query, too, though the parameters of a function may have changed.
        """
        self._seen, self._waiting, held = loads("operator", data)
        if held is None:
            return
        step = self.begin(*(batch for batch in self._seen if batch is not None))
        if is_copy:
            step.load_copy(held)
        else:
            step.load(held)
