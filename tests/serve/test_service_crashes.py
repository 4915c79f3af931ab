"""Crashes of a service: what has a receipt is in the result once, or in the dead letters.

``rxtemporal serve`` (``support/crash_service.py``) is killed between two steps from the arrival of
a request to its receipt and to the checkpoint, or at a random moment, and begun again. Its clients
(``support/crash_clients.py``) go on meanwhile: each sends again what has no receipt, and some of
what has.

``RXTEMPORAL_CRASH_ROUNDS`` is the number of rounds of the full run, ``RXTEMPORAL_CRASH_SEED``
repeats a draw.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from child_process import HERE, environment
from crash_clients import Client, LinesClient, Place, PlainClient, SocketClient
from crash_service import DELAY, POINTS

ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
# a point that is not reached after so many receipts is in nobody's way
MOST_RECEIPTS = 5_000
# a machine that is busy takes long
PATIENCE = 120

CONFIG = """
[server]
port = 0
[state]
folder = "state"
[dead_letters]
folder = "letters"
[limits]
ahead = {ahead}
"""


class Crashes:
    """Lives of a service, and the clients that it has."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self._draw = folder, draw
        self.place = Place()
        kinds = (Client, LinesClient, SocketClient, PlainClient)
        self.clients = [kind(kind.__name__, self.place, draw.getrandbits(32)) for kind in kinds]
        for client in self.clients:
            client.others = self.clients[:3]

    async def run(self, points: Sequence[str]) -> None:
        """Kill the service at each point, "" at random; then let all clients end."""
        sending = asyncio.gather(*(client.run() for client in self.clients))
        for point in points:
            lives = asyncio.create_task(self._live(point, self._draw.randrange(1, 5)))
            # an assertion of a client is told at once
            await asyncio.wait({lives, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not lives.done():
                lives.cancel()
                await sending
            await lives
        self.place.last = max(client.next for client in self.clients) + 100
        service = await self._start("", 0)
        await asyncio.wait_for(sending, PATIENCE)
        await self._stop(service)

    async def _live(self, point: str, nth: int) -> None:
        """Run the service until it is killed."""
        before = self.place.receipts
        most = MOST_RECEIPTS if point else self._draw.randrange(1, 300)
        service = await self._start(point, nth)
        try:
            while service.returncode is None and self.place.receipts - before < most:
                await asyncio.sleep(0.002)
            reached = service.returncode is not None
        finally:
            if service.returncode is None:
                service.kill()
            self.place.there.clear()
            assert await service.wait() == -signal.SIGKILL
        assert reached or not point, f"not reached: {point}"

    async def _start(self, point: str, nth: int) -> asyncio.subprocess.Process:
        service = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            str(HERE / "crash_service.py"),
            "serve.toml",
            point,
            str(nth),
            cwd=self.folder,
            env=environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        assert service.stderr is not None
        told = []
        async for line in service.stderr:
            told.append(line.decode())
            if told[-1].startswith("listening on "):
                self.place.url = told[-1].split()[-1]
                self.place.there.set()
                break
        # one that is killed by its first steps never listens
        assert self.place.there.is_set() or await service.wait() == -signal.SIGKILL, told
        return service

    async def _stop(self, service: asyncio.subprocess.Process) -> None:
        """Let all rows come out, and stop the service."""
        async with httpx.AsyncClient(base_url=self.place.url, timeout=PATIENCE) as http:
            for stream in ("rows", "plain"):
                time = {"time": self.place.last + 2 * DELAY}
                assert (await http.post(f"/streams/{stream}/cti", json=time)).status_code == 200
        service.terminate()
        _, rest = await service.communicate()
        assert service.returncode == 0, rest.decode()

    def check(self) -> None:
        """Check that each row is in the result once, and each refused one in the dead letters."""
        *numbered, plain = self.clients
        expected = Counter((each.name, n) for each in numbered for n in range(self.place.last))
        assert self._read_rows("rows") == expected
        assert max(max(each.accepted.values()) for each in numbered) == 1
        found = self._read_rows("plain")
        assert set(found) == {(plain.name, n) for n in range(self.place.last)}
        assert {n for (_, n), count in found.items() if count > 1} <= plain.repeated
        letters = "".join(
            path.read_text("utf-8") for path in (self.folder / "letters").glob("*.jsonl")
        )
        marks = set.union(*(each.refused for each in numbered))
        assert {mark for mark in marks if mark not in letters} == set()

    def _read_rows(self, name: str) -> Counter[tuple[str, int]]:
        """Return the rows of a result, which is a hidden file until the stream ends."""
        lines = (self.folder / f".{name}.jsonl.part").read_text("utf-8").splitlines()
        return Counter((row["device"], row["n"]) for row in map(json.loads, lines))


def run_crashes(folder: Path, points: Sequence[str], draw: random.Random, ahead: str) -> None:
    """Kill a service at these points; then check its results."""
    (folder / "serve.toml").write_text(CONFIG.format(ahead=ahead), "utf-8")
    crashes = Crashes(folder, draw)
    asyncio.run(crashes.run(points))
    crashes.check()


def test_receipts_outlive_a_service_that_is_killed(tmp_path: Path) -> None:
    """A kill between two steps and one at random: each row that has a receipt is safe."""
    draw = random.Random(0)
    run_crashes(tmp_path, [draw.choice(POINTS), ""], draw, '"off"')


@pytest.mark.full
@pytest.mark.parametrize("number", range(ROUNDS))
def test_receipts_outlive_all_kills(tmp_path: Path, number: int) -> None:
    """A kill at each point, in a drawn order, and at random moments."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)) or random.SystemRandom().getrandbits(32)
    print(f"RXTEMPORAL_CRASH_SEED={seed}, round {number}")
    draw = random.Random(seed)
    # rows that are compared with the clock take another way than those that only have to wait
    ahead = draw.choice(['"off"', "60"])
    points = [*POINTS, *[""] * 6]
    run_crashes(tmp_path, draw.sample(points, len(points)), draw, ahead)
