"""Settings of a service: what a file may say, and how a mistake in it is told."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rxtemporal.errors import ArgumentError
from rxtemporal.serve import Settings
from rxtemporal.serve.settings import Limits, ServerSettings, TokenSettings
from rxtemporal.serve.tokens import hash_token

HASH = "sha256:" + "0123456789abcdef" * 4
FILE = f"""
[server]
port = 8123
proxies = ["10.0.0.1"]

[state]
folder = "state"
restart_after = 2

[limits]
ahead = "off"

[tokens."device 7"]
hash = "{HASH}"
write = ["readings"]
rate = 100
"""


def load(path: Path, text: str) -> Settings:
    """Settings from a file with this text."""
    file = path / "serve.toml"
    file.write_text(text, "utf-8")
    return Settings.load(file)


def test_a_file_has_the_values_that_it_names(tmp_path: Path) -> None:
    """The values of a file are the settings, in their types; the others have their defaults."""
    settings = load(tmp_path, FILE)
    assert settings.server == ServerSettings(port=8123, proxies=("10.0.0.1",))
    assert (settings.state.folder, settings.state.restart_after) == (Path("state"), 2.0)
    assert settings.limits == Limits(ahead=None)
    assert settings.tokens == {
        "device 7": TokenSettings(hash=HASH, write=("readings",), rate=100.0)
    }


def test_a_description_is_such_a_file_without_its_secrets(tmp_path: Path) -> None:
    """What is described is read again as the settings in effect, but for the hash of a token."""
    settings = load(tmp_path, FILE)
    text = settings.describe()
    assert HASH not in text
    table = tomllib.loads(text)
    assert table["tokens"]["device 7"].pop("hash") == "(hidden)"
    table["tokens"]["device 7"]["hash"] = HASH
    effective = settings.change("dead_letters", folder=Path("state", "dead-letters"))
    assert Settings.parse(table) == effective


def test_a_sink_is_described_without_its_secrets(tmp_path: Path) -> None:
    """An address of a database and headers may have passwords."""
    text = (
        "[queries.a.sink]\nkind = 'postgres'\ndsn = 'password=x'\ntable = 't'\nkey = ['a', 'b']\n"
    )
    settings = load(tmp_path, text + "[queries.b.sink]\nkind = 'http'\nurl = 'http://a'\n")
    assert repr(settings.queries["a"].make()) == "PostgresTable('t')"
    described = tomllib.loads(settings.describe())["queries"]
    assert described == {
        "a": {"sink": {"kind": "postgres", "dsn": "(hidden)", "table": "t", "key": ["a", "b"]}},
        "b": {"sink": {"kind": "http", "url": "http://a"}},
    }


def test_dead_letters_are_in_the_folder_of_the_state_unless_another_is_named() -> None:
    """Without either there is no folder for them."""
    state = Settings().change("state", folder=Path("state"))
    assert Settings().locate_dead_letters().folder is None
    assert state.locate_dead_letters().folder == Path("state", "dead-letters")
    named = state.change("dead_letters", folder=Path("refused"))
    assert named.locate_dead_letters().folder == Path("refused")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nporf = 1", "[server] has no key 'porf'. Hint: did you mean port? Its keys are"),
        ("[server]\nzzz = 1", "[server] has no key 'zzz'. Hint: its keys are host, port"),
        ("[sever]\nport = 1", "no section [sever]. Hint: did you mean [server]? There are server,"),
        ("[zzz]\nport = 1", "there is no section [zzz]. Hint: there are server, ingest"),
        ("port = 1", "key 'port' is in no section. Hint: write [server] in the line above it."),
        ("zzz = 1", "the key 'zzz' is in no section. Hint: rxtemporal serve … --check prints"),
        ("server = 1", "[server] is a table, got int"),
        (
            "[server]\nport = '1'",
            "[server] port is an integer, at least 0, got '1'. Hint: write it without quotes.",
        ),
        ("[server]\nport = true", "[server] port is an integer, at least 0, got True"),
        ("[server]\nport = 65536", "[server] port is at most 65535, got 65536"),
        ("[server]\nkey = 'a.pem'", "no effect without certificate"),
        (
            "[server]\nproxies = '*'",
            "[server] proxies is a list of texts, got '*'. Hint: write it in brackets",
        ),
        ("[limits]\nrows = 0", "[limits] rows is an integer, at least 1, got 0"),
        ("[limits]\nahead = -1", "ahead is a number, at least 0, or 'delay', or off, got -1"),
        ("[limits]\nahead = nan", "ahead is a number, at least 0, or 'delay', or off, got nan"),
        ("[state]\nrestart_most = inf", "restart_most is a number, at least 0.001, got inf"),
        ("[state]\nrestart_after = 0", "[state] restart_after is a number, at least 0.001, got 0"),
        ("[state]\ndurable = 1", "[state] durable is true or false, got 1"),
        ("[state]\nfolder = ''", "[state] folder is a path or off, got ''"),
        (f"[tokens.a]\nhash = '{hash_token('a')}'\nwrite = 'x'", "[tokens.a] write is a list of"),
        ("[tokens.a]\nwrite = ['x']", "[tokens.a] needs the key 'hash'"),
        ("[tokens]\na = 1", "[tokens.a] is a table, got int"),
        ("[queries.a.sink]\nkind = 'oracle'", "[queries.a.sink] kind is one of append_file, sqli"),
        (
            "[queries.a.sink]\npath = 'x'",
            "kind is one of append_file, sqlite, postgres, http, kafka, mqtt, delta, iceberg, "
            "parquet_folder, got",
        ),
        ("[queries.a.sink]\nkind = 'sqlite'\npath = 'x'", "[queries.a.sink] needs the key 'table'"),
        (
            "[queries.a.sink]\nkind = 'sqlite'\npaht = 'x'",
            "did you mean path? Its keys are kind",
        ),
        (
            "[queries.a.sink]\nkind = 'append_file'\npath = 'a.txt'",
            "[queries.a.sink] the name of a result file ends in .csv",
        ),
        (
            "[queries.a.sink]\nkind = 'append_file'\npath = 'a.csv'\ntime = 'tick'",
            "[queries.a.sink] time is 'datetime', 'ticks' or None, got 'tick'",
        ),
        (
            "[queries.a.sink]\nkind = 'http'\nurl = 'http://a'\npatience = 'long'",
            "[queries.a.sink]",
        ),
        ("[queries.a]\nkind = 'sqlite'", "[queries.a] has one key, sink. Hint: write [queries.a.s"),
        ("[queries]\na = 1", "[queries.a] has one key, sink"),
        ("queries = 1", "[queries] has a table for each query, got int"),
        ("[server", "is not valid TOML"),
    ],
)
def test_a_mistake_is_told_by_its_key(tmp_path: Path, text: str, words: str) -> None:
    """An error names the file, the key, what is allowed and what there was."""
    with pytest.raises(ArgumentError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "serve.toml" in str(caught.value)


def test_a_token_in_place_of_its_hash_is_not_shown(tmp_path: Path) -> None:
    """An error about a hash does not have what was there: it may be the token."""
    for value in ('"the token itself"', "4711"):
        with pytest.raises(ArgumentError, match="hash") as caught:
            load(tmp_path, f"[tokens.a]\nhash = {value}")
        assert value.strip('"') not in str(caught.value)


def test_a_token_in_place_of_its_section_is_not_shown(tmp_path: Path) -> None:
    """A secret in the wrong place does not come into a log."""
    with pytest.raises(ArgumentError, match=r"\[tokens.one\] is a table, got str") as refused:
        load(tmp_path, '[tokens]\none = "secret"')
    assert "secret" not in str(refused.value)


def test_a_token_has_no_rate_of_zero() -> None:
    """Zero rows a second would be no answer to the question of when to come again."""
    with pytest.raises(ArgumentError, match=r"rate is a number, at least 0.001"):
        TokenSettings(HASH, rate=0)


def test_settings_in_python_are_checked_like_those_of_a_file() -> None:
    """A value of a section that Python makes is held to the same rules."""
    with pytest.raises(ArgumentError, match=r"\[limits\] text is an integer"):
        Limits(text=1.5)  # type: ignore[arg-type]
    assert Limits(ahead=3).ahead == 3.0
    assert Settings().change("server", port=0).server.port == 0


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """Nothing is said of disks and rights to write."""
    with pytest.raises(
        ArgumentError, match=r"^there is no file .*none\.toml\. Hint: check the path"
    ):
        Settings.load(tmp_path / "none.toml")


def test_two_queries_do_not_write_the_same_place() -> None:
    """A file or a table belongs to one query; a server or a topic takes the results of several."""
    sinks: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "append_file": ({"path": "a.csv"}, {"path": "b.csv"}),
        "sqlite": ({"path": "a.db", "table": "t"}, {"path": "a.db", "table": "u"}),
        "postgres": ({"dsn": "host=a", "table": "t"}, {"dsn": "host=b", "table": "t"}),
    }
    for kind, (one, other) in sinks.items():

        def write(*places: dict[str, Any], kind: str = kind) -> dict[str, Any]:
            return {f"q{n}": {"sink": {"kind": kind, **each}} for n, each in enumerate(places)}

        assert len(Settings.parse({"queries": write(one, other)}).queries) == 2
        with pytest.raises(ArgumentError, match=r"\[queries.q2.sink\] writes what \[queries.q0.si"):
            Settings.parse({"queries": write(one, other, one)})
    url = {"sink": {"kind": "http", "url": "http://localhost/rows"}}
    assert len(Settings.parse({"queries": {"a": url, "b": url}}).queries) == 2
