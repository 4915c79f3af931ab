"""Law 7 on a cluster: executors in processes of their own, which import what they need."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import cluster
import law_seven
import oracle
import polars as pl
import pytest
import year
from child_process import environment

# a cluster is started once, for all of this
pytestmark = [pytest.mark.full, pytest.mark.java, pytest.mark.xdist_group("cluster")]

Asked = tuple[Path, dict[str, law_seven.Sides]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The folder with what the cluster has found, and the streams that it was given."""
    folder, number = tmp_path_factory.mktemp("cluster"), random.randrange(2**32)
    print(f"law 7: streams drawn with {number}")
    sides = law_seven.drawn(law_seven.CASES, number)
    (folder / "asked").write_bytes(pickle.dumps((sides, number)))
    ran = subprocess.run(
        [sys.executable, str(Path(cluster.__file__)), str(folder)],
        env=environment(),
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return folder, sides


@pytest.mark.parametrize("how", ["bounded", "streaming"])
def test_law_seven(asked: Asked, how: str) -> None:
    """Every case of every operator; of bounded frames those that end with the end of time."""
    folder, sides = asked
    if how == "bounded":
        cases = law_seven.CASES
        sides = {n: each for n, each in sides.items() if cases[n].last == oracle.MAX_TIME}
    found: dict[str, list[Any]] = pickle.loads((folder / "found").read_bytes())[how]
    assert not law_seven.wrong(sides, found)
    assert sum(map(len, found.values())) > len(sides)


@pytest.mark.parametrize("how", ["bounded", "streaming"])
def test_the_year(asked: Asked, how: str) -> None:
    """The queries over the whole year, row for row."""
    year.need_year()
    folder, _ = asked
    year.all_same(pl.read_parquet(folder / f"{how}.parquet"))
