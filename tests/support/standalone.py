"""A standalone Spark cluster on the loopback device: a master and workers, ended by their ids."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
from child_process import environment

from rxtemporal.spark.jvm.java import find_java

PATIENCE = 120
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextlib.contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """Yield the address of a master with workers of one core each."""
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(_started(folder / "master", "master.Master", "--port", "0"))
        address = _find(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            work = folder / f"worker{number}"
            options = ["--cores", "1", "--memory", "1536M", "--work-dir", f"{work}.files", address]
            log = stack.enter_context(_started(work, "worker.Worker", *options))
            _find(log, r"Successfully registered with master (\S+)")
        yield address


@contextlib.contextmanager
def _started(log: Path, name: str, *arguments: str) -> Iterator[Path]:
    """Start a daemon of Spark; yield the file of its output."""
    variables = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(_CLASS), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            env=environment(SPARK_DAEMON_MEMORY="256m", **variables),
            cwd=log.parent,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        # a worker ends its executors when it is terminated
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _find(log: Path, pattern: str) -> str:
    """Wait until a file has a line, and return the part of it that is asked for."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (found := re.search(pattern, log.read_text("utf-8", "replace"))) is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8", "replace")[-3000:])
