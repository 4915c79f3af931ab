"""CloudEvents over HTTP: structured, in batches and binary; the trace of a request in the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from served import Faulty, make_client

import rxtemporal as rxt
from rxtemporal import serve
from rxtemporal.serve import Settings
from rxtemporal.serve.tokens import hash_token
from rxtemporal.serve.traces import read_traceparent

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"}


def event(n: int, **changed: Any) -> dict[str, Any]:
    """Return an event whose number is its id."""
    made = {
        "specversion": "1.0", "type": "org.example.reading", "source": "/attic", "id": str(n),
        "time": f"2026-05-01T12:00:{n:02}Z", "datacontenttype": "application/json",
        "data": {"temp": float(n)}, **changed,
    }  # fmt: skip
    return {name: value for name, value in made.items() if value is not ...}


class House:
    """A service of one stream, with or without a field for the number, and its accepted rows."""

    def __init__(self, seq: str | None = None, settings: Settings | None = None) -> None:
        self.source = rxt.PushSource("rows", schema={"temp": float}, start="at", seq=seq)
        app = rxt.Application("house")
        app.query("rows", self.source.stream)
        self.sink = Faulty()
        self.app = serve.app(app, settings, sinks={"rows": self.sink})

    def post(self, *requests: tuple[Any, dict[str, str]]) -> list[httpx.Response]:
        """Post bodies, one after the other."""

        async def post() -> list[httpx.Response]:
            async with self.app.lifespan(), make_client(self.app) as client:
                return [
                    await client.post(
                        "/streams/rows",
                        content=body if isinstance(body, bytes) else json.dumps(body),
                        headers=headers,
                    )
                    for body, headers in requests
                ]

        return asyncio.run(post())


@pytest.mark.parametrize("seq", [None, "n"])
def test_source_and_id_are_input_and_number(seq: str | None) -> None:
    """A repeated event is a duplicate, and only of its own source; the time is the start."""
    house = House(seq)
    answers = house.post(
        (event(1), STRUCTURED),
        (event(1), STRUCTURED),
        (event(1, source="/cellar"), STRUCTURED),
        ([event(2), event(3), event(3)], BATCH),
        (event(9, id="a-1", sequence="4"), STRUCTURED),
        (event(9, id="a-2", sequence="4"), STRUCTURED),
    )
    got = [(each.json()["accepted"], each.json()["duplicates"]) for each in answers]
    assert got == [(1, 0), (0, 1), (1, 0), (2, 1), (1, 0), (0, 1)]
    assert house.source.cti.isoformat() == "2026-05-01T12:00:09+00:00"  # type: ignore[union-attr]


@pytest.mark.parametrize("other", ["a", "9" * 5_000, str(2**63), "-1", "1.5"])
def test_other_ids_are_no_numbers(other: str) -> None:
    """Such events are taken, and a repeated one counts twice."""
    answers = House().post((event(1, id=other), STRUCTURED), (event(1, id=other), STRUCTURED))
    assert [each.json()["accepted"] for each in answers] == [1, 1]


def test_a_batch_is_numbered_if_each_of_its_events_is() -> None:
    """Else its repeated events count twice."""
    mixed = [event(1), event(1, id="a")]
    answers = House().post((mixed, BATCH), (mixed, BATCH))
    assert [each.json()["accepted"] for each in answers] == [2, 2]


def test_attributes_may_be_headers() -> None:
    """The body is the data, and texts in headers are percent-encoded."""
    headers = {
        "Content-Type": "application/json", "ce-specversion": "1.0", "ce-type": "reading",
        "ce-source": "/attic%20room", "ce-id": "5", "ce-time": "2026-05-01T12:00:05Z",
    }  # fmt: skip
    house = House()
    first, again = house.post(({"temp": 4.5}, headers), ({"temp": 4.5}, headers))
    assert (first.json()["accepted"], again.json()["duplicates"]) == (1, 1)


WRONG: list[tuple[dict[str, Any], str]] = [
    (event(1, id=...), "attribute 'id' of a CloudEvent is a text that is not empty, and it is mis"),
    (event(1, source=""), "attribute 'source'"),
    (event(1, specversion="0.3"), "CloudEvents 1.0 are accepted"),
    (event(1, data=[1]), "data of a CloudEvent is a JSON object"),
    (event(1, data=..., data_base64="aGk="), "got data_base64"),
    (event(1, time=...), "'at' is missing"),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_a_wrong_event_is_a_refused_row(wrong: dict[str, Any], says: str) -> None:
    """The receipt names the attribute; the others of a batch are accepted."""
    (answer,) = House().post(([event(1), wrong, event(2)], BATCH))
    receipt = answer.json()
    assert (receipt["accepted"], [each["index"] for each in receipt["refused"]]) == (2, [1])
    assert says in receipt["refused"][0]["reason"]


def test_bodies_that_are_no_events_are_refused() -> None:
    """With the reason, and what to do."""
    answers = House().post(
        (b"{", STRUCTURED), (event(1), BATCH), ([event(1), event(2, source="/b")], BATCH)
    )
    assert [each.status_code for each in answers] == [400, 400, 400]
    says = ["cannot be read", "is a JSON array", "one source, got '/attic' and '/b'. Hint"]
    for answer, words in zip(answers, says, strict=True):
        assert words in answer.json()["error"]


def test_a_token_permits_sources_of_events() -> None:
    """One that may not name the source gets 403."""
    section = {"hash": hash_token("secret"), "write": ["rows"], "sources": ["/attic"]}
    house = House(settings=Settings.parse({"tokens": {"a": section}}))
    headers = {**STRUCTURED, "Authorization": "Bearer secret"}
    answers = house.post((event(1), headers), (event(1, source="/b"), headers))
    assert [each.status_code for each in answers] == [200, 403]
    assert "may not send as the source '/b'" in answers[1].json()["error"]


# The trace -----------------------------------------------------------------------------------


@contextmanager
def listening(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep what the service logs."""
    with caplog.at_level(logging.INFO, logger="rxtemporal.serve"):
        yield


@pytest.mark.parametrize("way", ["header", "event"])
def test_the_receipt_of_a_request_is_logged_with_its_trace(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Trace and span stand in the line; a request without a trace has no line."""
    body, headers = event(1), {**STRUCTURED}
    if way == "header":
        headers["traceparent"] = TRACE
    else:
        body["traceparent"] = TRACE
    with listening(caplog):
        House().post((body, headers), (event(2), STRUCTURED))
    (line,) = [each.getMessage() for each in caplog.records if "receipt" in each.getMessage()]
    assert "trace_id='4bf92f3577b34da6a3ce929d0e0e4736'" in line
    assert "span_id='00f067aa0ba902b7'" in line
    assert "accepted=1" in line


@pytest.mark.parametrize(
    "text",
    [
        "", "00-1-2-3", TRACE.upper(), TRACE + "-more", TRACE.replace("00-4", "ff-4"),
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-"
        + "0" * 16 + "-01", None, 4,
    ],
)  # fmt: skip
def test_a_malformed_trace_is_ignored(text: Any) -> None:
    """As the specification asks for."""
    assert read_traceparent(text) == {}


def test_a_later_version_may_have_more() -> None:
    """What is known of it is read."""
    assert read_traceparent(TRACE.replace("00-4", "01-4") + "-what")["span_id"] == TRACE[36:52]
