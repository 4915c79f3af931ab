"""Tables of text: columns are aligned as a terminal shows them, and nothing in them acts on it."""

from __future__ import annotations

from rxtemporal.text.plain_text import (
    align,
    format_value,
    make_visible,
    measure_columns,
    shorten,
    text_table,
)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """The last column is not filled up, numbers stand to the right."""
    assert text_table([("name", "n", "x"), ("a", "1,024", "y")], right=[1]) == (
        "name      n  x\na     1,024  y"
    )


def test_wide_characters_take_two_columns() -> None:
    """A terminal draws them in two."""
    assert text_table([("温度", "x"), ("abcd", "y")]) == "温度  x\nabcd  y"
    assert text_table([("e\u0301", "x"), ("ab", "y")]) == "e\u0301   x\nab  y"


def test_a_column_of_nothing_takes_no_room() -> None:
    """Rows may be shorter than others."""
    assert align([("a", "", "b"), ("c",)]) == ["a  b", "c"]
    assert measure_columns([("abc",)], [5, 2]) == [5, 2]


def test_nothing_acts_on_the_terminal() -> None:
    """Control sequences, line breaks and directions are written out; emoji stay whole."""
    assert make_visible("\x1b[2J\r\n\u202e\u2028") == "\\x1b[2J\\r\\n\\u202e\\u2028"
    assert make_visible("👩\u200d🔬 naïve") == "👩\u200d🔬 naïve"
    assert shorten("ab\x00", 4) == "ab\\…"


def test_a_value_without_a_text_is_its_type() -> None:
    """Users' objects may raise."""

    class Odd:
        def __str__(self) -> str:
            raise ValueError("no text")

    assert format_value(Odd()) == "<Odd>"
