"""Formats of result files, by the suffix of their names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from rxtemporal.errors import ArgumentError

Format: TypeAlias = Literal["csv", "json", "parquet"]

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


def find_format(path: Path) -> Format:
    """Return the format of a file; ``ArgumentError`` if its suffix says none.

    >>> find_format(Path("rows.jsonl"))
    'json'
    """
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ArgumentError(
            f"the name of a result file ends in {', '.join(_FORMATS)}, got {str(path)!r}"
        )
    return found
