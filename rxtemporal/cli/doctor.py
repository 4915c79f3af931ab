"""The command ``doctor``: checks of a machine and of a spool, each with advice."""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from rxtemporal.core.ticks import describe
from rxtemporal.errors import JavaError, SpoolError
from rxtemporal.spark.jvm.java import find_java
from rxtemporal.spark.sink.checkpoint import committed_segment
from rxtemporal.storage.segments import SegmentFolder
from rxtemporal.text.findings import Finding

# versions for Spark, as in the extra `spark` of setup.cfg: lowest allowed, first not allowed
_PACKAGES = {
    "pyspark": ((4, 3), (4, 4)),
    "pyarrow": ((18,), None),
    "pandas": ((2, 2), (3,)),
    "protobuf": ((6, 33, 5), None),
}
_INSTALL = "pip install 'rxtemporal[spark,jre]'"
LEAST_FREE = 1 << 30
# other extras: a module of each, and its purpose
_EXTRAS = {
    "json": ("msgspec", "faster JSON lines"),
    "serve": ("starlette", "HTTP"),
    "mqtt": ("paho", "MQTT"),
    "kafka": ("confluent_kafka", "Kafka"),
    "database": ("psycopg", "tables of PostgreSQL"),
    "delta": ("deltalake", "Delta tables"),
    "iceberg": ("pyiceberg", "Iceberg tables"),
    "otel": ("opentelemetry", "OpenTelemetry"),
    "plots": ("matplotlib", "pictures"),
}


def examine(path: Path | None = None) -> list[Finding]:
    """Check Python, the extras and Java; with ``path`` also the disk and the spool there.

    ``path`` is the folder of a ``SparkSink`` or of a spool; without it Spark and Java are optional.
    Every segment that waits for Spark is read and verified. The function changes nothing, does not
    start Spark (but runs ``java -version``), and raises nothing: problems are findings.

    >>> [finding.name for finding in examine()][:2]
    ['Python', 'pyspark']
    """
    spark = [*(_check_package(name) for name in _PACKAGES), _check_java()]
    if path is None:
        spark = [each if each.ok else _make_optional(each) for each in spark]
    findings = [_check_python(), *spark, *(_check_extra(name) for name in _EXTRAS)]
    if path is not None:
        findings += [_check_disk(path), *_check_spool(path)]
    return findings


def _make_optional(finding: Finding) -> Finding:
    """Return a finding about something that only some users need."""
    advice = f"if you need it: {finding.advice}"
    return dataclasses.replace(finding, optional=True, advice=advice)


def _check_extra(name: str) -> Finding:
    """Return a finding that says if the packages of an extra can be imported."""
    module, purpose = _EXTRAS[name]
    if find_spec(module) is not None:
        return Finding(name, True, f"{purpose}: installed")
    advice = f"pip install 'rxtemporal[{name}]'"
    return _make_optional(Finding(name, False, f"{purpose}: not installed", advice))


def _check_python() -> Finding:
    ok = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()} at {sys.executable}"
    return Finding("Python", ok, detail, "" if ok else "install Python 3.11 or newer")


def _check_package(name: str) -> Finding:
    least, below = _PACKAGES[name]
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, False, "not installed; needed for Spark only", _INSTALL)
    number = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
    if number < least or (below is not None and number >= below):
        limit = f">= {_format_version(least)}" + (
            f" and < {_format_version(below)}" if below else ""
        )
        return Finding(name, False, f"{found}; Spark needs {limit}", _INSTALL)
    return Finding(name, True, found)


def _format_version(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))


def _check_java() -> Finding:
    try:
        java = find_java()
    except JavaError as error:
        detail, _, advice = str(error).partition(" Hint: ")
        return Finding("Java", False, detail, advice)
    return Finding("Java", True, f"{java.version} at {java.home} ({java.kind})")


def _check_disk(path: Path) -> Finding:
    place = path.absolute()
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return Finding("disk", False, f"{place} is a file", "choose a path that is a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(
            "disk",
            False,
            f"{place} cannot be written",
            "get permission to write, or choose another path",
        )
    free = shutil.disk_usage(place).free
    ok = free >= LEAST_FREE
    advice = "" if ok else "free some space: rows that wait for Spark are kept there"
    return Finding("disk", ok, f"{free / (1 << 30):.1f} GiB free at {place}", advice)


def _check_spool(path: Path) -> Iterator[Finding]:
    """Check the spool at a path, or in the folder ``spool`` below it."""
    place = path if os.path.exists(path / "spool.json") else path / "spool"
    if not place.is_dir():
        yield Finding("spool", True, f"none at {path} yet")
        return
    folder = SegmentFolder(place)
    try:
        header = folder.header()
        mark, last = folder.bounds()
        cti = describe(folder.describe(last).cti) if last else "none yet"
        detail = f"query {header['query']!r}, {last - mark} waiting, last {last}, CTI {cti}"
        yield Finding("spool", True, detail)
        yield _check_contents(folder, mark, last)
        yield _check_position(place.parent / "checkpoint", mark, last)
    except SpoolError as error:
        yield _report_error("spool", error)


def _check_contents(folder: SegmentFolder, mark: int, last: int) -> Finding:
    """Verify the segments that wait; report the number of damaged ones, and the first."""
    errors: list[SpoolError] = []
    rows = 0
    for number in range(mark + 1, last + 1):
        try:
            folder.content(number)
            rows += folder.describe(number).rows
        except SpoolError as error:
            # a running Spark may have deleted it meanwhile
            if number > folder.bounds()[0]:
                errors.append(error)
    if errors:
        first = _report_error("segments", errors[0])
        return dataclasses.replace(first, detail=f"{len(errors)} damaged; {first.detail}")
    return Finding("segments", True, f"{last - mark} verified, {rows} rows wait for Spark")


def _check_position(checkpoint: Path, mark: int, last: int) -> Finding:
    """Compare Spark's checkpoint with the spool."""
    try:
        committed = max(mark, committed_segment(checkpoint))
    except SpoolError as error:
        return _report_error("checkpoint", error)
    if committed > last:
        detail = f"Spark has read up to segment {committed}, and the spool ends at {last}"
        advice = f"checkpoint and spool do not belong together: delete {checkpoint}"
        return Finding("checkpoint", False, detail, advice)
    return Finding("checkpoint", True, f"Spark has committed segment {committed} of {last}")


def _report_error(name: str, error: SpoolError) -> Finding:
    detail, _, advice = str(error).partition(" Hint: ")
    return Finding(name, False, detail, advice)


DESCRIPTION = (
    "Checks what a run needs: Python, packages, Java and, if PATH is given, the "
    "disk and the spool there. Says what to do about each problem. Spark and the other extras "
    "are optional; with PATH Spark is not."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("path", type=Path, nargs="?", metavar="PATH", help="path of a SparkSink")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    findings = examine(options.path)
    for finding in findings:
        print(finding)
    return 1 if any(finding.bad for finding in findings) else 0
