"""Crashes of a run over Kafka: each message is in its result once.

``RXTEMPORAL_CRASH_ROUNDS`` is the number of rounds of the full run, ``RXTEMPORAL_CRASH_SEED``
repeats a draw.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from child_process import HERE, environment
from kafka_cluster import KafkaCluster
from kafka_run import DELAY
from needs import need_java
from sink_input import wait_until

from rxtemporal.brokers import kafka

ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
TOPIC = "rows"
# a machine that is busy takes long, and so does Spark
PATIENCE, SPARK_PATIENCE = 400, 400


class Sender(threading.Thread):
    """Sends numbered rows into drawn partitions, with one time for all, until it is ended."""

    partitions, pause, delay = 3, 0.005, DELAY
    # the times of the last partition are so much lower
    lag = 0
    # so many messages are read at once
    messages = kafka.MOST_MESSAGES
    # so many rows wait at most beside those of the delay: of more, the cluster drops the oldest
    most_unread = 30_000

    def __init__(self, cluster: KafkaCluster, seed: int) -> None:
        super().__init__()
        self._cluster, self._draw = cluster, random.Random(seed)
        self._ended, self._sending = threading.Event(), threading.Lock()
        self._time = self.lag
        self.sent = [0] * self.partitions
        # the rows in the result
        self.written = 0
        cluster.create(TOPIC, self.partitions)

    @property
    def is_far_ahead(self) -> bool:
        """True if many rows have not been written."""
        return sum(self.sent) - self.written > self.delay + self.most_unread

    def run(self) -> None:
        """Send some rows at a time."""
        while not self._ended.wait(self.pause):
            if self.is_far_ahead:
                continue
            for partition in self._draw.sample(range(self.partitions), 2):
                self._send(partition, self._draw.randrange(1, 20))

    def prepare(self) -> None:
        """Send what the next run finds there."""

    def end(self) -> None:
        """Send the last rows, behind which all others are due."""
        self._ended.set()
        self.join()
        self._time += 2 * self.delay
        for partition in range(self.partitions):
            self._send(partition, 1)

    def _send(self, partition: int, count: int) -> None:
        lag = self.lag if partition == self.partitions - 1 else 0
        rows = []
        with self._sending:
            for _ in range(count):
                rows.append({"time": self._time - lag, "p": partition, "n": self.sent[partition]})
                self.sent[partition] += 1
                self._time += 1
            self._cluster.send(TOPIC, rows, partition)

    @property
    def due(self) -> Counter[tuple[int, int]]:
        """The rows that are due: the last of each partition wait for a CTI behind them."""
        return Counter((p, n) for p, sent in enumerate(self.sent) for n in range(sent - 1))


class BacklogSender(Sender):
    """Sends a backlog before each run, into all partitions except the last, which is behind.

    That one gets rows while the run catches up, below the times that are read from the others.
    """

    partitions, pause, lag, messages = 4, 0.002, 6_000, 20
    # no row is late: the lag, the backlog, and what is sent meanwhile
    delay = 30_000

    def run(self) -> None:
        """Send a few rows at a time into the last partition and another."""
        while not self._ended.wait(self.pause):
            if self.is_far_ahead:
                continue
            for partition in (3, self._draw.randrange(3)):
                self._send(partition, self._draw.randrange(1, 5))

    def prepare(self) -> None:
        """Send a backlog; the first one is as long as the delay."""
        for _ in range(100 if self.sent[0] > 2_000 else 500):
            if self.is_far_ahead:
                break
            for partition in range(3):
                self._send(partition, 20)


@contextmanager
def start(
    cluster: KafkaCluster, folder: Path, kind: str, sender: Sender
) -> Iterator[subprocess.Popen[str]]:
    """Start the run in a process of its own; one that is not stopped tells why, and is ended."""
    command = [sys.executable, "-P", str(HERE / "kafka_run.py")]
    command += [cluster.servers, TOPIC, str(folder), kind, str(sender.delay), str(sender.messages)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        limit = threading.Timer(SPARK_PATIENCE if kind == "spark" else PATIENCE, end, [process])
        limit.start()
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        finally:
            limit.cancel()


def end(process: subprocess.Popen[str]) -> None:
    """Let a run that hangs print how far it is, and end it with a traceback of its threads."""
    process.send_signal(signal.SIGUSR1)
    time.sleep(5)
    process.send_signal(signal.SIGABRT)


def run_once(cluster: KafkaCluster, folder: Path, sender: Sender, least: int, *, kill: bool) -> int:
    """Run until so many rows have been written, then kill or stop it; return how many."""
    rows, before = 0, count_rows(folder)
    sender.written = before
    with start(cluster, folder, "file", sender) as process:
        assert process.stdout is not None
        while rows < least and (line := process.stdout.readline()):
            rows += int(line)
            sender.written = before + rows
        process.kill() if kill else process.terminate()
        rest = process.stdout.read()
        code = process.wait()
    assert code == (-signal.SIGKILL if kill else 0)
    return rows + (0 if kill else sum(map(int, rest.split())))


def run_crashes(folder: Path, kills: int, seed: int, make_sender: type[Sender] = Sender) -> None:
    """Kill a run at random while messages come; then check its result."""
    draw = random.Random(seed)
    with KafkaCluster() as cluster:
        sender = make_sender(cluster, seed)
        sender.start()
        try:
            for _ in range(kills):
                sender.prepare()
                run_once(cluster, folder, sender, draw.randrange(1, 3_000), kill=True)
        finally:
            sender.end()
        print(f"{kills} kills, {sum(sender.sent):,} messages")
        wait_for_all(cluster, folder, sender)
    check(Counter((row["p"], row["n"]) for row in read_rows(folder)), sender)


def draw_seed(number: int) -> int:
    """Return the seed of a round, and print it."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)) or random.SystemRandom().getrandbits(32)
    print(f"RXTEMPORAL_CRASH_SEED={seed}, round {number}")
    return seed


def check(found: Counter[tuple[int, int]], sender: Sender) -> None:
    """Check that each row that is due is in a result once."""
    last = {(p, sent - 1) for p, sent in enumerate(sender.sent)}
    assert Counter({each: n for each, n in found.items() if each not in last}) == sender.due


def wait_for_all(cluster: KafkaCluster, folder: Path, sender: Sender) -> None:
    """Run until the file has as many rows as are due."""
    while (left := sum(sender.due.values()) - len(read_rows(folder))) > 0:
        run_once(cluster, folder, sender, left, kill=False)


def count_rows(folder: Path) -> int:
    """Return the number of rows in the result, which the next run may cut."""
    found = folder / ".rows.jsonl.part"
    return found.read_bytes().count(b"\n") if found.exists() else 0


def read_rows(folder: Path) -> list[dict[str, int]]:
    """Return the rows in the result, which is a hidden file until the stream ends."""
    lines = (folder / ".rows.jsonl.part").read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_each_message_is_in_the_result_once(tmp_path: Path) -> None:
    """A kill at random."""
    run_crashes(tmp_path, 1, 0)


@pytest.mark.full
def test_each_message_of_a_backlog_is_in_the_result_once(tmp_path: Path) -> None:
    """Two kills at random while three partitions catch up, and the fourth gets lower times."""
    run_crashes(tmp_path, 2, 0, BacklogSender)


@pytest.mark.full
@pytest.mark.parametrize("number", range(ROUNDS))
def test_each_message_of_a_backlog_is_in_the_result_once_after_many_crashes(
    tmp_path: Path, number: int
) -> None:
    """Thirty kills at random."""
    run_crashes(tmp_path, 30, draw_seed(number), BacklogSender)


@pytest.mark.full
@pytest.mark.parametrize("number", range(ROUNDS))
def test_each_message_is_in_the_result_once_after_many_crashes(tmp_path: Path, number: int) -> None:
    """Twenty kills at random."""
    run_crashes(tmp_path, 20, draw_seed(number))


def read_spark_table(folder: Path) -> Counter[tuple[int, int]]:
    """Return the rows of the table so far."""
    try:
        return Counter(
            pl.read_parquet(folder / "table" / "**" / "*.parquet").select("p", "n").rows()
        )
    except (OSError, pl.exceptions.PolarsError):  # it is not there yet, or being written
        return Counter()


def count_table(folder: Path, sender: Sender) -> int:
    """Return the number of rows in the table so far, and tell the sender, which may wait for it."""
    sender.written = max(sender.written, read_spark_table(folder).total())
    return sender.written


@pytest.mark.full
@pytest.mark.java
def test_each_message_is_in_a_table_of_spark_once(tmp_path: Path) -> None:
    """Three kills, each after some of its rows have reached the table."""
    need_java()
    draw = random.Random(int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)))
    with KafkaCluster() as cluster:
        sender = Sender(cluster, 0)
        sender.pause = 0.05
        sender.start()
        try:
            for _ in range(3):
                before = count_table(tmp_path, sender)
                with start(cluster, tmp_path, "spark", sender) as process:
                    wait_until(lambda n=before: count_table(tmp_path, sender) > n, SPARK_PATIENCE)
                    time.sleep(draw.random())
                    process.kill()
        finally:
            sender.end()
        with start(cluster, tmp_path, "spark", sender) as process:
            wait_until(lambda: len(read_spark_table(tmp_path)) >= len(sender.due), SPARK_PATIENCE)
            process.terminate()
            process.wait()
        assert process.returncode == 0
    check(read_spark_table(tmp_path), sender)
