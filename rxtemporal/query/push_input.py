"""Inputs of a source that programs push into, and the feed of its rejected rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import count, islice
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from reactivex import Observable, abc

from rxtemporal.core.batch import Int64s
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import TimeLike
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.pushed_inputs import OWN, check_input
from rxtemporal.ingress.side_source import RejectSource
from rxtemporal.ingress.source import StreamSource
from rxtemporal.ingress.verdict import ReadRows, Rejected, Verdict
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable
from rxtemporal.reactive.subjects import TransformSubject
from rxtemporal.reactive.synchronize import synchronize

if TYPE_CHECKING:
    from rxtemporal.run.push_entry import PushEntry

_log = get_logger(__name__)


def judge_all(
    entry: PushEntry,
    pushes: Iterable[tuple[str | None, Any]],
    judge: Callable[[PushEntry, Any, str, None], Verdict],
    tell: Callable[[Verdict, str], None],
) -> list[Verdict]:
    """Return the verdicts on the rows of several inputs, once all are durable.

    Raises if one of them is not accepted; the rows of the others may be in the log then.
    """
    named = [(OWN if input is None else check_input(input), item) for input, item in pushes]
    verdicts: list[Verdict] = []
    try:
        for name, item in named:
            verdicts.append(judge(entry, item, name, None))
    finally:  # also if one is refused: those before it are accepted
        if entry.is_logged:
            entry.settle()
        for (name, _), verdict in zip(named, verdicts, strict=False):
            if verdict.late or verdict.rejected:
                tell(verdict, name)
    return verdicts


Numbers: TypeAlias = "int | Sequence[int] | count[int] | None"


class Pushable(Protocol):
    """A source that has inputs."""

    def push(self, item: Any, *, input: str | None = None, seq: Numbers = None) -> Verdict:
        """Push a row or several."""

    async def push_async(
        self, item: Any, *, input: str | None = None, seq: Numbers = None
    ) -> Verdict:
        """Push without blocking the event loop."""

    def _end_rows(self, name: str, end: TimeLike) -> Verdict:
        """End the open rows of an input."""

    def _release(self, name: str) -> None:
        """Note that a handle of an input has been closed."""


class PushInput:
    """Handle of one input of a ``PushSource``: a device, a connection, a file.

    Handles come and go; the counters of the input, its open rows and its sequence numbers stay, and
    several handles of one name feed the same input. A context manager, which closes the handle.

    Threads: any.
    """

    def __init__(self, source: Pushable, name: str) -> None:
        self._source = source
        self.name = name
        self.closed = False

    def __repr__(self) -> str:
        return f"PushInput({self.name!r}, {'closed' if self.closed else 'open'})"

    def push(self, item: Any, *, seq: Numbers = None) -> Verdict:
        """Push a row or several of this input, as ``PushSource.push`` does."""
        self._check_open()
        return self._source.push(item, input=self.name, seq=seq)

    async def push_async(self, item: Any, *, seq: Numbers = None) -> Verdict:
        """Push as ``push`` does, without blocking the event loop."""
        self._check_open()
        return await self._source.push_async(item, input=self.name, seq=seq)

    def close(self, *, end: TimeLike | None = None) -> Verdict | None:
        """Close the handle; with ``end`` also end the input's open rows, and return the verdict.

        The source and its other inputs go on. Open rows stay open without ``end``, until the input
        comes again under its name. A row that starts later than ``end`` ends one tick after its
        start. Idempotent.
        """
        if self.closed:
            return None
        verdict = None if end is None else self._source._end_rows(self.name, end)
        self.closed = True
        self._source._release(self.name)
        return verdict

    def _check_open(self) -> None:
        if self.closed:
            raise BindingError(
                f"input {self.name!r} is closed. Hint: source.input({self.name!r}) opens it again."
            )

    def __enter__(self) -> PushInput:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_number(seq: Any) -> int:
    """Return a sequence number, or the next one of a count; raise if it is not valid."""
    if isinstance(seq, count):
        seq = next(seq)
    number = -1 if isinstance(seq, bool) or not hasattr(seq, "__index__") else index(seq)
    if not 0 <= number < 2**63:
        raise ArgumentError(f"seq is a number from 0 on, got {brief(seq)}")
    return number


def number_rows(seq: Any, rows: ReadRows) -> Int64s:
    """Return the numbers of rows that have been read, from those of all rows of their push."""
    numbers = _list_numbers(seq, len(rows.items) + len(rows.rejected))
    return numbers[np.asarray(rows.index, np.int64)]


def _list_numbers(seq: Any, items: int) -> Int64s:
    """Return the numbers of all items of a push."""
    if isinstance(seq, count):
        given = list(islice(seq, items))
        # a count goes in one direction
        for each in given[:1] + given[-1:]:
            check_number(each)
        return np.array(given, np.int64)
    given = list(seq) if isinstance(seq, Iterable) and not isinstance(seq, str) else [seq]
    if len(given) != items:
        raise ArgumentError(
            f"seq has one number for each of the {items} items pushed, got {brief(seq)}. "
            "Hint: seq=itertools.count(first) numbers as many as there are."
        )
    return np.asarray([check_number(each) for each in given], np.int64)


class RejectFeed(Observable[Rejected]):
    """The rejected rows of a source, as they happen: an observable, and a stream for queries.

    Each has the name of the source, that of the input, and the time of arrival. The observable
    calls on the thread that pushes the row; a subscriber that raises is logged, and neither the
    push nor the other subscribers notice. It completes when the source is closed. The first row
    that is rejected without any listener is logged as a warning.
    """

    def __init__(self, source: StreamSource) -> None:
        super().__init__(self._connect)
        self._subject: TransformSubject[Rejected, Rejected] = TransformSubject(synchronize())
        self._is_warned = False
        self._source = RejectSource(source)
        self._stream = Streamable(Node(self._source.schema, (), source=self._source))

    @property
    def stream(self) -> Streamable:
        """The rejected rows as a stream, for a query of the run that takes the source's rows.

        Each is a point at the CTI that the source had when it came, with the fields ``source``,
        ``input``, ``index`` (its number in the push), ``reason``, ``row`` (the row as JSON text)
        and ``arrived``. The CTIs are those of the source, so a row comes out once the source's time
        has passed it. Rejected rows are not logged: a run that is resumed after a crash lacks
        those since its last checkpoint.
        """
        return self._stream

    @property
    def is_heard(self) -> bool:
        """True if somebody has subscribed, or a query of the run reads the stream."""
        return self._source.listener is not None or self._subject.has_subscribers

    def push(self, rejected: Sequence[Rejected], input: str = "") -> None:
        """Publish rejected rows; called by the source, outside of its locks."""
        if not self.is_heard:
            self._warn_once(rejected[0], input)
            return
        arrived = datetime.now(UTC)
        named = [
            dataclasses.replace(each, source=self._source.origin.name, input=input, arrived=arrived)
            for each in rejected
        ]
        if self._source.listener is not None:
            self._source.listener.take(named)
        for each in named:
            self._subject.on_next(each)

    def _warn_once(self, first: Rejected, input: str) -> None:
        """Log the first rejected row of the source, since its verdict may not be read."""
        if self._is_warned:
            return
        self._is_warned = True
        _log.warning(
            "rows are rejected; this is logged once",
            stream=self._source.origin.name,
            input=input,
            first=first.reason,
            hint="verdict.rejected of each push and source.rejects have all of them, and "
            "rejects=rxt.Rejects.RAISE makes it an error",
        )

    def end(self) -> None:
        """Complete the observable; called by the source when it is closed."""
        self._subject.on_completed()

    def _connect(
        self, observer: abc.ObserverBase[Rejected], scheduler: Any = None
    ) -> abc.DisposableBase:
        return self._subject.subscribe(observer)
