"""Kernels are compiled when first called, and whoever asks is told of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from child_process import environment
from numba.core import event as numba_event

import rxtemporal
from rxtemporal.engine.kernels.compiled import on_first_compile


def test_the_first_compilation_calls_back_once() -> None:
    """The callback is called once, and only inside the block."""
    told: list[str] = []

    def compile_one() -> None:
        numba_event.start_event("numba:compile")
        numba_event.end_event("numba:compile")

    with on_first_compile(lambda: told.append("compiling")):
        compile_one()
        compile_one()
    compile_one()
    assert told == ["compiling"]


TRIAL = """
    import json
    from rxtemporal.spark.cluster.kernel_trial import run_trial

    print(json.dumps(run_trial()))
"""


def run_with(code: str, package: Path, **variables: str) -> dict[str, Any]:
    """Return what code prints with the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        env={**environment(**variables), "PYTHONPATH": str(package)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.full
def test_code_beside_the_package_is_found_in_another_place(tmp_path: Path) -> None:
    """A copy of the package has it too, and compiles nothing, though new code goes elsewhere."""
    first, second = tmp_path / "first", tmp_path / "second"
    source = Path(rxtemporal.__file__).parent
    shutil.copytree(source, first / "rxtemporal", ignore=shutil.ignore_patterns("*.nb[ci]"))
    elsewhere = {"NUMBA_CACHE_DIR": str(tmp_path / "elsewhere")}
    cold = run_with(TRIAL, first)
    assert cold["compiled"] > 10
    assert cold["path"].startswith(str(first))
    shutil.move(first, second)
    warm = run_with(TRIAL, second, **elsewhere)
    assert (warm["compiled"], warm["lasts"]) == (0, True)
    assert warm["path"].startswith(elsewhere["NUMBA_CACHE_DIR"])
    assert not list(Path(elsewhere["NUMBA_CACHE_DIR"]).rglob("*.nbc"))
