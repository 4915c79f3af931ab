"""Sinks that write into topics of Kafka and MQTT: each row once, or with an id that says so."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kafka_cluster import KafkaCluster
from kafka_model import ModelCluster, use_model
from mosquitto import PASSWORDS, Mosquitto, broker
from paho.mqtt import subscribe
from run_settings import save_never
from runs import SOON
from topic_reader import TopicReader, read_topic

import rxtemporal as rxt
from rxtemporal.brokers import kafka_topic
from rxtemporal.errors import ArgumentError, RxTemporalError, SpoolError
from rxtemporal.serve.settings import SinkSettings

SCHEMA = {"device": str, "n": int}
_numbers = count()
# numbers of Kafka's protocol: a request, and two errors
END_TRANSACTION, PRODUCER_FENCED, COORDINATOR_LOADING = 26, 90, 14


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Return a cluster of one broker."""
    with KafkaCluster() as made:
        yield made


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Return a new topic."""
    name = f"results-{next(_numbers)}"
    cluster.create(name, 2)
    return name


@pytest.fixture(scope="module")
def mosquitto() -> Iterator[Mosquitto]:
    """Run a broker for the tests that leave it alone."""
    with broker() as running:
        yield running


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    """Return a model of a cluster, which the sinks of Kafka write into."""
    monkeypatch.setattr("kafka_model._Producer.draw.random", lambda: 0.5)
    made = ModelCluster()
    use_model(made, monkeypatch.setattr)
    return made


def run(sink: rxt.Sink, *rows: tuple[int, str, int], **options: Any) -> None:
    """Run a query of points, with a CTI behind each, into a sink."""
    source = rxt.PushSource("readings", schema=SCHEMA)
    process = source.stream.run(sink, name="means", **options)
    try:
        for start, device, n in rows:
            source.push([{"time": start, "device": device, "n": n}, rxt.Cti(start + 1)])
        source.close()
    finally:
        process.wait(SOON)


def make_query(starts: int) -> rxt.Streamable:
    """Return a query with two rows at each start, of which some are equal."""
    frame = pl.DataFrame(
        {
            "t": [each // 2 for each in range(2 * starts)],
            "device": ["ab"[each % 2] if each % 3 else "a" for each in range(2 * starts)],
            "n": 1,
        }
    )
    return rxt.from_polars(frame, start="t", batch_rows=3, advance_time=2, name="readings")


class TestKafka:
    """Against librdkafka's mock cluster."""

    def test_rows_are_json_messages_with_key_and_id(
        self, cluster: KafkaCluster, topic: str
    ) -> None:
        """One message for each row, all of a key in one partition."""
        sink = rxt.KafkaTopic(cluster.servers, topic, key="device")
        run(sink, (1, "a", 7), (2, "b", 8), (3, "a", 9))
        found = sorted(read_topic(cluster.servers, topic), key=lambda each: each.row["start_time"])
        assert [each.row for each in found] == [
            {"start_time": 1, "end_time": 2, "device": "a", "n": 7},
            {"start_time": 2, "end_time": 3, "device": "b", "n": 8},
            {"start_time": 3, "end_time": 4, "device": "a", "n": 9},
        ]
        assert [each.key for each in found] == [b"a", b"b", b"a"]
        assert found[0].partition == found[2].partition
        assert len({each.id for each in found}) == 3

    @pytest.mark.parametrize(
        ("key", "bytes_of_key"), [(None, None), ("n", b"7"), (["device", "n"], b'["a",7]')]
    )
    def test_the_key_of_a_message_is_that_of_its_row(
        self, cluster: KafkaCluster, topic: str, key: Any, bytes_of_key: bytes | None
    ) -> None:
        """None, one field as text, several as JSON."""
        run(rxt.KafkaTopic(cluster.servers, topic, key=key), (1, "a", 7))
        assert [each.key for each in read_topic(cluster.servers, topic)] == [bytes_of_key]

    def test_transactions_go_over_the_wire(self, cluster: KafkaCluster, topic: str) -> None:
        """librdkafka itself accepts how they are begun, filled and committed."""
        sink = rxt.KafkaTopic(cluster.servers, topic, transactional_id=f"of {topic}")
        run(sink, (1, "a", 7), (2, "b", 8))
        assert sorted(each.row["n"] for each in read_topic(cluster.servers, topic)) == [7, 8]
        assert sink.restarts == 0

    def test_who_is_shut_out_is_told(self, cluster: KafkaCluster, topic: str) -> None:
        """librdkafka's own error of a producer that another one has replaced ends the run."""
        sink = rxt.KafkaTopic(cluster.servers, topic, transactional_id=f"of {topic}")
        cluster.fail_next(END_TRANSACTION, PRODUCER_FENCED)
        with pytest.raises(RxTemporalError, match=r"another sink has begun .*Hint: one run"):
            run(sink, (1, "a", 7))
        assert sink.restarts == 0

    def test_a_commit_that_fails_for_now_is_repeated(
        self, cluster: KafkaCluster, topic: str
    ) -> None:
        """By librdkafka itself: the sink sees nothing of it."""
        sink = rxt.KafkaTopic(cluster.servers, topic, transactional_id=f"of {topic}")
        cluster.fail_next(END_TRANSACTION, COORDINATOR_LOADING)
        run(sink, (1, "a", 7))
        assert [each.row["n"] for each in read_topic(cluster.servers, topic)] == [7]

    def test_brokers_that_are_away_are_waited_for(
        self, cluster: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The attempt is repeated with a new producer; copies have the same id."""
        monkeypatch.setattr(kafka_topic, "ATTEMPT", 1.0)
        monkeypatch.setattr("rxtemporal.sinks.positioned.FIRST", 0.01)
        sink = rxt.KafkaTopic(cluster.servers, topic)
        source = rxt.PushSource("readings", schema=SCHEMA, hand_off=rxt.HandOff())
        process = source.stream.run(sink, name="means")
        cluster.set_down()
        try:
            source.push([{"time": 1, "device": "a", "n": 7}, rxt.Cti(2)])
            up = threading.Event()
            while not sink.restarts:
                assert not process.ended
                up.wait(0.01)
            assert sink.away_since is not None
        finally:
            cluster.set_down(down=False)
        source.close()
        process.wait(SOON)
        found = read_topic(cluster.servers, topic)
        assert {each.row["n"] for each in found} == {7}
        assert len({each.id for each in found}) == 1

    def test_patience_ends_with_an_error(self, topic: str) -> None:
        """It names the topic and the servers, and no secret."""
        config = {"sasl.password": "secret", "reconnect.backoff.max.ms": 100}
        sink = rxt.KafkaTopic("127.0.0.1:9", topic, patience=0.1, config=config)
        with pytest.raises(RxTemporalError, match=r"127\.0\.0\.1:9 .*Hint: servers=") as caught:
            run(sink, (1, "a", 7))
        assert "secret" not in f"{caught.value}{sink!r}"

    def test_a_message_that_is_too_large_ends_the_run(
        self, cluster: KafkaCluster, topic: str
    ) -> None:
        """No later attempt would succeed."""
        sink = rxt.KafkaTopic(cluster.servers, topic, config={"message.max.bytes": 1_000})
        with pytest.raises(RxTemporalError, match=r"refuses messages: .*max\.message\.bytes"):
            run(sink, (1, "a" * 2_000, 7))

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ({"servers": ""}, "servers is a text.*Hint"),
            ({"topic": ""}, "topic is a name.*Hint"),
            ({"transactional_id": ""}, "transactional_id is a name.*Hint"),
            ({"config": {"acks": 1}}, "'acks', which KafkaTopic sets itself.*Hint"),
            ({"patience": -1}, "patience is a number of seconds"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments: dict[str, Any], reason: str) -> None:
        """Each says what is allowed."""
        with pytest.raises(ArgumentError, match=reason):
            rxt.KafkaTopic(**{"servers": "x:1", "topic": "t", **arguments})

    def test_a_key_that_is_no_field_is_refused(self, cluster: KafkaCluster, topic: str) -> None:
        """Before the run begins."""
        with pytest.raises(ArgumentError, match=r"key= names 'room'.*Hint"):
            run(rxt.KafkaTopic(cluster.servers, topic, key="room"))


class TestTransactions:
    """Against a model of what Kafka promises of transactions."""

    def make(self) -> rxt.KafkaTopic:
        """Return the sink."""
        return rxt.KafkaTopic("model:1", "results", transactional_id="house")

    def test_a_run_that_breaks_anywhere_writes_each_row_once(
        self, model: ModelCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before the commit, after it, or with a lost answer; the checkpoint knows of none."""
        save_never(monkeypatch)
        commit = ModelCluster.commit
        breaks: list[str] = []

        def break_off(cluster: ModelCluster, name: str, epoch: int) -> bool:
            when = breaks.pop() if breaks else ""
            if when == "before":
                raise KeyError("killed")
            done = commit(cluster, name, epoch)
            if when == "after":
                raise KeyError("killed")
            return done

        monkeypatch.setattr(ModelCluster, "commit", break_off)
        for when in ["before", "after", "after", "before"]:
            breaks = [when, "", ""]
            with pytest.raises(KeyError, match="killed"):
                make_query(60).run(self.make(), resume=tmp_path / "kept").wait(SOON)
        make_query(60).run(self.make(), resume=tmp_path / "kept").wait(SOON)
        found = Counter(value for value, _, _ in model.messages)
        expected = rxt.Collect()
        make_query(60).run(expected).wait(SOON)
        assert found == Counter(
            json.dumps(row, separators=(",", ":")).encode() for row in expected.to_dicts()
        )
        assert len({each for _, _, each in model.messages}) == len(model.messages) == 120

    def test_a_run_without_a_folder_begins_anew(self, model: ModelCluster) -> None:
        """The position of another run is not its own."""
        for _ in range(2):
            run(self.make(), (1, "a", 7), (2, "b", 8))
        assert len(model.messages) == 4

    def test_a_sink_that_another_one_shuts_out_says_so(self, model: ModelCluster) -> None:
        """The older run ends with an error, and what it had not committed is gone."""
        sink = self.make()
        source = rxt.PushSource("readings", schema=SCHEMA)
        process = source.stream.run(sink, name="means")
        source.push([{"time": 1, "device": "a", "n": 1}, rxt.Cti(2)])
        run(self.make(), (5, "b", 8))
        with contextlib.suppress(rxt.ProcessEndedError, RxTemporalError):
            source.push([{"time": 3, "device": "a", "n": 2}, rxt.Cti(4)])
        with pytest.raises(RxTemporalError, match=r"another sink has begun .*'house'.*Hint: one"):
            process.wait(SOON)
        assert [json.loads(value)["n"] for value, _, _ in model.messages] == [1, 8]

    def test_a_lost_position_is_an_error(self, model: ModelCluster, tmp_path: Path) -> None:
        """Rows might be missing or doubled."""
        source = rxt.PushSource("readings", schema=SCHEMA, seq="n")
        process = source.stream.run(self.make(), resume=tmp_path / "kept")
        source.push([{"time": 1, "device": "a", "n": 1}, rxt.Cti(2)])
        process.stop()
        model.offsets.clear()
        source = rxt.PushSource("readings", schema=SCHEMA, seq="n")
        with pytest.raises(SpoolError, match=r"lost the position .*Hint"):
            source.stream.run(self.make(), resume=tmp_path / "kept")


class TestMqtt:
    """Against Mosquitto."""

    @pytest.mark.parametrize("qos", [0, 1, 2])
    @pytest.mark.parametrize("version", [3, 5])
    def test_rows_are_published_to_topics_of_their_fields(
        self, mosquitto: Mosquitto, qos: int, version: int
    ) -> None:
        """As JSON objects with an id; characters that divide topics do not."""
        with TopicReader(mosquitto.port, f"d{qos}{version}/#", qos) as reader:
            sink = rxt.MqttTopic(
                mosquitto.url, f"d{qos}{version}/{{device}}/mean", qos=qos, version=version
            )
            run(sink, (1, "a", 7), (2, "b/+c", 8), (3, "a", 9))
            found = reader.wait(3)
        assert [each.topic.partition("/")[2] for each in found] == [
            "a/mean", "b%2F%2Bc/mean", "a/mean",
        ]  # fmt: skip
        assert found[1].row == {"start_time": 2, "end_time": 3, "device": "b/+c", "n": 8}
        assert len({each.id for each in found}) == 3
        assert all(len(each.id) == 32 for each in found)

    def test_a_batch_beyond_the_window_is_acknowledged_in_parts(self, mosquitto: Mosquitto) -> None:
        """More rows than may wait for their acknowledgement, all in one batch."""
        with TopicReader(mosquitto.port, "many", 1) as reader:
            sink = rxt.MqttTopic(mosquitto.url, "many", inflight=7)
            events = [rxt.PointEvent(t, {"device": "a", "n": t}) for t in range(100)]
            rxt.from_events(events, schema=SCHEMA).run(sink).wait(SOON)
            assert [each.row["n"] for each in reader.wait(100)] == [*range(100)]

    def test_a_retained_row_is_there_for_who_comes_later(self, mosquitto: Mosquitto) -> None:
        """The last row of each topic."""
        sink = rxt.MqttTopic(mosquitto.url, "kept/{device}", retain=True)
        run(sink, (1, "a", 7), (2, "b", 8), (3, "a", 9))
        with TopicReader(mosquitto.port, "kept/#", 1) as reader:
            found = {each.topic: each.row["n"] for each in reader.wait(2)}
        assert found == {"kept/a": 9, "kept/b": 8}

    def test_a_broker_that_is_away_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rows come after it is back."""
        monkeypatch.setattr("rxtemporal.sinks.positioned.FIRST", 0.01)
        with broker() as mosquitto:
            sink = rxt.MqttTopic(mosquitto.url, "t/{n}", retain=True)
            source = rxt.PushSource("readings", schema=SCHEMA, hand_off=rxt.HandOff())
            process = source.stream.run(sink)
            mosquitto.end()
            source.push([{"time": 1, "device": "a", "n": 7}, rxt.Cti(2)])
            pause = threading.Event()
            while not sink.restarts:
                assert not process.ended
                pause.wait(0.01)
            assert sink.away_since is not None
            mosquitto.start()
            source.push([{"time": 3, "device": "a", "n": 8}, rxt.Cti(4)])
            source.close()
            process.wait(SOON)
            with TopicReader(mosquitto.port, "t/#", 1) as reader:
                assert sorted(each.row["n"] for each in reader.wait(2)) == [7, 8]

    def test_a_stop_with_an_error_does_not_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A write that waits for a broker is cancelled."""
        with broker() as mosquitto:
            sink = rxt.MqttTopic(mosquitto.url, "t", patience=3_600)
            source = rxt.PushSource("readings", schema=SCHEMA, hand_off=rxt.HandOff())
            process = source.stream.run(sink)
            mosquitto.end()
            source.push([{"time": 1, "device": "a", "n": 7}, rxt.Cti(2)])
            stopper = threading.Thread(target=process.stop, args=(RuntimeError(),))
            stopper.start()
            stopper.join(SOON)
            assert not stopper.is_alive()

    def test_a_broker_that_is_not_there_is_an_error(self) -> None:
        """The run does not begin."""
        sink = rxt.MqttTopic("mqtt://bob:secret@127.0.0.1:9", "t")
        with pytest.raises(RxTemporalError, match=r"no connection to .*Hint: url=") as caught:
            run(sink)
        assert "secret" not in f"{caught.value}{sink!r}"

    def test_rows_go_through_tls_to_a_broker_that_asks_for_a_password(self, tmp_path: Path) -> None:
        """A wrong password and a certificate of someone else are errors, which do not show it."""
        if shutil.which("openssl") is None:
            pytest.skip("there is no openssl to make a certificate with")
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=tests",
                "-addext", "subjectAltName=IP:127.0.0.1"]  # fmt: skip
        for name in ("own", "other"):
            files = [
                "-keyout",
                str(tmp_path / f"{name}.key"),
                "-out",
                str(tmp_path / f"{name}.pem"),
            ]
            subprocess.run([*make, *files], check=True, capture_output=True, timeout=SOON)
        (tmp_path / "password").write_text("secret\n")
        more = (
            "allow_anonymous false\npassword_file {folder}/passwords\n"
            "certfile {folder}/certificate\nkeyfile {folder}/key\n"
        )
        own = {each: (tmp_path / f"own.{each}").read_text() for each in ("pem", "key")}
        files = {"passwords": PASSWORDS, "certificate": own["pem"], "key": own["key"]}
        with broker(more, **files) as found:
            url = f"mqtts://127.0.0.1:{found.port}"
            right: Any = {"username": "bob", "ca": tmp_path / "own.pem", "retain": True}
            kept = {**right, "password_file": tmp_path / "password"}
            run(rxt.MqttTopic(url, "t", **kept), (1, "a", 7))
            message = subscribe.simple(
                "t", hostname="127.0.0.1", port=found.port,
                auth={"username": "bob", "password": "secret"},
                tls={"ca_certs": str(tmp_path / "own.pem")},
            )  # fmt: skip
            assert json.loads(message.payload)["n"] == 7
            wrong: list[tuple[dict[str, Any], str]] = [
                ({**right, "password": "wrong"}, r"refuses .*Not authorized"),
                ({**kept, "ca": tmp_path / "other.pem"}, r"certificate verify failed"),
            ]
            for arguments, says in wrong:
                with pytest.raises(RxTemporalError, match=says) as caught:
                    run(rxt.MqttTopic(url, "t", **arguments), (1, "a", 7))
                assert "wrong" not in str(caught.value)
                assert "secret" not in str(caught.value)

    def test_a_message_that_the_broker_forbids_ends_the_run(self) -> None:
        """With MQTT 5 the acknowledgement says so."""
        more = "allow_anonymous true\nacl_file {folder}/acl\n"
        with (
            broker(more, acl="topic read #\n") as found,
            pytest.raises(RxTemporalError, match=r"refuses a message: .*authori.*Hint"),
        ):
            run(rxt.MqttTopic(found.url, "t"), (1, "a", 7))

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ({"topic": "a/+/b"}, "without . and #"),
            ({"topic": "a/{b"}, "stands for a value"),
            ({"url": "localhost"}, 'Hint: url="mqtt://localhost"'),
            ({"qos": 3}, "qos is 0, 1 or 2"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments: dict[str, Any], reason: str) -> None:
        """Each says what is allowed."""
        with pytest.raises(ArgumentError, match=reason):
            rxt.MqttTopic(**{"url": "mqtt://x", "topic": "t", **arguments})

    def test_a_field_that_there_is_not_is_refused(self, mosquitto: Mosquitto) -> None:
        """Before the run begins."""
        with pytest.raises(ArgumentError, match=r"topic= names 'room'.*Hint"):
            run(rxt.MqttTopic(mosquitto.url, "t/{room}"))


def test_a_configuration_names_the_sinks_and_shows_no_secret() -> None:
    """Of both kinds."""
    kafka = SinkSettings.parse(
        {"kind": "kafka", "servers": "x:1", "topic": "t", "config": {"sasl.password": "secret"}},
        "queries.a.sink",
    )
    mqtt = SinkSettings.parse(
        {"kind": "mqtt", "url": "mqtt://bob:secret@x", "topic": "t/{n}", "password": "secret"},
        "queries.b.sink",
    )
    assert repr(kafka.make()) == "KafkaTopic('x:1', 't')"
    assert repr(mqtt.make()) == "MqttTopic('mqtt://x:1883', 't/{n}')"
    assert "secret" not in "\n".join([*kafka.describe("a"), *mqtt.describe("b")])
    with pytest.raises(ArgumentError, match=r"\[queries\.b\.sink\] qos is 0, 1 or 2"):
        SinkSettings.parse(
            {"kind": "mqtt", "url": "mqtt://x", "topic": "t", "qos": 7}, "queries.b.sink"
        )
