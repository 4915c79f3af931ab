"""Formats of results: files by the suffix of their names, and rows as JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from rxtemporal.errors import ArgumentError, BindingError

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


def publish_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a Parquet file, which appears when it is complete; file and name are on disk then."""
    hidden = path.with_name(f".{path.name}.part")
    try:
        with hidden.open("wb") as file:
            frame.write_parquet(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_encoder(sink: str) -> Any:
    """Return an encoder with ``encode`` and ``encode_lines``, for rows as dicts.

    Values that JSON does not have become text, NaN becomes null.

    >>> make_encoder("Http").encode({"start_time": 4, "temp": float("nan")})
    b'{"start_time":4,"temp":null}'
    """
    try:
        import msgspec
    except ModuleNotFoundError as error:
        raise BindingError(
            f"{sink} needs msgspec. Hint: pip install 'rxtemporal[json]'."
        ) from error
    return msgspec.json.Encoder(enc_hook=str)
