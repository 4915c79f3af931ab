"""A small disk that can be full: unlike a quota, it stops every process, Java's too."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from needs import skip_or_fail

__all__ = ["Disk", "small_disk"]

BLOCK = b"\0" * 4096


class Disk:
    """A file system in memory, of some megabytes, at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Fill the disk."""
        filler = self.path / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(BLOCK):
                pass
        yield
        filler.unlink()


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int = 8) -> Iterator[Disk]:
    """Mount one; a test is skipped where this process may not."""
    path.mkdir()
    reason = _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
    if reason is not None:
        skip_or_fail("mount", f"no file system can be mounted here: {reason}")
    try:
        yield Disk(path)
    finally:
        _run("umount", "--lazy", str(path))


def _run(*command: str) -> str | None:
    """Run a command; return why it has failed, None if it has not."""
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None
