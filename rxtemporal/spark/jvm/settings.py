"""Settings of a Spark session: those that Spark was given win over the defaults here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rxtemporal.spark.jvm.memory import driver_memory

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
