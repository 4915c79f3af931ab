"""The clients of the page on devices: each reading is in once, also over a restart."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from needs import skip_or_fail
from served import make_client, make_house
from served_house import PATIENCE, serve_house

import rxtemporal as rxt
from rxtemporal import serve
from rxtemporal.serve import Settings
from rxtemporal.serve.openapi import describe_service

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "samples" / "clients"
READINGS = 900
LINES = [f"{n} 2026-05-01T12:{n // 60:02}:{n % 60:02}Z {n / 10}" for n in range(READINGS)]


def make_command(client: str, folder: Path) -> list[str]:
    """Return the command that runs a client; skip where its language is not there."""
    if client == "device.py":
        return [sys.executable, str(CLIENTS / client)]
    if client == "device.mjs":
        node = shutil.which("node")
        if node is None:
            skip_or_fail("node", "there is no Node")
        return [str(node), str(CLIENTS / client)]
    compiler = shutil.which("cc")
    if compiler is None:
        skip_or_fail("cc", "there is no C compiler")
    command = [str(compiler), "-o", str(folder / "device"), str(CLIENTS / client), "-lcurl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode and "curl.h" in made.stderr:
        skip_or_fail("libcurl", "libcurl cannot be compiled with")
    assert not made.returncode, made.stderr
    return [str(folder / "device")]


def find_port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def count_rows(url: str, rows: int) -> int:
    """Return how many rows all windows of the house have, once they have that many."""
    httpx.post(f"{url}/streams/readings/cti", json={"time": "2026-05-01T14:00:00Z"})
    total = 0
    events = f"{url}/queries/by_device/events"
    with httpx.stream("GET", events, timeout=PATIENCE) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ["):
                total += sum(row["count"] for row in json.loads(line[6:]))
                if total >= rows:
                    return total
    raise AssertionError(f"the results have ended after {total} rows")


@pytest.mark.parametrize("client", ["device.py", "device.mjs", "device.c"])
def test_each_reading_is_in_once_over_a_restart(client: str, tmp_path: Path) -> None:
    """The service is stopped while the device sends, and started again."""
    command, port = make_command(client, tmp_path), find_port()
    options = ("--no-devices", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    environ = {**os.environ, "TOKEN": ""}
    with subprocess.Popen(
        [*command, f"{url}/streams/readings", "attic"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ,
    ) as device:  # fmt: skip
        assert device.stdin is not None
        assert device.stdout is not None
        with serve_house(tmp_path / "state", *options) as house:
            device.stdin.write("\n".join(LINES[: READINGS // 2]) + "\n")
            device.stdin.flush()
            receipts = [json.loads(device.stdout.readline())]
            assert house.stop() == 0
        device.stdin.write("\n".join(LINES[READINGS // 2 :]) + "\n")
        device.stdin.close()
        with serve_house(tmp_path / "state", *options):
            receipts += [json.loads(line) for line in device.stdout if line.startswith('{"acc')]
            assert device.wait(PATIENCE) == 0
            assert count_rows(url, READINGS) == READINGS
    assert sum(each["accepted"] + each["duplicates"] for each in receipts) >= READINGS


@pytest.mark.parametrize("client", ["device.py", "device.mjs"])
def test_a_device_reports_what_is_refused(client: str, tmp_path: Path) -> None:
    """It does not repeat what can never be taken, and prints the reason."""
    command = make_command(client, tmp_path)
    with serve_house(tmp_path / "state", "--no-devices") as house:
        found = subprocess.run(
            [*command, f"{house.url}/streams/nothing", "attic"],
            input=LINES[0] + "\n", capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert found.returncode == 1
    assert "404" in found.stderr


def test_the_page_has_the_clients_as_they_are() -> None:
    """What is shown is what is tested."""
    page = (ROOT / "docs" / "clients.md").read_text("utf-8")
    for path in sorted(CLIENTS.iterdir()):
        assert f"\n{path.read_text('utf-8')}```" in page, path


# The description -----------------------------------------------------------------------------


def get_description(application: rxt.Application) -> dict[str, Any]:
    """Return the description of an application, as the service gives it."""

    async def ask() -> dict[str, Any]:
        app = serve.app(application)
        async with app.lifespan(), make_client(app) as client:
            answer = await client.get("/openapi.json")
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

    return asyncio.run(ask())


HASH = "sha256:81e83f7a131de142f1959d41307b5c95407e91ae0064b5140255a052666b7b24"


def test_the_description_is_valid_and_whole() -> None:
    """Each route is described, and each stream has the fields of its rows."""
    validator = pytest.importorskip("openapi_spec_validator", reason="the validator is not there")
    house, source = make_house()
    described = get_description(house)
    validator.validate(described)
    assert {*described["paths"]} == {
        "/queries", "/streams", "/queries/totals/events", "/queries/totals/now",
        "/streams/readings/events", "/healthz",
        "/readyz", "/diagnostics", "/streams/readings", "/streams/readings/cti", "/debug",
        "/debug/events", "/metrics", "/openapi.json",
    }  # fmt: skip
    post = described["paths"]["/streams/readings"]["post"]
    row = post["requestBody"]["content"]["application/json"]["schema"]["oneOf"][0]
    assert row == {"$ref": "#/components/schemas/readings_row"}
    row = described["components"]["schemas"]["readings_row"]
    assert row["required"] == [source.layout.start]
    assert row["properties"]["temp"] == {"type": ["integer", "null"]}
    assert {*row["properties"]} == {"ts", "device", "temp", "n"}
    assert {"200", "400", "401", "403", "408", "413", "415", "429", "503"} == {*post["responses"]}
    assert "Retry-After" in post["responses"]["503"]["headers"]
    assert "As a WebSocket" in post["description"]
    for path in described["paths"].values():
        for operation in path.values():
            assert operation["summary"].endswith(".")


def test_names_and_tokens_are_described() -> None:
    """A name with a slash is one part of a path; with tokens each route but some needs one."""
    validator = pytest.importorskip("openapi_spec_validator", reason="the validator is not there")
    source = rxt.PushSource("a/b c", schema={"x": float}, unit="ms")
    app = rxt.Application("odd")
    app.query("q/1", source.stream)
    settings = Settings.parse({"tokens": {"office": {"hash": HASH, "read": True}}})
    served = serve.app(app, settings)
    described = describe_service(served.service, served.list_routes())
    validator.validate(described)
    assert "/streams/a%2Fb%20c" in described["paths"]
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    needs = {path for path, each in described["paths"].items() if "security" in each.get("get", {})}
    assert "/queries" in needs
    assert "/healthz" not in needs


def test_a_client_made_from_the_description_sends_rows(tmp_path: Path) -> None:
    """A generator makes a package of it, and its functions push and read receipts."""
    pytest.importorskip("openapi_python_client", reason="the generator is not there")
    with serve_house(tmp_path / "state", "--no-devices") as house:
        document = tmp_path / "openapi.json"
        document.write_bytes(httpx.get(f"{house.url}/openapi.json").content)
        made = subprocess.run(
            [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document),
             "--output-path", str(tmp_path / "made"), "--meta", "none", "--overwrite"],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        (tmp_path / "use.py").write_text(USE)
        used = subprocess.run(
            [sys.executable, str(tmp_path / "use.py"), house.url],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert used.returncode == 0, used.stderr
    assert used.stdout.split() == ["1", "True"]


USE = """
import sys
from made import Client
from made.api.readings import post_streams_readings
from made.models import ReadingsRow
row = ReadingsRow(device="attic", time="2026-05-01T12:00:00Z", temp=20.5, seq=1)
receipt = post_streams_readings.sync(client=Client(base_url=sys.argv[1]), body=row)
print(receipt.accepted, receipt.durable)
"""
