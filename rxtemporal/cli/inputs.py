"""Inputs of commands: recordings and files as streams, and a query from a module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError, BindingError, SchemaError, SourceError
from rxtemporal.ingress.built_in_sources import scan_batches
from rxtemporal.ingress.settings import read_advance_time
from rxtemporal.query.application import Application
from rxtemporal.query.bound_query import bind_query
from rxtemporal.query.files import read_csv, read_json, read_parquet
from rxtemporal.query.inputs import from_events
from rxtemporal.query.replay import replay
from rxtemporal.query.streamable import Streamable

# usual names of columns of times, the likeliest first; case does not matter
STARTS = ("start_time", "start", "time", "timestamp", "ts", "datetime", "event_time")
ENDS = ("end_time", "end")
_SCANS: dict[str, Callable[..., pl.LazyFrame]] = {
    ".csv": partial(pl.scan_csv, try_parse_dates=True),
    ".json": pl.scan_ndjson,
    ".jsonl": pl.scan_ndjson,
    ".ndjson": pl.scan_ndjson,
    ".parquet": pl.scan_parquet,
}
_READS: dict[str, Callable[..., Streamable]] = {
    ".csv": read_csv,
    ".json": read_json,
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".parquet": read_parquet,
}
SUFFIXES = (*_SCANS,)


class FileOptions:
    """Options for reading plain files: the columns of times, and how time advances.

    With ``delay``, in ticks, each row makes a CTI that far before its start, and later rows are
    dropped. Without it all results are final at the end of the file. ``time_zone``, ``unit``,
    ``ambiguous`` and ``nonexistent`` say what the times mean, as in ``rxtemporal.read_csv``;
    ``separator`` is for CSV files alone.
    """

    def __init__(
        self,
        start: str | None = None,
        end: str | None = None,
        time_zone: str | None = None,
        delay: int | None = None,
        unit: str | None = None,
        ambiguous: str | None = None,
        nonexistent: str | None = None,
        separator: str | None = None,
    ) -> None:
        self.start, self.end = start, end
        self.csv = {} if separator is None else {"separator": separator}
        times = {"time_zone": time_zone, "unit": unit}
        times |= {"ambiguous": ambiguous, "nonexistent": nonexistent}
        self.times = {name: value for name, value in times.items() if value is not None}
        # a delay has a unit, as the times of files have, unless they are ticks
        span = delay if delay is None or unit == "ticks" else timedelta(microseconds=delay)
        self.settings = read_advance_time(span)

    @classmethod
    def of(cls, options: Namespace) -> FileOptions:
        """Return the options of a command line."""
        names = inspect.signature(cls).parameters
        return cls(**{name: getattr(options, name) for name in names})

    @property
    def given(self) -> list[str]:
        """Names of the options in use."""
        named = {"--start": self.start, "--end": self.end, "--delay": self.settings}
        times = [f"--{name.replace('_', '-')}" for name in (*self.times, *self.csv)]
        return [*(name for name, value in named.items() if value is not None), *times]


def open_streams(paths: Sequence[Path], options: FileOptions) -> dict[str, Streamable]:
    """Return the streams of recordings and files by name; a file gives its name without suffix."""
    streams: dict[str, Streamable] = {}
    for path in paths:
        for name, stream in _open(path, options).items():
            if name in streams:
                raise BindingError(
                    f"two streams have the name {name!r}, one from {path}. Hint: rename a file."
                )
            streams[name] = stream
    return streams


def _open(path: Path, options: FileOptions) -> dict[str, Streamable]:
    if path.is_dir():
        if options.given:
            raise ArgumentError(
                f"{', '.join(options.given)}: for files only, but {path} is a recording, which has "
                "its own settings. Hint: leave these options out."
            )
        return replay(path)
    return {path.stem: _read_file(path, options)}


def _read_file(path: Path, options: FileOptions) -> Streamable:
    suffix = path.suffix.lower()
    if not path.exists():
        raise SourceError(f"there is no recording or file {path}. Hint: check the path.")
    if suffix not in _SCANS:
        raise SourceError(
            f"cannot replay {path}: its suffix is {suffix or 'empty'!r}. Hint: give the folder of "
            f"a recording, or a file that ends in {', '.join(_SCANS)}."
        )
    if options.csv and suffix != ".csv":
        raise ArgumentError(
            f"--separator is for .csv files, and {path} is not one. Hint: leave it out."
        )
    _, schema = scan_batches(lambda: _SCANS[suffix](path, **options.csv), 1, str(path))
    start = options.start or _find_column(STARTS, schema)
    if start is None:
        raise SchemaError(
            f"cannot find the column of times of {path}; its columns are {', '.join(schema)}. "
            "Hint: name it with --start COLUMN, and with --end COLUMN if rows have an end."
        )
    end = options.end or _find_column([each for each in ENDS if each != start], schema)
    return _READS[suffix](
        path, start=start, end=end, advance_time=options.settings, **options.times, **options.csv
    )


def _find_column(names: Sequence[str], schema: pl.Schema) -> str | None:
    there = {column.lower(): column for column in schema}
    return next((there[name] for name in names if name in there), None)


def find_query(text: str, option: str = "--query", *, kinds: tuple[type, ...] = ()) -> Any:
    """Return the function that ``module:function`` or ``file.py:function`` names.

    ``option`` is how the command line calls it; ``kinds`` are what it may name, too.
    """
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ArgumentError(f"{option} takes MODULE:FUNCTION or FILE.py:FUNCTION, got {text!r}")
    try:
        module = load_module(place)
    except ModuleNotFoundError as error:
        raise SourceError(
            f"there is no module {error.name!r}, which {option} {text} needs. Hint: put it into "
            "the current folder or on Python's path, or name a file: path/file.py:function."
        ) from error
    function = getattr(module, name, None)
    if not callable(function) and not isinstance(function, kinds):
        own = [
            each for each, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]  # fmt: skip
        raise SourceError(f"{place} has no function {name!r}; it has {', '.join(own) or 'none'}")
    return function


def open_plans(options: Namespace) -> list[tuple[str, Streamable]]:
    """Return the streams that a command's ``query`` names: one, or each of an application by name.

    Without inputs a function is given streams of unknown fields.
    """
    query = find_query(options.query, "the query", kinds=(Streamable, Application))
    if isinstance(query, Application):
        return [*query.queries.items()]
    streams = open_streams(options.input, FileOptions.of(options))
    if not streams and not isinstance(query, Streamable):
        # a stream for each parameter that needs one
        parameters = inspect.signature(query).parameters.values()
        needed = [each.name for each in parameters if each.default is each.empty]
        streams = {name: from_events([], name=name) for name in needed}
    return [("", bind_query(query, streams or None).stream)]


def load_module(place: str) -> Any:
    """Import a module by its name, or a file that ends in ``.py``."""
    if not place.endswith(".py"):
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    if not Path(place).is_file():
        raise SourceError(f"there is no file {place}. Hint: check the path.")
    name = Path(place).stem
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module there
    spec.loader.exec_module(module)
    return module
