"""Check of SQLite's write-ahead log for damage, which SQLite itself takes for its end.

::

    header    magic, version, page size, sequence, two salts, two checksums   (32 bytes)
    frame     page number, size of the file after a commit (else 0), the two salts, two checksums,
              the page                                                        (24 bytes and a page)

A transaction is a group of frames, of which the last one is a commit. SQLite accepts frames up to
the first one whose checksum is wrong. A crash can leave at most one transaction after that, since
each is synced before the next one begins. A commit with more after it means that bytes have
changed.
"""

from __future__ import annotations

import struct
from pathlib import Path

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_WORD = 0xFFFFFFFF


def is_damaged(path: Path, accepted: int) -> bool:
    """Return True if a WAL has lost records after the frames that SQLite has ``accepted``."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return True
    if len(content) < _HEADER.size + _FRAME.size or not _is_header(content):
        return True
    _, _, page, _, *salts, _, _ = _HEADER.unpack_from(content)
    size = _FRAME.size + page
    committed = False
    for place in range(_HEADER.size + accepted * size, len(content) - size + 1, size):
        _, commit, first, second, _, _ = _FRAME.unpack_from(content, place)
        # frames with other salts are older ones, not overwritten yet
        if [first, second] == salts:
            if committed:
                return True
            committed = bool(commit)
    return False


def _is_header(content: bytes) -> bool:
    """Return True if the header's checksum is right."""
    magic, *_, one, two = _HEADER.unpack_from(content)
    order = ">" if magic & 1 else "<"
    first = second = 0
    for even, odd in struct.iter_unpack(f"{order}2I", content[:24]):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return (one, two) == (first, second)
