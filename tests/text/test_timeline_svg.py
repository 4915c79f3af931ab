"""Timelines as SVG: well-formed, escaped, bounded, the same each time."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from rxtemporal.text.timeline import Bar, Lane, Timeline
from rxtemporal.text.timeline_svg import MOST_NARROW, timeline_svg

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</title><script>alert(1)</script>",
    "\x00\x1b[2J\ud800\ufffe",
    '"><svg onload="alert(1)">',
    "{mark} %s {0} &amp; ]]>",
    "\u202eevil\u2066",
    "x" * 1_000_000,
]


def parse(svg: str) -> ElementTree.Element:
    """Return the tree of a picture, which has to be well-formed."""
    return ElementTree.fromstring(svg.encode("utf-8"))


def texts(svg: str) -> list[str]:
    """Return the texts that are drawn, in order."""
    return [each.text or "" for each in parse(svg).iter(SVG + "text")]


def test_rows_points_ctis_and_late_events_are_drawn() -> None:
    """A bar has the width of its lifetime, a point is a dot, a late event says its distance."""
    lane = Lane(
        "readings",
        (Bar(0, 5, "a"), Bar(5, 10, "b"), Bar(7, 8, "p"), Bar(2, 3, "l", broken_cti=4)),
        ctis=(4, None),
    )
    tree = parse(timeline_svg(Timeline((lane,))))
    bars = [each for each in tree.iter(SVG + "rect") if each.get("class") == "f"]
    widths = {each.get("width") for each in bars}
    assert len(bars) == 2
    assert len(widths) == 1
    assert len([*tree.iter(SVG + "circle")]) == 2
    drawn = texts(timeline_svg(Timeline((lane,))))
    assert {"readings", "a", "b", "p", "l", "late by 2", "CTI", "4", "∞"} <= {*drawn}


def test_rows_that_follow_each_other_share_a_line() -> None:
    """A row that begins where another ends stands beside it; one that overlaps stands below."""
    lane = Lane("r", (Bar(0, 5), Bar(5, 9), Bar(3, 6)))
    tree = parse(timeline_svg(Timeline((lane,))))
    ys = [each.get("y") for each in tree.iter(SVG + "rect") if each.get("class") == "f"]
    # in order of start
    assert ys[0] == ys[2] != ys[1]


def test_an_open_row_fades_out() -> None:
    """A row without an end is filled with a gradient that is defined once."""
    lane = Lane("r", (Bar(0, None, "a"), Bar(1, None, "b"), Bar(1, 5)))
    tree = parse(timeline_svg(Timeline((lane,))))
    (gradient,) = tree.iter(SVG + "linearGradient")
    filled = [e for e in tree.iter(SVG + "rect") if e.get("fill") == f"url(#{gradient.get('id')})"]
    assert len(filled) == 2


def test_a_reader_who_does_not_see_it_hears_what_it_shows() -> None:
    """The picture has a name and a description, and each row a tooltip."""
    lane = Lane("readings", (Bar(0, 5, "a", "id=a"), Bar(1, 2, "b", broken_cti=4)), ctis=(4,))
    tree = parse(timeline_svg(Timeline((lane,), title="Rooms")))
    assert tree.get("role") == "img"
    named = (tree.get("aria-labelledby") or "").split()
    by_id = {each.get("id"): each.text for each in tree.iter() if each.get("id")}
    assert [by_id[each] for each in named] == ["Rooms", "readings: 1 row, 1 late, 1 CTI."]
    tips = [each.text for each in tree.iter(SVG + "title")]
    assert "readings 0 … 5: id=a" in tips


def test_the_same_timeline_is_the_same_picture() -> None:
    """Ids depend on the content alone; pictures that differ have different ids."""
    one, other = (Timeline((Lane("r", (Bar(0, end),)),)) for end in (5, 6))
    assert timeline_svg(one) == timeline_svg(one)
    ids = [
        {e.get("id") for e in parse(timeline_svg(each)).iter()} - {None} for each in (one, other)
    ]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_text(text: str) -> None:
    """Whatever a name or a value is, the picture is well-formed, small, and has no script."""
    lane = Lane(text, (Bar(0, 5, text, text), Bar(1, 2, text, broken_cti=3)), note=text)
    svg = timeline_svg(Timeline((lane,), title=text), alone=True)
    tree = parse(svg)
    assert not [each for each in tree.iter() if "script" in each.tag]
    assert not [name for each in tree.iter() for name in each.attrib if name.startswith("on")]
    assert len(svg) < 50_000
    assert not {"\u202e", "\x1b", "\x00"} & {*svg}


def test_many_rows_are_counted_and_not_drawn() -> None:
    """A lane with more rows than it has lines draws some and counts the others."""
    lane = Lane("r", tuple(Bar(0, 5 + n, str(n)) for n in range(1_000)), more=5)
    svg = timeline_svg(Timeline((lane,)))
    tree = parse(svg)
    bars = [each for each in tree.iter(SVG + "rect") if each.get("class") == "f"]
    assert len(bars) == MOST_NARROW
    assert f"… {1_005 - MOST_NARROW:,} more rows" in texts(svg)


def test_a_file_of_its_own_follows_light_and_dark() -> None:
    """A file brings its ground and its ink; a picture inside a page takes the page's ink."""
    timeline = Timeline((Lane("r", (Bar(0, 5),)),))
    assert "prefers-color-scheme:dark" in timeline_svg(timeline, alone=True)
    inside = timeline_svg(timeline)
    assert "prefers-color-scheme" not in inside
    assert "currentColor" in inside


def test_a_timeline_of_nothing_is_a_picture() -> None:
    """Without lanes and without rows there is an axis."""
    parse(timeline_svg(Timeline(())))
    assert "nothing" in texts(timeline_svg(Timeline((Lane("nothing"),))))
