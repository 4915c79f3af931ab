"""Memory of Spark's Java process: on a machine, in a container, as a user sets it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rxtemporal.errors import JavaError
from rxtemporal.spark.jvm.java import Java
from rxtemporal.spark.jvm.memory import driver_memory, usable_memory
from rxtemporal.spark.jvm.session import session

GIGABYTE = 1 << 30


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 64 GB, and nobody who has said anything."""
    pages = {"SC_PHYS_PAGES": 64 * GIGABYTE // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)


def container(root: Path, group: str, limits: dict[str, object]) -> Path:
    """A root with a control group of this process, and limits in files."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(group, encoding="utf-8")
    for name, limit in limits.items():
        file = root / "sys" / "fs" / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n", encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("gigabytes", "expected"),
    [(0.5, "1024m"), (4, "1024m"), (6, "1536m"), (16, "4096m"), (64, "4096m"), (1_000, "4096m")],
)
def test_a_quarter_within_bounds(tmp_path: Path, gigabytes: float, expected: str) -> None:
    """Never less than Spark's own default, never more than micro-batches need."""
    limit = {"memory.max": int(gigabytes * GIGABYTE)}
    assert driver_memory(container(tmp_path, "0::/\n", limit)) == expected


@pytest.mark.parametrize(
    ("group", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "max"}, 64),
        ("0::/\n", {"memory.max": 8 * GIGABYTE}, 8),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": 6 * GIGABYTE}, 6),
        # what it is called outside is not there inside
        ("0::/docker/1f\n", {"memory.max": 5 * GIGABYTE}, 5),
        ("9:cpu:/x\n4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": 7 * GIGABYTE}, 7),
        ("4:cpu,memory:/x\n", {"memory/memory.limit_in_bytes": 3 * GIGABYTE}, 3),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": 2**63 - 4096}, 64),
        # another tree's file
        ("4:cpu:/\n", {"memory/memory.limit_in_bytes": GIGABYTE}, 64),
    ],
)
def test_the_limits_of_control_groups_count(
    tmp_path: Path, group: str, limits: dict[str, object], expected: int
) -> None:
    """Of both versions, its own and those around it; the smallest one."""
    assert usable_memory(container(tmp_path, group, limits)) == expected * GIGABYTE


def test_a_system_without_control_groups_has_what_it_has(tmp_path: Path) -> None:
    """Without such a file the machine's memory counts."""
    assert usable_memory(tmp_path) == 64 * GIGABYTE


def started_with(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> str:
    """The memory with which a session's Java process would be started."""
    pyspark = pytest.importorskip("pyspark")
    seen: list[str] = []

    def launch(conf: Any, _: Any) -> None:
        # as Spark's launcher looks for it
        seen.append(conf.get("spark.driver.memory") or os.environ["SPARK_DRIVER_MEMORY"])
        raise LookupError("far enough")

    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch)
    # by its module, whose name in the package is that of the function
    module = sys.modules[session.__module__]
    monkeypatch.setattr(module, "find_java", lambda: Java(Path("/java"), "21", "given"))
    with pytest.raises(JavaError, match="far enough"):
        session(**settings)
    return seen[0]


def test_a_session_starts_with_it_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting wins over Spark's variable, and that over the share of the machine.

    The sink's child process gets its session from the same function.
    """
    assert started_with(monkeypatch) == driver_memory()
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    assert started_with(monkeypatch) == "3g"
    assert started_with(monkeypatch, **{"spark.driver.memory": "2g"}) == "2g"
