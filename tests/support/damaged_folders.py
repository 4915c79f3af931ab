"""Folders of runs, and what can happen to a file of one."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from reactivex.subject import Subject
from run_settings import save_at_once, save_never, save_often
from runs import SOON

import rxtemporal as rxt
from rxtemporal import PointEvent, agg
from rxtemporal.errors import RxTemporalError
from rxtemporal.storage.event_log import recorder
from rxtemporal.storage.event_log import store as stores

EVENTS = 24
PAGE = 4_096
WAYS = ["log", "resume", "record"]


class Run:
    """A run that counts its events and sums them up, in one window that its end closes."""

    def __init__(self, folder: Path, way: str, name: str = "live") -> None:
        self.subject: Subject[Any] = Subject()
        self.sink = rxt.Collect()
        schema = {"x": int, "text": str}
        stream = rxt.from_observable(self.subject, name=name, schema=schema)
        self.process = summed(stream).run(self.sink, **{way: folder})

    def push(self, first: int, upto: int) -> Run:
        """Push events with the numbers as payload, and texts that do not get shorter if compressed.

        So they fill the pages of the file, and damage hits them.
        """
        for number in range(first, upto):
            text = random.Random(number).randbytes(400).hex()
            self.subject.on_next(PointEvent(number, {"x": number, "text": text}))
        return self

    def end(self) -> Any:
        """Complete the source and return the results."""
        self.subject.on_completed()
        self.process.wait(SOON)
        return self.sink.to_dicts()


def summed(stream: rxt.Streamable) -> rxt.Streamable:
    """A query that needs each event."""
    return stream.tumbling_window(10**6).aggregate(n=agg.count(), total=agg.sum("x"))


class Folders(NamedTuple):
    """Copies of the folder of one run, in the order in which they were made, and of another run."""

    killed: Path
    closed: Path
    older: list[Path]
    other: Path


@functools.cache
def make_folders(way: str) -> Folders:
    """Run twice, and copy the folder while it runs, when it is closed, and between."""
    base = Path(tempfile.mkdtemp(prefix=f"damage-{way}-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "MOST_BYTES", 20_000)
        patch.setattr(recorder, "MOST_RECORDS", 3)
        return _make_folders(base, way, patch)


def _make_folders(base: Path, way: str, patch: pytest.MonkeyPatch) -> Folders:
    half, older = EVENTS // 2, list[Path]()

    def copy(run: Run | None, name: str, source: str = "folder") -> Path:
        if run is not None and run.process._recorder is not None:
            run.process._recorder.flush()  # or a file that is being written vanishes meanwhile
        return shutil.copytree(base / source, base / name)

    save_at_once(patch)
    save_never(patch)
    run = Run(base / "folder", way).push(0, 4)
    older.append(copy(run, "early"))
    save_often(patch)
    run.push(4, half)
    save_never(patch)
    older.append(copy(run, "half"))
    if way != "record":  # a recording is not continued
        run.process.dispose()
        older.append(copy(None, "between"))
        run = Run(base / "folder", way)
    run.push(half, EVENTS)
    if way == "record":  # a replay gives what was final
        run.subject.on_next(rxt.Cti(10**6))
    killed = copy(run, "killed")
    run.process.dispose()
    other = Run(base / "other", way).push(100, 100 + EVENTS)
    other_copy = copy(other, "other killed", "other")
    other.process.dispose()
    return Folders(killed, copy(None, "closed"), older, other_copy)


def recover(folder: Path, way: str) -> Any:
    """Return the results of a folder; None if it is refused."""
    try:
        if way != "record":
            return Run(folder, way).end()
        sink = rxt.Collect()
        summed(rxt.replay(folder)["live"]).run(sink).wait(SOON)
        return sink.to_dicts()
    except RxTemporalError as error:
        return None if "Hint" in str(error) else error


RESULTS = [{"start_time": 0, "end_time": 10**6, "n": EVENTS, "total": sum(range(EVENTS))}]
Change = tuple[str, bytes | None]


def flip(content: bytes, chance: random.Random, count: int) -> Iterator[Change]:
    """Yield the content with one bit changed."""
    for place in chance.sample(range(len(content)), min(3 * count, len(content))):
        flipped = bytes([content[place] ^ 1 << chance.randrange(8)])
        yield f"bit {place}", content[:place] + flipped + content[place + 1 :]


def cut(content: bytes, chance: random.Random, count: int) -> Iterator[Change]:
    """Yield the content without its end."""
    sizes = {0, len(content) - 1, len(content) // 2, max(0, len(content) - PAGE)}
    for size in sorted(sizes | {chance.randrange(len(content)) for _ in range(count)}):
        yield f"cut at {size}", content[:size]


def zero(content: bytes, chance: random.Random, count: int) -> Iterator[Change]:
    """Yield the content with zeros in place of one page, and of one head."""
    pages = [(place, PAGE) for place in range(0, len(content), PAGE)]
    frames = [(place, 24) for place in range(32, len(content), 24 + PAGE)]
    for places in pages, frames:
        for place, size in chance.sample(places, min(count, len(places))):
            zeros = bytes(min(size, len(content) - place))
            changed = content[:place] + zeros + content[place + size :]
            if changed != content:
                yield f"zeros at {place}", changed


def remove(content: bytes, chance: random.Random, count: int) -> Iterator[Change]:
    """Yield no file."""
    yield "removed", None


def replace(name: str, folders: Folders) -> Iterator[Change]:
    """Yield the file of each older copy, and that of another run."""
    for copy in [*folders.older, folders.other]:
        if (copy / name).is_file():
            yield f"from {copy.name}", (copy / name).read_bytes()


FAULTS: dict[str, Callable[..., Iterator[Change]]] = {
    "flip": flip,
    "cut": cut,
    "zero": zero,
    "remove": remove,
}


def list_changes(fault: str, name: str, whole: Path, folders: Folders, count: int) -> list[Change]:
    """List the changes of one file."""
    if fault == "replace":
        return list(replace(name, folders))
    content = (whole / name).read_bytes() if (whole / name).exists() else b""
    chance = random.Random(f"{fault} {name}")
    return list(FAULTS[fault](content, chance, count)) if content else []


def list_names(folder: Path, count: int) -> list[str]:
    """List the files of a folder; of those of one kind in one place only the first and the last.

    With many changes of each, list all.
    """
    kinds: dict[tuple[Path, str], list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        kind = path.parent, path.suffix if path.name[0].isdigit() else path.name
        kinds.setdefault(kind, []).append(str(path.relative_to(folder)))
    few = count < 10
    return [
        name
        for names in kinds.values()
        for name in (sorted({names[0], names[-1]}) if few else names)
    ]


def list_damage(way: str, state: str, fault: str, count: int) -> Iterator[tuple[str, Path]]:
    """Yield copies of a folder, each with one change of one file, and what that is.

    A copy is deleted when the next one is asked for.
    """
    folders = make_folders(way)
    whole = folders.killed if state == "killed" else folders.closed
    names = list_names(whole, count)
    if fault == "replace":  # a WAL beside a file that was closed
        names += [name for name in ["run.sqlite-wal"] if way != "record" and name not in names]
    for name in names:
        for place, content in list_changes(fault, name, whole, folders, count):
            with tempfile.TemporaryDirectory(prefix="damage-") as base:
                folder = shutil.copytree(whole, Path(base) / "changed")
                if content is None:
                    (folder / name).unlink()
                else:
                    (folder / name).write_bytes(content)
                yield f"{name}: {place}", folder
