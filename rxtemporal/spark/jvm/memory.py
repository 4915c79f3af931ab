"""Memory that a process may use, and Spark's share of it; needs the standard library alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MEGABYTE = 1 << 20
# A quarter, Java's own default: the rest is for the query, Spark's Python processes and the file
# cache, and two sinks fit. Not below Spark's own default, with which sorts begin to spill and large
# plans to fail; not above the needs of micro-batches, since a heap that may grow is not collected.
SHARE, LEAST, MOST = 4, 1024, 4096


def driver_memory(root: Path = Path("/")) -> str:
    """Return the size of the heap in the form of Spark's setting ``spark.driver.memory``.

    A quarter of the usable memory, at least 1 GB and at most 4 GB.
    """
    return f"{min(max(usable_memory(root) // SHARE // _MEGABYTE, LEAST), MOST)}m"


def usable_memory(root: Path = Path("/")) -> int:
    """Return how many bytes this process may use: the machine's, or fewer in a limited container.

    ``root`` is the folder that contains ``proc`` and ``sys``.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_read_limits(root)])


def _read_limits(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and of its parents (Linux)."""
    for base, name, group in _list_groups(root):
        # inside a container its own group is at the top, whatever its path is called outside
        for part in [group, *group.parents]:
            try:
                limit = (base / part / name).read_text(encoding="ascii").strip()
            except OSError:
                continue
            if limit.isdigit():
                yield int(limit)


def _list_groups(root: Path) -> Iterator[tuple[Path, str, Path]]:
    """Yield the root of the memory limits, the name of their file, and this process's group."""
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
