"""One entry of an input log's journal: the records of each stream, and who brought how many when.

Parts, each behind its stream's number (-1: the order) and its length: Arrow streams, and for the
order pairs of ``int32``, stream and records.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

# a row each: stream, records
Runs: TypeAlias = npt.NDArray[np.int32]

_PART = struct.Struct("<iI")
_ORDER = -1
_RUN = np.dtype("<i4")


def entry(runs: Sequence[Sequence[int]], frames: Mapping[int, pl.DataFrame]) -> bytes:
    """Return what came as bytes; ``frames`` by the number of the stream."""
    content = {stream: _arrow_stream(frame) for stream, frame in frames.items()}
    content[_ORDER] = np.array(runs, _RUN).tobytes()
    return b"".join(_PART.pack(stream, len(part)) + part for stream, part in content.items())


def parts(content: bytes) -> tuple[Runs, dict[int, pl.DataFrame]]:
    """Return what came: who brought how many, and the records of each stream.

    >>> runs, frames = parts(entry([[0, 2]], {0: pl.DataFrame({"x": [1, 2]})}))
    >>> runs.tolist(), frames[0]["x"].to_list()
    ([[0, 2]], [1, 2])
    """
    place, found = 0, dict[int, bytes]()
    while place < len(content):
        stream, length = _PART.unpack_from(content, place)
        place += _PART.size
        found[stream] = content[place : place + length]
        place += length
    runs = np.frombuffer(found.pop(_ORDER), _RUN).reshape(-1, 2)
    return runs, {stream: pl.read_ipc_stream(io.BytesIO(part)) for stream, part in found.items()}


def _arrow_stream(frame: pl.DataFrame) -> bytes:
    # ten times sooner written and read than a file of one row
    buffer = io.BytesIO()
    frame.rechunk().write_ipc_stream(buffer, compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()
