"""Crashes of a consumer and of its MQTT broker: each row is in the result exactly once."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import mqtt_consumer
import pytest
from mosquitto import Mosquitto, broker, make_rows, publish, start_publisher

DEVICES = 3
SEED = int(os.environ.get("RXTEMPORAL_CRASH_SEED") or random.randrange(2**32))
# seconds without a message after which all have come
QUIET = 3.0
# the log of the broker says who has subscribed
MORE = "allow_anonymous true\nlog_type all\n"
# the broker saves whatever changes, soon
SAVES = "autosave_on_changes true\nautosave_interval 1\n"


@dataclasses.dataclass
class Consumers:
    """Consumers over one folder, one after the other."""

    folder: Path
    mosquitto: Mosquitto
    delay: int = 400
    version: int = 5

    def start(self, quiet: float = 3600) -> subprocess.Popen[str]:
        """Start one, and wait until its run has begun."""
        numbers = map(str, (self.mosquitto.port, quiet, self.delay, self.version))
        command = [sys.executable, mqtt_consumer.__file__, str(self.folder), *numbers]
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        return started

    def start_session(self) -> subprocess.Popen[str]:
        """Start the first one, and wait until the broker keeps its messages."""
        started = self.start()
        deadline = time.monotonic() + 120
        while "Sending SUBACK to consumer" not in self.mosquitto.log:
            assert time.monotonic() < deadline, self.mosquitto.log
            time.sleep(0.01)
        return started

    def check(self, count: int) -> None:
        """Let a last one take the rest; each row is in the result exactly once."""
        assert self.start(QUIET).wait(300) == 0
        wanted = {(f"d{device}", n) for device in range(DEVICES) for n in range(count)}
        lines = (self.folder / "rows.jsonl").read_text().splitlines()
        found = Counter((row["device"], row["n"]) for row in map(json.loads, lines))
        assert found == Counter(wanted), (len(found), len(wanted))


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a consumer wherever it is."""
    process.send_signal(signal.SIGKILL)
    process.wait(20)


def crash_consumers(folder: Path, seed: str, kills: int, count: int, version: int) -> None:
    """Kill consumers at random while messages come."""
    draw = random.Random(seed)
    with broker(MORE) as mosquitto:
        consumers = Consumers(folder, mosquitto, version=version)
        consumer = consumers.start_session()
        publisher = start_publisher(mosquitto.port, count, str(DEVICES))
        for number in range(kills):
            if number:
                consumer = consumers.start()
            time.sleep(draw.uniform(0.05, 0.6))
            kill(consumer)
        assert publisher.wait(300) == 0
        consumers.check(count)


def crash_brokers(folder: Path, seed: str, kills: int, count: int) -> None:
    """Kill the broker at random while messages come; those that it has lost are sent again."""
    draw = random.Random(seed)
    with broker(MORE + SAVES) as mosquitto:
        consumers = Consumers(folder, mosquitto, delay=1_000_000)
        consumer = consumers.start_session()
        publisher = start_publisher(mosquitto.port, count, str(DEVICES))
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, 0.5))
            mosquitto.restart(signal.SIGKILL)
        assert publisher.wait(300) == 0
        kill(consumer)
        # the broker answers publishers before it writes: one that knows repeats all
        publish(mosquitto.port, make_rows(count, DEVICES))
        consumers.check(count)


def test_a_killed_consumer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """What was not durable when the process was killed comes again, and nothing counts twice."""
    crash_consumers(tmp_path, str(SEED), 1, 1_000, 5)


@pytest.mark.full
@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("number", range(5))
def test_consumers_are_killed_at_random(tmp_path: Path, version: int, number: int) -> None:
    """Five rounds with each protocol."""
    print("RXTEMPORAL_CRASH_SEED", SEED)
    crash_consumers(tmp_path, f"{SEED} {version} {number}", 4, 2_000, version)


@pytest.mark.full
@pytest.mark.parametrize("number", range(10))
def test_brokers_are_killed_at_random(tmp_path: Path, number: int) -> None:
    """The consumer goes on with a broker that was killed, whatever that has lost."""
    print("RXTEMPORAL_CRASH_SEED", SEED)
    crash_brokers(tmp_path, f"{SEED} {number}", 2, 500)


@pytest.mark.full
@pytest.mark.parametrize("version", [3, 5])
def test_thirty_kills_of_a_consumer(tmp_path: Path, version: int) -> None:
    """One stream of messages goes through thirty lives of its consumer."""
    print("RXTEMPORAL_CRASH_SEED", SEED)
    crash_consumers(tmp_path, f"{SEED} {version} thirty", 30, 12_000, version)


@pytest.mark.full
def test_thirty_kills_of_a_broker(tmp_path: Path) -> None:
    """One stream of messages goes through thirty lives of its broker."""
    print("RXTEMPORAL_CRASH_SEED", SEED)
    crash_brokers(tmp_path, f"{SEED} thirty", 30, 3_000)
