"""Formats of results: files by the suffix of their names, and rows as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from rxtemporal.core.files import remove, sync, sync_folder, take_name
from rxtemporal.errors import ArgumentError, BindingError, SchemaError

Format: TypeAlias = Literal["csv", "json", "parquet"]

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}

# the key of the run in the metadata of a Parquet file
_RUN = "rxtemporal.run"
# how Rust ends the text of an error of the system
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
# types of fields that polars cannot write into files of a format, and what to write instead
_BYTES = ("bytes", 'pl.col("{0}").bin.encode("hex")')
_SPANS = ("spans of time", 'pl.col("{0}").dt.total_microseconds()')
_UNWRITTEN: dict[Format, dict[type[pl.DataType], tuple[str, str]]] = {
    "csv": {pl.Binary: _BYTES, pl.Duration: _SPANS},
    "json": {pl.Binary: _BYTES},
    "parquet": {},
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


def check_types(path: Path, schema: pl.Schema) -> None:
    """Raise ``SchemaError`` if a file of this name cannot have a field of the results."""
    unwritten = _UNWRITTEN[find_format(path)]
    for name, dtype in schema.items():
        if (found := unwritten.get(type(dtype))) is not None:
            what, instead = found
            raise SchemaError(
                f"field {name!r} has the type {dtype}, and {path.name} cannot have {what}. Hint: "
                f"write {instead.format(name)} with with_columns(), or a Parquet file."
            )


def publish_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a Parquet file, which appears when it is complete; file and name are on disk then."""
    with _write_aside(frame, path.with_name(f".{path.name}.part"), {}) as hidden:
        os.replace(hidden, path)
    sync_folder(path.parent)


def publish_own_parquet(frame: pl.DataFrame, path: Path, run: str) -> None:
    """Write a Parquet file as ``publish_parquet`` does, which says what run has written it.

    ``FileExistsError`` if there is a file of that name, which stays as it is.
    """
    with _write_aside(frame, path.with_name(f".{path.name}.{run}.part"), {_RUN: run}) as hidden:
        take_name(hidden, path)
    sync_folder(path.parent)


def find_writer(path: Path) -> str | None:
    """Return the run that has written a Parquet file; None if it does not say."""
    try:
        return pl.read_parquet_metadata(path).get(_RUN)
    except (FileNotFoundError, pl.exceptions.PolarsError):  # no such file
        return None


@contextmanager
def _write_aside(frame: pl.DataFrame, hidden: Path, facts: dict[str, str]) -> Iterator[Path]:
    """Write a Parquet file with a hidden name, which is gone at the end."""
    try:
        with hidden.open("wb") as file:
            with restore_os_errors(hidden):
                frame.write_parquet(file, metadata=facts)
            file.flush()
            sync(file.fileno())
        yield hidden
    finally:
        remove(hidden)


@contextmanager
def restore_os_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise an error of the system, which a library in Rust reports as its own, as an OSError.

    So a full disk is known as one.
    """
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        found = _OS_ERROR.search(str(error))
        if found is None or os.name == "nt":  # whose numbers are others
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), os.fspath(path)) from error


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
