"""Sources that push and can bring again what came after a position; how far they have come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from reactivex import abc

from rxtemporal.ingress.source import Cursor
from rxtemporal.ingress.sources import ObservableSource


class Position:
    """How far one source has come in a run; in a run that is kept it is saved with the rest.

    ``reached`` is the last piece that has been taken, None before the first. ``folder`` is where
    the source may keep what it needs to go on; None where the run is not kept.
    """

    def __init__(self) -> None:
        self.reached: int | None = None
        self.folder: Path | None = None
        # held while anything is pushed, so that nothing is on its way when the run is saved
        self.gate: AbstractContextManager[Any] = nullcontext()
        self._save: Callable[[], object] = lambda: None

    def keep(
        self, folder: Path, gate: AbstractContextManager[Any], save: Callable[[], object]
    ) -> None:
        """Have ``save`` called after each piece, while ``gate`` is held; before the run starts."""
        self.folder, self.gate, self._save = folder, gate, save

    @contextmanager
    def taking(self, number: int) -> Iterator[None]:
        """Take a piece inside: what comes of it has left, and is saved, when this is left.

        What is raised inside, or by saving, leaves the position where it was.
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


class Following(abc.DisposableBase):
    """A source that is being followed. To dispose of it waits for nothing; ``join`` does."""

    def join(self) -> None:
        """Wait until nothing more is pushed; not from where it is pushed."""
        raise NotImplementedError


class PositionedSource(ObservableSource):
    """A source that pushes event batches in numbered pieces, which it can bring again."""

    resumes = True
    positioned = True

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor that pushes what comes after a ``Position``."""
        return _PositionedCursor(self, position)

    def follow(self, observer: abc.ObserverBase[Any], position: Position) -> Following:
        """Push what comes after a position."""
        raise NotImplementedError


class _PositionedCursor(Cursor):
    def __init__(self, source: PositionedSource, position: Position) -> None:
        super().__init__()
        self._source, self._position = source, position
        self.completes = not source.omits_ctis

    @property
    def position(self) -> int | None:
        return self._position.reached

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        return self._source.follow(observer, self._position)
