"""Storage of a bucket in memory, which commits or drops what a micro-batch has written."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from rxtemporal.spark.query.bucket_state import (
    LIMITS,
    BucketState,
    Columns,
    KeptRuns,
    StatefulWork,
    StateHead,
    StateLimits,
)

Received = tuple[int, int, bytes]


class MemoryStore:
    """Storage of one bucket; ``sizes`` are the bytes written in each committed micro-batch.

    As Spark does, it has the changes of each micro-batch by itself: those of the attempt that was
    committed, or of another one that was whole.
    """

    def __init__(self) -> None:
        self._committed: dict[Any, Any] = {}
        self._current: dict[Any, Any] = {}
        self._changes: dict[Any, Any] = {}
        self._others: list[dict[Any, Any]] = []
        self._attempts: list[list[dict[Any, Any]]] = []
        # True if what is stored may be of several attempts
        self._mixed = False
        self._written = 0
        self.sizes: list[int] = []
        # calls until the worker is gone
        self.calls_left: int | None = None

    def commit(self) -> None:
        """Make permanent what has been written since the last commit."""
        self._committed = dict(self._current)
        self.sizes.append(self._written)
        self._written = 0
        self._attempts.append([*self._others, self._changes])
        self._changes, self._others = {}, []

    def reload(self, random: Random) -> None:
        """Read the changes again, those of any attempt of each micro-batch."""
        self._committed, self._mixed = {}, True
        for attempts in self._attempts:
            for key, value in random.choice(attempts).items():
                if value is None:
                    self._committed.pop(key, None)
                else:
                    self._committed[key] = value
        self.roll_back()

    def _count_call(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise LostWorkerError

    def roll_back(self, *, whole: bool = False) -> None:
        """Drop what has been written since the last commit; ``whole``: by an attempt to its end."""
        self.calls_left = None
        self._others += [self._changes] if whole else []
        self._changes = {}
        self._current = dict(self._committed)
        self._written = 0

    @property
    def head(self) -> StateHead | None:
        """The head as it was committed."""
        return self._committed.get("head")

    def list_numbers(self, kind: str) -> list[int]:
        """Return the numbers of the parts or entries that are there."""
        return sorted(key[1] for key in self._committed if key[0] == kind)

    def read_head(self) -> StateHead | None:
        """Return the head."""
        head: StateHead | None = self._current.get("head")
        return head

    def write_head(self, head: StateHead) -> None:
        """Replace the head."""
        self._count_call()
        self._set("head", head)

    def read(self, kind: str, number: int) -> bytes | None:
        """Return a part or an entry."""
        self._count_call()
        data: bytes | None = self._current.get((kind, number))
        return data

    def write(self, kind: str, number: int, data: bytes) -> None:
        """Write one of them."""
        self._count_call()
        self._written += len(data)
        self._set((kind, number), data)

    def _set(self, key: Any, value: Any) -> None:
        self._current[key] = self._changes[key] = value

    def remove(self, kind: str, number: int) -> None:
        """Remove one of them."""
        self._count_call()
        # an attempt whose base had fewer parts has left fewer to remove
        if not self._mixed or (kind, number) in self._current:
            del self._current[kind, number]
        self._changes[kind, number] = None


class LostWorkerError(Exception):
    """The worker is gone in the middle of a micro-batch."""


class Bucket:
    """One bucket of some work in this process: its storage, and one worker with its memory."""

    def __init__(self, work: StatefulWork, limits: StateLimits = LIMITS) -> None:
        self.store, self.kept, self.work, self.limits = MemoryStore(), KeptRuns(), work, limits

    def attempt(self, received: Iterable[Received], kept: KeptRuns) -> Columns:
        """Return the results of a micro-batch by a worker with this memory; commit nothing."""
        state = BucketState(self.store, b"work", lambda _: self.work, kept, self.limits)
        return state.take(received)

    def take(self, received: Iterable[Received]) -> Columns:
        """Return the results of a micro-batch, and commit it."""
        results = self.attempt(received, self.kept)
        self.store.commit()
        return results


class ShakyBucket(Bucket):
    """Bucket that moves between workers with little memory, and whose attempts may fail anywhere.

    A base is written after few rows, in small parts. What is stored of a micro-batch may be that of
    an attempt that was not committed.
    """

    def __init__(self, work: StatefulWork, random: Random) -> None:
        removed, rows = random.choice((1, 8)), random.choice((1, 100))
        super().__init__(work, StateLimits(700, random.choice((0, 4_000)), removed, rows))
        self._random = random
        self._workers = [KeptRuns(random.choice((0, 20_000, 1 << 30))) for _ in range(3)]

    def take(self, received: Iterable[Received]) -> Columns:
        """Return the results of a micro-batch by the attempt that is committed."""
        rows, random = [*received], self._random
        while True:
            kept = random.choice(self._workers)
            if random.random() < 0.2:
                kept.clear()
            random.shuffle(rows)  # another attempt gets them in another order
            self.store.calls_left = random.randrange(8) if random.random() < 0.3 else None
            try:
                results = self.attempt(rows, kept)
            except LostWorkerError:
                self.store.roll_back()
                continue
            if random.random() < 0.8:
                self.store.commit()
                if random.random() < 0.2:
                    self.store.reload(random)
                return results
            self.store.roll_back(whole=True)
