"""Type checkers see the types of the library, installed as a wheel or as an editable checkout."""

from __future__ import annotations

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


@pytest.mark.parametrize("way", ["editable", pytest.param("wheel", marks=pytest.mark.full)])
def test_both_checkers_see_types_and_mistakes(way: str, tmp_path: Path) -> None:
    """What is revealed are the library's classes; the only error is the misspelt argument."""
    for name in ("mypy", "basedpyright"):
        if not shutil.which(name, path=f"{Path(sys.executable).parent}"):
            skip_or_fail("types", f"there is no {name}")
    python = install(way, tmp_path)
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    checks: dict[str, Check] = {"mypy": check_with_mypy, "pyright": check_with_pyright}
    for name, check in checks.items():
        revealed, errors = check(python, script)
        assert len(revealed) == len(REVEALED), (name, revealed, errors)
        for line, expected in zip(revealed, REVEALED, strict=True):
            assert expected in line, name
        assert errors, name
        assert all("aligment" in each or "reveal_type" in each for each in errors), (name, errors)
