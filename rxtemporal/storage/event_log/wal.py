"""SQLite's write-ahead log (WAL), read without SQLite: which of its frames are whole.

::

    header    magic, version, page size, sequence, two salts, two checksums   (32 bytes)
    frame     page number, size of the file after a commit (else 0), the two salts, two checksums,
              the page                                                        (24 bytes and a page)

1. A transaction is a group of frames, of which the last one is a commit. SQLite accepts frames up
   to the first one whose checksum is wrong. A crash can leave at most one transaction after that,
   since each is synced before the next one begins. A commit with more after it means that bytes
   have changed.
2. Frames with other salts are older ones, not overwritten yet.
3. The checksum of a frame continues that of the frame before it. It is linear in the words of the
   frame, modulo 2^32: for a pair x, y it goes from a, b to a + b + x, a + 2b + x + y.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct(">8I")
_FRAME_HEAD = 24
_WORD = 0xFFFFFFFF

Words = npt.NDArray[np.uint32]


class Wal:
    """The frames of a WAL, in order; a part of a frame at the end is left out.

    ``numbers``: the number of the page in each frame. ``sizes``: the file's size in pages after a
    commit, else 0. ``current``: True for frames that are not older ones. ``valid``: True for
    current frames whose checksum continues that of the frame before.
    """

    def __init__(self, content: bytes) -> None:
        magic, _, self.page_size, _, *salts, one, two = _HEADER.unpack_from(content)
        size = _FRAME_HEAD + self.page_size
        count = (len(content) - _HEADER.size) // size
        frames = np.frombuffer(content, np.uint8, count * size, _HEADER.size).reshape(count, size)
        heads = np.ascontiguousarray(frames[:, :_FRAME_HEAD]).view(">u4").astype(np.uint32)
        self._frames = frames
        self.numbers, self.sizes = heads[:, 0], heads[:, 1]
        self.current = (heads[:, 2:4] == np.array(salts, np.uint32)).all(axis=1)
        before = np.concatenate([np.array([[one, two]], np.uint32), heads[:-1, 4:6]])[:count]
        order = ">u4" if magic & 1 else "<u4"
        summed = np.concatenate([frames[:, :8], frames[:, _FRAME_HEAD:]], axis=1)
        words = np.ascontiguousarray(summed).view(order).astype(np.uint32)
        weights, step = _weights(words.shape[1])
        sums = words @ weights + before @ step
        self.valid = self.current & (sums == heads[:, 4:6]).all(axis=1)

    @property
    def accepted(self) -> int:
        """The number of frames that SQLite accepts: up to the last commit before a wrong one."""
        leading = int(np.append(self.valid, False).argmin())
        commits = np.flatnonzero(self.sizes[:leading])
        return int(commits[-1]) + 1 if len(commits) else 0

    @property
    def has_lost_commits(self) -> bool:
        """True if a commit that SQLite does not accept has more after it."""
        rest = np.flatnonzero(self.current[self.accepted :]) + self.accepted
        return bool(self.sizes[rest[:-1]].any())

    def page(self, frame: int) -> bytes:
        """Return the page in a frame."""
        return self._frames[frame, _FRAME_HEAD:].tobytes()


def read_wal(path: Path) -> Wal | None:
    """Return the WAL in a file; None without a file, or if its header is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    whole = len(content) >= _HEADER.size and _is_header(content)
    return Wal(content) if whole else None


def is_damaged(path: Path) -> bool:
    """Return True if a WAL is missing or has lost records that were committed."""
    wal = read_wal(path)
    return wal is None or not len(wal.numbers) or wal.has_lost_commits


def _is_header(content: bytes) -> bool:
    """Return True if the header's checksum is right."""
    magic, _, page_size, *_, one, two = _HEADER.unpack_from(content)
    words = np.frombuffer(content, ">u4" if magic & 1 else "<u4", 6).astype(np.uint32)
    weights, _ = _weights(6)
    return page_size >= 512 and bool((words @ weights == (one, two)).all())


@lru_cache
def _weights(count: int) -> tuple[Words, Words]:
    """Return the weights of words in a checksum, and the matrix of the checksum before them."""
    rows, a, b, c, d = [], 1, 0, 0, 1  # the power of [[1, 1], [1, 2]] for the pairs that follow
    for _ in range(count // 2):
        rows += [[b, d], [a + b, c + d]]
        a, b, c, d = (a + b) & _WORD, (a + 2 * b) & _WORD, (c + d) & _WORD, (c + 2 * d) & _WORD
    weights = np.array(rows[::-1], np.uint64) & _WORD
    return weights.astype(np.uint32), np.array([[a, c], [b, d]], np.uint32)
