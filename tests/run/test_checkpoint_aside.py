"""A checkpoint is written aside: pushes go on meanwhile, and it is the state of one instant."""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from products import draw_seeds
from run_settings import save_never, save_often, skip_sync
from runs import SOON
from statements import Write, is_checkpoint, watch_file

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.engine.codec import Captured
from rxtemporal.errors import ProcessEndedError, SpoolError
from rxtemporal.storage.event_log import store
from rxtemporal.storage.event_log.store import RunStore
from rxtemporal.storage.event_log.stored_log import StoredLog
from rxtemporal.storage.salvage import salvage

# most rows are in the state of the query, and a few wait in front of it
DELAY = 3


class Results(rxt.Sink):
    """Sink of the counts; ``finish`` is called by whoever writes the checkpoint."""

    shape = rxt.EventShape.POINT

    def __init__(self, finish: Callable[[], object] = lambda: None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.finish = finish

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the rows."""
        self.rows += batch.payload.to_dicts()

    def save(self) -> Callable[[], bytes]:
        """Leave it to a function."""
        return lambda: bytes(0 if self.finish() is None else 1)


class Counting:
    """Run that counts its rows: row ``n`` has the value ``n``."""

    def __init__(self, folder: Path, sink: Results | None = None, way: str = "resume") -> None:
        self.sink = sink or Results()
        self.source = rxt.PushSource(
            "rows", schema={"k": int, "x": int}, start="t", delay=DELAY, seq="x"
        )
        counted = self.source.stream.group_by("k").tumbling_window(10**6)
        query = counted.aggregate(n=agg.count(), sum=agg.sum("x"))
        self.process = query.run(self.sink, **{way: folder})  # type: ignore[arg-type]
        self.pushed = 0

    def push(self, count: int) -> None:
        """Push the next rows, one by one."""
        for n in range(self.pushed, self.pushed + count):
            assert self.source.push({"t": n, "k": n % 7, "x": n}).accepted
            self.pushed += 1

    def count(self) -> int:
        """End the source; return the number of rows, which are the first ones, each once."""
        self.source.close()
        assert self.process.wait(SOON)
        rows = sum(row["n"] for row in self.sink.rows)
        assert sum(row["sum"] for row in self.sink.rows) == rows * (rows - 1) // 2
        assert len(self.sink.rows) == min(rows, 7)
        return rows


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a checkpoint whenever none is being written."""
    save_often(monkeypatch)
    skip_sync(monkeypatch)


class Stop:
    """Place where the first thread that comes waits until it is let go; it counts all."""

    def __init__(self) -> None:
        self.reached, self.goes_on, self.count = threading.Event(), threading.Event(), 0

    def wait(self) -> None:
        """Wait."""
        self.count += 1
        self.reached.set()
        assert self.goes_on.wait(SOON)


def push_aside(run: Counting, count: int) -> None:
    """Push from a thread, which must not have to wait."""
    thread = threading.Thread(target=run.push, args=(count,), daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "a push waits for the checkpoint"


@pytest.mark.parametrize("where", ["encoded", "written", "left to the sink", "deleted"])
def test_pushes_go_on_while_a_checkpoint_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whatever it waits for, rows are accepted, durable and in the results; nothing is lost."""
    stop, sink = Stop(), Results()
    seams: dict[str, tuple[Any, str]] = {
        "encoded": (Captured, "list_chunks"),
        "written": (store, "cut_pieces"),
        "deleted": (RunStore, "_delete_covered"),
    }
    if where in seams:
        owner, name = seams[where]
        inner = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (stop.wait(), inner(*given))[1])
    run = Counting(tmp_path / "run", sink)
    if where not in seams:
        sink.finish = stop.wait
    run.push(1)
    assert stop.reached.wait(SOON)
    push_aside(run, 60)
    told = run.process.diagnostics()
    assert (told.streams[0].events_in, stop.count) == (61, 1)
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    stop.goes_on.set()
    checkpointer = run.process._checkpointer
    assert checkpointer is not None
    assert checkpointer._written.wait(SOON)
    # with a state of the first row, and the log of the others
    shutil.copytree(tmp_path / "run", tmp_path / "saved")
    run.process.stop()
    for folder in "run", "killed", "saved":
        again = Counting(tmp_path / folder)
        assert again.count() == 61


class Image(NamedTuple):
    """Copy of the folder at some moment; so many rows were acknowledged, and so many sent."""

    folder: Path
    acknowledged: int
    sent: int


@pytest.mark.parametrize("seed", draw_seeds(3, 1))
def test_any_moment_of_a_checkpoint_can_be_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """After each transaction the folder has all acknowledged rows once, as has what is salvaged."""
    draw = random.Random(seed)
    monkeypatch.setattr(store, "MOST_PIECE", draw.choice([200, 5_000]))
    monkeypatch.setattr(store, "ENTRIES_DELETED", 2)
    monkeypatch.setattr(store, "PIECES_DELETED", 2)
    monkeypatch.setattr(store, "MOST_ENTRIES", draw.choice([3, 10, 1_000]))
    images: list[Image] = []

    def copy(writes: object) -> None:
        if begun and draw.random() < 0.3:
            folder = tmp_path / str(len(images))
            acknowledged = run.pushed
            shutil.copytree(tmp_path / "run", folder)
            images.append(Image(folder, acknowledged, run.pushed + 1))

    begun = False
    with watch_file(after=copy):
        run = Counting(tmp_path / "run")
        begun = True
        while len(images) < 25:
            run.push(draw.choice([1, 5]))
        run.process.stop()
    # the run is not saved again before it is compared
    save_never(monkeypatch)
    for image in images:
        if draw.random() < 0.3:
            out = tmp_path / f"copy {image.folder.name}"
            salvage(image.folder, out)
            # without a checkpoint there is a log alone
            way = "resume" if StoredLog(out).header()["resume"] else "log"
            assert image.acknowledged <= Counting(out, way=way).count() <= image.sent
        assert image.acknowledged <= Counting(image.folder).count() <= image.sent
    assert Counting(tmp_path / "run").count() == run.pushed


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    """The next push and the process have the error, and the rows are in the log."""

    def fail(write: Write) -> None:
        if is_checkpoint(write, piece=True) and run.pushed:
            raise OSError(errno.ENOSPC, "the disk is full")

    with watch_file(before=fail):
        run = Counting(tmp_path / "run")
    run.push(1)
    with pytest.raises(ProcessEndedError) as refused:
        run.push(10_000)
    assert "the disk is full" in str(refused.value.__cause__)
    with pytest.raises(SpoolError, match="the disk is full"):
        run.process.wait(SOON)
    assert run.pushed <= Counting(tmp_path / "run").count() <= run.pushed + 1
