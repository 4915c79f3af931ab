"""A PostgreSQL server for the tests: made in a folder of its own, on a socket there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from needs import skip_or_fail

# where Debian keeps what it does not put on the PATH
DEBIAN = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``, None if there is none."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(DEBIAN.glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "postgres").exists()), None)


@contextmanager
def server() -> Iterator[str]:
    """Run a server and yield what to connect with; it is gone afterwards, with all it had."""
    found = programs()
    assert found is not None
    # short, for a socket's path is; and not below pytest's folder, which is for root alone
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses root
    if user is not None:
        shutil.chown(folder, user, user)
    try:
        subprocess.run(
            [found / "initdb", "-D", folder / "data", "-U", "test", "-A", "trust", "--no-sync"],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
        running = subprocess.Popen(
            [found / "postgres", "-D", folder / "data", *options],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            where = f"host={folder} user=test dbname=postgres"
            _wait(running, where)
            yield where
        finally:
            running.send_signal(signal.SIGINT)  # fast shutdown: clients are cut off
            running.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(running: subprocess.Popen[bytes], where: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(where).close()  # that its socket is there does not mean that it answers
            return
        except psycopg.OperationalError:
            assert running.poll() is None, "PostgreSQL does not start"
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
        time.sleep(0.05)


@contextmanager
def needed_server() -> Iterator[str]:
    """Run a server as ``server`` does; skip the test where there is none to start."""
    if programs() is None:
        skip_or_fail("postgres", "there is no PostgreSQL server to start")
    with server() as address:
        yield address
