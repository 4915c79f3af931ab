"""Processes of a fleet on this machine: services, senders of devices, and a check of their rows."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from serve_client import cpu_seconds

HERE = Path(__file__).resolve().parent
BEGIN, STEP = 1_767_225_600, 10  # 2026-01-01, and the seconds between two readings of a device
# readings of a device in a minute, and how many minutes are sent after all kills
MINUTE, PULSES = 60 // STEP, 2
# seconds; on a busy machine Spark alone takes minutes to start
PATIENCE = 600.0
AGAIN = (408, 429, 503)


def find_port() -> int:
    """Return a free port of the loopback device."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def read_memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def add_sizes(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process has just renamed it
            found += path.stat().st_size if path.is_file() else 0
    return found


class Service:
    """A process that serves ``fleet_house.py`` with a folder and a port that stay."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port, self.name, self._folder = find_port(), name, folder
        self.state = folder / name / "state"
        self.state.parent.mkdir()
        self.kills = 0
        self._settings = folder / name / "serve.toml"
        self._settings.write_text(
            f'[server]\nport = {self.port}\n[state]\nfolder = "{self.state}"\n'
            '[limits]\nahead = "off"\n[queries.accepted.sink]\nkind = "parquet_folder"\n'
            f'path = "{folder / "accepted"}"\nevery = "1s"\n'
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rxtemporal", "serve", f"{HERE / 'fleet_house.py'}:app"]
        with (self._folder / self.name / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--config", str(self._settings)], stdout=log, stderr=log
            )

    @property
    def memory(self) -> int:
        """The resident memory in bytes."""
        return read_memory(self.process.pid)

    def kill(self) -> None:
        """Kill the process, and start it again on its folder."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.process = self._start()

    def stop(self) -> None:
        """End the process as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(PATIENCE) not in (0, -signal.SIGTERM):
            raise SystemExit((self._folder / self.name / "log").read_text())


@contextlib.contextmanager
def start_services(folder: Path, count: int) -> Iterator[list[Service]]:
    """Start services; those that are there at the end are killed."""
    services: list[Service] = []
    try:
        for number in range(count):
            services.append(Service(folder, f"service-{number}"))
        yield services
    finally:
        for each in services:
            if each.process.poll() is None:
                each.process.kill()
            each.process.wait()


def place(device: str, processes: int) -> int:
    """Return the process of a device: the same in every program, whenever it is asked."""
    return zlib.crc32(device.encode()) % processes


def draw_temp(draw: random.Random) -> float:
    """Return a temperature with two digits behind the point."""
    return draw.randrange(-2_000, 4_000) / 100


class Sender:
    """A gateway that sends the readings of devices, and sends again until there is a receipt."""

    def __init__(self, service: Service, name: str, devices: Sequence[str], size: int) -> None:
        self._service, self._source, self._devices, self._size = service, name, devices, size
        self._connection: http.client.HTTPConnection | None = None
        self._seq, self._draw = 0, random.Random(name)
        self._thread = threading.Thread()
        self.rows = self.again = 0
        self.error: BaseException | None = None

    def start(self, rounds: range, closing: int | None = None) -> None:
        """Send the readings with these numbers in a thread, and a last one at another time."""
        times = [(BEGIN + STEP * number, number) for number in rounds]
        times += [] if closing is None else [(BEGIN + closing, -1)]
        self._thread = threading.Thread(target=self._send, args=(times,), daemon=True)
        self._thread.start()

    @property
    def is_sending(self) -> bool:
        """True until all readings have a receipt."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait until all readings have a receipt; raise the error if there is one."""
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _send(self, times: Sequence[tuple[int, int]]) -> None:
        try:
            for moment, number in times:
                for first in range(0, len(self._devices), self._size):
                    devices = self._devices[first : first + self._size]
                    self._send_rows(self._make(devices, moment, number), len(devices))
        except BaseException as error:
            self.error = error

    def close_fleet(self, moment: int) -> None:
        """Say that no device sends anything from before this time."""
        self._post("/streams/readings/cti", json.dumps({"time": BEGIN + moment}).encode())

    def _make(self, devices: Sequence[str], moment: int, number: int) -> bytes:
        lines = [
            f'{{"time":{moment},"device":"{device}","n":{number},'
            f'"temp":{draw_temp(self._draw)},"seq":{seq}}}\n'
            for seq, device in enumerate(devices, self._seq)
        ]
        self._seq += len(devices)
        return "".join(lines).encode()

    def _send_rows(self, body: bytes, count: int) -> None:
        receipt = self._post("/streams/readings", body)
        if receipt["accepted"] + receipt["duplicates"] != count or not receipt["durable"]:
            raise SystemExit(f"a receipt that was not expected: {receipt}")
        self.rows += count

    def _post(self, path: str, body: bytes) -> dict[str, Any]:
        """Return the receipt of a request, which is repeated until there is one."""
        ends = time.monotonic() + PATIENCE
        kind = "application/json" if path.endswith("cti") else "application/x-ndjson"
        headers = {"Content-Type": kind, "Source": self._source}
        while time.monotonic() < ends:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection(
                        "127.0.0.1", self._service.port, timeout=30
                    )
                self._connection.request("POST", path, body, headers)
                answer = self._connection.getresponse()
                content = answer.read()
                if answer.status == 200:
                    return dict(json.loads(content))
                if answer.status not in AGAIN:
                    raise SystemExit(f"{answer.status}: {content[:400]!r}")
            except (OSError, http.client.HTTPException):
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
            self.again += 1
            time.sleep(0.1)
        raise SystemExit(f"{self._service.name} has not answered for {PATIENCE:g} seconds")


class Job:
    """The Spark job, in a process group of its own, since Java and its workers belong to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(HERE / "fleet_job.py"), str(self._folder)]
        with (self._folder / "job.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill(self) -> None:
        """Kill the job, and start it again on its checkpoint."""
        self._end()
        self.process = self._start()

    def check(self) -> None:
        """Raise the end of the job's log if it has failed."""
        if self.process.poll():
            raise SystemExit((self._folder / "job.log").read_text()[-4000:])

    def wait(self, seconds: float) -> None:
        """Wait until the job has read everything."""
        self.process.wait(seconds)
        self.check()

    def close(self) -> None:
        """End what is left of the job."""
        self._end()


class Checked:
    """What a check has measured."""

    def __init__(self) -> None:
        self.rows = self.kills = self.again = 0
        # of the rows that came while nothing was killed and started
        self.cpu, self.cpu_rows = 0.0, 0
        self.memory: list[int] = []
        self.bytes = 0
        self.batches: list[tuple[int, int, float]] = []


def check(folder: Path, devices: int, rounds: int, processes: int, size: int) -> Checked:
    """Run a fleet, kill each of its processes once and the job once, and compare all rows."""
    found = Checked()
    names = [f"device-{number}" for number in range(devices)]
    (folder / "accepted").mkdir()
    with start_services(folder, processes) as services, contextlib.closing(Job(folder)) as job:
        parts = [[n for n in names if place(n, processes) == p] for p in range(processes)]
        senders = [
            Sender(service, f"gateway-{number}", part, size)
            for number, (service, part) in enumerate(zip(services, parts, strict=True))
        ]
        for each in senders:
            each.start(range(rounds))
        for number, service in enumerate(services):
            # each is killed when its gateway has sent a part of its own readings
            mark = len(parts[number]) * rounds * (number + 1) // (processes + 2)
            _wait(lambda mark=mark, it=senders[number]: it.rows >= mark or not it.is_sending, job)
            service.kill()
            if number == processes // 2:
                _wait(lambda: _find_commit(folder) >= 0, job)
                job.kill()
        for each in senders:
            each.wait()
        for last in range(rounds + MINUTE, rounds + PULSES * MINUTE + 1, MINUTE):
            _pulse(folder, services, senders, job, range(last - MINUTE, last), found)
        for each in senders:
            each.start(range(0), closing=36_000)
        for each in senders:
            each.wait()
            each.close_fleet(72_000)
        found.memory = [each.memory for each in services]
        for each in services:
            each.stop()
        found.bytes = add_sizes(folder / "accepted")
        (folder / "sent").touch()
        job.wait(PATIENCE * 2)
    found.rows = sum(each.rows for each in senders)
    found.again = sum(each.again for each in senders)
    found.kills = sum(each.kills for each in services)
    lines = (folder / "micro-batches.jsonl").read_text().splitlines()
    found.batches = [tuple(json.loads(line)) for line in lines]
    _compare(folder, names, rounds + PULSES * MINUTE)
    return found


def _pulse(
    folder: Path,
    services: list[Service],
    senders: list[Sender],
    job: Job,
    rounds: range,
    found: Checked,
) -> None:
    """Send some readings, note the CPU time that they cost, and wait until Spark has some."""
    commit = _find_commit(folder)
    before = sum(cpu_seconds(each.process.pid) for each in services)
    rows = sum(each.rows for each in senders)
    for each in senders:
        each.start(rounds)
    for each in senders:
        each.wait()
    found.cpu += sum(cpu_seconds(each.process.pid) for each in services) - before
    found.cpu_rows += sum(each.rows for each in senders) - rows
    _wait(lambda: _find_commit(folder) > commit, job)


def _find_commit(folder: Path) -> int:
    """Return the number of the last micro-batch that is committed; -1 if there is none."""
    commits = folder / "checkpoint" / "commits"
    names = [path.name for path in commits.iterdir()] if commits.exists() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _wait(until: Callable[[], bool], job: Job) -> None:
    """Wait until the fleet has come so far; a job that has failed is told at once."""
    ends = time.monotonic() + PATIENCE
    while not until():
        job.check()
        if time.monotonic() > ends:
            raise SystemExit("the fleet has not come as far in time")
        time.sleep(0.02)


def _compare(folder: Path, names: list[str], rounds: int) -> None:
    """Compare what was accepted, and the final table, with what the gateways have receipts for."""
    accepted = pl.read_parquet(sorted((folder / "accepted").glob("*.parquet")))
    expected = pl.DataFrame({"device": names}).join(
        pl.DataFrame({"n": [*range(rounds), -1]}), how="cross"
    )
    keys = ["device", "n"]
    if not accepted.select(keys).sort(keys).equals(expected.sort(keys)):
        raise SystemExit(
            f"{expected.height} rows have a receipt, {accepted.height} are in the files, "
            f"{accepted.n_unique(keys)} different ones"
        )
    wanted = expected.filter(pl.col("n") >= 0).group_by("device", minute=pl.col("n") // MINUTE).agg(
        readings=pl.len().cast(pl.Int64),
        different=pl.len().cast(pl.Int64),
        first=pl.min("n"),
        last=pl.max("n"),
    )  # fmt: skip
    columns = ["device", "readings", "different", "first", "last"]
    final = pl.read_parquet(folder / "final.parquet").select(columns)
    wanted, final = (each.select(columns).sort(columns) for each in (wanted, final))
    final = final.cast(dict(wanted.schema))
    if not final.equals(wanted):
        raise SystemExit(f"the table differs: {wanted.height} rows expected, found:\n{final}")
