"""Readers of a service that is killed: each row once, from the position of the last event."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_service import read_events
from served_house import serve_house

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
DEVICES = ("attic", "cellar", "hall")
# each device has its own time; and a table has its results, too
CLOCKS = """
import rxtemporal as rxt
from rxtemporal import agg

readings = rxt.PushSource(
    "readings", schema={"device": str, "temp": int}, clock="device", delay="5s", seq="seq"
)
house = rxt.Application("house")
windows = readings.stream.group_by("device").tumbling_window("1m")
house.query("by_device", windows.aggregate(count=agg.count()))
"""
TABLE = """
[queries.by_device.sink]
kind = "sqlite"
path = "{path}"
table = "counts"
"""


def readings(minutes: int, lag: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Yield the readings of each ten seconds, numbered; each device is further behind by a lag."""
    for step in range(minutes * 6):
        place = len(DEVICES) * step
        yield [
            {
                "device": device,
                "time": (NOON + timedelta(seconds=10 * step, hours=-lag * n)).isoformat(),
                "temp": step,
                "seq": place + n,
            }
            for n, device in enumerate(DEVICES)
        ]


class Reader:
    """Client that reads until its connection breaks, and comes back to the last position."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.kinds: set[str] = set()
        self._position = ""

    def read(self, url: str, done: threading.Event) -> None:
        """Read until it is done, with a new connection if one breaks."""
        while not done.is_set():
            self._read_connection(url)

    def _read_connection(self, url: str) -> None:
        """Read until the connection breaks."""
        headers = {"Last-Event-ID": self._position} if self._position else {}
        try:
            with httpx.stream(
                "GET", f"{url}/queries/by_device/events", headers=headers, timeout=60
            ) as answer:
                assert answer.status_code == 200
                for kind, position, data in read_events(answer):
                    self.kinds.add(kind)
                    self._position = position
                    if kind == "rows":
                        self.rows += data
        except httpx.TransportError:
            pass


def send(url: str, waiting: list[list[dict[str, Any]]], until: float) -> None:
    """Send batches, each again until it has a receipt, and drop those that have one."""
    while waiting and time.monotonic() < until:
        try:
            # the first one may have to wait until kernels are compiled
            answer = httpx.post(
                f"{url}/streams/readings", content=json.dumps(waiting[0]), timeout=60
            )
        except httpx.TransportError:
            return
        if answer.status_code == 200:
            receipt = answer.json()
            assert receipt["accepted"] + receipt["duplicates"] == len(DEVICES)
            waiting.pop(0)


@pytest.mark.full
@pytest.mark.parametrize("kills", [2, 10])
def test_a_reader_of_a_service_that_is_killed_has_each_row_once(kills: int, tmp_path: Path) -> None:
    """Whatever was read before, and whatever comes again after the start."""
    found = read_over_kills(kills, tmp_path / "state", "--no-devices")
    assert len(found) == len(set(found)) == (10 * kills - 1) * len(DEVICES)


@pytest.mark.full
@pytest.mark.parametrize("kills", [2, 10])
def test_so_has_a_reader_of_devices_with_times_of_their_own(kills: int, tmp_path: Path) -> None:
    """And the table that the same results go into, over a different number of batches."""
    (tmp_path / "clocks.py").write_text(CLOCKS)
    config = tmp_path / "config.toml"
    config.write_text(TABLE.format(path=tmp_path / "table.db"))
    app = f"{tmp_path / 'clocks.py'}:house"
    found = read_over_kills(kills, tmp_path / "state", "--config", str(config), app=app, lag=1)
    assert len(found) == len(set(found)) == (10 * kills - 1) * len(DEVICES)
    with sqlite3.connect(tmp_path / "table.db") as connection:
        rows = connection.execute("SELECT start_time, device, count FROM counts").fetchall()
    assert len(rows) == len({row[:2] for row in rows}) == len(found)
    assert {row[2] for row in rows} == {6}


def read_over_kills(
    kills: int, state: Path, *options: str, app: str = "--demo", lag: int = 0
) -> list[tuple[str, str]]:
    """Send all readings to a service that is killed meanwhile; return what a reader has got."""
    minutes = 10 * kills
    # the last minute stays open
    expected = (minutes - 1) * len(DEVICES)
    waiting, reader, random_ = list(readings(minutes, lag)), Reader(), random.Random(kills)
    for life in range(kills + 1):
        with serve_house(state, *options, app=app) as house:
            done = threading.Event()
            thread = threading.Thread(target=reader.read, args=(house.url, done))
            thread.start()
            last = life == kills
            seconds = 600 if last else random_.uniform(0.1, 0.6)
            sender = threading.Thread(
                target=send, args=(house.url, waiting, time.monotonic() + seconds)
            )
            sender.start()
            sender.join(seconds)
            if last:
                sender.join()
                deadline = time.monotonic() + 60
                while len(reader.rows) < expected and time.monotonic() < deadline:
                    time.sleep(0.01)
                done.set()
                assert house.stop() == 0
            else:
                done.set()
                house.process.kill()
            thread.join(60)
            assert not thread.is_alive()
            sender.join(60)
    assert all(row["count"] == 6 for row in reader.rows)
    assert "gap" not in reader.kinds
    return [(row["start_time"], row["device"]) for row in reader.rows]
