"""Tables as HTML: escaped, bounded, well-formed."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from rxtemporal.text.html import escape, section, table

VOID = {"br", "img", "hr", "meta"}


class Outline(HTMLParser):
    """The tags and the texts of a piece of HTML; raises an error if the tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


def test_a_table_has_names_units_and_rows() -> None:
    """The units stand below the names."""
    outline = Outline(table(["id", "temp"], [["a", "20"], ["b", "21"]], units=["String", "°C"]))
    assert outline.tags.count("tr") == 3
    assert [text for text in outline.texts if "{" not in text] == [
        "id", "String", "temp", "°C", "a", "20", "b", "21",
    ]  # fmt: skip


def test_what_is_not_shown_is_counted() -> None:
    """Rows beyond the bound are one line; ``total`` counts those that were not even given."""
    outline = Outline(table(["n"], [[str(n)] for n in range(5)], most=2, total=1_000))
    assert outline.tags.count("td") == 3
    assert outline.texts[-1] == "… 998 more rows"
    assert Outline(table(["n"], [["1"], ["2"]], most=1)).texts[-1] == "… 1 more row"


def test_many_columns_and_long_texts_are_cut() -> None:
    """The size of a table is bounded, whatever is in it."""
    wide = table(["x" * 10_000] * 500, [["y" * 1_000_000] * 500])
    assert len(wide) < 10_000
    assert Outline(wide).tags.count("th") == 17


@pytest.mark.parametrize(
    "text", ["</td><script>alert(1)</script>", '" onclick="x', "\x00\u202e\ud800", "<!--", "&lt;"]
)
def test_hostile_texts_are_text(text: str) -> None:
    """Names, units, values, captions and headings are escaped, control characters are visible."""
    html = section(text, table([text], [[text]], units=[text], caption=text))
    html.encode("utf-8")
    outline = Outline(html)
    assert "script" not in outline.tags
    assert not {"\x00", "\u202e", "\ud800"} & {*html}
    assert escape(text) in html
