"""Plans in a line and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.explain import draw_plan

SVG = "{http://www.w3.org/2000/svg}"


def streams() -> tuple[rxt.Streamable, rxt.Streamable]:
    """Return two sources."""
    schema = {"room": str, "temp": float}
    return (rxt.from_events([], schema=schema, name="readings"),
            rxt.from_events([], name="</title><script>"))  # fmt: skip


def texts(svg: str) -> list[str]:
    """Return the texts of a picture, which has to be well-formed."""
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(SVG + "text")]


def test_a_stream_is_named_by_its_sources() -> None:
    """Its text has the sources, the number of operators, the fields and the keys."""
    readings, other = streams()
    assert repr(readings) == "Streamable('readings': room, temp)"
    assert repr(other) == "Streamable('</title><script>': fields unknown)"
    grouped = readings.where(pl.col("temp") > 1).group_by("room")
    assert repr(grouped) == "Streamable(2 operators over 'readings': room, temp; by room)"
    wide = rxt.from_events([], schema={f"f{n}": int for n in range(9)}, name="wide")
    assert repr(wide) == "Streamable('wide': f0, f1, f2, f3, f4, f5, … 3 more)"


def test_the_picture_has_each_operator_once() -> None:
    """Operators with their fields and CTI rules, right of their inputs; a shared one once."""
    readings, other = streams()
    warm = readings.where(pl.col("temp") > 1)
    mean = warm.group_by("room").tumbling_window(5).aggregate(mean=agg.avg("temp"))
    drawn = texts(mean.ungroup().join(warm, on=["room"]).union(other)._repr_html_())
    assert drawn.count("where") == 1
    assert drawn.count("readings") == 1
    assert {"group_by", "ungroup", "join", "union", "CTI: t", "</title><script>"} <= {*drawn}


def test_a_large_plan_is_cut() -> None:
    """The picture is bounded, and says how many operators it leaves out."""
    stream, _ = streams()
    for _ in range(100):
        stream = stream.shift_event_time(1)
    drawn = texts(draw_plan(stream._node))
    assert drawn[-1] == "… 41 more operators"


def test_to_look_at_a_plan_runs_nothing() -> None:
    """The events of the source are not read."""

    def fail() -> object:
        raise AssertionError("the source is read")
        yield

    rxt.from_events(fail()).shift_event_time(1)._repr_html_()  # type: ignore[arg-type]
