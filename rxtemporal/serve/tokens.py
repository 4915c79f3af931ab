"""Bearer tokens: who may write which streams, name which sources, and read results."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from rxtemporal.errors import ArgumentError

_HASH = re.compile(r"[0-9a-f]{64}")
# a token has no more characters: what is longer is not hashed
_LONGEST = 1_024


@dataclass(frozen=True)
class TokenSettings:
    """One token of the configuration: the hash of its text, and what it may do.

    ``streams`` and ``sources`` are names; one that ends in ``*`` stands for all that begin so. A
    token without ``sources`` sends as the stream's own input. ``read`` opens queries, streams,
    metrics and diagnostics; ``rate`` is the most rows a second.
    """

    name: str
    sha256: str
    streams: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    read: bool = False
    rate: float | None = None

    def __post_init__(self) -> None:
        if not _HASH.fullmatch(self.sha256):
            raise ArgumentError(
                f"token {self.name!r}: sha256 is 64 hexadecimal digits in lower case. Hint: "
                "`rxtemporal serve --new-token NAME` makes a token and prints its hash."
            )
        if self.rate is not None and not self.rate > 0:
            raise ArgumentError(
                f"token {self.name!r}: rate is a positive number of rows a second, got {self.rate}"
            )


class _Names:
    """Set of names, and of beginnings of names."""

    __slots__ = ("beginnings", "exact")

    def __init__(self, patterns: Iterable[str]) -> None:
        each = tuple(patterns)
        self.exact = frozenset(name for name in each if not name.endswith("*"))
        self.beginnings = tuple(name[:-1] for name in each if name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self.beginnings)


class Access:
    """Rights of whoever makes a request."""

    __slots__ = ("_sources", "_streams", "default_source", "may_read", "name", "rate")

    def __init__(
        self,
        name: str,
        streams: Iterable[str],
        sources: Iterable[str],
        may_read: bool,
        rate: float | None = None,
    ) -> None:
        self.name = name
        self.may_read = may_read
        self.rate = rate
        self._streams = _Names(streams)
        self._sources = _Names(sources)
        only = () if self._sources.beginnings else tuple(self._sources.exact)
        # the source of rows that are sent without the name of one; None: the stream's own input
        self.default_source = only[0] if len(only) == 1 else None

    def __repr__(self) -> str:
        return f"Access({self.name!r})"

    def may_write(self, stream: str) -> bool:
        """Return True if rows may be sent into this stream."""
        return stream in self._streams

    def may_name(self, source: str | None) -> bool:
        """Return True if rows may be sent as this source; None is the stream's own input."""
        if source is None:
            return not self._sources.exact and self._sources.beginnings in ((), ("",))
        return source in self._sources


OPEN = Access("open", ("*",), ("*",), may_read=True)


class Tokens:
    """The tokens of a service.

    >>> text, digest = make_token()
    >>> tokens = Tokens([TokenSettings("gateway", digest, streams=("readings",))])
    >>> access = tokens.find(f"Bearer {text}")
    >>> access.may_write("readings"), access.may_write("commands")
    (True, False)
    >>> print(tokens.find("Bearer guess"), tokens.find(None))
    None None
    """

    def __init__(self, tokens: Iterable[TokenSettings]) -> None:
        # Found by a hash with a key that nobody knows: the time of the search says nothing about
        # the hashes that are stored, and does not grow with their number.
        self._key = secrets.token_bytes(32)
        self._found: dict[bytes, tuple[bytes, Access]] = {}
        names = set[str]()
        for each in tokens:
            digest = bytes.fromhex(each.sha256)
            key = self._hide(digest)
            if each.name in names or key in self._found:
                raise ArgumentError(
                    f"token {each.name!r} is there twice. Hint: each has its own name and text"
                )
            names.add(each.name)
            access = Access(each.name, each.streams, each.sources, each.read, each.rate)
            self._found[key] = digest, access

    @property
    def is_open(self) -> bool:
        """True if there are no tokens: everybody may do everything."""
        return not self._found

    def find(self, authorization: str | bytes | None) -> Access | None:
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


def _read_bearer(authorization: str | bytes | None) -> bytes | None:
    if authorization is None:
        return None
    if isinstance(authorization, str):
        authorization = authorization.encode("utf-8", "backslashreplace")
    scheme, _, text = authorization.partition(b" ")
    text = text.strip()
    if scheme.lower() != b"bearer" or not 0 < len(text) <= _LONGEST:
        return None
    return text


def make_token() -> tuple[str, str]:
    """Return the text of a new token, 256 random bits, and the hash to be stored."""
    text = secrets.token_urlsafe(32)
    return text, hash_token(text)


def hash_token(text: str) -> str:
    """Return the hash of a token's text as it stands in the configuration."""
    return hashlib.sha256(text.encode()).hexdigest()
