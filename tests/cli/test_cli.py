"""The command line, called in this process."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rxtemporal.cli.main import main
from rxtemporal.text.findings import Finding


def test_demo_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary names each source's late events, every fate, the table and the picture."""
    pytest.importorskip("matplotlib", reason="the picture needs the plots extra")
    assert main(["demo", "--no-spark", "--fast", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    rows = pl.read_parquet(tmp_path / "departures.parquet").height
    for expected in ("9,655", "26,483", "26,398 landed, 85 diverted, 521 cancelled", f"{rows:,}"):
        assert expected in printed
    assert "the end of time" in printed
    assert "airborne.png" in printed
    # without a terminal, a line for each thing that is waited for
    assert "drawing one day's airborne flights …\n" in printed


def test_demo_can_be_slow(tmp_path: Path) -> None:
    """With a rate that is never reached the result is the same."""
    pytest.importorskip("matplotlib", reason="the picture needs the plots extra")
    assert main(["demo", "--no-spark", "--rate", "1e9", "--out", str(tmp_path)]) == 0


def test_interrupt_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends with status 130 and says what is kept, with Spark and without."""

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rxtemporal.cli.demo.main.demo", interrupted)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert "continues from there" in capsys.readouterr().out
    assert main(["demo", "--no-spark"]) == 130
    assert "nothing is kept" in capsys.readouterr().out


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error is one line on standard error, and the status is 1."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert main(["demo", "--no-spark", "--out", str(tmp_path / "file" / "below")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rxtemporal: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(("ok", "status"), [(True, 0), (False, 1)])
def test_doctor_prints_findings(
    ok: bool, status: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finding is a line, advice follows what is bad, the status says whether all is well."""
    found = [Finding("Java", ok, "17 at home", "install one")]
    monkeypatch.setattr("rxtemporal.cli.doctor.examine", lambda path: found)
    assert main(["doctor"]) == status
    printed = capsys.readouterr().out
    assert "17 at home" in printed
    assert ("install one" in printed) is not ok


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """``rxtemporal`` without arguments lists the commands and is not an error."""
    assert main([]) == 0
    assert "replay" in capsys.readouterr().out
