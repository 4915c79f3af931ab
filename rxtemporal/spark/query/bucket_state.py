"""State of a bucket between micro-batches: a base, a log of rows, and steps that stay in memory.

To write the whole state in each micro-batch costs what the state costs, however few rows come. So:

1. A micro-batch appends its packed rows to the **log**, and the **head** says how far it reaches.
   Head, base and log are committed by Spark with the micro-batch, or not at all.
2. The worker keeps the steps in memory, under the **token** of the micro-batch that they have taken
   last. A token says which rows have come so far, in whatever order. So steps which have taken
   other rows, in an attempt that failed, are never mistaken for those that were committed.
3. The next worker that has the bucket compares its token with that of the head. Equal: it
   continues. Behind, and its token is the one that an entry of the log follows: it takes the
   entries that it lacks, and drops their results. Otherwise it loads the base and takes the log.
4. The **base**, the state in parts of some megabytes, is written anew when the log has grown
   beyond it, not for all buckets at once. The entries since the base before it are kept for a
   while, so that steps that are behind can still catch up. Parts and entries have the token of
   their micro-batch, and a state whose parts do not belong together is refused.
5. A state that is smaller than the rows is written whole. So is one whose query has a user's
   functions, since these may give something else when they take rows again; there a token is
   another one in each attempt.
6. Spark stores the changes of each micro-batch in a file. A task of a query that has failed may
   still run when the query has been started again, and replace the file of a micro-batch by that
   of its own attempt; later files then follow another one. So what is written depends on the
   head and on the rows, and not on the attempt: entries are in an order of their own, and a base,
   whose bytes may differ, says itself how long it is.
7. Steps that do not fit into the worker's memory are loaded in each micro-batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import struct
import time
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, Protocol

import polars as pl

from rxtemporal.core.log import get_logger
from rxtemporal.engine.codec import dump_frame, dumps, load_frame, loads
from rxtemporal.errors import CheckpointError

log = get_logger(__name__)

# bytes of steps that a worker keeps
KEPT_BYTES = 1 << 30
# steps that have not been used for so long are likely those of a query that has ended
UNUSED_SECONDS = 600
# measured: bytes of memory for each byte of a saved state, and of the compressed log
_IN_MEMORY, _OF_LOG = 3, 8
_TOKEN_BYTES = 16
_ENTRY = struct.Struct("<iqQ")
# the number of parts of a base, and the size of the state
_PART = struct.Struct("<iQ")
# no field has this name
_HASH = "\0hash"


class PackedInput(NamedTuple):
    """A micro-batch's rows of one input; ``frame`` has no columns if there are none."""

    number: int
    cti: int
    frame: pl.DataFrame


class StateLimits(NamedTuple):
    """Sizes of what is written.

    ``log_bytes``: a log of fewer bytes is never replaced by a base. ``removed``: entries that are
    no longer needed and are removed in one micro-batch, each by a call. ``rows``: rows of the log
    that are taken at once, if the work may take the rows of several micro-batches so.
    """

    part_bytes: int = 4 << 20
    log_bytes: int = 4 << 20
    removed: int = 8
    rows: int = 1 << 18


LIMITS = StateLimits()
Columns = dict[str, Any]
"""The results of a micro-batch, columns by name."""


class StatefulRun(Protocol):
    """Something that takes micro-batches, with a state."""

    def take(self, rows: Sequence[PackedInput]) -> Columns:
        """Return the results of a micro-batch, given by input."""

    def save(self) -> bytes:
        """Return the state."""

    def load(self, data: bytes) -> None:
        """Continue from a state that the same work saved."""


class StatefulWork(Protocol):
    """The work on a bucket, as it is sent to workers."""

    @property
    def repeatable(self) -> bool:
        """False if the same rows may lead to another state."""

    @property
    def joins(self) -> bool:
        """True if the rows of several micro-batches may be taken at once."""

    def begin(self) -> StatefulRun:
        """Return a run at its beginning."""


class StateHead(NamedTuple):
    """Progress of a bucket, and sizes of its state.

    Micro-batches are numbered: ``number`` is the last one, ``base`` the last that is in the base,
    whose token is ``base_token``, and ``earlier`` the last before the entries that let a run catch
    up. ``first`` is the first entry that is there. ``parts`` is how many the base has, and
    ``base_bytes`` and ``log_bytes``, the log since the base, are compressed; ``whole`` is the size
    of the state in the base.
    """

    name: str
    token: bytes = b""
    number: int = 0
    base: int = 0
    earlier: int = 0
    first: int = 1
    base_token: bytes = b""
    parts: int = 0
    base_bytes: int = 0
    log_bytes: int = 0
    whole: int = 0

    def dumps(self) -> bytes:
        """Return the head as bytes."""
        return dumps("head", tuple(self))

    @classmethod
    def loads(cls, data: bytes) -> StateHead:
        """Return the head that ``dumps`` was called on."""
        return cls._make(loads("head", data, "the head of a bucket"))


class Store(Protocol):
    """Storage of one bucket that is committed with each micro-batch."""

    def read_head(self) -> StateHead | None:
        """Return the head; None before the first micro-batch."""

    def write_head(self, head: StateHead) -> None:
        """Replace the head."""

    def read(self, kind: str, number: int) -> bytes | None:
        """Return a part of the ``"base"`` or an entry of the ``"log"``; None if it is not there."""

    def write(self, kind: str, number: int, data: bytes) -> None:
        """Write one of them."""

    def remove(self, kind: str, number: int) -> None:
        """Remove one of them."""


@dataclasses.dataclass
class Kept:
    """Steps in memory: the run, and which micro-batch it has taken last."""

    run: StatefulRun
    repeatable: bool
    joins: bool
    token: bytes = b""
    number: int = 0
    size: int = 0
    used: float = 0.0


class KeptRuns:
    """The runs that a worker keeps, by state and work, up to ``limit`` bytes.

    A worker has its buckets in turns. So where not all fit, the latest of the others leaves, as it
    is the one that is wanted last; one that has not been used for long leaves before.
    """

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self.limit = limit
        self._runs: OrderedDict[tuple[str, bytes], Kept] = OrderedDict()
        self._told = False

    def pop(self, name: str, work: bytes) -> Kept | None:
        """Return a run and forget it: an attempt that fails has changed it."""
        return self._runs.pop((name, work), None)

    def keep(self, name: str, work: bytes, kept: Kept) -> None:
        """Keep a run unless it is larger than the limit, and forget others that do not fit."""
        if kept.size > self.limit:
            self._tell()
            return
        kept.used = time.monotonic()
        self._runs[name, work] = kept
        while sum(each.size for each in self._runs.values()) > self.limit:
            *others, _ = self._runs
            unused = kept.used - self._runs[others[0]].used > UNUSED_SECONDS
            self._runs.pop(others[0 if unused else -1])
            self._tell()

    def clear(self) -> None:
        """Forget all runs."""
        self._runs.clear()

    def _tell(self) -> None:
        """Log once that buckets are loaded in each micro-batch."""
        if not self._told:
            self._told = True
            log.warning(
                "spark.states_not_kept", limit=self.limit,
                hint="some buckets are loaded in each micro-batch, as they do not fit: use more "
                "executors, or more buckets if a single one is larger",
            )  # fmt: skip


KEPT = KeptRuns()


class BucketState:
    """One bucket's state, for one micro-batch.

    ``work`` is the pickled work, which is read only if no run is kept.
    """

    def __init__(
        self,
        store: Store,
        work: bytes,
        loads: Callable[[bytes], StatefulWork],
        kept: KeptRuns = KEPT,
        limits: StateLimits = LIMITS,
    ) -> None:
        self._store, self._kept, self._limits = store, kept, limits
        self._digest = hashlib.sha256(work).digest()
        self._loads, self._work = loads, work

    def take(self, received: Iterable[tuple[int, int, bytes]]) -> Columns:
        """Return the results of a micro-batch, and write what it has changed.

        ``received`` are the number of an input, a CTI, and rows as an Arrow stream or no bytes.
        """
        rows = read_rows(received)
        head = self._store.read_head()
        kept = self._resume(head)
        results = kept.run.take(rows)
        head = self._write(head, kept, rows)
        kept.token, kept.number = head.token, head.number
        kept.size = _IN_MEMORY * head.whole + _OF_LOG * head.log_bytes
        self._kept.keep(head.name, self._digest, kept)
        return results

    # Reading --------------------------------------------------------------------------------------

    def _resume(self, head: StateHead | None) -> Kept:
        """Return a run that has taken all micro-batches so far."""
        if head is None:
            return self._make()
        kept = self._kept.pop(head.name, self._digest)
        if kept is None or not self._catch_up(kept, head):
            kept = self._rebuild(head)
        return kept

    def _make(self) -> Kept:
        work = self._loads(self._work)
        return Kept(work.begin(), work.repeatable, work.joins)

    def _catch_up(self, kept: Kept, head: StateHead) -> bool:
        """Let a run take the entries that it lacks; return False if it is not on their way."""
        if kept.token == head.token:
            return True
        if not head.earlier <= kept.number < head.number:
            return False
        entries = self._read_log(kept.number, head)
        follows, first = next(entries)
        if follows != kept.token:
            return False
        self._take_again(kept, chain([first], (rows for _, rows in entries)))
        return True

    def _rebuild(self, head: StateHead) -> Kept:
        kept = self._make()
        kept.run.load(self._read_base(head))
        if head.number > head.base:
            entries = self._read_log(head.base, head)
            follows, first = next(entries)
            if follows != head.base_token:
                raise _make_damage_error("its log does not begin at its base")
            self._take_again(kept, chain([first], (rows for _, rows in entries)))
        return kept

    def _read_base(self, head: StateHead) -> bytes:
        """Return the saved state in the base."""
        first = self._read("base", 0)
        if len(first) < _TOKEN_BYTES + _PART.size or first[:_TOKEN_BYTES] != head.base_token:
            raise _make_damage_error("parts of its base are from another micro-batch")
        count, whole = _PART.unpack_from(first, _TOKEN_BYTES)
        begin = first[: _TOKEN_BYTES + _PART.size]
        parts = [first, *(self._read("base", part) for part in range(1, count))]
        if any(not part.startswith(begin) for part in parts):
            raise _make_damage_error("parts of its base are from another micro-batch")
        return decompress(b"".join(part[len(begin) :] for part in parts), whole)

    def _read_log(self, after: int, head: StateHead) -> Iterator[tuple[bytes, list[PackedInput]]]:
        """Yield entries up to the head, each with the token of the micro-batch before it."""
        token = None
        for number in range(after + 1, head.number + 1):
            data = self._read("log", number)
            follows, own = data[:_TOKEN_BYTES], data[_TOKEN_BYTES : 2 * _TOKEN_BYTES]
            if token not in (None, follows) or (number == head.number and own != head.token):
                raise _make_damage_error(f"entry {number} of its log is from another attempt")
            token = own
            yield follows, _load_rows(data[2 * _TOKEN_BYTES :])

    def _read(self, kind: str, number: int) -> bytes:
        data = self._store.read(kind, number)
        if data is None:
            raise _make_damage_error(f"{number} of its {kind} is missing")
        return data

    def _take_again(self, kept: Kept, entries: Iterator[list[PackedInput]]) -> None:
        for rows in _join_entries(entries, self._limits.rows) if kept.joins else entries:
            kept.run.take(rows)

    # Writing --------------------------------------------------------------------------------------

    def _write(self, head: StateHead | None, kept: Kept, rows: list[PackedInput]) -> StateHead:
        if head is None:
            head = StateHead(uuid.uuid4().hex)
        token, rows = _arrange(head.token, rows)
        if not kept.repeatable:
            token = uuid.uuid4().bytes
        new = head._replace(token=token, number=head.number + 1)
        entry = head.token + new.token + _dump_rows(rows)
        whole = not kept.repeatable or head.base_bytes <= len(entry)
        if whole and head.number - head.first < self._limits.removed:
            for number in range(head.first, head.number + 1):
                self._store.remove("log", number)
            new = new._replace(first=new.number + 1)
            return self._write_base(new, kept, new.number)
        self._store.write("log", new.number, entry)
        new = new._replace(log_bytes=head.log_bytes + len(entry))
        if whole or new.log_bytes > self._limit_log(head):
            return self._write_base(new, kept, head.base)
        return self._commit(new)

    def _write_base(self, head: StateHead, kept: Kept, earlier: int) -> StateHead:
        """Write the state as it is now; a run after ``earlier`` can catch up by the log."""
        state = kept.run.save()
        data = compress(state)
        parts = range(0, len(data), self._limits.part_bytes)
        begin = head.token + _PART.pack(len(parts), len(state))
        for part, at in enumerate(parts):
            self._store.write("base", part, begin + data[at : at + self._limits.part_bytes])
        for part in range(len(parts), head.parts):
            self._store.remove("base", part)
        return self._commit(
            head._replace(
                base=head.number, earlier=earlier, base_token=head.token, parts=len(parts),
                base_bytes=len(data), log_bytes=0, whole=len(state),
            )
        )  # fmt: skip

    def _commit(self, head: StateHead) -> StateHead:
        needed = min(head.earlier + 1, head.first + self._limits.removed)
        for number in range(head.first, needed):
            self._store.remove("log", number)
        head = head._replace(first=max(head.first, needed))
        self._store.write_head(head)
        return head

    def _limit_log(self, head: StateHead) -> float:
        """Return the size from which on a log is replaced by a base.

        Each bucket has a share of its own, so that not all of them write a base at once.
        """
        share = 0.75 + zlib.crc32(head.name.encode()) / 2**33
        return share * max(self._limits.log_bytes, head.base_bytes)


# Rows as bytes ------------------------------------------------------------------------------------


def read_rows(received: Iterable[tuple[int, int, bytes]]) -> list[PackedInput]:
    """Return the rows of each input, given in packed pieces."""
    return _join_rows(PackedInput(number, cti, _load(data)) for number, cti, data in received)


def _load(data: bytes) -> pl.DataFrame:
    return load_frame(data) if data else pl.DataFrame()


def _join_rows(rows: Iterable[PackedInput]) -> list[PackedInput]:
    """Return the rows of each input together, with the highest CTI among them."""
    inputs = groupby(sorted(rows, key=lambda each: each.number), key=lambda each: each.number)
    joined = []
    for number, some in inputs:
        mine = [*some]
        frames = [each.frame for each in mine if each.frame.width]
        frame = pl.concat(frames) if frames else pl.DataFrame()
        joined.append(PackedInput(number, max(each.cti for each in mine), frame))
    return joined


def _join_entries(entries: Iterable[list[PackedInput]], most: int) -> Iterator[list[PackedInput]]:
    waiting, height = list[PackedInput](), 0
    for rows in entries:
        waiting += rows
        height += sum(each.frame.height for each in rows)
        if height >= most:
            yield _join_rows(waiting)
            waiting, height = [], 0
    if waiting:
        yield _join_rows(waiting)


def _arrange(before: bytes, rows: Iterable[PackedInput]) -> tuple[bytes, list[PackedInput]]:
    """Return the token of these rows behind another one, and the rows in an order of their own.

    Neither depends on the order of arrival. Costs a hash and a sort.
    """
    digest, arranged = hashlib.blake2b(before, digest_size=_TOKEN_BYTES), list[PackedInput]()
    for number, cti, frame in rows:
        digest.update(_ENTRY.pack(number, cti, frame.height))
        if frame.width:
            # rows of one time side by side take fewer bytes
            by = [name for name in ("_start",) if name in frame.columns]
            hashes = frame.hash_rows().alias(_HASH)
            ordered = frame.with_columns(hashes).sort(*by, _HASH)
            digest.update(ordered.get_column(_HASH).to_numpy().tobytes())
            frame = ordered.drop(_HASH)
        arranged.append(PackedInput(number, cti, frame))
    return digest.digest(), arranged


def _dump_rows(rows: Iterable[PackedInput]) -> bytes:
    parts = list[bytes]()
    for number, cti, frame in rows:
        data = dump_frame(frame, compress=True) if frame.width else b""
        parts += [_ENTRY.pack(number, cti, len(data)), data]
    return b"".join(parts)


def _load_rows(data: bytes) -> list[PackedInput]:
    rows, at = list[PackedInput](), 0
    while at < len(data):
        number, cti, size = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        rows.append(PackedInput(number, cti, _load(data[at : at + size])))
        at += size
    return rows


def compress(data: bytes) -> bytes:
    """Return a state as it is stored."""
    import pyarrow as pa

    compressed: bytes = pa.compress(data, codec="lz4", asbytes=True)
    return compressed


def decompress(data: bytes, size: int) -> bytes:
    """Return a state of this size; ``CheckpointError`` if what was stored is damaged."""
    import pyarrow as pa

    with contextlib.suppress(OSError, ValueError):
        whole: bytes = pa.decompress(data, size, codec="lz4", asbytes=True)
        return whole
    raise _make_damage_error("it cannot be decompressed")


def _make_damage_error(what: str) -> CheckpointError:
    return CheckpointError(
        f"the state of a bucket in this checkpoint is damaged: {what}. "
        "Hint: restore the checkpoint from a copy, or begin with a new checkpointLocation."
    )
