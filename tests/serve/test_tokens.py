"""Tokens: found by their text, with the rights of their settings, and never told."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import pytest

from rxtemporal.errors import ArgumentError
from rxtemporal.serve.settings import TokenSettings
from rxtemporal.serve.tokens import OPEN, Tokens, hash_token, make_token


class Rights(NamedTuple):
    """Settings of one token."""

    hash: str
    write: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    read: bool = False
    rate: float | None = None
    burst: float | None = None


def tokens(**settings: Any) -> Tokens:
    """Return one token, whose text is "secret", with these settings."""
    return Tokens({"gate": Rights(hash_token("secret"), **settings)})


@pytest.mark.parametrize("header", ["Bearer secret", "bearer secret", "BEARER  secret "])
def test_a_token_is_found_by_its_text(header: str | bytes) -> None:
    """The scheme is compared without case, the text exactly."""
    access = tokens().find(header)
    assert access is not None
    assert access.name == "gate"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "secret",
        "Basic secret",
        "Bearer Secret",
        "Bearer secret2",
        "Bearer \ud800",
        "Bearer \xff\x00",
        "Bearer " + "x" * 100_000,
        f"Bearer {hash_token('secret')}",
    ],
)
def test_nothing_else_is_a_token(header: str | bytes | None) -> None:
    """A wrong text, another scheme, the hash itself and bytes of any kind open nothing."""
    assert tokens().find(header) is None


def test_each_of_many_is_found() -> None:
    """Each token has its own rights."""
    made = {f"device {n}": make_token() for n in range(50)}
    all_tokens = Tokens({name: Rights(digest) for name, (_, digest) in made.items()})
    for name, (text, _) in made.items():
        access = all_tokens.find(f"Bearer {text}")
        assert access is not None
        assert (access.name, access.default_source) == (name, name)


def test_without_tokens_everything_is_open() -> None:
    """Nobody is asked, and everything may be done."""
    nobody = Tokens({})
    assert nobody.is_open
    assert nobody.find(None) is nobody.find("Bearer x") is OPEN
    assert OPEN.may_read
    assert OPEN.may_write("any")
    assert OPEN.may_name("any")
    assert OPEN.may_name(None)


def test_rights_are_those_of_the_settings() -> None:
    """A star stands for any characters, all else for itself; what is not named is refused."""
    access = tokens(write=("readings", "log-*"), sources=("a", "b[1]"), rate=5.0).find(
        "Bearer secret"
    )
    assert access is not None
    assert [access.may_write(s) for s in ("readings", "log-1", "readings2", "log", "../log-1")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert [access.may_name(s) for s in ("a", "b[1]", "b1", "", "gate", None)] == [
        True, True, False, False, False, False,
    ]  # fmt: skip
    assert (access.may_read, access.rate, access.default_source) == (False, 5.0, None)


@pytest.mark.parametrize(
    ("sources", "default", "own"),
    [((), "gate", False), (("a",), "a", False), (("a*",), None, False), (("*", "a"), None, True)],
)
def test_rows_without_a_source_are_of_the_only_one(
    sources: tuple[str, ...], default: str | None, own: bool
) -> None:
    """Without patterns a token is its own source; the stream's own input takes the right to all."""
    access = tokens(sources=sources).find("Bearer secret")
    assert access is not None
    assert (access.default_source, access.may_name(None)) == (default, own)


def test_a_token_that_names_nothing_writes_nothing() -> None:
    """Rights are given, never assumed."""
    access = tokens().find("Bearer secret")
    assert access is not None
    assert not access.may_write("readings")
    assert not access.may_name("a")
    assert not access.may_read


def test_new_tokens_are_random_and_long() -> None:
    """Each has 256 bits, and its hash is that of its text."""
    text, digest = make_token()
    assert digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert len(text) >= 43
    assert make_token()[0] != text


def test_one_text_is_one_token() -> None:
    """Two tokens with one text would have two rights."""
    with pytest.raises(ArgumentError, match="'a' and 'b' have one text"):
        Tokens({"a": Rights(hash_token("x")), "b": Rights(hash_token("x"))})


@pytest.mark.parametrize(("name", "sources"), [("source", ()), ("gateway", ("cellar", "source"))])
def test_no_token_shares_the_numbers_of_rows_without_a_source(
    name: str, sources: tuple[str, ...]
) -> None:
    """The name of the stream's own input is reserved."""
    with pytest.raises(ArgumentError, match="would send as source 'source'"):
        Tokens({name: TokenSettings(make_token()[1], write=("*",), sources=sources)})
    Tokens({"source": TokenSettings(make_token()[1], sources=("cellar",))})
