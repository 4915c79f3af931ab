"""Sources that push numbered pieces and can bring again what came after a position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from reactivex import abc

from rxtemporal.ingress.source import StreamSource


class Position:
    """The last piece that a run has accepted of one source; a resumable run saves it.

    ``reached`` is its number, None before the first. ``folder`` is where the source may keep what
    it needs to resume; None if the run is not saved.
    """

    def __init__(self) -> None:
        self.reached: int | None = None
        self.folder: Path | None = None
        # held while anything is pushed, so that nothing is on its way when the run is saved
        self.gate: AbstractContextManager[Any] = nullcontext()
        self._save: Callable[[], object] = lambda: None

    def save_with(
        self, folder: Path, gate: AbstractContextManager[Any], save: Callable[[], object]
    ) -> None:
        """Have ``save`` called after each piece, while ``gate`` is held; before the run starts."""
        self.folder, self.gate, self._save = folder, gate, save

    @contextmanager
    def accept(self, number: int) -> Iterator[None]:
        """Push a piece inside of this context: when it exits, the results have left and are saved.

        An exception that is raised inside, or by saving, leaves the position where it was.
        """
        with self.gate:
            before = self.reached
            try:
                yield
                self.reached = number
                self._save()
            except BaseException:
                self.reached = before
                raise


class Subscription(abc.DisposableBase):
    """A subscription to a source that ends some time after ``dispose``, which waits for nothing."""

    def join(self) -> None:
        """Wait until nothing more is pushed; never call it from where it is pushed."""
        raise NotImplementedError


class PositionedSource(StreamSource):
    """A source that pushes event batches in numbered pieces, which it can bring again.

    ``open`` is given the ``Position`` after which the cursor continues.
    """

    pushes = True
    positioned = True
