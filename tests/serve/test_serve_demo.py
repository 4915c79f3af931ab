"""Demonstration of the service: its house, its simulated devices and its page."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import time

import httpx
from served_house import serve_house

import rxtemporal as rxt
from rxtemporal.serve.asgi import ServiceApp, app
from rxtemporal.serve.demo import house
from rxtemporal.serve.demo.devices import DEVICES, STORED

# a tenth of a second each
POLLS = 600


def make_house() -> ServiceApp:
    """Return the house as an application with its page, not started."""
    made = app(house.application())
    made.add_routes(house.list_routes(made.service))
    return made


def ask(made: ServiceApp, path: str, **options: object) -> httpx.Response:
    """Return the answer of an application to a GET request."""

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=made)
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            return await client.get(path, **options)

    return asyncio.run(get())


# The house ----------------------------------------------------------------------------------------


def test_the_house_counts_readings_in_minutes():
    """Count and mean of each device and minute; a number is optional, and taken once."""
    made, results = house.application(), rxt.Collect()
    with made.run(sinks={"by_device": results}):
        source = app(made).service.sources["readings"]
        reading = {"device": "a", "time": "2026-05-01T12:00:01Z", "temp": 20.0, "seq": 7}
        assert source.push(reading).accepted == 1
        assert source.push(reading).duplicates == 1
        del reading["seq"]
        assert source.push([{**reading, "temp": 21.0}, {**reading, "temp": 22}]).accepted == 2
        source.close()
    assert [(row["device"], row["count"], row["mean"]) for row in results.to_dicts()] == [
        ("a", 3, 21.0)
    ]


# The page -----------------------------------------------------------------------------------------


def test_the_page_loads_nothing_from_elsewhere():
    """One file: no address, no import, no markup made of strings."""
    text = house.read_page().decode()
    assert not re.search(r"https?://(?!\$)|//cdn|@import|url\(|<link[^>]*href=\"(?!data:)", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"localStorage|sessionStorage|document\.cookie", text)
    assert '<html lang="en">' in text
    assert "prefers-color-scheme: dark" in text


def test_each_field_of_the_page_has_a_label():
    """Who cannot see the page is told what to write where."""
    text = house.read_page().decode()
    named = re.findall(r"<(?:input|select)[^>]* id=\"(\w+)\"|<(?:input|select) id=\"(\w+)\"", text)
    fields = {first or second for first, second in named}
    assert fields == {"token", "device", "temp", "when", "seq"}
    assert fields == set(re.findall(r"<label for=\"(\w+)\"", text))


def test_the_page_runs_its_own_script_alone():
    """The policy has the hash of the script that is in the page."""
    answer = ask(make_house(), "/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_page_is_of_the_demonstration_alone():
    """Another service has nothing at this path."""
    assert ask(app(house.application()), "/").status_code == 404


# The whole ----------------------------------------------------------------------------------------


def test_the_devices_fill_the_house(tmp_path):
    """They send what they have stored over HTTP, and there are results; a fast clock stands out."""
    with serve_house(tmp_path / "state") as served, httpx.Client(base_url=served.url) as client:
        assert "A house of sensors" in client.get("/").text
        inputs: dict[str, dict] = {}
        for _ in range(POLLS):
            inputs = client.get("/diagnostics").json()["run"]["streams"][0]["inputs"]
            if sum(each["events"] for each in inputs.values()) >= len(DEVICES) * STORED:
                break
            time.sleep(0.1)
        assert {name for name, each in inputs.items() if each["ahead"]} == {"greenhouse"}
        assert inputs["greenhouse"]["clock_offset"] > 200
        with client.stream("GET", "/queries/by_device/events") as events:
            rows = next(line for line in events.iter_lines() if line.startswith("data: ["))
        assert '"device":"kitchen"' in rows
        assert served.stop() == 0
    assert not [line for line in served.lines if "WARN" in line or "ERROR" in line]
