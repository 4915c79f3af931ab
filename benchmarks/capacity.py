"""Plan of a fleet from measured figures: processes, cores, memory, disk and micro-batches.

    python benchmarks/capacity.py --devices 1_000_000 --rate 20_000
    python benchmarks/capacity.py --measure
    python benchmarks/capacity.py --check

``--rate`` is the number of rows that all devices together send in a second. The figures are in
``capacity.json``, with the date and the number of cores; ``--measure`` measures them here and
writes the file. Times are measured twice: with cores that nothing else uses, and where four
processes, their gateways and a Spark job share the cores of the machine. ``--check`` runs such a
fleet, kills each process and the job once, compares the final table with the receipts, and compares
the run with what the model predicts.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import json
import math
import os
import platform
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import fleet
import fleet_job
import polars as pl

import rxtemporal as rxt
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS

FIGURES = Path(__file__).with_suffix(".json")
DISK = os.environ.get("RXTEMPORAL_DISK")
# seconds of rows that the event log has at most before a checkpoint cuts it
LOG_SECONDS = 10
ROWS_OF_A_BODY = 100
FEW, MANY = 1_000, 21_000
# of a fleet on this machine
PROCESSES, DEVICES = 4, 20_000


@dataclasses.dataclass(frozen=True)
class Costs:
    """Measured times, in seconds: of a process for each row, and of the job on so many cores."""

    cpu_of_a_row: float
    micro_batch: float
    micro_batch_of_a_row: float

    def predict(self, rows: int) -> float:
        """Return the seconds of a micro-batch of so many rows."""
        return self.micro_batch + rows * self.micro_batch_of_a_row


@dataclasses.dataclass(frozen=True)
class Figures:
    """Measured figures of one machine; sizes are in bytes."""

    date: str
    cores: int
    machine: str
    python: str
    # processes that wanted a core, of other users too: figures of a busy machine are too high
    load: float
    # of a process that serves: rows in bodies of 100, with receipts that are on disk
    rows_per_second: float
    memory_of_a_process: float
    memory_of_a_device: float
    state_of_a_device: float
    log_of_a_row: float
    accepted_of_a_row: float
    job_cores: int
    # with cores of their own, and where processes, gateways and job share the cores
    alone: Costs
    shared: Costs

    @classmethod
    def read(cls) -> Figures:
        """Return the figures of the file."""
        found = json.loads(FIGURES.read_text("utf-8"))
        costs = {name: Costs(**found.pop(name)) for name in ("alone", "shared")}
        return cls(**found, **costs)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a fleet needs; sizes are in bytes, ``disk`` without the accepted rows."""

    processes: int
    memory: float
    disk: float
    accepted_of_a_day: float
    job_cores: int
    micro_batch: float

    @property
    def cores(self) -> int:
        """One core for each process, and those of the job."""
        return self.processes + self.job_cores


def plan(
    figures: Figures, costs: Costs, devices: int, rate: float, busy: float, senders: int
) -> Plan:
    """Return the plan of a fleet whose cores are busy for at most this share of the time."""
    rows_of_a_process = busy * min(figures.rows_per_second, 1 / costs.cpu_of_a_row)
    processes = max(math.ceil(rate / rows_of_a_process), math.ceil(senders / MOST_INPUTS))
    memory = processes * figures.memory_of_a_process + devices * figures.memory_of_a_device
    # the state is there twice while a checkpoint is written
    disk = 2 * devices * figures.state_of_a_device + LOG_SECONDS * rate * figures.log_of_a_row
    work = rate * costs.micro_batch_of_a_row
    parts = max(1, math.ceil(work / busy))
    return Plan(
        processes=processes,
        memory=memory,
        disk=disk,
        accepted_of_a_day=86_400 * rate * figures.accepted_of_a_row,
        job_cores=parts * figures.job_cores,
        micro_batch=costs.micro_batch / (1 - work / parts),
    )


def show(devices: int, rate: float, busy: float, senders: int, *, shared: bool) -> None:
    """Print the plan."""
    figures = Figures.read()
    costs = figures.shared if shared else figures.alone
    found = plan(figures, costs, devices, rate, busy, senders)
    each = found.processes
    print(f"{devices:,} devices, {rate:,.0f} rows a second, cores busy for at most {busy:.0%}")
    print(f"measured on {figures.date}: {figures.cores} cores, load {figures.load:.1f}")
    print(f"  processes        {each:>12,}   one core each, {devices / each:,.0f} devices each")
    print(f"  cores            {found.cores:>12,}   {found.job_cores} of them for Spark")
    print(
        f"  memory           {found.memory / 1e9:>12,.1f} GB, "
        f"{found.memory / each / 1e9:,.2f} GB a process, without Spark"
    )
    print(f"  disk             {found.disk / 1e9:>12,.1f} GB for states and logs")
    print(f"  accepted rows    {found.accepted_of_a_day / 1e9:>12,.1f} GB a day, in Parquet files")
    print(f"  micro-batch      {found.micro_batch:>12,.1f} s at least between two")


# Measure ------------------------------------------------------------------------------------------


def measure(seconds: float) -> Figures:
    """Return the figures of this machine."""
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        folder = Path(name)
        (folder / "accepted").mkdir()
        served, cpu = measure_service(folder, seconds)
        served["log_of_a_row"] = measure_log(folder / "log")
        load = os.getloadavg()[0]
        alone = Costs(cpu, *measure_job(folder))
        shared = measure_shared(folder / "shared")
    return Figures(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        cores=len(os.sched_getaffinity(0)),
        machine=platform.machine(),
        python=platform.python_version(),
        load=load,
        job_cores=fleet_job.CORES,
        alone=alone,
        shared=shared,
        **served,
    )


def measure_service(folder: Path, seconds: float) -> tuple[dict[str, float], float]:
    """Return the figures of one process while several gateways send, and its CPU time of a row."""
    with fleet.start_services(folder, 1) as (service,):
        names = [f"device-{number}" for number in range(MANY)]
        parts = [names[:FEW], *(names[FEW + part :: 7] for part in range(7))]
        first, *others = senders = [
            fleet.Sender(service, f"gateway-{number}", part, ROWS_OF_A_BODY)
            for number, part in enumerate(parts)
        ]
        first.start(range(20))  # also compiles
        first.wait()
        before = service.memory
        _send(others, 20)
        rows = sum(each.rows for each in senders)
        cpu, begun, number = fleet.cpu_seconds(service.process.pid), time.monotonic(), 21
        while time.monotonic() < begun + seconds:
            _send(senders, number)
            number += 1
        took, cpu = time.monotonic() - begun, fleet.cpu_seconds(service.process.pid) - cpu
        rows = sum(each.rows for each in senders) - rows
        after = service.memory
        first.close_fleet(36_000)
        service.stop()
        accepted = fleet.add_sizes(folder / "accepted")
        state = fleet.add_sizes(service.state)
        total = pl.read_parquet(sorted((folder / "accepted").glob("*.parquet"))).height
    figures = {
        "rows_per_second": rows / took,
        "memory_of_a_process": before,
        "memory_of_a_device": max(0, after - before) / (MANY - FEW),
        "state_of_a_device": state / MANY,
        "accepted_of_a_row": accepted / total,
    }
    return figures, cpu / rows


def _send(senders: Sequence[fleet.Sender], number: int) -> None:
    """Send the readings with one number, all gateways at once."""
    for each in senders:
        each.start(range(number, number + 1))
    for each in senders:
        each.wait()


def measure_log(folder: Path) -> float:
    """Return the bytes of the event log for a row that came in a body of 100."""
    source = rxt.PushSource("rows", schema={"device": str, "n": int, "temp": float}, delay=1)
    process = source.stream.run(lambda batch: None, log=folder)
    draw = random.Random(7)
    for number in range(200):
        rows = [
            {
                "time": number,
                "device": f"device-{device}",
                "n": number,
                "temp": fleet.draw_temp(draw),
            }
            for device in range(ROWS_OF_A_BODY)
        ]
        source.push(rows)
    process.stop()
    return fleet.add_sizes(folder) / (200 * ROWS_OF_A_BODY)


def measure_job(folder: Path) -> tuple[float, float]:
    """Return the fixed seconds of a micro-batch, and those of a row."""
    sizes = (1_000, 201_000)
    few, many = map(statistics.median, fleet_job.measure(folder, sizes, 7))
    if many <= few:
        raise SystemExit(f"{sizes} rows took {few:.2f} and {many:.2f} s: the machine is too busy")
    cost = (many - few) / (sizes[1] - sizes[0])
    return few - sizes[0] * cost, cost


def measure_shared(folder: Path) -> Costs:
    """Return the costs where processes, a gateway for each and the job share the cores."""
    (folder / "accepted").mkdir(parents=True)
    ended = threading.Event()
    with fleet.start_services(folder, PROCESSES) as services:
        senders = [
            fleet.Sender(
                service,
                f"gateway-{number}",
                [f"device-{number}-{device}" for device in range(DEVICES // PROCESSES)],
                ROWS_OF_A_BODY,
            )
            for number, service in enumerate(services)
        ]

        def send() -> None:
            for number in itertools.count(2):
                if ended.is_set():
                    break
                _send(senders, number)

        _send(senders, 0)  # also compiles
        _send(senders, 1)
        cpu, rows = _count(services, senders)
        sending = threading.Thread(target=send)
        sending.start()
        try:
            fixed, cost = measure_job(folder)
        finally:
            ended.set()
            sending.join()
        cpu_after, rows_after = _count(services, senders)
    return Costs((cpu_after - cpu) / (rows_after - rows), fixed, cost)


def _count(services: Sequence[fleet.Service], senders: Sequence[fleet.Sender]) -> tuple[float, int]:
    """Return the CPU time of all processes so far, and their rows."""
    cpu = sum(fleet.cpu_seconds(each.process.pid) for each in services)
    return cpu, sum(each.rows for each in senders)


# Check --------------------------------------------------------------------------------------------


def check(devices: int, rounds: int, size: int) -> None:
    """Run a fleet with crashes, compare its rows, and print predictions beside measurements."""
    figures = Figures.read()
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        found = fleet.check(Path(name), devices, rounds, PROCESSES, size)
    print(
        f"{found.rows:,} rows of {devices:,} devices have a receipt, and each is in the files and "
        f"in the windows of the final table once; {found.kills} processes and the Spark job were "
        f"killed, {found.again} requests were repeated"
    )
    print(f"{'':<40}{'predicted':>12}{'and shared':>12}{'measured':>12}")
    each = figures.memory_of_a_process + devices / PROCESSES * figures.memory_of_a_device
    _compare("memory of a process, MB", [each / 1e6], statistics.median(found.memory) / 1e6)
    both = figures.alone, figures.shared
    work = [found.cpu_rows * each.cpu_of_a_row for each in both]
    _compare(f"CPU of {found.cpu_rows:,} rows, s", work, found.cpu)
    bytes_ = found.rows * figures.accepted_of_a_row
    _compare("files of accepted rows, MB", [bytes_ / 1e6], found.bytes / 1e6)
    # the first one since the job was started has to start Python's processes, too
    for number, rows, seconds in found.batches[1:]:
        predicted = [each.predict(rows) for each in both]
        _compare(f"micro-batch {number} of {rows:,} rows, s", predicted, seconds)


def _compare(what: str, predicted: Sequence[float], measured: float) -> None:
    """Print predictions, with cores of their own and with shared ones, beside a measurement."""
    shown = "".join(f"{each:>12,.2f}" for each in predicted)
    print(f"{what:<40}{shown:<24}{measured:>12,.2f}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, help=f"default: 1,000,000; with --check {DEVICES:,}")
    parser.add_argument("--rate", type=float, help="rows a second; default: one a minute a device")
    parser.add_argument("--senders", type=int, help="sources with numbers; default: each device")
    parser.add_argument("--busy", type=float, default=0.5, help="share of a core to be used")
    parser.add_argument("--shared", action="store_true", help="other work uses the same cores, too")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the load in --measure")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounds", type=int, default=12, help="readings of a device in --check")
    parser.add_argument("--size", type=int, default=ROWS_OF_A_BODY, help="rows of a body there")
    options = parser.parse_args()
    if not 0 < options.busy < 1:
        parser.error("--busy is a share between 0 and 1")
    if options.measure:
        figures = dataclasses.asdict(measure(options.seconds))
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    elif options.check:
        check(options.devices or DEVICES, options.rounds, options.size)
        return
    devices = options.devices or 1_000_000
    rate, senders = options.rate or devices / 60, options.senders or devices
    show(devices, rate, options.busy, senders, shared=options.shared)


if __name__ == "__main__":
    main()
