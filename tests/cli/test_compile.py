"""The command ``compile``: kernels of a query before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rxtemporal.cli.main import main

QUERIES = """
import polars as pl
import rxtemporal as rxt
from rxtemporal import agg


def hourly(readings):
    return readings.group_by("room").tumbling_window("1h").aggregate(n=agg.count())


house = rxt.Application("house")
house.query("all", rxt.PushSource("pushed", schema={"x": int}).stream.where(pl.col("x") > 1))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a query and an application."""
    path = tmp_path / "queries.py"
    path.write_text(QUERIES, "utf-8")
    return path


def test_it_tells_what_was_compiled_and_where(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fields come from a file, whose rows are not needed."""
    readings = file.parent / "readings.csv"
    readings.write_text("time,room\n2026-01-01T00:00:00Z,hall\n", "utf-8")
    assert main(["compile", f"{file}:hourly", "--input", str(readings)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("2 operators: ")
    assert second.startswith("machine code for ")


def test_an_application_has_its_fields(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All its queries are compiled."""
    assert main(["compile", f"{file}:house"]) == 0
    assert capsys.readouterr().out.startswith("1 operators: ")


def test_a_query_over_unknown_fields_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to compile for."""
    assert main(["compile", f"{file}:hourly"]) == 1
    assert "--input" in capsys.readouterr().err
