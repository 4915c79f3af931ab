"""A service that is fed by an MQTT broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mosquitto import broker, make_rows, publish

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError
from rxtemporal.serve.health import describe, list_conditions
from rxtemporal.serve.ingest import Ingest
from rxtemporal.serve.service import Service
from rxtemporal.serve.settings import Settings


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, a minute at most."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def make_application() -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application with one stream, whose query fails at row 5 for the first time."""
    failures = [1]

    def check(row: dict[str, int]) -> bool:
        if row["n"] == 5 and failures:
            failures.pop()
            raise RuntimeError("a mistake that passes")
        return True

    source = rxt.PushSource("readings", schema={"n": int}, seq="n")
    app = rxt.Application("house")
    app.query("all", source.stream.where(check))
    return app, source


def test_a_restarted_run_goes_on_with_the_messages(tmp_path: Path) -> None:
    """A feed outlives a run that fails: each row counts once, and nothing is lost."""
    app, source = make_application()
    with broker() as mosquitto:
        mqtt = {"url": mosquitto.url, "topics": ["sensors/#"], "client_id": "service"}
        state = {"folder": str(tmp_path / "state"), "restart_after": 0.05}
        service = Service(app, Settings.parse({"mqtt": mqtt, "state": state}))
        service.start()
        wait_for(lambda: service.broker.stats().connected)
        publish(mosquitto.port, make_rows(20, 1))
        wait_for(lambda: service.counts.restarts == 1)
        wait_for(lambda: service.broker.stats().acknowledged == 20)
        assert source.stats().accepted == 20
        assert describe(service)["service"]["mqtt"]["messages"] == 20
        service.stop()
        assert not service.broker.stats().connected


def test_a_message_that_cannot_be_read_is_a_dead_letter(tmp_path: Path) -> None:
    """It is in the folder before it is acknowledged, with its raw bytes and its input."""
    app, _ = make_application()
    with broker() as mosquitto:
        mqtt = {"url": mosquitto.url, "topics": ["sensors/#"], "client_id": "letters"}
        mqtt["input"] = "sensors/{input}/temp"
        letters = {"folder": str(tmp_path)}
        service = Service(app, Settings.parse({"mqtt": mqtt, "dead_letters": letters}))
        Ingest(service)
        service.start()
        wait_for(lambda: service.broker.stats().connected)
        publish(mosquitto.port, [("sensors/d1/temp", b"no JSON"), ("sensors/d2/temp", b'{"n": 1}')])
        wait_for(lambda: service.broker.stats().acknowledged == 2)
        (path,) = tmp_path.iterdir()
        found = [json.loads(line) for line in path.read_text().splitlines()]
        service.stop()
        service.dead_letters.close()
    assert [(each["source"], each["text"]) for each in found] == [
        ("d1", "no JSON"),
        ("d2", '{"n": 1}'),
    ]
    assert service.counts.refused == 2


def test_topics_count_as_sources_and_none_has_the_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of an input beyond the limit is rejected; a device may be called ``source``."""
    monkeypatch.setattr("rxtemporal.query.push_source.MOST_INPUTS", 2)
    app, source = make_application()
    mqtt = {"url": "mqtt://127.0.0.1:1", "topics": ["s/#"], "client_id": "c", "input": "s/{input}"}
    service = Service(app, Settings.parse({"mqtt": mqtt}))
    refused: list[Any] = []
    assert service.broker is not None
    service.broker.give_rejected_to(lambda name, rows: refused.append((name, rows[0].reason)))
    with app.run(sinks={"all": rxt.Collect()}):
        for topic in ("s/source", "s/b", "s/c", "s/b"):
            payload = b'{"time": 5, "device": "d1", "n": 1}'
            service.broker._push([SimpleNamespace(attributes=(), topic=topic, payload=payload)])
        assert set(source.stats().inputs) == {"topic s/source", "b"}
        source.close()
    assert refused == [("c", "the stream has 100000 inputs, which is the limit")]


def test_a_service_starts_before_its_broker(tmp_path: Path) -> None:
    """The feed waits for a broker that is not there yet."""
    app, source = make_application()
    with broker() as mosquitto:
        mosquitto.end()
        mqtt = {"url": mosquitto.url, "topics": ["sensors/#"], "client_id": "early"}
        service = Service(app, Settings.parse({"mqtt": mqtt}))
        service.start()
        mosquitto.start()
        wait_for(lambda: service.broker.stats().connected)
        publish(mosquitto.port, make_rows(3, 1))
        wait_for(lambda: source.stats().accepted == 3)
        service.stop()


def test_the_section_is_checked() -> None:
    """An unknown stream, and a url with a password, which would be shown, are refused."""
    mqtt = {"url": "mqtt://localhost", "topics": ["t"], "client_id": "c"}
    with pytest.raises(ArgumentError, match="stream is one of readings, got 'doors'"):
        Service(make_application()[0], Settings.parse({"mqtt": {**mqtt, "stream": "doors"}}))
    with pytest.raises(ArgumentError, match="username and password_file") as caught:
        Settings.parse({"mqtt": {**mqtt, "url": "mqtt://bob:secret@localhost"}})
    assert "secret" not in str(caught.value)
    source = rxt.PushSource("readings", schema={"n": int}, rejects=rxt.Rejects.RAISE)
    app = rxt.Application("house")
    app.query("all", source.stream)
    with pytest.raises(ArgumentError, match=r"\[mqtt\] and rejects=Rejects.RAISE"):
        Service(app, Settings.parse({"mqtt": mqtt}))
    with pytest.raises(ArgumentError, match="topic 'a/#/b' is not a filter"):
        Settings.parse({"mqtt": {**mqtt, "topics": ["a/#/b"]}})


def test_a_feed_that_has_failed_is_not_ready() -> None:
    """The condition ``broker`` says so, without details of the error."""
    mqtt = {"url": "mqtt://localhost:1", "topics": ["t"], "client_id": "c"}
    service = Service(make_application()[0], Settings.parse({"mqtt": mqtt}))
    service.start()
    try:
        assert dict(list_conditions(service))["broker"] is True
        service.broker.error = RuntimeError("the password is secret")
        assert dict(list_conditions(service))["broker"] == "the feed of the broker has failed"
    finally:
        service.stop()
