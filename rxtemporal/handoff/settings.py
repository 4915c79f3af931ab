"""How many rows may wait between a source and its query, and what happens when there are more."""

from __future__ import annotations

import dataclasses
import enum
import os
from datetime import timedelta

from rxtemporal.errors import ArgumentError


class WhenFull(enum.Enum):
    """What becomes of a producer that pushes into a full hand-off.

    ``BLOCK``: it waits until the query has taken what waits. ``SPILL``: it goes on, and rows go to
    disk, behind those that wait already.
    """

    BLOCK = "block"
    SPILL = "spill"


@dataclasses.dataclass(frozen=True, slots=True)
class HandOff:
    """A bounded queue between one source that pushes and its query, which runs in another thread.

    ``max_rows`` is how many rows may wait in memory, those that wait for a CTI included; the batch
    that the query works on comes on top. ``when_full`` says what happens then. ``path`` is a folder
    for what spills (by default the system's place for temporary files); each run makes a folder of
    its own there and deletes it at its end.

    >>> HandOff(max_rows=10_000, when_full=WhenFull.SPILL).max_rows
    10000
    """

    max_rows: int = 1_000_000
    when_full: WhenFull = WhenFull.BLOCK
    path: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int):
            raise ArgumentError(f"max_rows is a number of rows, got {self.max_rows!r}")
        if self.max_rows < 1:
            raise ArgumentError(f"max_rows must be positive, got {self.max_rows}")
        if not isinstance(self.when_full, WhenFull):
            raise ArgumentError(f"when_full is WhenFull.BLOCK or SPILL, got {self.when_full!r}")
        if self.path is None:
            return
        if not isinstance(self.path, str | os.PathLike):
            raise ArgumentError(f"path is a folder, got {self.path!r}")
        if self.when_full is WhenFull.BLOCK:
            raise ArgumentError(
                "path is where rows spill to, and a hand-off that blocks spills none. "
                "Hint: when_full=WhenFull.SPILL"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class HandOffDiagnostics:
    """What has gone through one source's hand-off.

    ``rows_waiting`` were accepted and have not been given to the query, wherever they are;
    ``most_rows_waiting`` is the most there have been in memory. ``rows_spilled`` is how many have
    gone to disk. ``times_blocked`` and ``blocked`` say how often and how long producers waited.
    ``batches`` is in how many the query has been given what came.
    """

    rows_waiting: int
    most_rows_waiting: int
    rows_spilled: int
    times_blocked: int
    blocked: timedelta
    batches: int
