"""Make the archive of classes that Spark starts from, before tests start it dozens of times."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from feeding import batches, feed, until
from job import QUICK, sink

from rxtemporal.errors import RxTemporalError
from rxtemporal.spark.jvm.classes import archive_options
from rxtemporal.spark.jvm.home import spark_home
from rxtemporal.spark.jvm.java import find_java
from rxtemporal.spark.jvm.session import require_pyspark


def is_there() -> bool:
    """Whether Spark starts from an archive."""
    home = spark_home("local[2]")
    return home is None or bool(archive_options(find_java(), home, whole=False))


def main() -> None:
    """Run a query and wait until its Java process has written down what it has loaded."""
    try:
        require_pyspark()
        find_java()
    except RxTemporalError as error:
        print(error)
        return
    if is_there():
        return
    os.environ["RXTEMPORAL_CLASS_ARCHIVE"] = "make"
    with tempfile.TemporaryDirectory() as folder:
        feed(sink(Path(folder), session={"spark.master": "local[2]", **QUICK}), batches(5))
    until(is_there, 120)


if __name__ == "__main__":
    main()
