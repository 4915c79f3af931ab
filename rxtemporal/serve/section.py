"""Sections of a configuration: frozen dataclasses that check their values and print themselves."""

from __future__ import annotations

import dataclasses
import difflib
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
        names = cls.list_keys()
        for name in table:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]}? Its" if near else "its"
                raise ArgumentError(
                    f"[{title}] has no key {name!r}. Hint: {hint} keys are {', '.join(names)}."
                )
        missing = [
            field.name for field in dataclasses.fields(cls)
            if field.default is dataclasses.MISSING and field.name not in table
        ]  # fmt: skip
        if missing:
            raise ArgumentError(f"[{title}] needs the key {missing[0]!r}")
        try:
            return cls(**table)
        except ArgumentError as error:
            # a section that there is several times
            raise ArgumentError(str(error).replace(f"[{cls.title}]", f"[{title}]", 1)) from None

    @classmethod
    def list_keys(cls) -> list[str]:
        """Return the names of the keys."""
        return [field.name for field in dataclasses.fields(cls)]

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
        raise ArgumentError(
            f"{where} is {allowed}{' or off' if optional else ''}, got {shown}"
            f"{_hint_value(wanted, value)}"
        )
    return found


def _hint_value(wanted: type, value: Any) -> str:
    """Return the hint for a value that stands in the wrong form; empty if there is none."""
    if wanted is tuple and isinstance(value, str):
        return ". Hint: write it in brackets, also if there is only one."
    if wanted in (bool, int, float) and isinstance(value, str):
        return ". Hint: write it without quotes."
    return ""


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
