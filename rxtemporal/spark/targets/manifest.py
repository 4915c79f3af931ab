"""The files of a table that a reader may see.

The ledger of a query is the table's manifest of its files: a small file that is replaced atomically
when a micro-batch, or a compaction, is complete. It says up to which segment the query's files
count, and each file has the range of its segments in its name. So a micro-batch costs the same
however many files the table has, and a folder of the table may be deleted by hand.

1. A file ``<query>-<first>-<last>-<k>.parquet`` counts if its segments are above the ledger's
   ``compacted`` and not above its ``segment``.
2. A file ``<query>-<first>-<last>-c<k>.parquet``, which a compaction has made of such files, counts
   if its segments are not above ``compacted``.
3. Files get their names before the ledger is replaced, and are deleted after it. So a listing
   between two readings of the same ``compacted`` has all files that count.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import polars as pl

from rxtemporal.core.files import publish, report_errors, sync_folder
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.spark.jvm.session import is_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Found = TypeVar("_Found")
# no query's ledger has a name that begins with an underscore
LAYOUT = "_table.json"
_NAME = re.compile(r"(.+)-(\d{12})-(\d{12})-(c?)\d+\.parquet")
# so often in a row the files of one reading may be compacted or deleted
_ATTEMPTS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """Last published segment of a query, and the last one whose files have been compacted."""

    query: str
    spool: str
    segment: int = 0
    compacted: int = 0

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Return a ledger; ``SpoolError`` if it is damaged."""
        try:
            entry = json.loads(path.read_bytes())
            # an earlier version has compacted nothing
            last, compacted = int(entry["segment"]), int(entry.get("compacted", 0))
            return cls(str(entry["query"]), str(entry["spool"]), last, compacted)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SpoolError(
                f"the ledger {path} is damaged. Hint: restore it from a copy, or "
                "delete it together with this query's files and its spool, and run again."
            ) from error

    def write(self, path: Path) -> None:
        """Replace the ledger; it is on disk afterwards."""
        publish(path, json.dumps(dataclasses.asdict(self)).encode(), private=False)
        sync_folder(path.parent)


@dataclasses.dataclass(frozen=True, slots=True)
class TableFile:
    """File of a query in a table, with the range of its segments."""

    path: Path
    query: str
    first: int
    last: int
    is_compacted: bool

    @classmethod
    def parse(cls, path: Path) -> TableFile | None:
        """Return the file that has this name; None for a name of another kind."""
        found = _NAME.fullmatch(path.name)
        if found is None:
            return None
        return cls(path, found[1], int(found[2]), int(found[3]), bool(found[4]))

    def counts(self, ledger: Ledger) -> bool:
        """Return True if readers see this file."""
        if self.is_compacted:
            return self.last <= ledger.compacted
        return ledger.compacted < self.first and self.last <= ledger.segment


def name_file(query: str, first: int, last: int, number: int, *, is_compacted: bool = False) -> str:
    """Return the name of a file in the table."""
    return f"{query}-{first:012d}-{last:012d}-{'c' * is_compacted}{number}.parquet"


def find_aside(table: Path) -> Path:
    """Return the folder beside a table that has its ledgers."""
    return table.with_name(f".{table.name}.rxtemporal")


def read_layout(path: Path) -> str | None:
    """Return the column by which a table is partitioned; ``SpoolError`` if that is damaged."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_bytes())["partition_by"]  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError) as error:
        raise SpoolError(
            f"{path} is damaged. Hint: delete it, and run the query again with the partition_by "
            "that the table has always had."
        ) from error


def name_columns(aside: Path, query: str) -> Path:
    """Return the path of a file without rows that has the columns of a query."""
    return aside / f"{query}.columns.parquet"


def find_files(table: Path) -> Iterator[TableFile]:
    """Yield the files of all queries, counting or not."""
    for folder, _, names in os.walk(table, onerror=_raise_unless_gone):
        for name in names:
            file = TableFile.parse(Path(folder, name))
            if file is not None:
                yield file


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # somebody may delete a folder meanwhile
        raise error


def list_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a ``ParquetTable`` that hold its rows now, of whole micro-batches.

    They stay until a compaction replaces them. ``SpoolError`` if there is no such table, or its
    ledger is damaged. Costs a listing of the table's folders.

    >>> list_files("late_flights")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    rxtemporal.errors.SpoolError: there is no ParquetTable at ...
    """
    table = Path(path).absolute()
    before = _read_ledgers(table)
    while True:
        with report_errors(f"cannot list the table {table}"):
            found = [*find_files(table)]
        ledgers = _read_ledgers(table)
        known = {name: ledger.compacted for name, ledger in before.items()}
        if all(known.get(name) == ledger.compacted for name, ledger in ledgers.items()):
            break
        before = ledgers
    counting = [each for each in found if each.query in before and each.counts(before[each.query])]
    counting.sort(key=lambda each: (each.query, each.first, each.path))
    return [each.path for each in counting]


@overload
def read(path: str | os.PathLike[str], *, session: None = None) -> pl.LazyFrame: ...
@overload
def read(path: str | os.PathLike[str], *, session: SparkSession) -> DataFrame: ...
def read(
    path: str | os.PathLike[str], *, session: SparkSession | None = None
) -> pl.LazyFrame | DataFrame:
    """Return the rows of a ``ParquetTable``: whole micro-batches, each row once.

    A polars ``LazyFrame`` without ``session``, otherwise a Spark ``DataFrame``, with the columns
    that ``polars.read_parquet(path)`` or ``spark.read.parquet(path)`` has; but a text that
    partitions the table is a text, even if all of them could be numbers. No running sink and no
    crash lets it see a part of a micro-batch, or rows both before and after a compaction.

    The ``LazyFrame`` looks at the table anew in each ``collect``; filters and columns are pushed
    into the files, and the rows that remain are in memory. A ``DataFrame`` keeps the files that it
    was made with: when a compaction has replaced them, Spark reports a missing file; then call
    ``read`` again. ``SpoolError`` if there is no such table. Costs a listing of the folders.

    >>> read("late_flights").filter(pl.col("delay") > 30).collect()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    rxtemporal.errors.SpoolError: there is no ParquetTable at ...
    """
    table = Path(path).absolute()
    if session is None:
        return _read_lazily(table)
    if not is_session(session):
        raise ArgumentError(f"session is a Spark session, got {session!r}")
    found: Any = session.read.option("basePath", f"file://{table}")
    files = list_files(table) or _find_samples(table)
    # Spark takes these characters for patterns
    paths = ["file://" + re.sub(r"[\\*?{}\[\]]", r"\\\g<0>", str(each)) for each in files]
    rows = found.parquet(*paths)
    name = read_layout(find_aside(table) / LAYOUT)
    if name is None or not _names_texts(table, name):
        return rows
    from pyspark.sql import types as st

    fields = [
        st.StructField(each.name, st.StringType() if each.name == name else each.dataType)
        for each in rows.schema
    ]
    return found.schema(st.StructType(fields)).parquet(*paths)


def _read_lazily(table: Path) -> pl.LazyFrame:
    from polars.io.plugins import register_io_source

    def load(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        def collect() -> pl.DataFrame:
            frame = _scan(table)
            frame = frame if predicate is None else frame.filter(predicate)
            frame = frame if columns is None else frame.select(columns)
            return (frame if rows is None else frame.head(rows)).collect()

        yield _retry(table, collect)

    def find_schema() -> pl.Schema:
        return _retry(table, lambda: _scan(table).collect_schema())

    find_schema()  # raises here, and as itself, if there is no such table
    return register_io_source(load, schema=find_schema)


def _retry(table: Path, look: Callable[[], _Found]) -> _Found:
    """Look at a table's files again if a compaction has replaced some since they were listed."""
    left, before = _ATTEMPTS, _read_ledgers(table)
    while True:
        try:
            return look()
        except FileNotFoundError:
            now = _read_ledgers(table)
            # as often as compactions come meanwhile, but a file may also be lost
            left, before = (_ATTEMPTS if now != before else left - 1), now
            if not left:
                raise


def _scan(table: Path) -> pl.LazyFrame:
    """Return the rows of the files that count now."""
    files = list_files(table)
    partition_by = read_layout(find_aside(table) / LAYOUT)
    if not files:
        return pl.scan_parquet(_find_samples(table), glob=False)
    if partition_by is None:
        return pl.scan_parquet(files, hive_partitioning=False, glob=False)
    # polars takes the names of folders above the table for columns, too
    above = {name for name, equals, _ in (part.partition("=") for part in table.parts) if equals}
    texts = None
    if _names_texts(table, partition_by):
        texts = dict.fromkeys([*above, partition_by], pl.String)
    rows = pl.scan_parquet(files, hive_partitioning=True, hive_schema=texts, glob=False)
    inside = pl.scan_parquet(files[0], hive_partitioning=False, glob=False).collect_schema()
    clash = above & {*inside, f"{partition_by}_day", partition_by}
    if clash:
        raise ArgumentError(
            f"a folder above the table {table} has the name of its column {min(clash)!r}, and "
            "polars takes that for its values. Hint: pass session=, or move the table."
        )
    return rows.drop(above, strict=False)


def _names_texts(table: Path, partition_by: str) -> bool:
    """Return True if the names of folders are texts, which readers may take for numbers."""
    samples = find_aside(table).glob(name_columns(Path(), "*").name)
    schemas = [pl.scan_parquet(each, glob=False).collect_schema() for each in samples]
    types = [each.get(partition_by) for each in schemas]
    return bool(types) and all(each == pl.String for each in types)


def _find_samples(table: Path) -> list[Path]:
    """Return a file without rows that has the columns of the table."""
    found = sorted(find_aside(table).glob(name_columns(Path(), "*").name))
    if not found:
        raise SpoolError(
            f"the table {table} has no rows, and no columns yet. Hint: read it again when its "
            "sink has been opened."
        )
    return found[:1]


def _read_ledgers(table: Path) -> dict[str, Ledger]:
    """Return the ledger of each query; ``SpoolError`` if there is no table."""
    aside = find_aside(table)
    with report_errors(f"cannot read the ledgers of {table}"):
        if not (aside / LAYOUT).exists():
            raise SpoolError(
                f"there is no ParquetTable at {table}: {aside}, which has its ledgers, is missing. "
                "Hint: give the path that the table was written with; a copy needs both folders."
            )
        return {path.stem: Ledger.read(path) for path in _list_ledgers(aside)}


def _list_ledgers(aside: Path) -> list[Path]:
    return [path for path in aside.glob("*.json") if not path.name.startswith((".", "_"))]
