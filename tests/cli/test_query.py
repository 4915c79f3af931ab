"""``rxtemporal query``, ``explain`` and ``completion``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import rxtemporal as rxt
from rxtemporal.cli.main import main


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("room.csv").write_text("time,x\n1,10\n4,20\n7,30\n", "utf-8")
    Path("hall.csv").write_text("time,x\n2,1\n", "utf-8")
    Path("q.py").write_text(
        "import rxtemporal as rxt\nfrom rxtemporal import agg\n"
        "def counts(room):\n    return room.tumbling_window(5).aggregate(n=agg.count())\n"
        "fixed = rxt.from_events([], schema={'x': int}, name='fixed').to_point_events()\n"
        "house = rxt.Application('house')\nhouse.query('fixed', fixed)\n",
        "utf-8",
    )


def query(*arguments: str) -> int:
    """Look at files whose numbers are ticks."""
    return main(["query", *arguments, "--unit", "ticks"])


def test_the_first_rows_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """As many as are asked for, and the number of the others."""
    assert query("room.csv", "--rows", "2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "start_time  end_time      x",
        "     ticks     ticks  Int64",
        "         1         2     10",
        "         4         5     20",
        "… 1 more row",
    ]


def test_a_file_with_another_separator(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option, and the option reads the file."""
    Path("semi.csv").write_text("t;x\n1;5\n", "utf-8")
    assert query("semi.csv", "--start", "t") != 0
    assert "separated by ';': --separator ';' reads them" in capsys.readouterr().err
    assert query("semi.csv", "--start", "t", "--separator", ";") == 0
    assert "1         2      5" in capsys.readouterr().out
    Path("tabs.csv").write_text("t\tx\n1\t5\n", "utf-8")
    assert query("tabs.csv", "--start", "t", "--separator", "\\t") == 0
    Path("lines.json").write_text('{"t": 1, "x": 5}\n', "utf-8")
    assert query("lines.json", "--start", "t", "--separator", ";") != 0
    assert "--separator is for .csv files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "expression",
    [
        "room.union(hall).tumbling_window(5).aggregate(n=agg.count())",
        "room.union(hall).tumbling_window(5).aggregate(n=agg.expr(pl.len()))",
        "room.where(col('x') > 0).union(hall).tumbling_window(5).aggregate(n=rxt.agg.count())",
    ],
)
def test_an_expression_over_files(expression: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each stream has the name of its file."""
    assert query("room.csv", "hall.csv", expression) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    header = [["start_time", "end_time", "n"], ["ticks", "ticks", "Int64"]]
    assert lines == [*header, ["0", "5", "3"], ["5", "10", "1"]]


def test_a_single_stream_is_called_stream(capsys: pytest.CaptureFixture[str]) -> None:
    """A recording's, too."""
    with rxt.from_events([rxt.PointEvent(4, {"x": 1})], name="a b").run(
        rxt.Collect(), record="recording"
    ):
        pass
    for expression in "stream.select('x')", "a_b.select('x')":
        assert main(["query", "recording", expression]) == 0
        assert "4         5      1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["room.csv", "hall.csv"], "there are 2 streams: room, hall. Hint: end with an expression"),
        (["room.csv", "room.where("], "cannot read the expression 'room.where('"),
        (["room.csv", "rooms"], "name 'rooms' is not defined. Did you mean: 'room'?"),
        (["room.csv", "room.tumbling_window(5)"], "has to give a stream"),
        (["room.csv", "room.nothing()"], "<expression>:1, in <module>: AttributeError"),
        (["room.csv", "none.csv"], "there is no recording or file none.csv"),
        (["none.csv"], "there is no recording or file none.csv"),
    ],
)
def test_what_is_no_query_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With status 1."""
    assert query(*arguments) == 1
    error = capsys.readouterr().err
    assert message.partition(". Did")[0] in error
    assert error.count("\n") == 1


def test_a_plan_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a function with streams of unknown fields, over files, and of a stream."""
    assert main(["explain", "q.py:counts"]) == 0
    assert "source 'room': fields known from its first event" in capsys.readouterr().out
    assert main(["explain", "q.py:counts", "--input", "room.csv", "--unit", "ticks"]) == 0
    assert "x Int64" in capsys.readouterr().out
    assert main(["explain", "q.py:fixed"]) == 0
    assert capsys.readouterr().out.startswith("to_point_events: x Int64\n")
    assert main(["explain", "q.py:house"]) == 0
    assert capsys.readouterr().out.startswith("fixed:\nto_point_events: x Int64\n")
    assert main(["explain", "q.py:agg"]) == 1


def list_words(line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    script = f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _shtab_rxtemporal; "
    out = subprocess.run(
        ["bash", "-c", 'source script.sh; ' + script + 'printf "%s\\n" "${COMPREPLY[@]}"'],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return out.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, options, the words that an option takes, and files."""
    assert main(["completion", "bash"]) == 0
    Path("script.sh").write_text(capsys.readouterr().out, "utf-8")
    assert list_words("rxtemporal re") == ["replay", "rehearse"]
    assert list_words("rxtemporal replay --del") == ["--delay"]
    assert list_words("rxtemporal replay --unit ") == ["s", "ms", "us", "ns", "ticks"]
    assert list_words("rxtemporal completion z") == ["zsh"]
    assert list_words("rxtemporal replay roo") == ["room.csv"]
    assert list_words("rxtemporal replay --unit s roo") == ["room.csv"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And all their options."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in ("query", "replay", "explain", "rehearse", "inspect", "serve", "completion"):
        assert name in script
    assert "time-zone" in script


@pytest.mark.parametrize("position", range(3))
def test_options_stand_before_between_or_behind_paths(
    position: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order of a file, an expression and the options does not matter."""
    arguments = ["room.csv", "room.where(col('x') > 20)"]
    arguments[position:position] = ["--unit", "ticks"]
    assert main(["query", *arguments]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["         7         8     30"]


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Only paths may stand behind options."""
    with pytest.raises(SystemExit):
        query("room.csv", "--unknown", "room")
    assert "unrecognized arguments: --unknown room\n" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        query("room.csv", "--timezone", "UTC")
    assert "--timezone UTC. Hint: did you mean --time-zone?" in capsys.readouterr().err


def test_an_expression_without_its_stream_is_told_how_to_begin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An operator belongs to a stream."""
    assert query("room.csv", "where(col('x') > 20)") == 1
    assert "Hint: begin with a stream: room.where(…)." in capsys.readouterr().err
