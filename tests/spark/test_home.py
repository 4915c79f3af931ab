"""Spark's Python processes import what is compiled already, where that is possible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rxtemporal.spark.jvm.home import spark_home

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without a ``SPARK_HOME``, and with a cache that is empty."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_python_finds_compiled_packages_where_spark_names_zips() -> None:
    """What Spark puts on its Python's path are folders with bytecode, and all else is there."""
    home = spark_home("local[2]")
    assert home is not None
    zips = sorted((home / "python" / "lib").glob("*.zip"))
    assert [path.name.partition("-")[0] for path in zips] == ["py4j", "pyspark.zip"]
    found = subprocess.run(
        [sys.executable, "-P", "-c", "import pyspark.daemon as d; print(d.__file__, d.__cached__)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, zips))},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.split()
    assert all(path.startswith(str(home)) for path in found)
    assert all(Path(path).is_file() for path in found)
    assert {"bin", "jars"} <= set(os.listdir(home))


def test_it_is_made_once_and_leaves_nothing_else(tmp_path: Path) -> None:
    """The second call finds what the first one has made."""
    home = spark_home("local[1]")
    assert spark_home("local-cluster[2,1,1024]") == home
    assert list((tmp_path / "cache" / "rxtemporal").iterdir()) == [home]


def test_a_home_that_is_given_and_a_cluster_s_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends pyspark's zips to other machines needs zips; who has set a home wants that one."""
    assert spark_home("yarn") is None
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_home("local[2]") is None
    assert not (tmp_path / "cache").exists()


def test_without_a_cache_spark_starts_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that cannot be written costs time and nothing else."""
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_home("local[2]") is None


@pytest.mark.java
def test_tasks_import_from_a_folder(spark: SparkSession) -> None:
    """A worker that Spark has started reads no sources out of a zip."""

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__]})

    (row,) = spark.range(1).repartition(1).mapInArrow(place, "place string").collect()
    assert Path(row.place).is_file()
