"""A local Spark session with defaults: finds Java, sets the workers' Python, logs quietly."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import BindingError, JavaError
from rxtemporal.spark.jvm.java import Java, find_java
from rxtemporal.spark.jvm.memory import driver_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = get_logger(__name__)

# More cores than this do not make small micro-batches faster, and each one costs Python workers.
MOST_CORES = 8
_starting = threading.RLock()


def session(**settings: Any) -> SparkSession:
    """Return the running Spark session, or start one in this process.

    ``settings`` are Spark's own and override the defaults here: ``session(**{"spark.master":
    "local[1]"})``. If a session is running, the settings that can still change are applied to it;
    a session whose Java process has died is replaced. Starting takes 3 to 6 seconds. The Java
    process's error output goes to the logger ``rxtemporal.spark.jvm``. Its memory is a quarter of
    what this process may use, at least 1 GB and at most 4 GB, and is fixed at the start; set
    ``session(**{"spark.driver.memory": "8g"})`` or ``SPARK_DRIVER_MEMORY`` for another size.
    ``PYSPARK_PYTHON`` and ``PYSPARK_DRIVER_PYTHON`` become this Python unless they are set.

    ``BindingError`` if pyspark is not installed or is a Spark Connect client, ``JavaError`` if no
    Java runtime works or Spark does not start in it.
    """
    require_pyspark()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    given = {name: _to_text(value) for name, value in settings.items()}
    with _starting:
        _reset_dead_gateway()
        if SparkContext._active_spark_context is None:
            conf = SparkConf(loadDefaults=False)
            conf.setAll(list({**_defaults(), **given}.items()))
            _start(conf)
        builder = SparkSession.builder
        for name, value in given.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def require_pyspark() -> None:
    """Raise ``BindingError`` if pyspark is missing or would use Spark Connect."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise BindingError(
            "Spark is not installed. Hint: pip install 'rxtemporal[spark,jre]', which brings "
            "pyspark and a Java runtime; or stay with to_polars()."
        ) from error
    if os.environ.get("SPARK_REMOTE") or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise BindingError(
            "a Spark Connect session runs its functions on another machine, where they cannot "
            "reach this process. Hint: unset SPARK_REMOTE; a classic session is needed."
        )


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _defaults() -> dict[str, str]:
    cores = min(_cores(), MOST_CORES)
    # Workers find this package where this process found it. What is installed they find anyway,
    # and site-packages on the path would confuse another Python.
    package = Path(__file__).resolve().parents[3]
    checkout = [] if package.name in ("site-packages", "dist-packages") else [str(package)]
    path = os.pathsep.join([*checkout, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "spark.app.name": "rxtemporal",
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark's own default is 1 GB on every machine; the variable is Spark's, too
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY") or driver_memory(),
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Spark's default runs the program readlink each time it renames a file on a disk, which
        # costs 100 ms and more a micro-batch. This renames at once, as atomically as the file
        # system does: on disks and HDFS wholly.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing"
            ".FileSystemBasedCheckpointFileManager"
        ),
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _reset_dead_gateway() -> None:
    """Clear pyspark's references to a Java process that has died; pyspark never does so itself."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None or process.poll() is None:
        return
    log.warning("spark.java_died", exit_code=process.returncode)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _start(conf: Any) -> None:
    """Start a Java process and a context in it, unless there is a process already."""
    from pyspark import SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if SparkContext._gateway is not None:
        SparkContext(conf=conf)
        return
    java = find_java()
    errors = _ErrorOutput()
    try:
        with _environment(java):
            gateway = _launch(conf, errors)
            SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        _reset_dead_gateway()
        said = errors.tail()
        raise JavaError(
            f"Spark does not start with Java {java.version} at {java.home}: "
            f"{str(error).strip() or type(error).__name__}. It said: {said or 'nothing'} "
            "Hint: choose another Java with RXTEMPORAL_JAVA (packaged, system or a Java home)."
        ) from error
    log.info("spark.started", java=java.version, kind=java.kind, master=conf.get("spark.master"))


def _launch(conf: Any, errors: _ErrorOutput) -> Any:
    from pyspark.java_gateway import launch_gateway

    with errors.pipe() as handle:
        return launch_gateway(conf, {"stderr": handle})


@contextlib.contextmanager
def _environment(java: Java) -> Iterator[None]:
    """Set variables that the Java process inherits, and restore them afterwards."""
    changes = {
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _ErrorOutput:
    """The Java process's error output: logged, with the last lines kept for error messages."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=40)
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """Yield the end that the process writes to; read the other one in a thread."""
        ours, theirs = os.pipe()
        stream = os.fdopen(ours, encoding="utf-8", errors="replace")
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()
        try:
            yield theirs
        finally:
            os.close(theirs)

    def _read(self, stream: IO[str]) -> None:
        logger = logging.getLogger("rxtemporal.spark.jvm")
        with stream:
            for line in stream:
                self._lines.append(line.strip())
                logger.debug("%s", line.rstrip())

    def tail(self) -> str:
        """Return the last lines, after waiting for pending output."""
        if self._reader is not None:
            self._reader.join(timeout=1)
        return " | ".join(list(self._lines)[-8:])
