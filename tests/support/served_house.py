"""The house of the demonstration, served by a process of its own on a free port."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from child_process import environment

LISTENS = re.compile(r"listening on (http://\S+)")
PATIENCE = 120


class Served:
    """A served house: its address, and the lines that it has written."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listens.wait(PATIENCE)
        assert self.url, self.lines

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := LISTENS.search(line):
                self.url = found[1]
                self._listens.set()
        self._listens.set()

    def wait_until_ready(self) -> None:
        """Wait until all kernels are compiled."""
        deadline = time.monotonic() + PATIENCE
        while httpx.get(f"{self.url}/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> int:
        """End the service as systemd does, and return its status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status


@contextlib.contextmanager
def serve_house(folder: Path, *options: str, app: str = "--demo") -> Iterator[Served]:
    """Run ``rxtemporal serve`` with an application until the block ends."""
    command = [sys.executable, "-P", "-m", "rxtemporal", "serve", app, "--port", "0"]
    process = subprocess.Popen(
        [*command, "--state", str(folder), *options],
        env=environment(),
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            yield Served(process)
        finally:
            process.kill()
