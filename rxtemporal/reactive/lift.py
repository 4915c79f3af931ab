"""Lifting of an operator's stage to an Rx operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.safe_text import brief
from rxtemporal.engine.driver import Driver, Entry
from rxtemporal.engine.stage import Meter, Stage
from rxtemporal.errors import BindingError, blame


def lift(
    make_stage: Callable[[list[Meter]], Stage], *sources: Observable[EventBatch]
) -> Observable[EventBatch]:
    """Return the output of a stage that reads these sources; each subscription has its own.

    An exception that the stage raises goes to ``on_error`` with the place where the operator was
    composed, as does an item that is not a batch.
    """

    def subscribe(
        observer: abc.ObserverBase[EventBatch], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        driver = Driver(observer.on_error)
        entries = [_PipeEntry(driver) for _ in sources]
        stage = make_stage([*entries])
        driver.add(stage, *entries)
        stage.deliver_to(observer.on_next, observer.on_completed)
        driver.connect(entries)
        for entry in entries:
            entry.place = stage.place
        subscribed = [
            source.subscribe(entry.on_next, entry.on_error, entry.on_completed, scheduler=scheduler)
            for source, entry in zip(sources, entries, strict=True)
        ]
        return CompositeDisposable(*subscribed, Disposable(driver.stop))

    return Observable(subscribe)


class _PipeEntry(Entry):
    """Entry that refuses items that are not batches, such as events."""

    __slots__ = ("place",)
    place: str

    def on_next(self, batch: Any) -> None:
        if type(batch) is EventBatch:
            super().on_next(batch)
            return
        error = BindingError(
            f"an operator of rxtemporal in a pipe takes event batches, got {brief(batch)}. "
            "Hint: make a stream of the events, whose methods are the operators: "
            "rxt.from_observable(events).where(…)."
        )
        self.on_error(blame(error, self.place))
