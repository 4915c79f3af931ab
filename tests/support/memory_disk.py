"""Temporary files in memory: what is forced to disk there costs nothing.

Much of the suite waits for disks otherwise, for a run with ``resume=`` forces what it has
acknowledged to disk. A process that is killed leaves the same files in memory as on a disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["use_memory_disk"]

DISK = Path("/dev/shm")
# bytes that have to be free
ROOM = 4 << 30
PREFIX = "rxt-"


def use_memory_disk() -> Path | None:
    """Put temporary files of this process, and of those that it starts, into memory.

    Returns their folder, which the caller removes. None, and nothing is changed, if ``TMPDIR`` is
    set, or if there is no such disk, with room, on which programs may be executed.
    """
    if "TMPDIR" in os.environ or not _is_fit():
        return None
    _remove_old()
    folder = DISK / f"{PREFIX}{os.getpid()}"
    # servers that tests start as other users have their folders in it
    folder.mkdir(mode=0o755)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


def _is_fit() -> bool:
    if not DISK.is_dir() or not os.access(DISK, os.W_OK):
        return False
    facts = os.statvfs(DISK)
    return not facts.f_flag & os.ST_NOEXEC and facts.f_bavail * facts.f_frsize >= ROOM


def _remove_old() -> None:
    """Remove the folders of processes that have ended, which they keep if tests have failed."""
    for folder in DISK.glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX)
        if pid == str(os.getpid()) or not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
