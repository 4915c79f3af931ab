"""Plan of a fleet from measured figures: processes, cores, memory, disk and micro-batches.

    python benchmarks/capacity.py --devices 1_000_000 --rate 20_000
    python benchmarks/capacity.py --measure
    python benchmarks/capacity.py --check

``--rate`` is the number of rows that all devices together send in a second. The figures are in
``capacity.json``, with the date and the number of cores; ``--measure`` measures them here and
writes the file. ``--check`` runs four processes and one Spark job, kills each of them once,
compares the final table with the receipts, and compares the run with what the model predicts.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import fleet
import polars as pl

import rxtemporal as rxt
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS

FIGURES = Path(__file__).with_suffix(".json")
DISK = os.environ.get("RXTEMPORAL_DISK")
# seconds of rows that the event log has at most before a checkpoint cuts it
LOG_SECONDS = 10
ROWS_OF_A_BODY = 100
FEW, MANY = 1_000, 21_000


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
    cpu_seconds_per_row: float
    memory_of_a_process: float
    memory_of_a_device: float
    state_of_a_device: float
    log_of_a_row: float
    accepted_of_a_row: float
    # of the Spark job, on so many cores: a micro-batch takes this, and this for each row
    job_cores: int
    micro_batch_seconds: float
    micro_batch_seconds_per_row: float

    @classmethod
    def read(cls) -> Figures:
        """Return the figures of the file."""
        return cls(**json.loads(FIGURES.read_text("utf-8")))


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


def plan(figures: Figures, devices: int, rate: float, busy: float, senders: int) -> Plan:
    """Return the plan of a fleet whose cores are busy for at most this share of the time."""
    rows_of_a_process = busy * min(figures.rows_per_second, 1 / figures.cpu_seconds_per_row)
    processes = max(math.ceil(rate / rows_of_a_process), math.ceil(senders / MOST_INPUTS))
    memory = processes * figures.memory_of_a_process + devices * figures.memory_of_a_device
    # the state is there twice while a checkpoint is written
    disk = 2 * devices * figures.state_of_a_device + LOG_SECONDS * rate * figures.log_of_a_row
    work = rate * figures.micro_batch_seconds_per_row
    parts = max(1, math.ceil(work / busy))
    return Plan(
        processes=processes,
        memory=memory,
        disk=disk,
        accepted_of_a_day=86_400 * rate * figures.accepted_of_a_row,
        job_cores=parts * figures.job_cores,
        micro_batch=figures.micro_batch_seconds / (1 - work / parts),
    )


def show(devices: int, rate: float, busy: float, senders: int) -> None:
    """Print the plan."""
    figures = Figures.read()
    found = plan(figures, devices, rate, busy, senders)
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
        served = measure_service(folder, seconds)
        served["log_of_a_row"] = measure_log(folder / "log")
        fixed, cost, cores = measure_job(folder)
    return Figures(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        cores=len(os.sched_getaffinity(0)),
        machine=platform.machine(),
        python=platform.python_version(),
        load=os.getloadavg()[0],
        job_cores=cores,
        micro_batch_seconds=fixed,
        micro_batch_seconds_per_row=cost,
        **served,
    )


def measure_service(folder: Path, seconds: float) -> dict[str, float]:
    """Return the figures of one process, while several gateways send."""
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
    return {
        "rows_per_second": rows / took,
        "cpu_seconds_per_row": cpu / rows,
        "memory_of_a_process": before,
        "memory_of_a_device": max(0, after - before) / (MANY - FEW),
        "state_of_a_device": state / MANY,
        "accepted_of_a_row": accepted / total,
    }


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


def measure_job(folder: Path) -> tuple[float, float, int]:
    """Return the fixed seconds of a micro-batch, those of a row, and the cores."""
    import fleet_job

    sizes = (1_000, 201_000)
    few, many = map(statistics.median, fleet_job.measure(folder, sizes, 7))
    if many <= few:
        raise SystemExit(f"{sizes} rows took {few:.2f} and {many:.2f} s: the machine is too busy")
    cost = (many - few) / (sizes[1] - sizes[0])
    return few - sizes[0] * cost, cost, fleet_job.CORES


# Check --------------------------------------------------------------------------------------------


def check(devices: int, rounds: int, size: int) -> None:
    """Run a fleet with crashes, compare its rows, and print predictions beside measurements."""
    figures = Figures.read()
    with tempfile.TemporaryDirectory(dir=DISK) as name:
        found = fleet.check(Path(name), devices, rounds, 4, size)
    print(
        f"{found.rows:,} rows of {devices:,} devices have a receipt, and each is in the files and "
        f"in the windows of the final table once; {found.kills} processes and the Spark job were "
        f"killed, {found.again} requests were repeated"
    )
    print(f"{'':<40}{'predicted':>12}{'measured':>12}")
    each = figures.memory_of_a_process + devices / 4 * figures.memory_of_a_device
    _compare("memory of a process, MB", each / 1e6, statistics.median(found.memory) / 1e6)
    work = found.cpu_rows * figures.cpu_seconds_per_row
    _compare(f"CPU of {found.cpu_rows:,} rows, s", work, found.cpu)
    _compare(
        "files of accepted rows, MB", found.rows * figures.accepted_of_a_row / 1e6,
        found.bytes / 1e6,
    )  # fmt: skip
    # the first one since the job was started has to start Python's processes, too
    for number, rows, seconds in found.batches[1:]:
        predicted = figures.micro_batch_seconds + rows * figures.micro_batch_seconds_per_row
        _compare(f"micro-batch {number} of {rows:,} rows, s", predicted, seconds)


def _compare(what: str, predicted: float, measured: float) -> None:
    print(f"{what:<40}{predicted:>12,.2f}{measured:>12,.2f}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, help="default: 1,000,000; with --check 20,000")
    parser.add_argument("--rate", type=float, help="rows a second; default: one a minute a device")
    parser.add_argument("--senders", type=int, help="sources with numbers; default: each device")
    parser.add_argument("--busy", type=float, default=0.5, help="share of a core to be used")
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
        check(options.devices or 20_000, options.rounds, options.size)
        return
    devices = options.devices or 1_000_000
    show(devices, options.rate or devices / 60, options.busy, options.senders or devices)


if __name__ == "__main__":
    main()
