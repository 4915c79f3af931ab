"""Environment and child process of a peer: a library that is measured beside this one.

The environment is made with ``python -m venv`` and pip in a folder of the user's cache, and found
there the next time. The child is asked with a line of JSON and answers with one; columns are passed
in files of a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rxtemporal-benchmarks"
LONGEST = 900


class NoPeerError(Exception):
    """The peer cannot be installed or started here."""


def find_environment(requirement: str, cache: Path) -> Path:
    """Return the Python of an environment that has a package, made if it is not there."""
    folder = cache / f"{requirement.replace('==', '-')}-python{sys.version_info.minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    print(f"installing {requirement} into {folder} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", requirement],
    ):
        _run(command)
    ready.touch()
    return python


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPeerError(str(error)) from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NoPeerError(said[-1] if said else f"{command[0]} failed")


class Peer:
    """Child process that runs a script in an environment of its own; a context manager."""

    def __init__(self, requirement: str, script: str, cache: Path = CACHE) -> None:
        self.name = requirement.replace("==", " ")
        python = find_environment(requirement, cache)
        self._folder = tempfile.TemporaryDirectory()
        self._child = subprocess.Popen(
            [str(python), str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        self._hear()  # it has imported what it needs

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.communicate()
        self._folder.cleanup()

    def give(self, name: str, **columns: Any) -> str:
        """Save columns for the child, and return the path by which it finds them."""
        path = self.find_path(f"{name}.npz")
        np.savez(path, **columns)
        return str(path)

    def ask(self, task: str, **wanted: Any) -> tuple[float, dict[str, Any]]:
        """Have the child run a task, and return its seconds and its columns."""
        out = str(self.find_path("out.npz"))
        seconds = self.run(task, out=out, **wanted)
        with np.load(out) as found:
            return seconds, dict(found)

    def run(self, task: str, **wanted: Any) -> float:
        """Have the child run a task, and return its seconds."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"task": task, **wanted}) + "\n")
        self._child.stdin.flush()
        seconds: float = self._hear()["seconds"]
        return seconds

    def find_path(self, name: str) -> Path:
        """Return the path of a file that both read and write, gone when the child ends."""
        return Path(self._folder.name) / name

    def _hear(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise NoPeerError(f"{self.name} ended with status {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NoPeerError(f"{self.name}: {answer['error']}")
        return answer
