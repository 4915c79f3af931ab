"""Tests replace no functions of the package: a move inside it would break them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

# How many functions and methods a file still replaces by name. Take one away from here when a fault
# comes from outside instead; add none.
KNOWN = {
    "brokers/test_kafka.py": 4,
    "brokers/test_mqtt.py": 1,
    "cli/test_bench.py": 2,
    "cli/test_cli.py": 2,
    "cli/test_doctor.py": 3,
    "cli/test_messages.py": 2,
    "cli/test_replay.py": 2,
    "cli/test_top.py": 2,
    "engine/test_hash_table.py": 2,
    "engine/test_hopping_windows.py": 1,
    "engine/test_keys.py": 1,
    "engine/test_windows.py": 1,
    "ingress/test_merged_doors.py": 1,
    "ingress/test_pushed_path.py": 1,
    "laws/test_laws.py": 1,
    "query/test_compilation.py": 1,
    "reactive/test_clock.py": 1,
    "run/test_checkpoint_log.py": 1,
    "run/test_checkpoint_log_laws.py": 3,
    "run/test_waiting_events.py": 1,
    "serve/test_health.py": 1,
    "sinks/test_lakes.py": 1,
    "spark/test_liveness.py": 2,
    "spark/test_parquet.py": 2,
    "spark/test_recovery.py": 3,
    "spark/test_resume.py": 1,
    "spark/test_room.py": 4,
    "spark/test_spark_state.py": 1,
    "spark/test_streaming_bucket.py": 1,
    "spark/test_supervisor.py": 1,
    "storage/test_event_log.py": 1,
    "storage/test_segments.py": 1,
    "support/no_spark.py": 2,
    "support/run_settings.py": 1,
}


def list_replaced(text: str) -> Iterator[str]:
    """Yield the functions of the package that a module replaces by name; constants are settings."""
    tree = ast.parse(text)
    ours = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rxtemporal"):
            ours |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            ours |= {alias.asname or "rxtemporal" for alias in node.names
                     if alias.name.startswith("rxtemporal")}  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("setattr", "delattr"):
            continue
        owner = node.args[0]
        if isinstance(owner, ast.Constant):
            target = str(owner.value)
            is_ours = target.startswith("rxtemporal.")
        else:
            root = owner
            while isinstance(root, ast.Attribute):
                root = root.value
            is_ours = isinstance(root, ast.Name) and root.id in ours
            target = f"{ast.unparse(owner)}.{ast.unparse(node.args[1]).strip(chr(39))}"
        if is_ours and not target.rpartition(".")[2].isupper():
            yield target


def test_the_functions_that_tests_replace_are_these() -> None:
    """None is added, and one that is gone is struck off the list."""
    found = Counter(
        str(path.relative_to(TESTS))
        for path in sorted(TESTS.rglob("*.py"))
        for _ in list_replaced(path.read_text("utf-8"))
    )
    assert dict(found) == KNOWN


def test_a_replaced_function_is_found() -> None:
    """A method, a function by its path and a private one are; a setting and the system are not."""
    text = """
import os
import rxtemporal as rxt
from rxtemporal.core import files as disk
patch.setattr(disk, "publish", print)
patch.setattr(disk.WriterLock, "release", print)
patch.setattr("rxtemporal.cli.main", print)
patch.delattr(rxt.Sink, "write")
patch.setattr(disk, "MOST_BYTES", 3)
patch.setattr("rxtemporal.serve.results._PART", 3)
patch.setattr(os, "fsync", print)
"""
    assert sorted(list_replaced(text)) == [
        "disk.WriterLock.release", "disk.publish", "rxt.Sink.write", "rxtemporal.cli.main",
    ]  # fmt: skip
