"""Messages of the command line: once, in one line, with the options to give."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rxtemporal.cli.main import main
from rxtemporal.cli.messages import describe_error_of_user

QUERIES = """
import polars as pl

def same(rows):
    return rows

def broken(rows):
    return rows.where(lambda row: row["y"] > 1)

def wrong(rows):
    raise ValueError("no idea")
"""
FILES = {
    "naive.csv": "time,x\n2026-01-01 00:00:00,1\n",
    "numbers.csv": "time,x\n1767225600,1\n",
    "days.csv": "time,x\n01.02.2026,1\n",
    "fine.csv": "time,x\n2026-01-01T00:00:00Z,1\n",
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.py").write_text(QUERIES, "utf-8")
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["naive.csv"], "Hint: --time-zone UTC, or the zone"),
        (["numbers.csv"], "Hint: --unit s makes 1767225600 the time"),
        (["days.csv"], "Write the year first (ISO 8601)."),
        (["naive.csv", "--time-zone", "Mars"], "there is no zone 'Mars'"),
        (["fine.csv", "--ambiguous", "latest"], "for example --time-zone Europe/Berlin"),
        (["fine.csv", "--out", "nowhere/out.csv"], "at nowhere. Hint"),
    ],
)
def test_the_mend_is_an_option(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a call of polars or an argument of a function, and the file is the one that was named."""
    assert main(["replay", *arguments, "--query", "q.py:same"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("rxtemporal: ") == 1
    for argument in ("time_zone=", "unit=", "ambiguous=", "rxt.", ".part"):
        assert argument not in error


@pytest.mark.parametrize(
    ("query", "message"),
    [("broken", "in <lambda>: KeyError('y') (in where, composed at"), ("wrong", "ValueError('no")],
)
def test_an_error_of_the_query_is_one_line_and_told_once(
    query: str, message: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It names the line of the user's file; -v shows the traceback."""
    assert main(["replay", "fine.csv", "--query", f"q.py:{query}"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "q.py:" in error
    assert message in error
    assert "-v shows the traceback" in error
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    with pytest.raises((KeyError, ValueError)):
        main(["replay", "-v", "fine.csv", "--query", f"q.py:{query}"])


def test_the_line_of_an_error_is_not_in_a_compiled_module() -> None:
    """Their frames name files of the machine that built them."""

    def fail() -> None:
        int("x")

    fail.__code__ = fail.__code__.replace(co_filename="uvloop/loop.pyx")
    with pytest.raises(ValueError, match="invalid literal") as caught:
        fail()
    said = describe_error_of_user(caught.value)
    assert said is not None
    assert "test_messages.py:" in said


def test_an_error_of_the_package_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a mistake of the user."""

    def fail(*arguments: object) -> None:
        int("x")

    fail.__code__ = fail.__code__.replace(co_filename=main.__code__.co_filename)
    monkeypatch.setattr("rxtemporal.cli.inputs.open_streams", fail)
    with pytest.raises(ValueError, match="invalid literal"):
        main(["replay", "fine.csv", "--query", "q.py:same"])


@pytest.mark.parametrize(
    ("delay", "late"), [("2m", 1), ("0h3m", 0), ("120", 1), ("180.0", 0), ("180s", 0)]
)
def test_a_delay_is_a_span(delay: str, late: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Of numbers with units; a number alone is seconds."""
    Path("late.csv").write_text(
        "time,x\n2026-01-01T00:03:00Z,1\n2026-01-01T00:00:00Z,2\n", encoding="utf-8"
    )
    assert main(["replay", "late.csv", "--query", "q.py:same", "--delay", delay]) == 0
    error = capsys.readouterr().err
    told = "late.csv: 1 of 2 late; a delay of 3 min would have lost nothing" in error
    assert told is bool(late)


@pytest.mark.parametrize("delay", ["5x", "-1", "-5m", "nan", "inf", ""])
def test_what_is_no_delay_is_refused(delay: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the units that there are."""
    with pytest.raises(SystemExit):
        main(["replay", "fine.csv", "--query", "q.py:same", f"--delay={delay}"])
    assert "argument --delay: " in capsys.readouterr().err


def test_an_interrupt_ends_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 130 and no traceback, also while a module is loaded."""

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rxtemporal.cli.inputs.find_query", interrupt)
    assert main(["replay", "fine.csv", "--query", "q.py:same"]) == 130
    assert main(["explain", "q.py:same"]) == 130


def test_ctrl_c_ends_a_slow_replay(tmp_path: Path) -> None:
    """Also while it waits for the time of an event that is hours away."""
    Path("slow.csv").write_text(
        "time,x\n2026-01-01T00:00:00Z,1\n2026-01-01T09:00:00Z,2\n", encoding="utf-8"
    )
    Path("w.py").write_text(
        "from pathlib import Path\n\ndef waits(slow):\n"
        "    return slow.where(lambda row: Path('reached').touch() or True)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "rxtemporal", "replay", "slow.csv", "--query", "w.py:waits"]
    with subprocess.Popen(
        [*command, "--speed", "1", "--delay", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            for _ in range(600):
                if Path("reached").exists() or child.poll() is not None:
                    break
                time.sleep(0.1)
            child.send_signal(signal.SIGINT)
            _, error = child.communicate(timeout=60)
        finally:
            child.terminate()
    assert child.returncode == 130, error
    assert " events in, none late, " in error
    assert "Traceback" not in error
