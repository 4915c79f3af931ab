"""Bearer tokens: who may write which streams, name which sources, and read results."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.pushed_inputs import OWN

_PREFIX = "sha256:"
# a token has no more characters: what is longer is not hashed
_LONGEST = 1_024


class TokenRights(Protocol):
    """One token of the settings: ``sha256:`` with the hash of its text, and what it may do."""

    @property
    def hash(self) -> str:
        """The text ``sha256:`` and 64 hexadecimal digits."""

    @property
    def write(self) -> Collection[str]:
        """Patterns of the streams that it may write."""

    @property
    def sources(self) -> Collection[str]:
        """Patterns of the sources that it may name; without any, its own name alone."""

    @property
    def read(self) -> bool:
        """True if it may read results, metrics and diagnostics."""

    @property
    def rate(self) -> float | None:
        """The most rows a second."""

    @property
    def burst(self) -> float | None:
        """The most rows at once."""


class _Names:
    """Set of names given by patterns, in which a star stands for any characters."""

    __slots__ = ("all", "exact", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        each = tuple(patterns)
        self.all = "*" in each
        self.exact = frozenset(name for name in each if "*" not in name)
        self.patterns = [
            re.compile(re.escape(name).replace(r"\*", ".*"), re.DOTALL)
            for name in each
            if "*" in name
        ]

    def __contains__(self, name: str) -> bool:
        return self.all or name in self.exact or any(p.fullmatch(name) for p in self.patterns)


class Access:
    """Rights of the sender of a request."""

    __slots__ = ("_sources", "_streams", "burst", "default_source", "may_read", "name", "rate")

    def __init__(self, name: str, rights: TokenRights | None = None) -> None:
        self.name = name
        self.may_read = rights is None or rights.read
        self.rate = None if rights is None else rights.rate
        self.burst = None if rights is None else rights.burst
        sources = ("*",) if rights is None else rights.sources or (name,)
        self._streams = _Names(("*",) if rights is None else rights.write)
        self._sources = _Names(sources)
        only = self._sources.exact if len(sources) == 1 else ()
        # the source of rows that are sent without the name of one; None: the stream's own input
        self.default_source = next(iter(only), None)

    def __repr__(self) -> str:
        return f"Access({self.name!r})"

    def may_write(self, stream: str) -> bool:
        """Return True if rows may be sent into this stream."""
        return stream in self._streams

    def may_name(self, source: str | None) -> bool:
        """Return True if rows may be sent as this source; None is the stream's own input."""
        return self._sources.all if source is None else source in self._sources


OPEN = Access("open")


class Tokens:
    """The tokens of a service, by name.

    >>> from rxtemporal.serve.settings import TokenSettings
    >>> text, digest = make_token()
    >>> tokens = Tokens({"gateway": TokenSettings(digest, write=("readings",))})
    >>> access = tokens.find(f"Bearer {text}")
    >>> access.may_write("readings"), access.may_write("commands")
    (True, False)
    >>> print(tokens.find("Bearer guess"), tokens.find(None))
    None None
    """

    def __init__(self, tokens: Mapping[str, TokenRights]) -> None:
        # Found by a hash with a key that nobody knows: the time of the search says nothing about
        # the hashes that are stored, and does not grow with their number.
        self._key = secrets.token_bytes(32)
        self._found: dict[bytes, tuple[bytes, Access]] = {}
        for name, rights in tokens.items():
            if OWN in (rights.sources or (name,)):
                raise ArgumentError(
                    f"the token {name!r} would send as source {OWN!r}, which is the name of rows "
                    "that are sent without one, and both would share their sequence numbers. "
                    "Hint: call the token, or its source in sources=, something else."
                )
            digest = bytes.fromhex(rights.hash.removeprefix(_PREFIX))
            key = self._hide(digest)
            if key in self._found:
                raise ArgumentError(
                    f"the tokens {self._found[key][1].name!r} and {name!r} have one text. "
                    "Hint: `rxtemporal serve --new-token NAME` makes another one."
                )
            self._found[key] = digest, Access(name, rights)

    @property
    def is_open(self) -> bool:
        """True if there are no tokens: everybody may do everything."""
        return not self._found

    def find(self, authorization: str | None) -> Access | None:
        """Return the rights of who sent this header; None if no token has the text in it."""
        if not self._found:
            return OPEN
        text = _read_bearer(authorization)
        if text is None:
            return None
        digest = hashlib.sha256(text).digest()
        saved, access = self._found.get(self._hide(digest), (b"", None))
        return access if hmac.compare_digest(digest, saved) else None

    def _hide(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key).digest()


def _read_bearer(authorization: str | None) -> bytes | None:
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(" ")
    text = token.strip().encode("utf-8", "backslashreplace")
    return text if scheme.lower() == "bearer" and 0 < len(text) <= _LONGEST else None


def make_token() -> tuple[str, str]:
    """Return the text of a new token, 256 random bits, and its hash."""
    text = secrets.token_urlsafe(32)
    return text, hash_token(text)


def hash_token(text: str) -> str:
    """Return the hash of a token's text as it stands in the settings."""
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()
