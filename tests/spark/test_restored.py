"""A sink's folder that is older than its target: numbers that count as published come again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from no_spark import Nothing, use_no_spark
from sink_input import SCHEMA, batches, write

from rxtemporal.errors import SpoolError
from rxtemporal.spark import Console, DatabaseTable, ParquetTable, SparkSink
from rxtemporal.storage.segments import SegmentFolder

Published = Callable[[str, int], None]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test here start Spark."""
    use_no_spark(monkeypatch, Nothing)


@pytest.fixture(params=["parquet", "console", "database"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Published]:
    """Each target that keeps a ledger, and what publishing up to a segment leaves in it."""
    if request.param == "database":
        connect = request.getfixturevalue("connect")

        def note_there(spool: str, segment: int) -> None:
            with connect() as connection:
                connection.execute("UPDATE rxtemporal_ledger SET segment = %s", [segment])

        return DatabaseTable(connect, "t"), note_there
    ledgers = {
        "parquet": tmp_path / ".table.rxtemporal" / "q.json",
        "console": tmp_path / "sink" / "console.json",
    }

    def note(spool: str, segment: int) -> None:
        text = json.dumps({"query": "q", "spool": spool, "segment": segment})
        ledgers[request.param].write_text(text, encoding="utf-8")

    table = {"parquet": ParquetTable(tmp_path / "table"), "console": Console()}
    return table[request.param], note


def run(path: Path, target: Any, hours: int, upto: int) -> SparkSink:
    """A run that breaks off after so many batches."""
    sink = SparkSink(target, path=path / "sink")
    sink.open("q", SCHEMA)
    write(sink, batches(hours)[:upto])
    sink.close(RuntimeError("the machine goes down"))
    return sink


def test_a_spool_that_ends_before_its_ledger_is_refused(
    tmp_path: Path, target: tuple[Any, Published]
) -> None:
    """Restored from an older copy, its next segments would count as published and be lost."""
    table, note = target
    run(tmp_path, table, 9, 1)
    shutil.copytree(tmp_path / "sink" / "spool", tmp_path / "copy")
    run(tmp_path, table, 9, 6)
    folder = SegmentFolder(tmp_path / "sink" / "spool")
    note(folder.header()["id"], 6)
    shutil.rmtree(folder.path)
    shutil.copytree(tmp_path / "copy", folder.path)
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"up to segment 6, .* ends at 1: .* Hint: restore"):
            run(tmp_path, table, 9, 9)
    assert folder.bounds() == (0, 1)


def test_a_spool_that_was_emptied_is_taken_up(
    tmp_path: Path, target: tuple[Any, Published]
) -> None:
    """Deleted segments keep their numbers: the ledger may end where the spool does."""
    table, note = target
    run(tmp_path, table, 9, 6)
    folder = SegmentFolder(tmp_path / "sink" / "spool")
    note(folder.header()["id"], 6)
    folder.discard(6)
    assert run(tmp_path, table, 9, 9).stats().segments == 3
    assert folder.bounds() == (6, 9)
