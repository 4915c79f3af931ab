"""Streams from Kafka, over TCP from the mock cluster of librdkafka."""

from __future__ import annotations

import logging
import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka_cluster import KafkaCluster
from run_settings import save_often
from sink_input import wait_until

import rxtemporal as rxt
from rxtemporal.brokers import kafka, kafka_client

SCHEMA = {"p": int, "n": int}
# the mock cluster answers a fetch late, and librdkafka tries again late
SOON = {
    "fetch.wait.max.ms": 20,
    "fetch.error.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
_numbers = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Return a cluster of one broker."""
    with KafkaCluster() as made:
        yield made


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Return a new topic with three partitions."""
    name = f"topic-{next(_numbers)}"
    cluster.create(name, 3)
    return name


class Results(rxt.Collect):
    """Results, and how many there are."""

    rows = 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Take a batch."""
        super().write(batch)
        self.rows += len(batch)


def rows(partition: int, begin: int, end: int, *, step: int = 10) -> list[dict[str, int]]:
    """Return numbered rows of a partition, in the order of time."""
    return [{"time": n * step + partition, "p": partition, "n": n} for n in range(begin, end)]


def make_stream(cluster: KafkaCluster, topic: Any, **options: Any) -> rxt.Streamable:
    """Return the stream of a topic."""
    return rxt.from_kafka(cluster.servers, topic, schema=SCHEMA, config=SOON, **options)


def read(stream: rxt.Streamable, least: int, **options: Any) -> list[dict[str, Any]]:
    """Run a stream until it has so many results, and return them."""
    results = Results()
    process = stream.run(results, **options)
    try:
        wait_until(lambda: results.rows >= least or process.ended, 20)
        if process.error is not None:
            raise process.error
    finally:
        process.stop()
    return results.to_dicts(time="ticks")


def note_commits(monkeypatch: pytest.MonkeyPatch) -> list[dict[tuple[str, int], int]]:
    """Return a list to which each saved position of a run with a group is added."""
    positions: list[dict[tuple[str, int], int]] = []
    commit = kafka_client.KafkaClient.commit

    def note(client: kafka_client.KafkaClient, offsets: Mapping[tuple[str, int], int]) -> None:
        positions.append(dict(offsets))
        commit(client, offsets)

    monkeypatch.setattr(kafka_client.KafkaClient, "commit", note)
    return positions


def fail(stream: rxt.Streamable, **options: Any) -> BaseException:
    """Run a stream until it ends with an error, and return that."""
    process = stream.run(rxt.Collect(), **options)
    try:
        wait_until(lambda: process.ended, 20)
        assert process.error is not None
        return process.error
    finally:
        process.stop()


def test_all_rows_come_once_in_order(cluster: KafkaCluster, topic: str) -> None:
    """A backlog of three partitions: no row is late, whatever comes first from the broker."""
    for partition in range(3):
        cluster.send(topic, rows(partition, 0, 2_000), partition)
    stream = make_stream(cluster, topic)
    found = read(stream, 5_999)
    numbers = defaultdict(list)
    for row in found:
        numbers[row["p"]].append(row["n"])
    assert [len(found), sorted(numbers)] == [5_999, [0, 1, 2]]
    for each in numbers.values():
        assert each == list(range(len(each)))
    assert [row["start_time"] for row in found] == sorted(row["start_time"] for row in found)


def test_partition_that_is_far_behind_holds_the_others_back(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions of unlike density are merged by time; those ahead are paused meanwhile."""
    monkeypatch.setattr(kafka, "LEAST_ROWS", 100)
    monkeypatch.setattr(kafka, "MOST_ROWS", 300)
    pauses = []
    pause = kafka_client.KafkaClient.pause

    def note_pause(client: kafka_client.KafkaClient, place: tuple[str, int]) -> None:
        pauses.append(place)
        pause(client, place)

    monkeypatch.setattr(kafka_client.KafkaClient, "pause", note_pause)
    monkeypatch.setattr(kafka, "MOST_MESSAGES", 100)
    cluster.send(topic, rows(0, 0, 2_000, step=1), 0)
    cluster.send(topic, rows(1, 0, 20, step=100), 1)
    cluster.send(topic, rows(2, 0, 200, step=10), 2)
    found = read(make_stream(cluster, topic), 2_219)
    assert len(found) >= 2_219
    assert len({(row["p"], row["n"]) for row in found}) == len(found)
    assert pauses


@pytest.mark.parametrize("seed", range(3))
def test_live_messages_of_lower_times_come_once_beside_a_backlog(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    """One of four partitions is at its end again and again while the others catch up, also after
    restarts: each offset comes once and in order, and the saved position never goes back.
    """
    positions = note_commits(monkeypatch)
    save_often(monkeypatch)
    monkeypatch.setattr(kafka, "MOST_MESSAGES", 100)
    topic, draw, ends = f"topic-{next(_numbers)}", random.Random(seed), [0, 0, 0, 0]
    cluster.create(topic, 4)

    def send(partition: int, count: int, step: int) -> None:
        begin, ends[partition] = ends[partition], ends[partition] + count
        # some rows share a time: they keep the order in which they have come
        sent = [
            {"time": n // 4 * step, "p": partition, "n": n} for n in range(begin, begin + count)
        ]
        cluster.send(topic, sent, partition)

    # no row is late, whatever comes first
    stream = make_stream(cluster, topic, delay=1_000_000, group=topic, name="rows")
    results = Results()
    for life in range(3):
        for partition in range(3):
            send(partition, 2_000, 10)
        process = stream.run(results, resume=tmp_path)
        for _ in range(100):
            send(3, draw.randrange(1, 5), 1)
            send(draw.randrange(3), draw.randrange(1, 20), 10)
        if life < 2:
            process.stop()
    cluster.send(topic, [{"time": 2_000_000, "p": 0, "n": ends[0]}])
    wait_until(lambda: results.rows >= sum(ends) or process.ended, 60)
    process.stop()
    assert process.error is None
    numbers = defaultdict(list)
    for row in results.to_dicts():
        numbers[row["p"]].append(row["n"])
    assert [numbers[p] for p in range(4)] == [list(range(end)) for end in ends]
    for earlier, later in pairwise(positions):
        assert all(later[place] >= offset for place, offset in earlier.items())


def test_run_goes_on_at_its_offsets(cluster: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """Offsets are in the checkpoint; those committed are only looked at."""
    stream = make_stream(cluster, topic, group=topic)
    found = []
    for life in range(3):
        for partition in range(3):
            cluster.send(topic, rows(partition, life * 10, life * 10 + 10), partition)
        # of the last time one row waits for the next CTI
        found += read(stream, 29 + (life > 0), resume=tmp_path)
    assert [(row["p"], row["n"]) for row in found] == [(p, n) for n in range(30) for p in range(3)][
        : len(found)
    ]
    assert len(found) == 89
    assert [cluster.find_committed(topic, topic, p) for p in range(3)] == [30, 30, 30]


def test_silent_stream_holds_up_no_other_of_the_run(cluster: KafkaCluster, topic: str) -> None:
    """Of two streams the one behind is read first; it has nothing, and the other is read."""
    cluster.create(f"silent-{topic}")
    cluster.send(topic, rows(0, 0, 50))
    results = Results()
    app = rxt.Application("house")
    for name in (f"silent-{topic}", topic):
        app.query(name, make_stream(cluster, name))
    process = app.run(sinks={f"silent-{topic}": rxt.Collect(), topic: results})
    wait_until(lambda: results.rows >= 49, 20)
    cluster.send(topic, rows(0, 50, 60))
    wait_until(lambda: results.rows >= 59, 20)
    process.stop()


def test_messages_that_do_not_fit_are_kept_apart(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They are counted, logged once for each kind of reason and given to a function."""
    good = rows(0, 0, 4)
    bad = [b"{", b"[1]", b"", {"time": 1, "p": 0}, {"time": 1, "p": 0, "n": "x"}]
    cluster.send(topic, [good[0], *bad, None, *bad, good[1], b'{"time": 20,\n"p": 0, "n": 2}'])
    cluster.send(topic, [good[3]])
    rejected: list[rxt.Rejected] = []
    stream = make_stream(cluster, topic, on_reject=rejected.append)
    results = Results()
    process = stream.run(results)
    wait_until(lambda: results.rows >= 3, 20)
    (described,) = process.diagnostics().streams
    process.stop()
    assert [row["n"] for row in results.to_dicts()] == [0, 1, 2]
    assert [each.index for each in rejected] == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert rejected[0].row == b"{"
    assert rejected[0].input == f"{topic}/0"
    stats = described.inputs[f"{topic}/0"]
    assert (stats.events, stats.rejected, stats.skipped) == (4, 10, 1)
    logged = [each for each in caplog.records if "does not fit" in each.getMessage()]
    assert 3 <= len(logged) <= 5


def test_messages_are_counted_across_a_restart(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """Rows, messages that do not fit and those without a value, as the events of the stream are."""
    cluster.send(topic, [*rows(0, 0, 1), b"{", b"{}", None, *rows(0, 1, 2)])
    for events in (2, 3):
        process = make_stream(cluster, topic, delay=0).run(rxt.Collect(), resume=tmp_path)
        wait_until(lambda p=process, n=events: p.diagnostics().events_in == n, 20)
        counts = process.diagnostics().streams[0].inputs[f"{topic}/0"]
        process.stop()
        assert (counts.events, counts.rejected, counts.skipped) == (events, 2, 1)
        cluster.send(topic, rows(0, 2, 3))


def test_message_that_does_not_fit_can_end_the_run(cluster: KafkaCluster, topic: str) -> None:
    """With Rejects.RAISE the error names topic, partition and offset."""
    cluster.send(topic, [*rows(1, 0, 2), b"{"], 1)
    error = fail(make_stream(cluster, topic, rejects=rxt.Rejects.RAISE))
    assert isinstance(error, rxt.SchemaError)
    assert f"offset 2 of {topic}/1" in str(error)


def test_function_that_fails_with_rejected_messages_ends_no_run(
    cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What on_reject raises is logged."""
    cluster.send(topic, [b"{", *rows(0, 0, 2)])

    def on_reject(rejected: rxt.Rejected) -> None:
        raise ValueError("on purpose")

    assert len(read(make_stream(cluster, topic, on_reject=on_reject), 1)) == 1
    assert "on purpose" in caplog.text


def test_topic_that_was_read_stays_among_the_topics(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """A run that resumes may get further topics, and loses none."""
    cluster.send(topic, rows(0, 0, 3))
    cluster.create(f"{topic}-more")
    read(make_stream(cluster, topic, name="rows"), 2, resume=tmp_path)
    cluster.send(f"{topic}-more", rows(0, 3, 5))
    both = [topic, f"{topic}-more"]
    assert len(read(make_stream(cluster, both, name="rows"), 2, resume=tmp_path)) == 2
    with pytest.raises(rxt.CheckpointError, match="not among its topics any more"):
        make_stream(cluster, topic, name="rows").run(rxt.Collect(), resume=tmp_path)


def test_timestamp_of_a_message_is_the_start(cluster: KafkaCluster, topic: str) -> None:
    """start=None: the rows have no field for their time."""
    for n in range(2):
        cluster.send(topic, [{"p": 0, "n": n}], stamp=1_700_000_000_000 + n)
    stream = make_stream(cluster, topic, start=None)
    results = Results()
    process = stream.run(results)
    wait_until(lambda: results.rows >= 1, 20)
    process.stop()
    (row,) = results.to_dicts()
    assert row["start_time"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_stream_begins_where_it_is_told(cluster: KafkaCluster, topic: str) -> None:
    """At the latest messages, or in some partitions only."""
    cluster.send(topic, rows(0, 0, 5), 0)
    cluster.send(topic, rows(1, 0, 5), 1)
    some = make_stream(cluster, topic, partitions=[1])
    assert {row["p"] for row in read(some, 4)} == {1}
    latest = make_stream(cluster, topic, begin="latest")
    results = Results()
    process = latest.run(results)
    wait_until(lambda: bool(process.diagnostics().streams[0].inputs), 20)
    cluster.send(topic, rows(0, 5, 7), 0)
    wait_until(lambda: results.rows >= 1, 20)
    process.stop()
    assert [row["n"] for row in results.to_dicts()] == [5]


def test_run_that_was_saved_before_a_broker_answered_has_not_begun(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """It begins where begin= says, as if it had not been."""
    cluster.send(topic, rows(0, 0, 3))
    cluster.set_down()
    try:
        process = make_stream(cluster, topic, begin="latest").run(rxt.Collect(), resume=tmp_path)
        process.stop()
    finally:
        cluster.set_down(down=False)
    results = Results()
    process = make_stream(cluster, topic, begin="latest").run(results, resume=tmp_path)
    wait_until(lambda: bool(process.diagnostics().streams[0].inputs), 20)
    cluster.send(topic, rows(0, 3, 5))
    wait_until(lambda: results.rows >= 1, 20)
    process.stop()
    assert [row["n"] for row in results.to_dicts()] == [3]


def test_stream_begins_at_a_time(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition begins at the offset of that time, or at its end; the mock finds no times."""

    def find_time(client: Any, places: Any, begin: datetime) -> dict[tuple[str, int], int]:
        return {place: 3 if place[1] == 0 else -1 for place in places}

    monkeypatch.setattr(kafka_client.KafkaClient, "find_time", find_time)
    cluster.send(topic, rows(0, 0, 6), 0)
    cluster.send(topic, rows(1, 0, 6), 1)
    found = read(make_stream(cluster, topic, begin=datetime(2026, 1, 1, tzinfo=UTC)), 2)
    assert [(row["p"], row["n"]) for row in found] == [(0, 3), (0, 4)]


def test_partition_that_is_added_is_read_whole(
    cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at the topic's metadata now and then finds it, whatever begin= says."""
    found = [0, 1]
    monkeypatch.setattr(kafka_client.KafkaClient, "list_partitions", lambda *_: list(found))
    monkeypatch.setattr(kafka, "LOOK_EVERY", 0.05)
    for partition in range(3):
        cluster.send(topic, rows(partition, 0, 3), partition)
    results = Results()
    stream = make_stream(cluster, topic, begin="latest", delay=1_000)
    process = stream.run(results)
    wait_until(lambda: bool(process.diagnostics().streams[0].inputs), 20)
    found.append(2)
    wait_until(lambda: process.diagnostics().streams[0].events_in >= 3, 20)
    cluster.send(topic, rows(0, 1_000, 1_001), 0)
    wait_until(lambda: results.rows >= 3, 20)
    process.stop()
    assert [(row["p"], row["n"]) for row in results.to_dicts()] == [(2, 0), (2, 1), (2, 2)]


def test_idle_run_is_stopped(cluster: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """A run without messages ends when it is told to, also while the broker is away."""
    stream = make_stream(cluster, topic, group="idle")
    for away in (False, True):
        process = stream.run(rxt.Collect(), resume=tmp_path / str(away))
        wait_until(lambda p=process: bool(p.diagnostics().streams[0].inputs), 20)
        try:
            if away:
                cluster.set_down()
            stop = threading.Thread(target=process.stop)
            stop.start()
            stop.join(15)
            assert not stop.is_alive()
            assert process.ended
            assert process.error is None
        finally:
            cluster.set_down(down=False)


def test_broker_that_is_away_is_waited_for(
    cluster: KafkaCluster,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run says so once, and goes on when the broker is back."""
    monkeypatch.setattr(kafka_client, "QUIET", 0.0)
    caplog.set_level(logging.INFO)
    cluster.send(topic, rows(0, 0, 3))
    results = Results()
    process = make_stream(cluster, topic).run(results)
    wait_until(lambda: results.rows >= 2, 20)
    cluster.set_down()
    wait_until(lambda: "a broker is away" in caplog.text, 20)
    cluster.set_down(down=False)
    cluster.send(topic, rows(0, 3, 6))
    wait_until(lambda: results.rows >= 5, 20)
    process.stop()
    # no more than a few kinds of errors
    assert 1 <= caplog.text.count("a broker is away") <= 4, caplog.text
    assert "the brokers answer again" in caplog.text


def test_messages_deleted_before_they_were_read_are_an_error(
    cluster: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    """The error names topic, partition and offsets; nothing is skipped in silence."""
    stream = make_stream(cluster, topic)
    cluster.send(topic, rows(2, 0, 5), 2)
    read(stream, 4, resume=tmp_path)
    cluster.send(topic, rows(2, 5, 20), 2)
    cluster.delete(topic, 2, 12)
    error = fail(stream, resume=tmp_path)
    assert isinstance(error, rxt.SourceError)
    assert f"topic {topic!r}, partition 2: the run continues at offset 5" in str(error)
    assert "from 12 up to 20" in str(error)


def test_topic_that_is_missing_is_an_error(cluster: KafkaCluster) -> None:
    """A topic is not created by reading it."""
    error = fail(make_stream(cluster, "nowhere"))
    assert isinstance(error, rxt.SourceError)
    assert "topic 'nowhere' cannot be read" in str(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"servers": ["localhost:9092"]}, r'Hint: from_kafka\("localhost:9092", …\)'),
        ({"servers": "kafka://localhost:9092"}, r"host:port,host:port, .* got 'kafka://local"),
        ({"servers": "localhost:nine"}, "with ports from 1 to 65535, got 'localhost:nine'"),
        ({"servers": "localhost:0"}, "with ports from 1 to 65535"),
        ({"servers": "localhost 9092"}, "servers is a text of brokers"),
        ({"servers": "a:1,,b:2"}, "servers is a text of brokers"),
        ({"servers": "bob:secret@localhost"}, "got '…@localhost'"),
        ({"topics": []}, "topics are different names"),
        ({"topics": None}, "the name of a topic has letters .* got None"),
        ({"topics": "rooms,doors"}, r'a list names several topics: \["rooms", "doors"\]'),
        ({"topics": "^rooms.*"}, "is not a pattern"),
        ({"group": 3}, "group is a non-empty str"),
        ({"begin": "now"}, "begin is 'earliest'"),
        ({"begin": datetime(2026, 1, 1)}, "begin is 'earliest'"),
        ({"partitions": [-1]}, "partitions are numbers"),
        ({"partitions": 3}, r"Hint: partitions=\[0, 1\]"),
        ({"config": {"group.id": "x"}}, "config has 'group.id'"),
        ({"delay": 1, "advance_time": rxt.INCREASING_START_TIME}, "cannot be combined"),
        ({"on_reject": 1}, "on_reject is a function"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], message: str) -> None:
    """Each argument is checked when the stream is made."""
    given: dict[str, Any] = {"servers": "localhost:1", "topics": "t", "schema": SCHEMA}
    with pytest.raises(rxt.ArgumentError, match=message):
        rxt.from_kafka(**{**given, **arguments})


@pytest.mark.parametrize(
    "servers", ["localhost", "a:1, b:65535", "SASL_SSL://house.example:9092", "[::1]:9092"]
)
def test_lists_of_brokers_are_those_of_librdkafka(servers: str) -> None:
    """With or without port, protocol and blanks, by name or by address."""
    assert rxt.from_kafka(servers, "t", schema=SCHEMA).schema is not None


def test_secrets_of_settings_are_in_no_error() -> None:
    """librdkafka repeats the value of a setting that it refuses."""
    stream = rxt.from_kafka(
        "localhost:1", "t", schema=SCHEMA, config={"socket.timeout.ms": "hunter2"}
    )
    with pytest.raises(rxt.ArgumentError) as caught:
        stream.run(rxt.Collect())
    assert "hunter2" not in str(caught.value)
    assert 'Invalid value for configuration property "socket.timeout.ms". Hint' in str(caught.value)
