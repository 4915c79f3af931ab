"""``rxtemporal serve``: what is served, with which settings, and mistakes in both."""

from __future__ import annotations

import socket
import tomllib
from pathlib import Path

import pytest
from service_process import write_house

from rxtemporal.cli.main import main
from rxtemporal.serve import Settings
from rxtemporal.serve.tokens import hash_token


@pytest.fixture
def house(tmp_path: Path) -> str:
    """The path of a file with an application."""
    return write_house(tmp_path).removesuffix(":app")


def test_check_prints_the_effective_settings(
    house: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options stand above the file, which stands above the defaults; no hash is shown."""
    config = tmp_path / "serve.toml"
    digest = hash_token("secret")
    config.write_text(
        f'[server]\nport = 1\nkeep_alive = 7\n[tokens.a]\nhash = "{digest}"\nread = true\n'
    )
    arguments = ["serve", f"{house}:make", "--config", str(config), "--port", "8123", "--check"]
    assert main([*arguments, "--state", "there"]) == 0
    text = capsys.readouterr().out
    assert digest not in text
    assert "# stream readings\n# query totals\n" in text
    table = tomllib.loads(text)
    assert (table["server"]["port"], table["server"]["keep_alive"]) == (8123, 7.0)
    assert (table["state"]["folder"], table["tokens"]["a"]["read"]) == ("there", True)


def test_the_demonstration_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """The house of the demonstration has its stream and its query."""
    assert main(["serve", "--demo", "--no-devices", "--port", "8123", "--check"]) == 0
    assert "# stream readings\n# query by_device\n" in capsys.readouterr().out


def test_a_new_token_is_shown_once_and_hashed(capsys: pytest.CaptureFixture[str]) -> None:
    """The token is on standard error, and its section is one that the settings take."""
    assert main(["serve", "--new-token", "device 7"]) == 0
    shown = capsys.readouterr()
    token = shown.err.rpartition(" ")[2].strip()
    assert token not in shown.out
    rights = Settings.parse(tomllib.loads(shown.out)).tokens["device 7"]
    assert rights.hash == hash_token(token)
    assert (rights.write, rights.read) == (("*",), False)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (":nothing", "is not an application, but 4"),
        (":missing", "has no name 'missing'. Hint: its applications are"),
        ("", "serve takes FILE.py:NAME or MODULE:NAME"),
        (":query", "cannot be called without arguments: missing a required argument: 'readings'."),
    ],
)
def test_what_is_no_application_is_refused(
    house: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name of something else is told, and the exit status is 1."""
    assert main(["serve", house + name, "--check"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "serve takes an application or --demo"),
        (["house:app", "--demo"], "serve takes an application or --demo"),
        (["missing_module:app"], "there is no module 'missing_module'"),
        (["missing.py:app"], "there is no file missing.py"),
        (["--demo", "--host", "0.0.0.0"], "without tokens a service listens on this machine"),
        (["--demo", "--host", "0.0.0.0", "--check"], "without tokens a service listens"),
        (["--demo", "--port", "70000"], "[server] port is at most 65535"),
        (["--demo", "--config", "missing.toml"], "missing.toml"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake has a line on standard error, and the exit status is 1."""
    assert main(["serve", *arguments]) == 1
    assert words in capsys.readouterr().err


def test_a_token_for_a_stream_that_there_is_not_is_refused(
    house: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is misspelt shows before a sender gets 403; a pattern may mean later streams."""
    config = tmp_path / "serve.toml"
    for streams, status in (('"readngs"', 1), ('"readings", "x*"', 0)):
        config.write_text(f'[tokens.a]\nhash = "{hash_token("x")}"\nwrite = [{streams}]\n')
        assert main(["serve", f"{house}:app", "--config", str(config), "--check"]) == status
    error = capsys.readouterr().err
    assert "[tokens.a] write names stream 'readngs'" in error
    assert "the streams are 'readings'" in error


def test_devices_are_those_of_the_demonstration(
    house: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--no-devices`` has no meaning elsewhere."""
    assert main(["serve", f"{house}:app", "--no-devices"]) == 1
    assert "--no-devices is for --demo" in capsys.readouterr().err


def test_an_error_of_the_file_names_its_line(
    house: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exception of the user's own code is one line, with the place where it was raised."""
    assert main(["serve", f"{house}:fail"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{house}:" in line
    assert "in fail: ValueError('this application cannot be made')" in line


def test_a_port_in_use_is_told(house: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A port that another process has is an error with a hint, and nothing has begun."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", f"{house}:app", "--port", port]) == 1
    assert "another service may have the port" in capsys.readouterr().err
