"""Salvage: what is whole in a damaged folder is copied, and what is lost is said."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from damaged_folders import EVENTS, FAULTS, RESULTS, WAYS, list_damage, make_folders, recover
from products import draw_product
from reactivex.subject import Subject
from runs import SOON

import rxtemporal as rxt
from rxtemporal import PointEvent, agg
from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.storage.salvage import inspect, salvage


def payloads(folder: Path) -> list[int]:
    """Return the payloads that a log or a recording has."""
    frames = Recording(folder).streams[0].segments()
    points = [frame.filter(pl.col("kind") == "point") for frame in frames]
    return [x for frame in points if len(frame) for x in frame["payload"].struct.field("x")]


def salvaged(folder: Path) -> list[int] | None:
    """Salvage a folder beside it; return the payloads in the copy, None if nothing can be had."""
    out = folder.parent / "out"
    try:
        found = salvage(folder, out)
    except SpoolError as error:
        return None if "Hint" in str(error) else [-1]
    assert inspect(out).damage == ""
    assert bool(found.damage) >= bool(found.lost)
    if "resume=" in inspect(out).title:
        return None
    there = payloads(out)
    assert len(there) in (found.records, found.records - 1)  # without the CTI
    return there


@pytest.mark.parametrize(
    ("way", "state", "fault", "count"),
    draw_product(WAYS, ["killed", "closed"], [*FAULTS, "replace"], [1, 3]),
)
def test_an_inspection_says_what_a_run_would(way: str, state: str, fault: str, count: int) -> None:
    """A folder is damaged if, and only if, it is refused; its copy has events of it, in order."""
    for place, folder in list_damage(way, state, fault, count):
        try:
            damage = inspect(folder).damage
        except SpoolError as error:
            damage = str(error)
        there = salvaged(folder)
        if there is not None and "from other" not in place:
            assert there == sorted(set(there)), place
            assert set(there) <= set(range(EVENTS)), place
        if way == "log" and not damage:
            assert there == list(range(EVENTS)), place
        assert (recover(folder, way) == RESULTS) == (not damage), place


@pytest.mark.parametrize("state", ["killed", "closed"])
@pytest.mark.parametrize("way", WAYS)
def test_the_copy_of_a_whole_folder_is_whole(way: str, state: str, tmp_path: Path) -> None:
    """Its results are the same, and the folder is as it was."""
    folders = make_folders(way)
    folder = shutil.copytree(
        folders.killed if state == "killed" else folders.closed, tmp_path / "f"
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = salvage(folder, tmp_path / "out")
    assert (found.damage, found.lost) == ("", [])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert recover(tmp_path / "out", way) == RESULTS


def make_log(folder: Path, way: str = "log") -> Path:
    """Make a log of five batches of ten rows from two streams, each of them an entry."""
    left, right = Subject[Any](), Subject[Any]()
    streams = [
        rxt.from_observable(each, name=name, schema={"x": int})
        for each, name in ((left, "left"), (right, "right"))
    ]
    process = streams[0].union(streams[1]).run(lambda batch: None, **{way: folder})
    for number in range(5):
        rows = [{"start_time": t, "x": t} for t in range(10 * number, 10 * number + 10)]
        (left, right)[number % 2].on_next(rxt.EventBatch.from_dicts(rows))
    shutil.copytree(folder, folder.parent / "killed")
    process.dispose()
    return folder.parent / "killed"


def test_one_entry_that_is_damaged_is_lost_and_no_other(tmp_path: Path) -> None:
    """The others are copied, those behind it, too; it is said which are missing."""
    folder = make_log(tmp_path / "log")
    wal = (folder / "run.sqlite-wal").read_bytes()
    content = (23).to_bytes(8, "little") + (24).to_bytes(8, "little")
    # the page is in the WAL more than once; the last one is copied
    for place, lost in (wal.index(content), []), (wal.rindex(content), ["records 20 to 29"]):
        (folder / "run.sqlite-wal").write_bytes(wal[:place] + b"\xff" + wal[place + 1 :])
        found = inspect(folder)
        assert "is damaged" in found.damage
        assert [each.partition(" of")[0] for each in found.lost] == lost
        assert found.records == 50 - 10 * len(lost)
    found = salvage(folder, tmp_path / "out")
    assert found.lost == ["records 20 to 29 of stream 'left' (10 records among them)"]
    assert found.records == 40
    streams = {each.facts.name: each for each in Recording(tmp_path / "out").streams}
    starts = {
        name: [t for frame in each.segments() for t in frame["start_time"]]
        for name, each in streams.items()
    }
    assert starts == {
        "left": [*range(10), *range(40, 50)],
        "right": [*range(10, 20), *range(30, 40)],
    }


@pytest.mark.parametrize(("lost", "left_over"), [(0, (30, 40, 2)), (2, (20, 30, 2))])
def test_rows_of_a_salvaged_log_keep_their_verdicts(
    lost: int, left_over: tuple[int, int, int], tmp_path: Path
) -> None:
    """Its records have other numbers; each is judged by the delay that it came with."""
    folder, left = tmp_path / "run", tmp_path / "left"

    def run(where: str, delay: int, *times: int) -> list[Any]:
        sink = rxt.Collect()
        source = rxt.PushSource("rows", schema={"n": int}, start="t", delay=delay)
        windows = source.stream.tumbling_window(10).aggregate(c=agg.count())
        how: Any = {"log": folder} if where == "log" else {"resume": folder, "evolve": True}
        process = windows.run(sink, name="windows", **how)
        accepted = [source.push({"t": time, "n": 1}).accepted for time in times]
        assert all(accepted)
        if where == "resume":
            shutil.copytree(folder, left)
            process.stop()
            shutil.rmtree(folder)
            left.rename(folder)
        else:
            source.close()
            process.wait(SOON)
        return sink.to_polars(time="ticks").rows()

    run("resume", 0, 21, 22)
    run("resume", 0, 31, 32)
    run("resume", 8, 51, 45, 47)
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        connection.execute("DELETE FROM parts WHERE first = ?", [lost])
        connection.commit()
    salvage(folder, tmp_path / "new")
    folder = tmp_path / "new"
    assert run("log", 8, 90) == [left_over, (40, 50, 2), (50, 60, 1), (90, 100, 1)]


def test_a_state_that_is_damaged_leaves_the_events_since(tmp_path: Path) -> None:
    """They are copied as an event log, and it is said that the state is lost."""
    folder = make_folders("resume").killed
    folder = shutil.copytree(folder, tmp_path / "folder")
    (folder / "run.sqlite-wal").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        connection.execute("UPDATE facts SET content = x'00' WHERE name LIKE 'checkpoint %'")
        connection.commit()
    found = salvage(folder, tmp_path / "out")
    assert "the checkpoint: the state of the run" in found.lost
    assert "log=" in inspect(tmp_path / "out").title
    assert set(payloads(tmp_path / "out")) <= set(range(EVENTS))


def test_a_segment_of_a_recording_that_is_damaged_is_lost_and_no_other(tmp_path: Path) -> None:
    """The order of the others stays."""
    folder = shutil.copytree(make_folders("record").closed, tmp_path / "folder")
    segments = sorted((folder / "0001").glob("*.arrow"))
    content = segments[1].read_bytes()
    segments[1].write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
    found = salvage(folder, tmp_path / "out")
    assert len(found.lost) == 1
    assert found.lost[0].startswith("records ")
    assert found.lost[0].endswith(" of stream 'live'")
    there = payloads(tmp_path / "out")
    first, last = (int(word) for word in found.lost[0].split() if word.isdigit())
    assert there == [*range(first), *range(last + 1, EVENTS)]
    replayed = rxt.replay(tmp_path / "out")["live"].to_events()
    assert [each.payload["x"] for each in replayed] == there


def test_what_is_in_use_or_no_run_is_not_inspected(tmp_path: Path) -> None:
    """Nor is anything copied over other files."""
    with pytest.raises(SpoolError, match=r"is not a folder of log=, resume= or record=.*Hint"):
        inspect(tmp_path)
    subject: Subject[Any] = Subject()
    process = rxt.from_observable(subject, name="live").run(rxt.Collect(), log=tmp_path / "log")
    subject.on_next(PointEvent(1, 1))
    with pytest.raises(SpoolError, match=r"is being written by the process with pid \d+\. Hint"):
        inspect(tmp_path / "log")
    process.dispose()
    assert process.wait(SOON)
    with pytest.raises(SpoolError, match=r"has files\. Hint"):
        salvage(tmp_path / "log", tmp_path)
