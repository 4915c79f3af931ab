"""Sources that push numbered pieces and can push them again from a position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from reactivex import abc

from rxtemporal.ingress.source import StreamSource


class Position:
    """Position of a run in one source: the last accepted piece; a resumable run saves it.

    ``reached`` is the number of that piece, None before the first. ``folder`` is for files that
    the source needs to resume; None if the run is not saved.
    """

    def __init__(self) -> None:
        self.reached: int | None = None
        self.folder: Path | None = None
        # held during each push, so that nothing is on its way when the run is saved
        self.gate: AbstractContextManager[Any] = nullcontext()
        self._save: Callable[[], object] = lambda: None

    def save_with(
        self, folder: Path, gate: AbstractContextManager[Any], save: Callable[[], object]
    ) -> None:
        """Call ``save`` after each piece, holding ``gate``; set this before the run starts."""
        self.folder, self.gate, self._save = folder, gate, save

    @contextmanager
    def accept(self, number: int) -> Iterator[None]:
        """Return a context to push a piece in: when it exits, results are delivered and saved.

        If the body or saving raises, the position does not change.
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
    """Subscription whose ``dispose`` does not wait; its source stops some time afterwards."""

    def join(self) -> None:
        """Wait until the source has stopped pushing; never call it from the pushing thread."""
        raise NotImplementedError


class PositionedSource(StreamSource):
    """A source that pushes event batches in numbered pieces, and can push them again.

    ``open`` is given the ``Position`` after which the cursor continues.
    """

    pushes = True
    positioned = True
