"""The text of each public object says its name and its state."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal import agg


class Readings(rxt.Source):
    """A user's source."""

    name = "readings"

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor."""
        return rxt.Cursor([])


class Screen(rxt.Sink):
    """A user's sink."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Do nothing."""


def stream() -> rxt.Streamable:
    """Return a stream with known fields."""
    return rxt.from_events([rxt.PointEvent(4, {"x": 1})], schema={"x": int}, name="readings")


def collected() -> rxt.Collect:
    """Return a sink with a result."""
    sink = rxt.Collect()
    stream().run(sink).wait()
    return sink


def application() -> rxt.Application:
    """Return an application with a stream and a query."""
    app = rxt.Application("house")
    app.query("later", app.define_stream("readings", stream()).shift_event_time(1))
    return app


def subject(kind: Any = rxt.CtiSynchronizingSubject) -> Any:
    """Return a subject that has got two events, one of them late."""
    made = kind.create_point(0)
    made.input("a").on_next(rxt.PointEvent(7, 1))
    made.on_next(rxt.Cti(7))
    made.on_next(rxt.PointEvent(5, 1))
    return made


def late() -> rxt.LateEvent:
    """Return a late event."""
    found: list[rxt.LateEvent] = []
    made = rxt.CtiSynchronizingSubject.create_point(0)
    made.late.subscribe(found.append)
    made.on_next(rxt.Cti(7))
    made.on_next(rxt.PointEvent(5, 1))
    return found[0]


def push_source() -> rxt.PushSource:
    """Return a source for pushes."""
    return rxt.PushSource("readings", schema={"x": int})


TEXTS: dict[str, tuple[Callable[[], Any], str]] = {
    "Application": (application, "Application('house': streams readings; queries later)"),
    "Collect": (collected, "Collect(interval shape, 1 rows)"),
    "CtiSynchronizingSubject": (
        subject, "CtiSynchronizingSubject(point, 2 events, 1 late, CTI 7)",
    ),
    "CtiSynchronizingSubjectAlternate": (
        lambda: rxt.CtiSynchronizingSubjectAlternate.create_edge(0),
        "CtiSynchronizingSubjectAlternate(edge, 0 events, 0 late, no CTI)",
    ),
    "Cursor": (lambda: rxt.Cursor([], 3), "Cursor(position 3)"),
    "EventBatch": (lambda: collected().batch,
                   "EventBatch(1 rows, fields ['x'], CTI the end of time)"),
    "File": (lambda: rxt.File("out.csv"), "File('out.csv', interval shape)"),
    "HandOff": (rxt.HandOff, "HandOff(max_rows=1000000, when_full=<WhenFull.BLOCK: 'block'>, "
                "path=None, linger=datetime.timedelta(0))"),
    "Heartbeat": (lambda: rxt.Heartbeat(1, 2), "Heartbeat(every=1, delay=2)"),
    "Print": (rxt.Print, "Print(interval shape)"),
    "Process": (lambda: stream().run(Screen(), name="visits"), "Process('visits', "),
    "PushInput": (lambda: push_source().input("attic"), "PushInput('attic', open)"),
    "PushSource": (push_source, "PushSource('readings', no run has begun)"),
    "QueryBinder": (lambda: rxt.QueryBinder(application()),
                    "QueryBinder(Application('house': streams readings; queries later))"),
    "Sink": (Screen, "Screen(interval shape)"),
    "Source": (Readings, "Readings('readings')"),
    "Streamable": (lambda: stream().where(agg_free), "Streamable(1 operator over 'readings': x)"),
    "TransformSubject": (lambda: rxt.TransformSubject.create(lambda each: each),
                         "TransformSubject(0 subscribers)"),
    "LateEvent": (late, "LateEvent("),
}  # fmt: skip


def agg_free(row: Any) -> bool:
    """Return True."""
    return True


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_an_object(name: str) -> None:
    """It is this, to the letter; of a process and a late event it begins so."""
    make, text = TEXTS[name]
    made = make()
    assert repr(made) == text or (text.endswith(("(", ", ")) and repr(made).startswith(text))
    assert " at 0x" not in repr(made)


def test_no_public_class_is_an_address() -> None:
    """Each has a text of its own, but errors and enumerations, which have one already."""
    classes = [
        each for each in (getattr(rxt, name) for name in rxt.__all__) if inspect.isclass(each)
    ]
    bare = [
        each.__name__
        for each in classes
        if each.__repr__ in (object.__repr__, rxt.Source.__mro__[-1].__repr__)
    ]
    assert bare == []


def test_windows_say_what_follows() -> None:
    """A window operator alone is not a stream."""
    assert repr(stream().tumbling_window(5)) == (
        "<windows of Streamable('readings': x): aggregate(…), top_k(…) or apply(…) gives their "
        "results>"
    )
    assert repr(agg.mean("x")) == 'mean(col("x"))'


def test_dir_shows_what_is_public() -> None:
    """The public names, and nothing else that has been loaded."""
    assert sorted(dir(rxt)) == sorted(rxt.__all__)
