"""A local Spark session with defaults: finds Java, sets the workers' Python, logs quietly."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import BindingError, JavaError
from rxtemporal.spark.jvm.java import Java, find_java, make_killed_error
from rxtemporal.spark.jvm.memory import driver_memory

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


# More cores than this do not make small micro-batches faster, and each one costs Python workers.
MOST_CORES = 8
# For runs of seconds only: Java starts faster, and Spark's own operators run at half their speed.
SHORT_RUN = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
# The state store that a stateful streaming query in Python needs.
STATE_STORE = (
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
_EVERYWHERE = {
    "spark.app.name": "rxtemporal",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Spark's own default of 100 keeps ten and more copies of a state; a restart needs the last
    "spark.sql.streaming.minBatchesToRetain": "10",
    **dict([STATE_STORE]),
}
# what a Java process has been started with; its own settings say it, and no session changes it
_OF_JAVA = {
    "spark.driver.memory",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
}
# spark-submit sets these for a session without a program, unless others are given
_OF_SHELL = {"spark.app.name": "pyspark-shell", "spark.ui.showConsoleProgress": "true"}


def is_local(master: str) -> bool:
    """Return True if Spark runs on this machine only."""
    return master.startswith("local")


def launch_variables() -> dict[str, str]:
    """Return defaults that are needed when the Java process starts, as environment variables.

    Spark reads variables last: its files, the arguments of spark-submit and settings win over them.
    """
    return {
        "MASTER": f"local[{_count_cores()}]",
        # Spark's own default is 1 GB on every machine
        "SPARK_DRIVER_MEMORY": driver_memory(),
    }


def merge_settings(outside: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new session.

    As everywhere in Spark, settings ``given`` in the program win over those from ``outside``:
    spark-submit's, and before them those of spark-defaults. Defaults fill in what is missing.
    Those for a local session are left out on a cluster: the driver's address and its paths mean
    nothing to other machines, and a cluster has its own number of partitions and file systems.
    """
    outside = {name: value for name, value in outside.items() if _OF_SHELL.get(name) != value}
    given = {name: value for name, value in given.items() if name not in _OF_JAVA}
    chosen = {**_EVERYWHERE, **outside, **given}
    return {**_local_defaults(), **chosen} if is_local(chosen["spark.master"]) else chosen


def _local_defaults() -> dict[str, str]:
    # Workers find this package where this process found it. What is installed they find anyway,
    # and site-packages on the path would confuse another Python.
    package = Path(__file__).resolve().parents[3]
    checkout = [] if package.name in ("site-packages", "dist-packages") else [str(package)]
    path = os.pathsep.join([*checkout, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(_count_cores()),
        # Spark's default runs the program readlink each time it renames a file on a disk, which
        # costs 100 ms and more a micro-batch. This renames at once, as atomically as the file
        # system does: on disks wholly.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing"
            ".FileSystemBasedCheckpointFileManager"
        ),
    }


def _count_cores() -> int:
    """Return how many cores a local session uses."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return min(cores, MOST_CORES)


log = get_logger(__name__)
# by this variable a program knows the Java process that spark-submit has started it from
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_starting = threading.RLock()
# the contexts that sinks have started for themselves
_of_sinks: weakref.WeakSet[SparkContext] = weakref.WeakSet()
# the settings that contexts were started with; Spark rewrites some: Java options, paths of jars
_given_at_start: weakref.WeakKeyDictionary[SparkContext, Mapping[str, str]]
_given_at_start = weakref.WeakKeyDictionary()


def session(**settings: Any) -> SparkSession:
    """Return the running Spark session, or start one in this process.

    A running session is returned as it is; the ``settings``, which are Spark's own, are applied to
    it if they can still change, and a warning names the others. Under ``spark-submit`` the session
    runs in its Java process, otherwise in a new one. As everywhere in Spark, ``settings`` win over
    those of ``spark-submit`` or ``PYSPARK_SUBMIT_ARGS``, and those over ``spark-defaults.conf``. If
    no master is named, the session is local. A session whose Java process has died is replaced.

    Starting takes 3 to 6 seconds. The Java process's error output goes to the logger
    ``rxtemporal.spark.jvm``. Its memory is a quarter of what this process may use, at least 1 GB
    and at most 4 GB, and is fixed at the start; set ``session(**{"spark.driver.memory": "8g"})`` or
    ``SPARK_DRIVER_MEMORY`` for another size. In a local session ``PYSPARK_PYTHON`` becomes this
    Python unless it is set.

    ``BindingError`` if pyspark is not installed or this process is a client of Spark Connect,
    ``JavaError`` if no Java runtime works or Spark does not start in it; if its process was killed
    while it started, ``killed`` is True, and another call may succeed.
    """
    require_pyspark()
    require_classic()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    given = {name: _to_text(value) for name, value in settings.items()}
    with _starting:
        _reset_dead_gateway()
        if SparkContext._active_spark_context is None:
            _start(given)
            _given_at_start[SparkContext._active_spark_context] = given
        running = SparkSession.builder.getOrCreate()
        _change_settings(running, given)
    return running


def is_session(given: Any) -> bool:
    """Return True for a session, False for None and for settings of one that is to be started."""
    return not (given is None or isinstance(given, Mapping))


def open_session(given: Any) -> SparkSession:
    """Return the session that a sink was given, or start one for it."""
    if is_session(given):
        return given
    require_pyspark()
    from pyspark import SparkContext

    with _starting:
        before = SparkContext._active_spark_context
        running = session(**(given or {}))
        if running.sparkContext is not before:
            _of_sinks.add(running.sparkContext)
    return running


def adopt_session(given: Any) -> Any:
    """Return the session that a sink has to use, or ``given`` if the sink may start its own.

    The program's session is where its other work runs, perhaps on a cluster, and there is one for
    a Java process of ``spark-submit``. A sink's own one would run elsewhere.
    """
    if is_session(given):
        return given
    if _SUBMITTED in os.environ:
        return session(**(given or {}))
    if given is None and "pyspark" in sys.modules:
        from pyspark import SparkContext

        with _starting:
            _reset_dead_gateway()
            running = SparkContext._active_spark_context
            if running is not None and running not in _of_sinks:
                return session()
    return given


def require_pyspark() -> None:
    """Raise ``BindingError`` if pyspark is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise BindingError(
            "Spark is not installed. Hint: pip install 'rxtemporal[spark,jre]', which brings "
            "pyspark and a Java runtime; or stay with to_polars()."
        ) from error


def is_connect(given: Any) -> bool:
    """Return True for a session or a DataFrame of Spark Connect."""
    return type(given).__module__.startswith("pyspark.sql.connect")


def require_classic() -> None:
    """Raise ``BindingError`` where pyspark would give a client of Spark Connect."""
    if remote := os.environ.get("SPARK_REMOTE"):
        raise BindingError(
            f"the variable SPARK_REMOTE ({remote}) makes every Spark session of this process a "
            "client of Spark Connect, and this one has to be classic. Hint: unset it; or use the "
            "client for run and for a SparkSink with mode='direct'."
        )
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise BindingError(
            "this process has a session of Spark Connect, beside which pyspark starts no classic "
            "one. Hint: use it for run and for a SparkSink with mode='direct', or use another "
            "process."
        )


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def _start(given: Mapping[str, str]) -> None:
    """Start a context, in the Java process that is there or in a new one."""
    from pyspark import SparkContext

    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if SparkContext._gateway is not None or _SUBMITTED in os.environ:
        SparkContext._ensure_initialized()
        _start_context(given)
        return
    java = find_java()
    errors = _ErrorOutput()
    try:
        SparkContext._ensure_initialized(gateway=_launch(given, java, errors))
        _start_context(given)
    except Exception as error:
        code = _wait_for_exit(error)
        _reset_dead_gateway()
        if code is not None and code < 0:
            raise make_killed_error(code) from error
        said = errors.tail()
        raise JavaError(
            f"Spark does not start with Java {java.version} at {java.home}: "
            f"{str(error).strip() or type(error).__name__}. It said: {said or 'nothing'} "
            "Hint: choose another Java with RXTEMPORAL_JAVA (packaged, system or a Java home)."
        ) from error


def _wait_for_exit(error: BaseException) -> int | None:
    """Return the code with which the Java process ended that has not started; None if it runs.

    pyspark keeps a process that does not answer in a variable of the function that launches it.
    """
    from pyspark import SparkContext

    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    launched = [frame.f_locals["proc"] for frame in frames if "proc" in frame.f_locals]
    process = getattr(SparkContext._gateway, "proc", *launched[-1:] or [None])
    if not isinstance(process, subprocess.Popen):
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)  # the connection breaks a moment before the process ends
    return process.poll()


def _start_context(given: Mapping[str, str]) -> None:
    """Start a context with the settings of its Java process, of the program, and defaults."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(_jvm=SparkContext._jvm)
    settings = merge_settings(dict(conf.getAll()), given)
    conf.setAll(list(settings.items()))
    master = settings["spark.master"]
    if is_local(master):  # on a cluster, paths of this machine mean nothing
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext(conf=conf)
    log.info("spark.started", master=master)


def _change_settings(running: SparkSession, given: Mapping[str, str]) -> None:
    """Apply settings to a session; warn about those that can no longer change."""
    from pyspark.errors import AnalysisException

    fixed = []
    at_start = _given_at_start.get(running.sparkContext, {})
    for name, value in given.items():
        if running.conf.get(name, None) != value:
            try:
                running.conf.set(name, value)
            except AnalysisException:
                if at_start.get(name) != value:
                    fixed.append(name)
    if fixed:
        log.warning(
            "spark.settings_ignored",
            settings=fixed,
            hint="they are fixed when Spark starts: give them to spark-submit with --conf, or "
            "write them into spark-defaults.conf",
        )


def _launch(given: Mapping[str, str], java: Java, errors: _ErrorOutput) -> Any:
    """Launch a Java process: on the loopback device, unless Spark was given a cluster."""
    from pyspark import SparkConf

    variables = {**_find_unset(launch_variables()), "JAVA_HOME": str(java.home)}
    loopback = _find_unset({"SPARK_LOCAL_IP": "127.0.0.1"})
    gateway = _launch_with(given, {**variables, **loopback}, errors)
    if not loopback or is_local(SparkConf(_jvm=gateway.jvm).get("spark.master")):
        return gateway
    # only now the master is known; executors on other machines have to reach this process
    gateway.shutdown()
    gateway.proc.stdin.close()
    return _launch_with(given, variables, errors)


def _find_unset(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not os.environ.get(name)}


def _launch_with(
    given: Mapping[str, str], variables: Mapping[str, str], errors: _ErrorOutput
) -> Any:
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(given.items()))
    with _environment(variables), errors.pipe() as handle:
        return launch_gateway(conf, {"stderr": handle})


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that the Java process inherits, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
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
