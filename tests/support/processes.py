"""Which processes a run consists of: looked up in ``/proc``, where Linux has them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sink_input import wait_until

__all__ = ["descendants", "end", "is_there", "who_is"]


def table() -> dict[int, tuple[int, str]]:
    """Each process's parent and command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # after the name, which is in brackets and may hold anything: state, parent
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended meanwhile
        if state != "Z":
            found[int(folder.name)] = (int(parent), command)
    return found


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes that a process has started, and that these have."""
    running, found, level = table(), dict[int, str](), {pid}
    while level:
        level = {each for each, (parent, _) in running.items() if parent in level} - set(found)
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


def is_there(pid: int) -> bool:
    """Return True if a process runs."""
    return pid in table()


def end(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_there(pid))
