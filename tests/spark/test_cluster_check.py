"""The report on a session and its executors: what it takes for a fault, and how it says so."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

import pytest

from rxtemporal.spark.cluster import check as module
from rxtemporal.spark.cluster.check import ClusterReport, check
from rxtemporal.spark.cluster.executor_probe import PACKAGES, probe_process
from rxtemporal.text.findings import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@functools.cache
def own() -> dict[str, Any]:
    """Return the facts about this process."""
    return {**probe_process(), "skew": 0.0}


def compare(**changes: Any) -> dict[str, Finding]:
    """Return the findings about an executor that differs in this from the driver."""
    findings = module._compare({**copy.deepcopy(own()), **changes}, own())
    return {each.name: each for each in findings}


def kernels(**changes: Any) -> Finding:
    """Return the finding about kernels."""
    facts = {"seconds": 0.4, "path": "/code", "lasts": True, "cpu": "generic", "compiled": 0}
    return compare(kernels={**facts, **changes})["kernels"]


def test_an_executor_like_the_driver_lacks_nothing() -> None:
    """All packages are among the findings."""
    found = compare()
    assert [each for each in found.values() if each.bad] == []
    assert found.keys() > {*PACKAGES}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_is_missing_or_another_version_is_bad(name: str) -> None:
    """Both versions are told."""
    missing = compare(packages={**own()["packages"], name: None})[name]
    other = compare(packages={**own()["packages"], name: "0.0.1"})[name]
    assert (missing.bad, missing.detail) == (True, "not installed")
    assert other.bad
    assert other.detail == f"0.0.1; the driver has {own()['packages'][name]}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": "9.9"}, "9.9 at"),
        ({"digest": "other"}, "its files are not those of the driver"),
        ({"error": "ModuleNotFoundError: No module named 'rxtemporal'"}, "No module named"),
    ],
)
def test_another_package_is_bad_even_if_its_version_is_the_same(
    change: dict[str, str], told: str
) -> None:
    """Files count, not only the number of the version."""
    finding = compare(rxtemporal={**own()["rxtemporal"], **change})["rxtemporal"]
    assert finding.bad
    assert told in finding.detail


def test_kernels_are_bad_only_if_each_worker_compiles_them() -> None:
    """Compiling once costs time, and is advice."""
    assert kernels().ok
    once, always = kernels(compiled=31, seconds=5.6), kernels(compiled=31, lasts=False)
    assert (once.ok, once.bad) == (False, False)
    assert "5.6 s of CPU" in once.detail
    assert always.bad
    assert "NUMBA_CACHE_DIR" in always.advice
    assert kernels(lasts=False).ok
    assert kernels(error="ImportError: numba").bad


@pytest.mark.parametrize(("skew", "told"), [(2.5, "2.5 s ahead of"), (-60, "60.0 s behind")])
def test_a_clock_that_differs_is_told(skew: float, told: str) -> None:
    """A second is what a task may take to answer."""
    assert compare(skew=0.9)["clock"].ok
    finding = compare(skew=skew)["clock"]
    assert not finding.ok
    assert told in finding.detail


@pytest.mark.parametrize(("clock", "skew"), [(10.0, 0.0), (12.0, 0.0), (15.0, 3.0), (7.0, -3.0)])
def test_a_clock_is_right_between_the_begin_and_the_end_of_the_task(
    clock: float, skew: float
) -> None:
    """Its distance from that interval is what is wrong for sure."""
    assert module._find_skew(clock, 10.0, 12.0) == skew


@pytest.mark.parametrize(
    ("text", "size"),
    [("384", 384 << 20), ("2g", 2 << 30), ("512 MB", 512 << 20), ("1024k", 1 << 20), ("x", 0)],
)
def test_sizes_are_read_as_spark_reads_them(text: str, size: int) -> None:
    """A number alone is in MiB."""
    assert module._read_size(text) == size


def test_spark_s_own_words_about_an_executor_are_kept() -> None:
    """The reason is the error itself, and not the frames around it."""
    java = "org.apache.spark.NoException: no\nCaused by: java.io.IOException: Cannot run it"
    python = "org.apache.spark.PythonException: Traceback\n  File 'a'\nValueError: wrong\n\tat b"
    assert module._report_error(java).detail == ("a task fails: java.io.IOException: Cannot run it")
    assert module._report_error(python).detail == "a task fails: ValueError: wrong"
    assert module._report_error("").detail == "a task fails: no reason was given"


def test_a_report_is_all_right_if_nothing_is_bad() -> None:
    """Advice does not count; the findings of executors do."""
    advice = Finding("partitions", False, "200", "fewer", optional=True)
    bad = Finding("polars", False, "not installed", "install it")
    assert ClusterReport((advice,), {"executor 1": (advice,)}).ok
    report = ClusterReport((advice,), {"executor 1": (advice, bad)})
    assert not report.ok
    assert "executor 1\n" in str(report)
    assert [*report] == [advice, advice, bad]


@pytest.mark.java
def test_a_local_session_is_all_right(spark: SparkSession) -> None:
    """Its executor is the driver; the properties of jobs are those of before."""
    spark.sparkContext.setLocalProperty("spark.job.description", "mine")
    report = check(spark)
    assert report.ok, str(report)
    assert [name.split(" on ")[0] for name in report.executors] == ["executor driver"]
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    spark.sparkContext.setLocalProperty("spark.job.description", None)


@pytest.mark.java
def test_another_state_store_is_bad(spark: SparkSession) -> None:
    """The setting that is needed is in the advice."""
    name, wanted = module.STATE_STORE
    spark.conf.set(name, wanted.replace("RocksDB", "HDFSBacked"))
    try:
        store = next(each for each in check(spark) if each.name == "state store")
    finally:
        spark.conf.set(name, wanted)
    assert store.bad
    assert name in store.advice
