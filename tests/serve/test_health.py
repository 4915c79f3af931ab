"""Health of a service: each condition of taking work, and the devices furthest behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from served import Faulty, make_house

import rxtemporal as rxt
from rxtemporal.serve import Service, Settings, health
from rxtemporal.serve.health import describe, list_conditions


def start(path: Path | None = None, **options: Any) -> tuple[Service, rxt.PushSource]:
    """Return a service that runs, and its source."""
    app, source = make_house(**options)
    state = {} if path is None else {"folder": str(path)}
    service = Service(app, Settings.parse({"state": state}), {"totals": Faulty()})
    service.start()
    return service, source


def test_a_service_that_runs_is_ready(tmp_path: Path) -> None:
    """Each condition is true while it runs; afterwards it says why not."""
    app, _ = make_house()
    service = Service(app, Settings.parse({"state": {"folder": str(tmp_path)}}))
    assert dict(list_conditions(service)) == {"running": "the service is new"}
    service.start()
    service.compilation.wait()
    names = ["running", "recovered", "compiled", "log", "hand_off", "sinks"]
    assert dict(list_conditions(service)) == dict.fromkeys(names, True)
    service.stop()
    assert dict(list_conditions(service))["recovered"] == "the run has ended"


def test_a_service_is_not_ready_before_its_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says how far it is, and takes rows meanwhile; one that stops does not go on."""
    go_on, told = threading.Event(), []

    def compile_plan(nodes: Any) -> Iterator[int]:
        for number in range(len(nodes)):
            told.append(number)
            yield number
            assert go_on.wait(60)

    monkeypatch.setattr("rxtemporal.serve.service.compile_plan", compile_plan)
    service, source = start()
    condition = str(dict(list_conditions(service))["compiled"])
    assert condition.startswith("kernels are compiled: 0 of ")
    assert source.push({"ts": 5, "device": "a", "temp": 1}).accepted == 1
    go_on.set()
    service.compilation.wait()
    assert dict(list_conditions(service))["compiled"] is True
    service.stop()
    go_on.clear()
    told.clear()
    service, _ = start()
    service.stop()
    go_on.set()
    assert len(told) <= 1


def test_readiness_costs_no_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may ask, so that the answer is not read from all devices."""
    service, _ = start()
    with monkeypatch.context() as patched:
        patched.setattr(type(service.process), "diagnostics", lambda process: pytest.fail("asked"))
        assert dict(list_conditions(service))["recovered"] is True
    service.stop()


def test_a_full_or_missing_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log whose disk is full, or whose folder cannot be written, makes it not ready."""
    service, _ = start(tmp_path)
    disk = SimpleNamespace(f_bavail=10, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    assert dict(list_conditions(service))["log"] == "the disk of the log is full"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert dict(list_conditions(service))["log"] == "the folder of the log is not writable"
    monkeypatch.undo()

    def missing(path: Path) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "statvfs", missing)
    assert "No such file" in str(dict(list_conditions(service))["log"])
    monkeypatch.undo()
    service.stop()


def test_a_full_hand_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose hand-off has no room makes it not ready."""
    service, source = start()
    monkeypatch.setattr(source, "has_room", lambda rows: False)
    assert dict(list_conditions(service))["hand_off"] == "the hand-off of readings is full"
    service.stop()


def test_a_write_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink whose write takes too long makes it not ready."""
    service, _ = start()
    monkeypatch.setattr(health, "SINK_PATIENCE", -1.0)
    assert "a write of totals takes over" in str(dict(list_conditions(service))["sinks"])
    service.stop()


def test_a_sink_that_writes_to_nobody_is_told() -> None:
    """Also one that does not write now, but tries again in its own time."""
    sink = Faulty()
    app, _ = make_house()
    service = Service(app, None, {"totals": sink})
    service.start()
    sink.away_since = time.monotonic() - health.SINK_PATIENCE - 1
    assert "does not answer" in str(dict(list_conditions(service))["sinks"])
    sink.away_since = None
    assert dict(list_conditions(service))["sinks"] is True
    service.stop()


def test_diagnostics_have_the_ten_furthest_behind() -> None:
    """Of many devices those furthest behind are listed, and the number of all."""
    service, source = start(delay=1000)
    for number in range(30):
        source.push({"ts": 1000 - 10 * number, "device": "x", "temp": 1}, input=f"device {number}")
    told = describe(service)
    stream = told["run"]["streams"][0]
    assert list(stream["inputs"]) == [f"device {n}" for n in range(29, 19, -1)]
    assert told["inputs"] == {"readings": 30}
    assert told["service"]["state"] == "running"
    service.stop()


def test_an_error_is_in_the_diagnostics_alone() -> None:
    """The last error is told to those who may read, and not by the conditions."""
    service, _ = start()
    service.error = OSError("password=4711")
    assert describe(service)["service"]["last_error"] == "OSError('password=4711')"
    assert "4711" not in str(dict(list_conditions(service)))
    service.stop()
