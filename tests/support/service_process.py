"""A service in a process of its own, started by the command line."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# seconds for the start of a service, and for its end
PATIENCE = 60.0

HOUSE = """
import rxtemporal as rxt
from rxtemporal import agg

readings = rxt.PushSource(
    "readings", schema={"device": str, "temp": int}, start="ts", seq="n", delay=1_000_000
)
app = rxt.Application("house")
app.query("totals", readings.stream.tumbling_window(1000).aggregate(count=agg.count()))


def make():
    return app


def query(readings):
    return readings


def fail():
    raise ValueError("this application cannot be made")


nothing = 4
"""


class ServiceProcess:
    """A process that serves; its lines of progress, as they come."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rxtemporal", "serve", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._coming: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def wait_for(self, words: str) -> str:
        """Return the next line that has these words."""
        while (line := self._coming.get(timeout=PATIENCE)) is not None:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"the service has ended without {words!r}: {self.lines}")

    def listen(self) -> str:
        """Return the URL once the service listens."""
        return self.wait_for("listening on ").partition("listening on ")[2]

    def wait(self) -> int:
        """Return the exit status."""
        return self.process.wait(PATIENCE)


@contextmanager
def serve(*arguments: str) -> Iterator[ServiceProcess]:
    """Start a service, and end it at the end whatever happens."""
    served = ServiceProcess(arguments)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.process.wait()


def write_house(folder: Path) -> str:
    """Write a file with an application, and return its path with the name in it."""
    path = folder / "house.py"
    path.write_text(HOUSE, "utf-8")
    return f"{path}:app"
