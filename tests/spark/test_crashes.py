"""The crash matrix: whichever process is killed at any moment, the table ends up the same.

A cell is who is killed (a process of the run) and when (a point in the way of a row, ``moments``).
The default test kills each process but an executor once, in one run. The matrix, which only the
full run has, kills one process before, during and after each of the four steps, in a drawn order,
each time after it has been replaced; ``RXTEMPORAL_CRASH_ROUNDS=10`` does so in ten runs of each
process. Between the cells come kills at drawn times: they meet moments without a point, such as the
start of a session and the recovery itself. ``RXTEMPORAL_CRASH_SEED`` repeats a draw.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pickle
import random
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from cells import PARTS, STEPS
from child_process import environment
from moments import BLOCK, POINTS, Moment, Moments
from processes import Identity, are_there, descendants, end, list_family, who_is
from sink_input import expected_rows, wait_until
from spark_commits import CommitFolder, stop_process

from rxtemporal.spark.sink.checkpoint import committed_segment

HERE = Path(__file__).parents[1] / "support"
# an executor, which is last, is replaced by Spark itself
WHO = ("ingest", "driver", "jvm", "executor")
ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
# a machine that is busy takes long
PATIENCE = 600.0
# for so many seconds at most nothing is done before a kill at random
LONGEST_PAUSE = 8.0

NO_POINT = "at random"

RUNS = [
    pytest.param(who, number, id=f"{who}-{number}", marks=pytest.mark.xdist_group(f"{who}{number}"))
    for number in range(1, ROUNDS + 1)
    for who in WHO
]
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]


@dataclasses.dataclass(frozen=True)
class Crash:
    """A kill of a process: in a part of a step, or at random after some seconds."""

    who: str
    step: str
    part: str
    pause: float | None = None


@dataclasses.dataclass(frozen=True)
class Run:
    """The crashes of a run in their order, and the moments that its processes share."""

    crashes: tuple[Crash, ...]
    moments: Moments

    @classmethod
    def drawn(cls, who: str, number: int, seed: int, folder: Path) -> Run:
        """Draw the order, the points and the segments of all cells of a process."""
        rng = random.Random(zlib.crc32(f"{who} {number} {seed}".encode()))
        crashes = [Crash(who, *cell) for cell in itertools.product(STEPS, PARTS)]
        rng.shuffle(crashes)
        for _ in range(2):
            # not as the first one: a Spark that has never started is not tried again
            place = rng.randrange(1, len(crashes) + 1)
            crashes.insert(place, Crash(who, "random", "at", rng.uniform(0, LONGEST_PAUSE)))
        return cls.at_points(crashes, number, rng, folder)

    @classmethod
    def of_each_process(cls, seed: int, folder: Path) -> Run:
        """Draw one cell for each process but an executor, each in another step."""
        rng = random.Random(seed)
        everybody = WHO[:-1]
        steps = rng.sample(STEPS, len(everybody))
        crashes = [
            Crash(who, step, rng.choice(PARTS)) for who, step in zip(everybody, steps, strict=True)
        ]
        rng.shuffle(crashes)
        return cls.at_points(crashes, rng.randrange(10), rng, folder)

    @classmethod
    def at_points(cls, crashes: list[Crash], number: int, rng: random.Random, folder: Path) -> Run:
        """Draw the points and the segments of crashes."""
        moments = [
            # nobody stands still at a moment without a point
            Moment(
                one_of(POINTS.get((crash.step, crash.part), [NO_POINT]), crash.who, number),
                2 + BLOCK * k + rng.randrange(3),
            )
            for k, crash in enumerate(crashes)
        ]
        return cls(tuple(crashes), Moments(folder, tuple(moments)))

    @property
    def who(self) -> set[str]:
        """The processes that are killed."""
        return {crash.who for crash in self.crashes}

    @property
    def hours(self) -> int:
        """Hours of rows: a segment each, enough for all moments."""
        return BLOCK * (len(self.crashes) + 1)

    @property
    def checkpoint(self) -> Path:
        """Spark's."""
        return self.moments.folder / "sink" / "checkpoint"


@contextlib.contextmanager
def running(run: Run, shift: int) -> Iterator[subprocess.Popen[str]]:
    """A job in the background; neither it nor what it has started outlives the block."""
    folder = run.moments.folder
    (folder / "moments").write_bytes(pickle.dumps(run.moments))
    # Spark's workers import the moments as well
    master = "local-cluster[2,1,1024]" if "executor" in run.who else "local[2]"
    arguments = [
        str(HERE / "job.py"), str(folder), str(run.hours), "--moments", str(folder / "moments"),
        "--shift", str(shift), "--master", master,
    ]  # fmt: skip
    job = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield job
    finally:
        left = descendants(job.pid)
        job.kill()
        job.communicate()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def one_of(points: list[str], who: str, number: int) -> str:
    """Return a point: of those in one part the processes have a different one in each round."""
    return points[(number + WHO.index(who)) % len(points)]


def strike(run: Run, index: int, job: subprocess.Popen[str]) -> tuple[list[Identity], str]:
    """Kill at a moment, and let the others go on; return who was there, and what was hit."""
    crash, moments = run.crashes[index], run.moments
    if crash.pause is not None:
        return strike_at_random(run, index, job, crash.pause)
    wait_until(lambda: job.poll() is not None or moments.reached(index) is not None, PATIENCE)
    reached = moments.reached(index)
    assert reached is not None, f"the run has ended: {job.communicate()}"
    if crash.step == "segment" and crash.who != "ingest":
        # Spark is at work, or again
        wanted = reached["segment"] - 1
        wait_until(
            lambda: job.poll() is not None or committed_segment(run.checkpoint) >= wanted, PATIENCE
        )
        assert job.poll() is None, f"the run has ended: {job.communicate()}"
    victim = victim_of(crash.who, job, reached["pid"])
    there = list_family(job.pid)
    hit = moments.all[index].point
    if crash.step == "checkpoint" and crash.part != "before":
        hit = end_while_noting(run, index, who_is("jvm", job.pid, 0)[0], victim)
    else:
        end(victim)
        moments.file("go", index).touch()
    moments.file("done", index).touch()
    return there, hit


def victim_of(who: str, job: subprocess.Popen[str], at_work: int) -> int:
    """Return the process to kill; waits while Spark restarts after an earlier kill."""

    def found() -> list[int]:
        assert job.poll() is None, f"the run has ended: {job.communicate()}"
        return who_is(who, job.pid, at_work)

    wait_until(lambda: bool(found()), PATIENCE)
    return found()[0]


def strike_at_random(
    run: Run, index: int, job: subprocess.Popen[str], pause: float
) -> tuple[list[Identity], str]:
    """Kill after a while, whatever is done then; who is not there is killed as soon as it is."""

    time.sleep(pause)
    there = list_family(job.pid)
    killed = False
    while not killed:
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            end(victim_of(run.crashes[index].who, job, 0))
            killed = True
    run.moments.file("done", index).touch()
    return there, NO_POINT


def end_while_noting(run: Run, index: int, jvm: int, victim: int) -> str:
    """Kill while Spark notes a micro-batch, or when it has noted it; return what it had done."""
    wanted = "half" if run.crashes[index].part == "during" else "named"
    with CommitFolder(run.checkpoint / "commits") as notes:
        run.moments.file("go", index).touch()
        notes.wait(wanted, PATIENCE)
        with stop_process(jvm):
            hit = notes.state()
            end(victim)
    return f"its note is {hit}"


def rows(table: Path) -> list[tuple[object, ...]]:
    """Return the table's rows, sorted."""
    frame = pl.read_parquet(table / "**" / "*.parquet", hive_partitioning=True)
    return sorted(frame.select("start_time", "end_time", "k", "v").rows())


def finished(run: Run, job: subprocess.Popen[str], restarts: int) -> str:
    """Wait for a run that ends well and tells of each restart; return its output."""
    said, error = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, error
    assert error.count("event='spark.restarting'") == restarts
    # when the JVM dies alone, py4j prints the failed call
    others = [line for line in error.splitlines() if not line.startswith("event='spark.restart")]
    assert others == [] or "jvm" in run.who
    return said


def crash(run: Run, seed: int, hits: list[tuple[str, str]]) -> None:
    """Run with all crashes; the rows are the same, and no process of the run is left."""
    there: list[Identity] = []
    restarts = 0
    with contextlib.ExitStack() as jobs:
        job = jobs.enter_context(running(run, 0))
        for index, each in enumerate(run.crashes):
            there_now, hit = strike(run, index, job)
            there += there_now
            hits.append((f"{each.part} {each.step}", hit))
            # an executor is replaced by Spark itself
            restarts += each.who in ("driver", "jvm")
            if each.who == "ingest":
                assert job.wait(PATIENCE) == -9
                job = jobs.enter_context(running(run, shift=(index + seed) % 4))
                restarts = 0
        said = finished(run, job, restarts)
    assert f"restarts={restarts}," in said
    table = rows(run.moments.folder / "table")
    assert len(table) == len(expected_rows(run.hours))
    assert table == expected_rows(run.hours)
    wait_until(lambda: not are_there(there), PATIENCE)


@pytest.mark.full
def test_a_run_without_a_crash_gives_what_is_expected(tmp_path: Path) -> None:
    """The result that the other runs are compared with is that of an undisturbed run."""
    crash(Run((), Moments(tmp_path, ())), 1, [])


@pytest.mark.full
@pytest.mark.xdist_group("crashes")
def test_each_process_is_killed_once(tmp_path: Path) -> None:
    """One run, in which each kill hits another step."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 1))
    crash(Run.of_each_process(seed, tmp_path), seed, [])


@pytest.mark.full
@pytest.mark.parametrize(("who", "number"), RUNS)
def test_after_crashes_the_table_is_the_same(
    who: str, number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Each row is there once, value by value, and no process of the run is left."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)) or random.SystemRandom().getrandbits(32)
    run = Run.drawn(who, number, seed, tmp_path)
    print(f"RXTEMPORAL_CRASH_SEED={seed}: {run}")
    hits: list[tuple[str, str]] = []
    record_property("crashes", [who, seed, hits])
    crash(run, seed, hits)


def test_the_matrix_has_every_cell() -> None:
    """A point is known for each part of each step, and each process is killed in all of them."""
    assert set(POINTS) == set(itertools.product(STEPS, PARTS))
    for number in range(1, 11):
        runs = [Run.drawn(who, number, 1, Path()) for who in WHO]
        kills = [Counter((each.step, each.part) for each in run.crashes) for run in runs]
        assert all(each == {**dict.fromkeys(POINTS, 1), ("random", "at"): 2} for each in kills)
        hit = {moment.point for run in runs for moment in run.moments.all}
        assert hit == {*itertools.chain(*POINTS.values()), NO_POINT}, "in each round each point"
    each = Run.of_each_process(1, Path()).crashes
    assert {crash.who for crash in each} == {"ingest", "driver", "jvm"}
    assert len({crash.step for crash in each}) == len(each)
