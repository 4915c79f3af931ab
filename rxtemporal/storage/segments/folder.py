"""Folder of segments, used by any process without a lock: list, read and discard segments."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.errors import SpoolError
from rxtemporal.storage.files import remove, report_errors, sync_folder

# the column that carries the number of each row's segment
SEGMENT = "_segment"

_NAME = re.compile(r"(\d{12})\.(arrow|json|done)")
_DAMAGED = (
    "a file was changed or lost after it was written. Restore it from a copy, or delete the whole "
    "folder and what was made from it, and run the query again from its source"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """Facts about a segment, known without reading it; ``cti`` is the CTI after it, in ticks.

    If a field numbers rows, ``highest`` is its highest value in all segments up to this one.
    """

    sequence: int
    rows: int
    cti: int
    size: int
    crc32: int
    highest: int | None = None

    def to_json(self) -> bytes:
        """Return the facts as JSON with a checksum."""
        facts = dataclasses.asdict(self)
        if self.highest is None:
            del facts["highest"]
        return json.dumps({**facts, "check": _check(facts)}).encode()

    @classmethod
    def from_json(cls, text: bytes, origin: Path) -> Segment:
        """Return the segment from its JSON; ``SpoolError`` if a byte has changed."""
        try:
            facts = json.loads(text)
            if facts.pop("check") == _check(facts):
                return cls(**facts)
        except (ValueError, KeyError, AttributeError, TypeError):
            pass
        raise SpoolError(f"{origin} is damaged: its checksum does not fit. Hint: {_DAMAGED}.")


def _check(facts: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


class SegmentFolder:
    """Folder of segments, used by any process without a lock: list, read and discard segments.

    Each call reads the folder again. Errors of the file system are raised as ``SpoolError``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def file(self, sequence: int, kind: str) -> Path:
        """Return the path of the ``arrow``, ``json`` or ``done`` file of a number."""
        return self.path / f"{sequence:012d}.{kind}"

    def numbers(self) -> dict[str, list[int]]:
        """Return the numbers in the folder by kind of file, each list ascending."""
        found: dict[str, list[int]] = {"arrow": [], "json": [], "done": []}
        with report_errors(f"cannot list the spool {self.path}"):
            names = os.listdir(self.path)
        for match in filter(None, map(_NAME.fullmatch, names)):
            found[match[2]].append(int(match[1]))
        return {kind: sorted(numbers) for kind, numbers in found.items()}

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the last discarded segment and of the last one, 0 for none."""
        found = self.numbers()
        mark = max(found["done"], default=0)
        return mark, max([mark, *found["arrow"]])

    def header(self) -> dict[str, Any]:
        """Return the content of ``spool.json``; ``SpoolError`` if that is not a spool's header."""
        with report_errors(f"cannot read the spool {self.path}"):
            text = (self.path / "spool.json").read_bytes()
        try:
            header = json.loads(text)
            if isinstance(header, dict) and {"format", "id", "query", "schema"} <= set(header):
                return header
        except ValueError:
            pass
        raise SpoolError(f"{self.path / 'spool.json'} is damaged. Hint: {_DAMAGED}.")

    def describe(self, sequence: int) -> Segment:
        """Return the facts of an existing segment, or of the last discarded one."""
        # both, since a reader may turn the one into the other in between
        for kind in ("json", "done"):
            path = self.file(sequence, kind)
            with report_errors(f"cannot read {path}"), contextlib.suppress(FileNotFoundError):
                return Segment.from_json(path.read_bytes(), path)
        raise SpoolError(f"segment {sequence} of {self.path} is missing. Hint: {_DAMAGED}.")

    def waiting_bytes(self) -> int:
        """Return the size in bytes of the segments that are not discarded."""
        found = self.numbers()
        mark, total = max(found["done"], default=0), 0
        for number in found["arrow"]:
            if number > mark:
                # a reader may discard it between two looks
                with contextlib.suppress(FileNotFoundError):
                    total += self.file(number, "arrow").stat().st_size
        return total

    def content(self, sequence: int) -> bytes:
        """Return a segment's Arrow IPC file, its size and CRC-32 verified."""
        expected, path = self.describe(sequence), self.file(sequence, "arrow")
        with report_errors(f"cannot read segment {sequence}"):
            data = path.read_bytes()
        if len(data) != expected.size:
            raise SpoolError(
                f"{path} is torn: it has {len(data)} bytes of {expected.size}. Hint: {_DAMAGED}."
            )
        if zlib.crc32(data) != expected.crc32:
            raise SpoolError(f"{path} is damaged: its CRC-32 does not fit. Hint: {_DAMAGED}.")
        return data

    def read(self, sequence: int) -> pl.DataFrame:
        """Return a segment's rows, verified: times in ticks, the payload, ``_segment``."""
        return pl.read_ipc(io.BytesIO(self.content(sequence)))

    def discard(self, upto: int) -> None:
        """Delete the segments up to this number; the facts of the last one are kept."""
        found = self.numbers()
        committed = [number for number in found["arrow"] if number <= upto]
        with report_errors(f"cannot discard segments of {self.path}"):
            if committed:
                with contextlib.suppress(FileNotFoundError):  # somebody else made the mark
                    os.replace(self.file(committed[-1], "json"), self.file(committed[-1], "done"))
                # the mark has to be on disk before the segments are deleted
                sync_folder(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Delete files below the mark, which an interrupted ``discard`` has left."""
        found = self.numbers()
        mark = max(found["done"], default=0)
        for kind, numbers in found.items():
            for number in numbers:
                if number < mark or (number == mark and kind != "done"):
                    remove(self.file(number, kind))
