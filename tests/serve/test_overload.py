"""Overload: what waits has a bound, a sender is told when to come again, and nothing hangs."""

from __future__ import annotations

import asyncio
import threading

import pytest
from service_clients import make_house, open_client, reading

import rxtemporal as rxt
from rxtemporal.serve import ingest
from rxtemporal.serve.ingest import Load, Rates
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits, Settings, TokenSettings
from rxtemporal.serve.tokens import Access, make_token

ROWS = "/streams/readings"


def test_bytes_and_rows_that_wait_have_a_bound():
    """What would go beyond is refused and not counted; a share is given back whole."""
    source = make_house()[1]
    load = Load(Limits(waiting_rows=10, waiting_bytes=100, retry_after=7))
    share = load.share()
    share.add(60)
    with pytest.raises(RequestError) as refused:
        share.add(41)
    assert (refused.value.status, refused.value.retry_after) == (503, 7)
    share.add_rows("a", source, 12)
    with pytest.raises(RequestError, match="too many rows"):
        load.add_rows("a", source, 1)
    assert (load.bytes, load.rows) == (60, 12)
    share.release()
    share.release()
    assert (load.bytes, load.rows) == (0, 0)


def test_a_token_has_a_rate():
    """Beyond its rate a token waits; a body that is larger than its burst comes in, and counts."""
    now = [0.0]
    rates = Rates(lambda: now[0])
    one = Access("one", TokenSettings("sha256:" + 64 * "0", rate=10.0, burst=20.0))
    rates.take(one, 50)
    with pytest.raises(RequestError) as refused:
        rates.take(one, 1)
    assert refused.value.status == 429
    now[0] = refused.value.retry_after
    rates.take(one, 1)
    rates.take(Access("two", TokenSettings("sha256:" + 64 * "1", rate=1.0)), 1)
    rates.take(Access("three"), 10**9)


def test_a_token_beyond_its_rate_gets_429():
    """The answer has Retry-After, and nothing of the body is accepted."""
    text, digest = make_token()
    rights = TokenSettings(digest, write=("readings",), sources=("*",), rate=0.5)

    async def run():
        settings = Settings(tokens={"one": rights})
        async with open_client(make_house()[0], settings, authorization=f"Bearer {text}") as client:
            first = await client.post(ROWS, json=[reading(1)] * 3)
            second = await client.post(ROWS, json=reading(2))
            broken = await client.post(ROWS, content=b"{")
            return first, second, broken, client.served.service.sources["readings"].stats()

    first, second, broken, stats = asyncio.run(run())
    assert (first.status_code, second.status_code, broken.status_code) == (200, 429, 429)
    assert int(second.headers["retry-after"]) >= 5
    assert stats.accepted == 3


class Stuck(rxt.Sink):
    """Sink that holds up its query until it is released."""

    def __init__(self):
        self.release = threading.Event()

    def write(self, batch):
        """Wait."""
        self.release.wait(20)


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(50)])
def test_a_query_that_is_behind_refuses_and_does_not_hang(hand_off):
    """Behind a sink that is stuck senders get 503 with Retry-After, and later all goes on."""
    stuck = Stuck()
    house, source = make_house(delay=0, hand_off=hand_off)

    async def run():
        settings = Settings(limits=Limits(waiting_rows=100, retry_after=3))
        async with open_client(house, settings, sinks={"all": stuck}) as client:
            posts = [
                asyncio.ensure_future(
                    client.post(ROWS, json=[reading(n * 10 + k) for k in range(9)])
                )
                for n in range(40)
            ]
            done, waiting = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
            while not any(each.result().status_code == 503 for each in done):
                more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                done |= more
            stuck.release.set()
            answers = [await each for each in posts]
            last = await client.post(ROWS, json=reading(1_000))
            return answers, last, source.stats().accepted

    answers, last, accepted = asyncio.run(run())
    refused = [each for each in answers if each.status_code == 503]
    assert refused
    assert {each.headers["retry-after"] for each in refused} == {"3"}
    assert {each.status_code for each in answers} <= {200, 503}
    assert last.status_code == 200
    assert accepted == 9 * (len(answers) - len(refused)) + 1


def test_an_answer_that_takes_too_long_is_503(monkeypatch):
    """A request does not hang where a query does; its rows may be in it."""
    monkeypatch.setattr(ingest, "ANSWER_SECONDS", 0.05)
    stuck = Stuck()

    async def run():
        settings = Settings(limits=Limits(waiting_rows=50))
        async with open_client(make_house(delay=0)[0], settings, sinks={"all": stuck}) as client:
            answers = [await client.post(ROWS, json=reading(n)) for n in (1, 2, 3)]
            # the rows still wait, and count
            waiting = answers[0].status_code == 503 or answers[1].status_code == 503
            full = await client.post(ROWS, json=[reading(4)] * 99)
            stuck.release.set()
            while (last := await client.post(ROWS, json=reading(5))).status_code != 200:
                await asyncio.sleep(0.01)
            return answers[-1], waiting, full, last

    last, waiting, full, again = asyncio.run(run())
    assert waiting
    assert (full.status_code, again.status_code) == (503, 200)
    assert "too many rows wait" in full.json()["error"]
    assert last.status_code == 503
    assert "the rows may be in it" in last.json()["error"]
    assert last.headers["retry-after"] == "1"


def test_a_body_of_more_rows_than_a_hand_off_holds_is_too_large():
    """It could never come in at once: 413, not 503."""
    house, _ = make_house(hand_off=rxt.HandOff(5))

    async def run():
        async with open_client(house) as client:
            return [(await client.post(ROWS, json=[reading(n)] * n)).status_code for n in (5, 6)]

    assert asyncio.run(run()) == [200, 413]


def test_a_run_that_has_failed_refuses_until_the_next_one():
    """Its senders get 503 with Retry-After; what they send again is accepted by the next run."""
    house, _ = make_house(delay=0)
    failed = []

    def fail_once(batch):
        if len(batch) and not failed:
            failed.append(batch)
            raise ValueError("the disk is full")

    async def run():
        async with open_client(house, sinks={"all": fail_once}) as client:
            codes = []
            while codes[-1:] != [200] or 503 not in codes:
                answer = await client.post(ROWS, json=reading(1_000 + len(codes)))
                codes.append(answer.status_code)
                assert answer.status_code in (200, 503)
                assert answer.status_code == 200 or "retry-after" in answer.headers
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_refused_rows_do_not_hang_behind_a_stuck_query(monkeypatch):
    """The query is told of them, too; where that takes too long the answer is 503."""
    monkeypatch.setattr(ingest, "ANSWER_SECONDS", 0.05)
    stuck = Stuck()

    async def run():
        house = make_house(delay=0)[0]
        async with open_client(house, sinks={"all": stuck, "refused": stuck}) as client:
            bad = [b"{", b'[{"time": 5}]', b"{", b"{"]
            await client.post(ROWS, json=[reading(1), reading(2)])
            answers = [await client.post(ROWS, content=body) for body in bad]
            stuck.release.set()
            return {each.status_code for each in answers}

    assert asyncio.run(asyncio.wait_for(run(), 10)) <= {400, 200, 503}
