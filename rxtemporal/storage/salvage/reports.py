"""Inspection of a folder, and the copy of what is whole."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rxtemporal.core.ticks import describe
from rxtemporal.errors import RxTemporalError, SpoolError
from rxtemporal.storage.event_log.database import (
    aside_wal,
    damage_error,
    has_wal,
    wal_path,
)
from rxtemporal.storage.event_log.layout import HEADER
from rxtemporal.storage.event_log.record_count import count_path, load_count
from rxtemporal.storage.event_log.recorder import RecordedSegments
from rxtemporal.storage.event_log.stored_log import FILE, StoredLog
from rxtemporal.storage.event_log.verification import is_damaged, verify
from rxtemporal.storage.files import report_errors
from rxtemporal.storage.salvage.inspection import Inspection
from rxtemporal.storage.salvage.log_salvage import (
    LogSalvage,
    copy_log,
    copy_pages,
    describe_log,
    make_title,
)
from rxtemporal.storage.salvage.recording_salvage import (
    RecordingSalvage,
    copy_recording,
    describe_recording,
)
from rxtemporal.storage.segments import SegmentFolder

SPOOL_HEADER = "spool.json"


def find_spool(path: Path) -> Path | None:
    """Return the folder of the spool at a path or in the folder of a ``SparkSink``; else None."""
    places = (path, path / "spool")
    return next((place for place in places if (place / SPOOL_HEADER).exists()), None)


def inspect_spool(path: Path) -> Inspection:
    """Read the segments of a spool that have not been discarded, and return what was found.

    ``records`` counts their rows.
    """
    folder = SegmentFolder(path)
    try:
        header = folder.header()
        mark, last = folder.bounds()
        cti = describe(folder.describe(last).cti) if last else "none yet"
    except SpoolError as error:
        return Inspection(f"spool {path}", [], str(error), ["all of it"], 0)
    rows, damage, lost = 0, "", []
    for number in range(mark + 1, last + 1):
        try:
            folder.content(number)
            rows += folder.describe(number).rows
        except SpoolError as error:
            damage = damage or str(error)
            lost.append(f"segment {number}")
    facts = [
        f"fields: {', '.join(folder.read(last).columns)}" if last > mark and not lost else "",
        f"segments: {last - mark:,} wait to be read, {mark:,} were read and are discarded",
        f"CTI: {cti}",
    ]
    title = f"spool of query {header['query']!r}"
    return Inspection(title, [fact for fact in facts if fact], damage, lost, rows)


def inspect(path: Path) -> Inspection:
    """Return the facts of an event log, a checkpoint or a recording, and its damage.

    Reads all of it and changes nothing. ``SpoolError``: it is none of these, a run writes it, or
    nothing of it can be read.
    """
    return _examine(path, None)


def salvage(path: Path, out: Path) -> Inspection:
    """Write what is whole in a folder into a new one, ``out``, and return the facts of the old.

    Costs the size of the folder. ``SpoolError``: as ``inspect``, or ``out`` exists.
    """
    if out.exists() and any(out.iterdir()):
        raise SpoolError(f"{out} has files. Hint: give the copy a folder of its own.")
    return _examine(path, out)


def _examine(path: Path, out: Path | None) -> Inspection:
    _refuse_writer(path)
    if (path / HEADER).exists():
        return _examine_recording(path, out)
    if any(
        place.exists() for place in (path / FILE, wal_path(path / FILE), count_path(path / FILE))
    ):
        return _examine_log(path, out)
    raise SpoolError(
        f"{path} is not a folder of log=, resume= or record=. Hint: rxtemporal doctor {path} "
        "checks the folder of a SparkSink."
    )


def _refuse_writer(path: Path) -> None:
    if not (path / "lock").exists():
        return
    with report_errors(f"cannot read {path}"):
        handle = os.open(path / "lock", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(handle, 32).decode(errors="replace").strip()
        raise SpoolError(
            f"{path} is being written by the process with pid {holder}. Hint: end that one first."
        ) from error
    finally:
        os.close(handle)


# A recording --------------------------------------------------------------------------------------


def _examine_recording(path: Path, out: Path | None) -> Inspection:
    damage = _find_recording_damage(path)
    recording = RecordingSalvage(path)
    records = recording.records if out is None else copy_recording(recording, out)
    state = "complete" if recording.header["complete"] else "cut off: its run was killed"
    title = f"recording of run {recording.header['name']!r}, {state}"
    lost = recording.lost
    if lost and not damage:
        damage = str(damage_error(path, "not all of it is whole"))
    return Inspection(title, describe_recording(recording), damage, lost, records)


def _find_recording_damage(path: Path) -> str:
    """Return why a replay would refuse the folder; empty if it would not."""
    try:
        RecordedSegments(path).verify()
    except SpoolError as error:
        return str(error)
    return ""


# An event log -------------------------------------------------------------------------------------


def _examine_log(path: Path, out: Path | None) -> Inspection:
    damage = _find_log_damage(path)
    with _make_copy(path, all_frames=True) as copy, closing(LogSalvage(path, copy)) as log:
        if out is None:
            records = sum(part.records for entry in log.entries() for part in entry.parts.values())
        else:
            records = copy_log(log, out)
        title, facts = make_title(log.facts), describe_log(log)
        return Inspection(title, facts, damage, log.lost, records)


@contextmanager
def _make_copy(path: Path, *, all_frames: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rxtemporal-") as folder:
        copy = Path(folder) / FILE
        with report_errors(f"cannot copy {path / FILE}"):
            copy_pages(path / FILE, copy, all_frames=all_frames)
        yield copy


def _find_log_damage(path: Path) -> str:
    """Return why a run would refuse the folder; empty if it would not."""
    file = path / FILE
    try:
        if not file.exists():
            raise damage_error(file, "it is missing")
        with _make_copy(path, all_frames=False) as copy:
            _verify_copy(file, StoredLog(copy.parent))
    except RxTemporalError as error:
        return str(error)
    return ""


def _verify_copy(file: Path, log: StoredLog) -> None:
    """Verify the copy of a file as a run verifies the file."""
    try:
        if log.header()["open"]:
            if not has_wal(file) and not aside_wal(file).exists():
                raise damage_error(file, f"{wal_path(file).name} beside it is missing")
            if has_wal(file) and is_damaged(wal_path(file)):
                raise damage_error(wal_path(file), "records in it have changed")
        verify(log, load_count(file))
    except RxTemporalError as error:
        raise SpoolError(str(error).replace(str(log.path), str(file.parent))) from error
