"""Copy of the folder of a run, made while the run writes.

The run holds its file exclusively, so bytes are copied: first the count of records, then the file,
then its WAL. Meanwhile SQLite may copy pages from the WAL into the file. They stay in the WAL until
it begins anew, with another header; so the copied WAL replaces whatever of the copied file is torn
or newer. If the WAL has begun anew, the copy is made again. At last all of it is verified, as by a
run that opens it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from rxtemporal.core.files import make_folder, open_private, report_errors, sync, sync_folder
from rxtemporal.errors import ArgumentError, CheckpointError, SpoolError
from rxtemporal.storage.event_log.database import count_path, has_wal, wal_path
from rxtemporal.storage.event_log.store import RunStore
from rxtemporal.storage.event_log.stored_log import FILE

# how often a copy is made again because the run has written so much meanwhile
ATTEMPTS = 20
_PIECE = 2**24
_WAL_HEADER = 32

# takes how many bytes of the file have been copied, and how many there are
Progress = Callable[[int, int], object]


def back_up(folder: Path, target: Path, progress: Progress | None = None) -> int:
    """Copy the folder of a run with ``log=`` or ``resume=``; return how many records it has had.

    The run may write meanwhile. The copy is as if the run had been killed at one moment of the
    call: it has every record that was durable before. ``target`` is a new or an empty folder; it is
    there when the copy is complete.

    ``ArgumentError``: ``folder`` has no run, or ``target`` is not empty. ``SpoolError``: the folder
    is damaged, or the run has written too much, in every attempt, for a copy to be of one moment.
    """
    file = folder / FILE
    if not file.is_file():
        raise ArgumentError(
            f"{folder} has no {FILE}, so it is not the folder of a run with log= or resume=. "
            "Hint: of a service it is the folder in its section [state]."
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ArgumentError(f"{target} exists and is not empty. Hint: choose a new folder.")
    if folder.resolve() in target.resolve().parents:
        raise ArgumentError(
            f"{target} is inside of {folder}, and would be lost with it. Hint: choose a folder on "
            "another disk."
        )
    aside = target.with_name(f".{target.name}.part")
    with report_errors(f"cannot copy {folder} to {target}"):
        shutil.rmtree(aside, ignore_errors=True)
        try:
            records = _copy_until_whole(file, aside, progress)
            if target.exists():
                target.rmdir()
            aside.rename(target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return records


def _copy_until_whole(file: Path, aside: Path, progress: Progress | None) -> int:
    error: SpoolError | CheckpointError | None = None
    for _ in range(ATTEMPTS):
        shutil.rmtree(aside, ignore_errors=True)
        make_folder(aside)
        if not _copy(file, aside / FILE, progress):
            error = None
            continue
        sync_folder(aside)
        try:
            return _verify(aside)
        except (SpoolError, CheckpointError) as found:  # perhaps the run has just ended or begun
            error = found
    if error is not None:
        raise error
    raise SpoolError(
        f"{file.parent} could not be copied: the run has written more than its WAL holds in each "
        f"of {ATTEMPTS} attempts. Hint: copy it while less is pushed, or stop the run."
    )


def _copy(file: Path, copy: Path, progress: Progress | None) -> bool:
    """Copy count, file and WAL; return False if the WAL has begun anew meanwhile."""
    before = _read_wal_header(file)
    if count_path(file).exists():
        _copy_file(count_path(file), count_path(copy), None)
    _copy_file(file, copy, progress)
    if before:
        try:
            _copy_file(wal_path(file), wal_path(copy), None)
        except FileNotFoundError:
            return False
    return _read_wal_header(file) == before


def _read_wal_header(file: Path) -> bytes:
    """Return the header of the WAL, which changes when it begins anew; empty without a WAL."""
    if not has_wal(file):
        return b""
    with wal_path(file).open("rb") as wal:
        return wal.read(_WAL_HEADER)


def _copy_file(source: Path, copy: Path, progress: Progress | None) -> None:
    """Copy a file of which another process may write, and sync the copy."""
    with source.open("rb") as read, open(copy, "wb", opener=open_private) as written:
        done, size = 0, source.stat().st_size
        while piece := read.read(_PIECE):
            written.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, max(done, size))
        written.flush()
        sync(written.fileno())


def _verify(folder: Path) -> int:
    """Verify a copy; return how many records it has had."""
    store = RunStore(folder, "")
    store.open()
    store.release()
    (folder / "lock").unlink(missing_ok=True)
    return store.records
