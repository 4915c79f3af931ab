"""Processes that write into topics are killed at any moment: no row is lost, copies are known."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import topic_run
from child_process import environment
from kafka_cluster import KafkaCluster
from kafka_model import serve_model
from mosquitto import broker
from runs import SOON
from topic_reader import Received, TopicReader, read_topic

KILLS = 20
# enough for so many kills, each within the next 130 batches of 50 rows
ROWS = 90_000
ONE_OR_TWENTY = pytest.mark.parametrize(
    ("kills", "rows"), [(1, 9_000), pytest.param(KILLS, ROWS, marks=pytest.mark.full)]
)


def crash(kind: str, address: str, folder: Path, kills: int, rows: int) -> None:
    """Kill the run at any moment of its work, start it again, and at last let it end."""
    draw = random.Random(kind)
    command = [sys.executable, "-P", topic_run.__file__, kind, address, str(folder)]
    command.append(str(rows))
    for _ in range(kills):
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(draw.randrange(1, 130)):
                assert process.stdout.readline(), "the run ended before it was killed"
            time.sleep(draw.uniform(0, 0.005))  # anywhere in the next batches
            process.kill()
    with (folder / "output").open("wb") as output:
        subprocess.run(command, env=environment(), stdout=output, check=True, timeout=4 * SOON)


def list_rows(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    """Return start, room and count of rows, in order."""
    return sorted((row["start_time"], row["room"], row["n"]) for row in rows)


def drop_copies(received: list[Received]) -> list[dict[str, Any]]:
    """Return the rows, one for each id, and say how many copies there were."""
    found = {each.id: each.row for each in received}
    print(f"{len(received):,} messages, {len(received) - len(found):,} of them copies")
    return [*found.values()]


@contextmanager
def kafka_model() -> Iterator[tuple[Any, str]]:
    """Run a model of a cluster in a process that outlives the killed ones."""
    manager, cluster, address = serve_model()
    try:
        yield cluster, address
    finally:
        manager.shutdown()


@ONE_OR_TWENTY
def test_kills_between_transactions_lose_and_double_nothing(
    tmp_path: Path, kills: int, rows: int
) -> None:
    """A consumer that reads committed messages has each row once, without looking at ids."""
    with kafka_model() as (cluster, address):
        crash("model", address, tmp_path, kills, rows)
        messages = cluster.list_messages()
        begun, aborted = cluster.count()
    print(f"{begun:,} transactions, {aborted:,} ended by the next producer")
    assert list_rows([json.loads(value) for value, _, _ in messages]) == topic_run.expect(rows)


@pytest.mark.full
def test_kills_of_a_writer_to_kafka_lose_nothing(tmp_path: Path) -> None:
    """Without transactions there are copies, and their ids tell."""
    with KafkaCluster() as cluster:
        cluster.create("results", 3)
        crash("kafka", cluster.servers, tmp_path, KILLS, ROWS)
        received = read_topic(cluster.servers, "results")
    assert list_rows(drop_copies(received)) == topic_run.expect(ROWS)


@pytest.mark.full
def test_kills_of_a_writer_to_mqtt_lose_nothing(tmp_path: Path) -> None:
    """Each row was published at least once, and the ids of copies tell."""
    with broker() as mosquitto, TopicReader(mosquitto.port, "results/#", 1) as reader:
        crash("mqtt", mosquitto.url, tmp_path, KILLS, ROWS)
        reader.wait_for_ids(len(topic_run.expect(ROWS)))
        received = reader.wait(0)
    assert list_rows(drop_copies(received)) == topic_run.expect(ROWS)
