"""Kernels are compiled when first called, and whoever asks is told of it."""

from __future__ import annotations

import json
import os
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
from rxtemporal.engine.kernels import order
from rxtemporal.engine.kernels.compiled import find_source, on_first_compile


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


PARTS = """
    from typing import NamedTuple

    from rxtemporal.engine.kernels.compiled import borrow

    FACTOR = 2


    class Inner(NamedTuple):
        one: int
        other: int


    class Outer(NamedTuple):
        inner: Inner


    @borrow
    def add(value: int) -> int:
        return value + 1
"""
KERNEL = """
    from __future__ import annotations

    from parts import FACTOR, Outer, add
    from rxtemporal.engine.kernels.compiled import jit


    @jit
    def compute(outer: Outer) -> int:
        return add(outer.inner.one) * FACTOR
"""
COMPUTE = """
    import json

    from kernel import compute
    from parts import Inner, Outer
    from rxtemporal.engine.kernels.compiled import find_code_folder

    result = compute(Outer(Inner(3, 4)))
    print(json.dumps([result, find_code_folder().compiled]))
"""
FIELDS = "    one: int\n    other: int\n"
CHANGES = {
    "nothing": ("", "", [8, 0]),
    "a function": ("value + 1", "value + 2", [10, 1]),
    "a constant": ("FACTOR = 2", "FACTOR = 3", [12, 1]),
    "the order of fields": (FIELDS, "    other: int\n    one: int\n", [10, 1]),
}


@pytest.mark.long
def test_a_kernel_is_compiled_again_when_a_part_of_it_has_changed(tmp_path: Path) -> None:
    """Also if the part is in another file, as after an upgrade that leaves machine code behind."""
    (tmp_path / "kernel.py").write_text(textwrap.dedent(KERNEL))
    root = Path(rxtemporal.__file__).parents[1]
    parts = textwrap.dedent(PARTS)

    def compute(text: str) -> Any:
        (tmp_path / "parts.py").write_text(text)
        return run_with(
            COMPUTE, Path(f"{tmp_path}{os.pathsep}{root}"),
            # bytecode of a file that is written twice in a second would be stale
            NUMBA_DISABLE_JIT="0", PYTHONDONTWRITEBYTECODE="1",
        )  # fmt: skip

    assert compute(parts) == [8, 1]
    for old, new, expected in CHANGES.values():
        assert old in parts
        assert compute(parts.replace(old, new)) == expected
    assert compute(parts)[0] == 8


def read_from_a_module() -> int:
    """Read a constant through its module, as no kernel may."""
    return order.UNKNOWN  # type: ignore[attr-defined,no-any-return]


def test_a_kernel_that_reads_from_a_module_is_refused() -> None:
    """Its code would not be compiled again when the constant has changed."""
    with pytest.raises(TypeError, match="read_from_a_module reads from the module order"):
        find_source(read_from_a_module)


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
