"""A copy of a run's folder, made while the run writes, is that of one moment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from child_process import environment

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.main import main
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.storage.event_log import backup
from rxtemporal.storage.event_log.backup import back_up

WRITER = """
import itertools, sys
import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint
checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
way, folder = sys.argv[1:]
schema = {"number": int, "text": str}
source = rxt.PushSource("rows", schema=schema, start="n", unit="ticks", delay=3)
counted = source.stream.tumbling_window(10).aggregate(n=agg.count(), least=agg.min("number"))
process = counted.run(lambda batch: None, **{way: folder})
for n in itertools.count():
    source.push({"n": n, "number": n, "text": "x" * 500})
    print(n, flush=True)
"""


@contextmanager
def writing(way: str, folder: Path) -> Iterator[Iterator[int]]:
    """Push rows in another process, one after the other; give the numbers of durable rows."""
    command = [sys.executable, "-P", "-c", WRITER, way, str(folder)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield map(int, process.stdout)
        finally:
            process.kill()


def restore(way: str, folder: Path) -> list[tuple[int, int, int]]:
    """Continue the run, end it, and return its results since the checkpoint: start, n, least."""
    source = rxt.PushSource(
        "rows", schema={"number": int, "text": str}, start="n", unit="ticks", delay=3
    )
    counted = source.stream.tumbling_window(10).aggregate(n=agg.count(), least=agg.min("number"))
    results = rxt.Collect()
    process = counted.run(results, **{way: folder})  # type: ignore[arg-type]
    source.push(rxt.Cti(10**9))
    process.stop()
    return [(row["start_time"], row["n"], row["least"]) for row in results.to_dicts()]


@pytest.mark.parametrize("way", ["log", "resume"])
def test_a_copy_has_all_rows_that_were_durable_before(way: str, tmp_path: Path) -> None:
    """And of those that came meanwhile the first ones, without a gap."""
    with writing(way, tmp_path / "run") as numbers:
        for copy in range(4):
            last = next(numbers)
            while last < 300 * (copy + 1):
                last = next(numbers)
            target = tmp_path / f"copy {copy}"
            had = back_up(tmp_path / "run", target)
            assert had > last
            windows = restore(way, target)
            assert windows[-1][0] == (had - 1) // 10 * 10
            assert windows[-1][1] == (had - 1) % 10 + 1
            starts = range(windows[0][0], had, 10)
            assert [(start, least) for start, _, least in windows] == [(n, n) for n in starts]
            assert {n for _, n, _ in windows[:-1]} <= {10}
            assert way == "resume" or windows[0][0] == 0


def test_a_folder_at_rest_is_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, which says how much it has copied; the copy is for this user alone."""
    source = rxt.PushSource("rows", schema={"n": int}, start="n", unit="ticks", delay=3)
    process = source.stream.run(rxt.Collect(), resume=tmp_path / "run")
    source.push([{"n": n} for n in range(25)])
    process.stop()
    target = tmp_path / "copy"
    target.mkdir()
    assert main(["backup", str(tmp_path / "run"), str(target)]) == 0
    assert "25 records" in capsys.readouterr().out
    assert {path.stat().st_mode & 0o077 for path in target.iterdir()} == {0}
    assert not list(tmp_path.glob(".*"))
    results = rxt.Collect()
    process = source.stream.run(results, resume=target)
    source.push({"n": 40})
    process.stop()
    assert [row["start_time"] for row in results.to_dicts()] == [21, 22, 23, 24]


def test_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    """Nothing is left behind."""
    with pytest.raises(ArgumentError, match=r"has no run\.sqlite.*Hint"):
        back_up(tmp_path, tmp_path / "copy")
    source = rxt.PushSource("rows", schema={"n": int}, start="n", unit="ticks", delay=3)
    source.stream.run(rxt.Collect(), resume=tmp_path / "run").stop()
    with pytest.raises(ArgumentError, match=r"exists and is not empty.*Hint"):
        back_up(tmp_path / "run", tmp_path / "run")
    with pytest.raises(ArgumentError, match=r"is inside of .*Hint"):
        back_up(tmp_path / "run", tmp_path / "run" / "copy")
    file = tmp_path / "run" / "run.sqlite"
    content = file.read_bytes()
    file.write_bytes(content[:-4096])
    with pytest.raises(SpoolError, match=r"damaged.*Hint"):
        back_up(tmp_path / "run", tmp_path / "copy")
    assert [*tmp_path.iterdir()] == [tmp_path / "run"]


def test_a_run_that_writes_too_much_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy in which the WAL began anew each time is not taken."""
    monkeypatch.setattr(backup, "ATTEMPTS", 2)
    source = rxt.PushSource("rows", schema={"n": int}, start="n", unit="ticks", delay=3)
    with source.stream.run(rxt.Collect(), resume=tmp_path / "run") as process:
        wal = tmp_path / "run" / "run.sqlite-wal"
        source.push({"n": 1})
        header = wal.read_bytes()[:32]

        def begin_anew(done: int, size: int) -> None:
            salt = done if wal.read_bytes()[:32] == header else 0
            with wal.open("r+b") as file:
                file.write(header[:16] + salt.to_bytes(8, "big") + header[24:])

        with pytest.raises(SpoolError, match=r"written more than its WAL holds in each of 2"):
            back_up(tmp_path / "run", tmp_path / "copy", begin_anew)
        with wal.open("r+b") as file:
            file.write(header)
        process.stop()
    assert not (tmp_path / "copy").exists()
