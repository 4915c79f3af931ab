"""The doctor finds what is missing, what is damaged, and says what to do."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import polars as pl
import pytest

from rxtemporal.cli import doctor
from rxtemporal.cli.doctor import examine
from rxtemporal.cli.main import main
from rxtemporal.core.batch import EventBatch
from rxtemporal.storage.segments import Spool
from rxtemporal.text.findings import Finding

SCHEMA = pl.Schema({"x": pl.Int64()})


def named(findings: list[Finding], name: str) -> Finding:
    """The finding about something."""
    return next(finding for finding in findings if finding.name == name)


def spool(path: Path, segments: int = 3) -> None:
    """A spool with some segments."""
    with Spool.open(path, "q", SCHEMA) as writer:
        for number in range(segments):
            row = {"start_time": number, "x": 1}
            writer.append(EventBatch.from_dicts([row], schema=SCHEMA, cti=number + 1))


def test_a_finding_has_advice_just_where_it_is_bad(tmp_path: Path) -> None:
    """A finding has advice if, and only if, it is not well, on any machine."""
    for finding in examine(tmp_path):
        assert finding.ok == (finding.advice == ""), finding
        assert finding.detail


def test_missing_packages_and_java_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package or a wrong version is reported with the command that installs it."""

    def versions(name: str) -> str:
        if name == "pandas":
            return "3.0.1"
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", versions)
    monkeypatch.setenv("RXTEMPORAL_JAVA", "/nowhere")
    findings = examine()
    assert not named(findings, "pyspark").ok
    assert "pip install" in named(findings, "pyspark").advice
    assert named(findings, "pandas").detail == "3.0.1; Spark needs >= 2.2 and < 3"
    assert "/nowhere/bin/java" in named(findings, "Java").detail
    assert "pip install" in named(findings, "Java").advice


def test_a_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little space, or a path that is not a folder, is told before a run needs it."""
    assert named(examine(tmp_path / "later" / "sink"), "disk").ok
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda path: usage._replace(free=1 << 20))
        assert "free some space" in named(examine(tmp_path), "disk").advice
        patch.setattr("os.access", lambda path, mode: False)
        assert "cannot be written" in named(examine(tmp_path), "disk").detail
    (tmp_path / "file").write_bytes(b"")
    assert "is a file" in named(examine(tmp_path / "file" / "sink"), "disk").detail


@pytest.mark.parametrize("below", ["", "spool"])
def test_a_spool_is_described(tmp_path: Path, below: str) -> None:
    """The path of a sink and that of a spool both show segments, place and CTI."""
    spool(tmp_path / below)
    findings = examine(tmp_path)
    detail = "query 'q', 3 waiting, last 3, CTI 3"
    assert named(findings, "spool") == Finding("spool", True, detail)
    assert named(findings, "segments").detail == "3 verified, 3 rows wait for Spark"
    assert named(findings, "checkpoint").ok


def test_no_spool_is_no_fault(tmp_path: Path) -> None:
    """A path that nothing has used yet is fine, and so is a spool without segments."""
    assert named(examine(tmp_path / "new"), "spool").ok
    spool(tmp_path / "spool", 0)
    assert "CTI none yet" in named(examine(tmp_path), "spool").detail


def test_damaged_segments_are_counted(tmp_path: Path) -> None:
    """Each segment whose checksum fails counts, and the first is named."""
    spool(tmp_path / "spool")
    for number in (2, 3):
        path = tmp_path / "spool" / f"{number:012d}.arrow"
        path.write_bytes(path.read_bytes()[:-1])
    finding = named(examine(tmp_path), "segments")
    assert finding.detail.startswith("2 damaged; ")
    assert "000000000002.arrow is torn" in finding.detail
    assert "Restore it" in finding.advice


def test_a_header_that_is_none_is_found(tmp_path: Path) -> None:
    """A folder whose ``spool.json`` is damaged is told as it is."""
    spool(tmp_path / "spool")
    (tmp_path / "spool" / "spool.json").write_bytes(b"{}")
    assert "damaged" in named(examine(tmp_path), "spool").detail


def test_a_checkpoint_ahead_is_found(tmp_path: Path) -> None:
    """A checkpoint that has read more than the spool ever had is told before a run is refused."""
    spool(tmp_path / "spool")
    for kind in ("offsets", "commits"):
        (tmp_path / "checkpoint" / kind).mkdir(parents=True)
        (tmp_path / "checkpoint" / kind / "0").write_bytes(b'v1\n{}\n{"segment": 8}')
    for path in (tmp_path, tmp_path / "spool"):
        finding = named(examine(path), "checkpoint")
        assert "up to segment 8, and the spool ends at 3" in finding.detail
    (tmp_path / "checkpoint" / "offsets" / "0").write_bytes(b"v1")
    assert "damaged" in named(examine(tmp_path), "checkpoint").detail


def test_optional_extras_are_not_bad(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Spark, Java and the other extras all is well, unless there is a folder for Spark."""

    def versions(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", versions)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setenv("RXTEMPORAL_JAVA", "/nowhere")
    assert not any(finding.bad for finding in examine())
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "BAD" not in printed
    assert "if you need it: pip install 'rxtemporal[kafka]'" in printed
    assert main(["doctor", str(tmp_path)]) == 1
    assert "BAD  pyspark" in capsys.readouterr().out
