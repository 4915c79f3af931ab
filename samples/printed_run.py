"""Two sources that disagree on the time, merged by a CTI-synchronizing subject.

Source A is ahead of source B. The subject holds every CTI back by five minutes, so that events of B
are still in time; an event that is later than that, such as the last one of B, is dropped. The
output is that of the StreamInsight article on this subject, line for line.

    python samples/printed_run.py               # built from Rx operators: the article's round 1
    python samples/printed_run.py --alternate   # a single function: the article's round 2
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from reactivex import Subject

import rxtemporal as rxt

MIDNIGHT = datetime(2012, 6, 28, tzinfo=UTC)


def minute(time: datetime) -> int:
    return (time - MIDNIGHT) // timedelta(minutes=1)


def show(event: rxt.PointEvent | rxt.Cti) -> None:
    if event.event_kind is rxt.EventKind.CTI:
        print(f"OUTPUT CTI: time {minute(event.start_time)}")
    else:
        print(f"OUTPUT Insert: time {minute(event.start_time)}, payload {event.payload:g}")


def main(alternate: bool) -> None:
    kind = rxt.CtiSynchronizingSubjectAlternate if alternate else rxt.CtiSynchronizingSubject
    subject = kind.create_point(delay=timedelta(minutes=5))
    subject.subscribe(show)

    # each source is an observable, subscribed to by its own input of the subject
    sources = {name: Subject() for name in "AB"}
    for name, source in sources.items():
        source.subscribe(subject.input(name))

    def insert(name: str, time: int, payload: float) -> None:
        print(f"INPUT Insert: input {name}, time {time}, payload {payload:g}")
        sources[name].on_next(rxt.PointEvent(MIDNIGHT + timedelta(minutes=time), payload))

    def cti(name: str, time: int) -> None:
        print(f"INPUT CTI: input {name}, time {time}")
        sources[name].on_next(rxt.Cti(MIDNIGHT + timedelta(minutes=time)))

    insert("A", 5, 1.0)
    insert("B", 0, 2.0)
    cti("A", 5)
    cti("B", 0)
    insert("A", 7, 3.0)
    cti("A", 8)
    insert("B", 1, 4.0)


if __name__ == "__main__":
    main(alternate="--alternate" in sys.argv[1:])
