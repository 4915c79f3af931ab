"""Facts about a Python process of an executor, found with the standard library alone.

These functions are sent to executors by value, because the package may be missing there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import resource
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rxtemporal.spark.jvm.memory import usable_memory

PACKAGES = ("pyarrow", "pandas", "protobuf", "polars", "numba", "numpy")
Facts = dict[str, Any]


def probe_partition(number: int, rows: Iterable[Any]) -> Iterator[tuple[int, Facts]]:
    """Yield the number of a partition, and the facts about the process that has it."""
    yield number, probe_process()


def probe_process() -> Facts:
    """Return the facts about this process; times are in seconds, sizes in bytes."""
    clock = time.time()
    return {
        "clock": clock,
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": {name: find_version(name) for name in PACKAGES},
        "rxtemporal": find_package(),
        "kernels": try_kernels(),
        "memory": usable_memory(),
        "address_space": resource.getrlimit(resource.RLIMIT_AS)[0],
        "zone": time.strftime("%Z %z", time.localtime(clock)),
    }


def find_version(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_package() -> Facts:
    """Return place, version and digest of the package here; or the error of its import."""
    try:
        import rxtemporal
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    folder = Path(os.path.dirname(str(rxtemporal.__file__)))
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    return {
        "version": rxtemporal.__version__,
        "folder": str(folder),
        "digest": digest.hexdigest(),
    }


def try_kernels() -> Facts:
    """Return the cost of a first query in this process, and the place of compiled kernels."""
    try:
        from rxtemporal.spark.cluster.kernel_trial import run_trial
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return run_trial()
