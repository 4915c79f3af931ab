"""Type checkers see the types of the library, installed as a wheel or as an editable checkout."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from needs import skip_or_fail
from package import LEFT_OUT, ROOT
from products import draw_cases

SCRIPT = """
import polars as pl
import rxtemporal as rxt
from rxtemporal import agg

source = rxt.PushSource("readings", schema={"room": str, "temp": float}, delay="5s")
query = source.stream.where(pl.col("temp") > 20).group_by("room").tumbling_window("1m")
means = query.aggregate(n=agg.count(), mean=agg.mean("temp"))
reveal_type(means)
with means.run(rxt.Collect()) as process:
    reveal_type(source.push({"time": 0, "room": "hall", "temp": 21.0}))
    reveal_type(process)
means.tumbling_window(3, aligment=4)
"""
REVEALED = ["Streamable", "Verdict", "Process"]


def install(way: str, folder: Path) -> Path:
    """Install the library into an environment of its own, which sees the packages of this one."""
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    packages = next(environment.glob("lib/*/site-packages"))
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    copy = folder / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    options = ["-e"] if way == "editable" else []
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    made = subprocess.run(
        [*command, "--ignore-installed", *options, str(copy)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    if way == "wheel":
        shutil.rmtree(copy)
    return python


def check_with_mypy(python: Path, script: Path) -> tuple[list[str], list[str]]:
    """Return the types that mypy reveals, and its errors."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file="]
    found = subprocess.run(
        [*command, "--python-executable", str(python), str(script)],
        capture_output=True, text=True, cwd=script.parent, check=False,
    )  # fmt: skip
    lines = found.stdout.splitlines()
    return [each for each in lines if "Revealed" in each], [e for e in lines if "error:" in e]


def check_with_pyright(python: Path, script: Path) -> tuple[list[str], list[str]]:
    """Return the types that pyright reveals, and its errors."""
    found = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson",
         "--pythonpath", str(python), str(script)],
        capture_output=True, text=True, cwd=script.parent, check=False,
    )  # fmt: skip
    found_all = json.loads(found.stdout)["generalDiagnostics"]
    revealed = [each["message"] for each in found_all if each["severity"] == "information"]
    return revealed, [each["message"] for each in found_all if each["severity"] == "error"]


Check = Callable[[Path, Path], tuple[list[str], list[str]]]
CHECKS: dict[str, Check] = {"mypy": check_with_mypy, "basedpyright": check_with_pyright}


@pytest.mark.parametrize(
    ("way", "checker"),
    draw_cases(itertools.product(["editable", "wheel"], CHECKS), [("editable", "basedpyright")]),
)
def test_a_checker_sees_types_and_mistakes(way: str, checker: str, tmp_path: Path) -> None:
    """The types that it reveals are the library's classes; the only error is the misspelt name."""
    if not shutil.which(checker, path=f"{Path(sys.executable).parent}"):
        skip_or_fail("types", f"there is no {checker}")
    python = install(way, tmp_path)
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    revealed, errors = CHECKS[checker](python, script)
    assert len(revealed) == len(REVEALED), (revealed, errors)
    for line, expected in zip(revealed, REVEALED, strict=True):
        assert expected in line
    assert errors
    assert all("aligment" in each or "reveal_type" in each for each in errors), errors
