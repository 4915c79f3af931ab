"""The ASGI application of a service: paths, rights, errors, and its life in others."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import Faulty, make_client, make_house, rows
from starlette.applications import Starlette
from starlette.routing import Mount

from rxtemporal.errors import ArgumentError
from rxtemporal.serve import ServiceApp, Settings, app
from rxtemporal.serve.responses import RequestError, dumps, send_json
from rxtemporal.serve.routes import Need, Route
from rxtemporal.serve.service import ServiceState
from rxtemporal.serve.tokens import make_token


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the caller's name and the name in the path."""
    await send_json(scope, send, 200, dumps([scope["access"].name, scope["path_params"]["name"]]))


async def fail(scope: Any, receive: Any, send: Any) -> None:
    """Fail with an error of the service's own."""
    raise KeyError("a secret of the service")


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """Refuse the request."""
    raise RequestError(429, "too many rows", retry_after=0.2, rows=7)


def make_app(settings: Settings | None = None) -> ServiceApp:
    """Return a service with routes of the test."""
    made = app(make_house()[0], settings)
    made.add_routes(
        [
            Route("/names/{name}", "GET", answer),
            Route("/names/{name}", "POST", answer, Need.WRITE),
            Route("/fail", "GET", fail, Need.NOBODY),
            Route("/refuse", "GET", refuse, Need.NOBODY),
        ]
    )
    return made


async def ask(
    served: Any, path: str, method: str = "GET", token: str | None = None
) -> httpx.Response:
    """Return the answer to one request."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with make_client(served, headers=headers) as client:
        return await client.request(method, path)


def test_errors_are_json() -> None:
    """Each error is an object with its reason; one of the service's own has no detail."""

    async def run() -> None:
        served = make_app()
        async with served.lifespan():
            missing = await ask(served, "/nothing/there")
            assert (missing.status_code, list(missing.json())) == (404, ["error", "paths"])
            wrong = await ask(served, "/healthz", "DELETE")
            assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
            refused = await ask(served, "/refuse")
            assert refused.json() == {"error": "too many rows", "rows": 7}
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            failed = await ask(served, "/fail")
            assert failed.status_code == 500
            assert "secret" not in failed.text
        assert served.service.counts.requests == {404: 1, 405: 1, 429: 1, 500: 1}

    asyncio.run(run())


def test_names_in_a_path_are_names() -> None:
    """A name is one part of a path, whatever is in it; it never reaches another path."""

    async def run() -> None:
        served = make_app()
        async with served.lifespan():
            for path, name in [
                ("/names/readings", "readings"),
                ("/names/a%20b", "a b"),
                ("/names/%C3%A9", "é"),
                ("/names/..%00", "..\0"),
            ]:
                found = await ask(served, path)
                assert found.json() == ["open", name]
            for path in ("/names/..%2Fhealthz", "/names/%2e%2e/healthz", "/names//", "//healthz"):
                assert (await ask(served, path)).status_code == 404

    asyncio.run(run())


def test_a_token_opens_what_it_names(caplog: pytest.LogCaptureFixture) -> None:
    """Without a token 401, without the right 403; health is open; no log has the token."""
    reader, writer = make_token(), make_token()
    settings = Settings.parse(
        {
            "server": {"access_log": True},
            "tokens": {
                "reader": {"hash": reader[1], "read": True},
                "writer": {"hash": writer[1], "write": ["readings"]},
            },
        }
    )

    async def run() -> None:
        served = make_app(settings)
        async with served.lifespan():
            assert (await ask(served, "/healthz")).status_code == 200
            none = await ask(served, "/diagnostics")
            assert (none.status_code, none.headers["www-authenticate"]) == (401, "Bearer")
            assert (await ask(served, "/names/a", "POST", "guess")).status_code == 401
            assert (await ask(served, "/diagnostics", token=writer[0])).status_code == 403
            assert (await ask(served, "/diagnostics", token=reader[0])).status_code == 200
            wrote = await ask(served, "/names/a?token=query", "POST", writer[0])
            assert wrote.json() == ["writer", "a"]

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    own = [each.getMessage() for each in caplog.records if each.name.startswith("rxtemporal")]
    assert "event='POST' path='/names/a' status=200" in own
    for secret in (reader[0], writer[0], "guess", "query"):
        assert secret not in "".join(own)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000"}, 200),
        ({"Host": "[::1]:8000"}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:9000"}, 403),
        ({"Host": "127.0.0.1:8000", "Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "1.evil.example"}, 403),
        ({"Host": "["}, 403),
    ],
)
def test_without_tokens_pages_of_other_sites_are_kept_out(
    headers: dict[str, str], status: int
) -> None:
    """On this machine alone, neither another origin nor a name that leads here is taken."""

    async def run() -> None:
        served = make_app()
        served.is_local = True
        async with served.lifespan(), make_client(served) as client:
            found = await client.get("/names/a", headers={"Host": "localhost", **headers})
            assert found.status_code == status

    asyncio.run(run())


def test_a_service_that_drains_takes_no_work() -> None:
    """While it drains, work is refused and the connection closed; health still answers."""

    async def run() -> None:
        served = make_app()
        async with served.lifespan():
            served.service.drain()
            refused = await ask(served, "/names/a", "POST")
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert "retry-after" in refused.headers
            ready = await ask(served, "/readyz")
            assert (ready.status_code, ready.json()["ready"]) == (503, False)
            assert (await ask(served, "/healthz")).json() == {"state": "draining"}
        assert served.service.state is ServiceState.STOPPED

    asyncio.run(run())


def test_a_request_that_is_cut_off_is_answered_if_the_service_stops() -> None:
    """Whoever cuts it off while the service runs wants no answer."""

    async def request(served: ServiceApp, *, drains: bool) -> httpx.Response:
        begun = asyncio.Event()

        async def wait(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        served.add_routes([Route("/wait", "GET", wait)])
        task = asyncio.create_task(ask(served, "/wait"))
        await begun.wait()
        if drains:
            served.service.drain()
        task.cancel()
        return await task

    answer = asyncio.run(request(make_app(), drains=True))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(request(make_app(), drains=False))


def test_mounted_it_starts_with_the_first_request() -> None:
    """In an application that does not run its lifespan, the first requests start it, once."""

    async def run() -> None:
        served = make_app()
        outer = Starlette(routes=[Mount("/house", served)])
        assert (await ask(outer, "/house/healthz")).json() == {"state": "new"}
        answers = await asyncio.gather(*(ask(outer, "/house/names/a") for _ in range(5)))
        assert [each.json() for each in answers] == [["open", "a"]] * 5
        assert (await ask(outer, "/house/healthz")).json() == {"state": "running"}
        await asyncio.to_thread(served.service.stop)

    asyncio.run(run())


def test_mounted_it_lives_with_the_lifespan_of_the_outer_one() -> None:
    """``lifespan=served.lifespan`` starts and stops it with the application around it."""

    async def run() -> None:
        served = make_app()
        outer = Starlette(routes=[Mount("/house", served)], lifespan=served.lifespan)
        async with outer.router.lifespan_context(outer):
            assert served.service.state is ServiceState.RUNNING
        assert served.service.state is ServiceState.STOPPED

    asyncio.run(run())


def test_a_server_starts_and_stops_it() -> None:
    """It follows the lifespan protocol, and tells a start that fails."""

    async def live(served: ServiceApp) -> list[str]:
        coming, sent = asyncio.Queue[Any](), list[str]()
        coming.put_nowait({"type": "lifespan.startup"})

        async def send(message: Any) -> None:
            sent.append(message["type"])
            coming.put_nowait({"type": "lifespan.shutdown"})

        await served({"type": "lifespan"}, coming.get, send)
        return sent

    served = make_app()
    assert asyncio.run(live(served)) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert served.service.state is ServiceState.STOPPED


def test_a_start_that_fails_is_refused_and_tried_again(tmp_path: Path) -> None:
    """Requests that start a service which cannot start get 503, until it can."""
    (tmp_path / "state").write_text("no folder")

    async def run() -> None:
        served = make_app(Settings.parse({"state": {"folder": str(tmp_path / "state")}}))
        refused = await ask(served, "/names/a", "POST")
        assert (refused.status_code, refused.json()["error"]) == (503, "the service cannot start")
        (tmp_path / "state").unlink()
        assert (await ask(served, "/names/a", "POST")).status_code == 200
        await asyncio.to_thread(served.service.stop)

    asyncio.run(run())


def test_a_failed_run_is_told_to_senders_until_it_is_there_again(tmp_path: Path) -> None:
    """When a sink has failed, rows get 503 with a time; then they are accepted, each once."""
    house, _ = make_house()
    sink = Faulty()
    state = {"folder": str(tmp_path), "restart_after": 0.3}
    served = app(house, Settings.parse({"state": state}), sinks={"totals": sink})

    async def send(time: int) -> httpx.Response:
        async with make_client(served) as client:
            return await client.post("/streams/readings", json=rows(range(time, time + 1)))

    async def run() -> None:
        async with served.lifespan():
            assert (await send(5)).json()["accepted"] == 1
            sink.error = OSError("the table is away")
            await send(15)  # it closes the first window, whose row the sink refuses
            refused = await send(16)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "table" not in refused.text
            sink.error = None
            while (again := await send(16)).status_code == 503:
                await asyncio.sleep(0.05)
            assert again.json()["accepted"] == 1
            assert (await send(15)).json()["duplicates"] == 1
            await send(25)

    asyncio.run(run())
    assert [(row["start_time"], row["count"]) for row in sink.rows] == [(0, 1), (10, 2)]


def test_settings_are_given_once() -> None:
    """An application takes other settings unless it has some."""
    assert make_app().configure(Settings.parse({"server": {"port": 1}})).service.settings
    with pytest.raises(ArgumentError, match="already has settings"):
        make_app(Settings()).configure(Settings())
