"""How much memory Spark's Java process is given: a share of what this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MEGABYTE = 1 << 20
# A quarter, as Java itself takes: the query, Spark's Python processes and the files' cache have the
# rest, and two sinks fit. Not below Spark's own default, with which sorts begin to spill and large
# plans to fail; not above what micro-batches need, for a heap that may grow is not cleaned.
SHARE, LEAST, MOST = 4, 1024, 4096


def driver_memory(root: Path = Path("/")) -> str:
    """Return the size of the heap as Spark's setting ``spark.driver.memory`` has it.

    A quarter of the usable memory, at least 1 GB and at most 4 GB.
    """
    return f"{min(max(usable(root) // SHARE // _MEGABYTE, LEAST), MOST)}m"


def usable(root: Path = Path("/")) -> int:
    """Return how many bytes this process may use: the machine's, or fewer in a limited container.

    ``root`` is where ``proc`` and ``sys`` are looked for.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and of those around it (Linux)."""
    for base, name, group in _groups(root):
        # inside a container its own group is at the top, whatever its path is called outside
        for part in [group, *group.parents]:
            try:
                told = (base / part / name).read_text(encoding="ascii").strip()
            except OSError:
                continue
            if told.isdigit():
                yield int(told)


def _groups(root: Path) -> Iterator[tuple[Path, str, Path]]:
    """Yield where limits of memory are, the name of their file, and the group of this process."""
    mounts = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        inside = Path(group.lstrip("/"))
        if not controllers:  # the second version has one tree for all
            yield mounts, "memory.max", inside
        elif "memory" in controllers.split(","):
            yield mounts / "memory", "memory.limit_in_bytes", inside
