"""A service on a disk that is full: no receipt, nothing lost, and it goes on by itself."""

from __future__ import annotations

import time

import httpx
import pytest
from disks import small_disk
from served_house import serve_house

# tenths of a second for the service to come back; it tries again after growing delays
POLLS = 600


@pytest.mark.full
def test_a_full_disk_stops_receipts_alone(tmp_path):
    """Senders are told to come again; with room each row is there once, without a restart."""
    noon = "2026-05-01T12:00:00Z"
    rows = [{"device": "a", "time": noon, "temp": 1.0, "seq": n} for n in range(900)]

    def post(begin: int, end: int) -> httpx.Response:
        return client.post("/streams/readings", json=rows[begin:end])

    with (
        small_disk(tmp_path / "disk", megabytes=40) as disk,
        serve_house(disk.path / "state", "--no-devices") as house,
        httpx.Client(base_url=house.url, timeout=60) as client,
    ):
        assert post(0, 300).json()["accepted"] == 300
        with disk.full():
            answers = [post(300, 900) for _ in range(5)]
            conditions = client.get("/readyz").json()["conditions"]
        assert {each.status_code for each in answers} == {503}
        assert all(int(each.headers["retry-after"]) >= 1 for each in answers)
        assert conditions["log"] == "the disk of the log is full"
        for _ in range(POLLS):
            if client.get("/readyz").status_code == 200:
                break
            time.sleep(0.1)
        receipt = post(0, 900).json()
        assert receipt["accepted"] + receipt["duplicates"] == 900
        assert receipt["duplicates"] >= 300
        stream = client.get("/diagnostics").json()["run"]["streams"][0]
        assert stream["events_in"] == 900
        assert house.stop() == 0
