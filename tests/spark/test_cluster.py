"""Clusters on this machine: queries, a restart, the check and the metrics.

The executors are processes of their own: those of ``local-cluster``, and those of a standalone
master with two workers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import cluster_probe
import pytest
from child_process import environment
from cluster_probe import FILES, ROWS, expected, last_cti
from standalone import standalone

pytestmark = [pytest.mark.full, pytest.mark.java, pytest.mark.xdist_group("cluster")]

LOCAL = "local-cluster[2,1,2048]"
SMALL = ("spark.executor.memory=1g", "spark.sql.shuffle.partitions=2")


def probe(folder: Path, master: str, *settings: str, **variables: str) -> dict[str, Any]:
    """Return what the program finds on a cluster."""
    folder.mkdir(exist_ok=True)
    ran = subprocess.run(
        [sys.executable, cluster_probe.__file__, str(folder), f"spark.master={master}", *settings],
        env=environment(**{"PYSPARK_PYTHON": sys.executable, **variables}),
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: dict[str, Any] = json.loads((folder / "found").read_text("utf-8"))
    return found


@pytest.fixture(scope="module", params=["local-cluster", "standalone"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program finds on each kind of cluster."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "local-cluster":
        return probe(folder / "run", LOCAL, *SMALL)
    with standalone(folder) as master:
        # as on any cluster, its executors find a checkout only if they are told
        path = environment()["PYTHONPATH"]
        settings = "spark.driver.host=127.0.0.1", f"spark.executorEnv.PYTHONPATH={path}"
        return probe(folder / "run", master, *SMALL, *settings, SPARK_LOCAL_IP="127.0.0.1")


def test_both_executors_are_checked_and_lack_nothing(found: dict[str, Any]) -> None:
    """Each is named, and the report is all right."""
    assert found["ok"], found["report"]
    assert found["executors"] == ["executor 0 on 127.0.0.1", "executor 1 on 127.0.0.1"]


@pytest.mark.parametrize("how", ["bounded", "streaming"])
def test_the_results_are_those_of_this_process(found: dict[str, Any], how: str) -> None:
    """A stream has those that are final by its last CTI, each once, although it was restarted."""
    ends = expected()["start_time"].dtype
    whole = expected().with_columns(cluster_probe.pl.selectors.datetime().to_physical()).rows()
    micros = int(last_cti().timestamp() * 1_000_000)
    final = [list(row) for row in sorted(whole) if how == "bounded" or row[1] <= micros]
    assert ends.is_temporal()
    assert len(final) > ROWS
    assert found[how] == final


def test_the_metrics_are_those_of_both_runs(found: dict[str, Any]) -> None:
    """Micro-batches and rows are added up; the CTI is one that both buckets have reached."""
    values = found["metrics"]
    assert found["queries"] == ["warm"]
    assert values["spark.batches"] == FILES
    assert values["spark.rows"] == (ROWS + 1) * FILES
    assert values["spark.batch.rows"] == ROWS + 1
    assert values["spark.running"] == values["spark.failures"] == 0
    assert values["spark.batch.duration"] > 0
    assert values["spark.state.rows"] > 0
    assert values["spark.state.memory"] > 0
    assert values["spark.state.files"] > 0
    last = last_cti().timestamp()
    assert last - 7200 <= values["spark.cti.timestamp"] <= last


def test_an_executor_without_the_package_is_named(tmp_path: Path) -> None:
    """The check does not need the package there, and says what is missing."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    code = (
        "import sys\n"
        "from rxtemporal.spark import check, session\n"
        f"spark = session(**{{'spark.master': {LOCAL!r}, 'spark.executorEnv.PYTHONPATH': ''}})\n"
        "report = check(spark)\n"
        "print(report.ok, [*report.executors], sorted({f.name for f in report if f.bad}))\n"
        "spark.stop()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYSPARK_PYTHON=str(bare / "bin" / "python")),
        capture_output=True, encoding="utf-8", timeout=300, check=True,
    )  # fmt: skip
    packages = ["numba", "numpy", "pandas", "polars", "protobuf", "pyarrow", "rxtemporal"]
    executors = ["executor 0 on 127.0.0.1", "executor 1 on 127.0.0.1"]
    assert ran.stdout.splitlines()[-1] == f"False {executors} {packages}"
