"""Which processes a run consists of: looked up in ``/proc``, where Linux has them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from sink_input import wait_until

__all__ = ["Identity", "are_there", "descendants", "end", "list_family", "who_is"]

# a process: its number, which is given out again after its end, and the tick at which it began
Identity: TypeAlias = tuple[int, int]


def table() -> dict[int, tuple[int, str, int]]:
    """Each process's parent and command line, and the tick at which it began."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # after the name, which is in brackets and may hold anything: state, parent
            facts = (folder / "stat").read_text().rpartition(")")[2].split()
            state, parent, began = facts[0], facts[1], facts[19]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended meanwhile
        if state != "Z":
            found[int(folder.name)] = (int(parent), command, int(began))
    return found


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes that a process has started, and that these have."""
    running, found, level = table(), dict[int, str](), {pid}
    while level:
        level = {each for each, (parent, *_) in running.items() if parent in level} - set(found)
        found.update({each: running[each][1] for each in level})
    return found


def who_is(who: str, ingest: int, at_work: int) -> list[int]:
    """Return the pids of who is to be killed; of several executors first the one at work."""
    if who == "ingest":
        return [ingest]
    named = {
        "driver": "rxtemporal.spark.sink.driver",
        "jvm": "org.apache.spark.deploy.SparkSubmit",
        "executor": "CoarseGrainedExecutorBackend",
    }[who]
    pids = [pid for pid, command in descendants(ingest).items() if named in command]
    if who == "executor":
        # the shell that starts a JVM has the same words in its command
        pids = [pid for pid in pids if not any(each in pids for each in descendants(pid))]
    return sorted(pids, key=lambda pid: at_work not in descendants(pid))


def list_family(*pids: int) -> list[Identity]:
    """Return these processes, as far as they run, and all that they have started."""
    running = table()
    found = [*pids, *(each for pid in pids for each in descendants(pid))]
    return [(pid, running[pid][2]) for pid in found if pid in running]


def are_there(processes: Iterable[Identity]) -> bool:
    """Return True if one of these processes runs."""
    running = {(pid, began) for pid, (_, _, began) in table().items()}
    return not running.isdisjoint(processes)


def end(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    victim = [each for each in list_family(pid) if each[0] == pid]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not are_there(victim))
