"""A plan, run: sources pushed through the operators' observables to one observer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
from reactivex import Observable, abc
from reactivex.subject import Subject

from rxtemporal.advance_time import Door
from rxtemporal.batch import EventBatch, TimeForm
from rxtemporal.operators.operator import Operator
from rxtemporal.packing import Packer
from rxtemporal.sources import EventSource, FrameSource, ObservableSource, OpenEvents, OpenFrames

__all__ = ["Execution", "Node"]

AnySource = FrameSource | EventSource | ObservableSource


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operator of a plan and where its input comes from; or a source, which has none."""

    schema: pl.Schema | None
    keys: tuple[str, ...]
    source: AnySource | None = None
    operator: Operator | None = None
    above: Node | None = None

    def lineage(self) -> list[Node]:
        """Return the nodes from the source to this one."""
        return [*(self.above.lineage() if self.above else []), self]


class Execution:
    """One run of a plan. Not thread-safe: whoever drives it serialises.

    ``start`` connects it; after that ``advance`` moves a source that has to be asked one batch on,
    until it returns False. Sources that push drive themselves.
    """

    def __init__(
        self, node: Node, shape: Callable[[Observable[EventBatch]], Observable[Any]]
    ) -> None:
        nodes = node.lineage()
        source = nodes[0].source
        assert source is not None
        self._entry: Subject[EventBatch] = Subject()
        stream: Observable[EventBatch] = self._entry
        for each in nodes[1:]:
            assert each.operator is not None
            stream = each.operator(stream)
        self._output = shape(stream)
        self._source = source
        self._reading: OpenFrames | OpenEvents | Packer = source.open()
        self._batches: Iterator[EventBatch] | None = None
        self._subscriptions: list[abc.DisposableBase] = []
        self.ended = False

    @property
    def door(self) -> Door:
        """The source's door, with what it has counted."""
        return self._reading.door

    @property
    def time(self) -> TimeForm:
        """The form in which the source gives times; datetimes until it has given one."""
        return self._reading.time or "datetime"

    @property
    def pulls(self) -> bool:
        """Whether the source has to be asked for its batches."""
        return not isinstance(self._source, ObservableSource)

    @property
    def may_block(self) -> bool:
        """Whether asking the source for more may take for ever."""
        return isinstance(self._source, EventSource)

    def start(
        self,
        on_next: Callable[[Any], None],
        on_error: Callable[[Exception], None],
        on_completed: Callable[[], None],
    ) -> None:
        """Subscribe the observer, then connect the source."""
        self._subscriptions.append(
            self._output.subscribe(on_next, self._ending(on_error), self._ending(on_completed))
        )
        if isinstance(self._source, ObservableSource):
            pusher = _Pusher(self._reading, self._entry)  # type: ignore[arg-type]
            self._subscriptions.append(self._source.observable.subscribe(pusher))
        else:
            self._batches = iter(self._reading)  # type: ignore[arg-type]

    def _ending(self, tell: Callable[..., None]) -> Callable[..., None]:
        def end(*arguments: Any) -> None:
            self.ended = True
            tell(*arguments)

        return end

    def advance(self) -> bool:
        """Push one batch of a source that has to be asked; False when there are no more."""
        if self._batches is None or self.ended:
            return False
        try:
            batch = next(self._batches, None)
        except Exception as error:
            self._entry.on_error(error)
            return False
        if batch is None:
            self._entry.on_completed()
            return False
        self._entry.on_next(batch)
        return not self.ended

    def drain(self) -> None:
        """Read a source that has to be asked to its end."""
        while self.advance():
            pass

    def dispose(self) -> None:
        """Let go of source and observer."""
        self.ended = True
        for subscription in self._subscriptions:
            subscription.dispose()


class _Pusher(abc.ObserverBase[Any]):
    """Takes what an observable pushes, events or whole batches, through the door."""

    def __init__(self, packer: Packer, entry: Subject[EventBatch]) -> None:
        self._packer = packer
        self._entry = entry
        self._ended = False

    def on_next(self, item: Any) -> None:
        if self._ended:
            return
        try:
            batch = (
                self._packer.take_batch(item)
                if isinstance(item, EventBatch)
                else self._packer.take(item)
            )
        except Exception as error:
            self._fail(error)
            return
        if batch is not None:
            self._entry.on_next(batch)

    def _fail(self, error: Exception) -> None:
        self._ended = True
        accepted, first = self._packer.rescue(error)
        if accepted is not None:
            self._entry.on_next(accepted)
        self._entry.on_error(first)

    def on_error(self, error: Exception) -> None:
        if not self._ended:
            self._fail(error)

    def on_completed(self) -> None:
        if self._ended:
            return
        self._ended = True
        try:
            last = self._packer.finish()
        except Exception as error:
            self._fail(error)
            return
        if last is not None:
            self._entry.on_next(last)
        self._entry.on_completed()
