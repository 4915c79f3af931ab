"""Texts of values of unknown origin."""

from __future__ import annotations

import json

import pytest

from rxtemporal.core.safe_text import brief, describe_error, json_text, type_name


class Hostile:
    """An object all of whose methods raise."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __len__(self) -> int:
        raise RuntimeError("no len")

    @property
    def __class__(self):  # type: ignore[override]
        raise RuntimeError("no class")


def nest(levels: int) -> list:
    """Return a list nested so deep."""
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE = [
    Hostile(),
    [Hostile()],
    {Hostile(): 1},
    nest(990),
    {"a": nest(5_000)},
    10**5000,
    "\ud800",
    {"\udfff": "\ud800"},
    "x" * 1_000_000,
    list(range(100_000)),
    float("nan"),
    {1: 2, None: 3},
    b"\xff",
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_every_value_has_a_text(number):
    """Each text is short and has a form in UTF-8; the JSON text is JSON."""
    value = HOSTILE[number]
    assert len(brief(value).encode()) < 700
    assert len(json_text(value).encode()) <= 65_536
    json.loads(json_text(value))


def test_an_exception_without_a_message_is_named_by_its_type():
    """A message that raises is left out."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe_error(MuteError()) == "MuteError"
    assert describe_error(ValueError("x")) == "ValueError: x"
    assert type_name(Hostile()) == "Hostile"


def test_ctrl_c_passes_through():
    """A ``KeyboardInterrupt`` from a value's code is not caught."""

    class Interrupts:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    for text in (brief, json_text):
        with pytest.raises(KeyboardInterrupt):
            text(Interrupts())
