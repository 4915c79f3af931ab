"""Sections of a configuration: frozen dataclasses that check their values and print themselves."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from rxtemporal.errors import ArgumentError

_NAMES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    Path: "a path",
    tuple: "a list of texts",
}


def at_least(least: float, default: Any, *, or_word: str | None = None) -> Any:
    """Return a field whose value is a number not below ``least``, or a word."""
    return dataclasses.field(default=default, metadata={"least": least, "word": or_word})


def secret(default: Any = dataclasses.MISSING) -> Any:
    """Return a field that no description shows."""
    return dataclasses.field(default=default, metadata={"secret": True})


@dataclasses.dataclass(frozen=True)
class Section:
    """Base of the sections: each value is checked against its type, and its least value.

    A field is a bool, an int, a float, a str, a Path or a tuple of str. One that may be None is
    ``"off"`` in a file.
    """

    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _check(f"[{self.title}] {field.name}", field, self._kind(field.name),
                           getattr(self, field.name))  # fmt: skip
            object.__setattr__(self, field.name, value)
        self.check()

    def check(self) -> None:
        """Check what concerns several values; for subclasses."""

    @classmethod
    def _kind(cls, name: str) -> tuple[type, bool]:
        """Return the type of a field, and True if it may be None."""
        return _read_hint(typing.get_type_hints(cls)[name])

    @classmethod
    def parse(cls, table: Any, title: str = "") -> Self:
        """Return the section that a table of a file describes."""
        title = title or cls.title
        if not isinstance(table, Mapping):
            # the value may be a secret that stands in the wrong place
            raise ArgumentError(f"[{title}] is a table, got {type(table).__name__}")
        names = [field.name for field in dataclasses.fields(cls)]
        for name in table:
            if name not in names:
                raise ArgumentError(
                    f"[{title}] has no key {name!r}. Hint: its keys are {', '.join(names)}."
                )
        missing = [
            field.name for field in dataclasses.fields(cls)
            if field.default is dataclasses.MISSING and field.name not in table
        ]  # fmt: skip
        if missing:
            raise ArgumentError(f"[{title}] needs the key {missing[0]!r}")
        return cls(**table)

    def describe(self, title: str = "") -> Iterator[str]:
        """Yield the lines of a file with these values; secrets are hidden."""
        yield f"[{title or self.title}]"
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            text = '"(hidden)"' if field.metadata.get("secret") and value else _text(value)
            yield f"{field.name} = {text}"


def _read_hint(hint: Any) -> tuple[type, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.get_args(hint)[0], type(None) in typing.get_args(hint)
    return typing.get_origin(hint) or hint, False


def _check(where: str, field: dataclasses.Field[Any], kind: tuple[type, bool], value: Any) -> Any:
    wanted, optional = kind
    if optional and (value is None or value == "off"):
        return None
    word = field.metadata.get("word")
    if word is not None and value == word:
        return word
    found = _convert(wanted, value)
    least = field.metadata.get("least")
    if found is None or (least is not None and not least <= found < float("inf")):
        allowed = _NAMES[wanted] + ("" if least is None else f", at least {least:g}")
        allowed += "" if word is None else f", or {word!r},"
        shown = "another value" if field.metadata.get("secret") else repr(value)
        raise ArgumentError(f"{where} is {allowed}{' or off' if optional else ''}, got {shown}")
    return found


def _convert(kind: type, value: Any) -> Any:
    """Return a value in its type, None if it does not fit; a bool is no number."""
    if kind is Path:
        return Path(value) if isinstance(value, (str, Path)) and str(value) else None
    if kind is tuple:
        texts = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
        return tuple(value) if texts else None
    if kind is float and type(value) is int:
        return float(value)
    return value if type(value) is kind else None


def _text(value: Any) -> str:
    if value is None:
        return '"off"'
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value, ensure_ascii=False)
