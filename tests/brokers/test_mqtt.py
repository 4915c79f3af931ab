"""Streams of an MQTT broker, with a real one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mosquitto import PASSWORDS, Mosquitto, broker, make_rows, publish

import rxtemporal as rxt
from rxtemporal.brokers.mqtt_feed import MqttConnection, MqttFeed
from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.errors import ArgumentError, SourceError

FIELDS = {"device": str, "n": int}
TOPIC = "sensors/+/temp"
SENSORS = {"schema": FIELDS, "seq": "n", "input": "sensors/{input}/temp", "delay": 1_000}


@pytest.fixture(scope="module")
def mosquitto() -> Iterator[Mosquitto]:
    """Run a broker for the tests that leave it alone."""
    with broker() as running:
        yield running


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, a minute at most."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


class Rows:
    """The rows of a stream, in a run."""

    def __init__(self, stream: rxt.Streamable, **options: Any) -> None:
        self.sink = rxt.Collect()
        self.process = stream.run(self.sink, **options)

    def stats(self) -> Any:
        """Return the diagnostics of the stream."""
        return self.process.diagnostics().streams[0]

    def wait_for(self, count: int) -> None:
        """Wait until so many events have come in."""
        wait_for(lambda: self.stats().events_in >= count)

    def stop(self) -> list[tuple[str, int]]:
        """Stop the run, and return device and number of the rows in the result, in order."""
        self.process.stop()
        return [(row["device"], row["n"]) for row in self.sink.to_dicts()]


def make_property(value: str) -> Any:
    """Return the properties of a message with one of a user."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties: Any = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = ("unit", value)
    return properties


class Feed:
    """A feed into a source of its own, in a run; ``rejects`` are what it has rejected."""

    def __init__(self, settings: MqttSettings, sink: rxt.Sink, **options: Any) -> None:
        self.source = rxt.PushSource("rows", schema={"n": int}, **options)
        self.rejects: list[rxt.Rejected] = []
        self.source.rejects.subscribe(self.rejects.append)
        self.process = self.source.stream.run(sink)
        self.feed = MqttFeed(self.source, settings)

    def __enter__(self) -> Feed:
        self.feed.connect()
        self.feed.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.feed.stop()
        self.process.stop()


def test_cloud_events_are_rows(mosquitto: Mosquitto) -> None:
    """Whole in the payload, or with attributes as user properties; the source is the input."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    event = {
        "specversion": "1.0", "type": "reading", "source": "/attic", "id": "1",
        "time": "2026-05-01T12:00:00Z", "data": {"n": 1},
    }  # fmt: skip
    events = [event, event, {**event, "source": "/cellar"}, {**event, "id": ""}]
    # ids and values that Python refuses to read end nothing
    bodies = [json.dumps(each).encode() for each in [*events, {**event, "id": "9" * 5_000}]]
    bodies.append(b'{"specversion": ' + b"[" * 100_000)
    attributes: Any = Properties(PacketTypes.PUBLISH)
    attributes.UserProperty = [
        (name, value if name != "id" else "2") for name, value in event.items() if name != "data"
    ]
    settings = MqttSettings(mosquitto.url, ("events",))
    sink = rxt.Collect()
    with Feed(settings, sink, seq="number", delay="1m") as feed:
        publish(mosquitto.port, [("events", each) for each in bodies])
        publish(mosquitto.port, [("events", b'{"n": 2}')], properties=attributes)
        publish(mosquitto.port, [("events", b'{"time": "2026-05-01T12:00:09Z", "n": 3}')])
        wait_for(lambda: feed.feed.stats().acknowledged == len(bodies) + 2)
        feed.source.push(rxt.Cti("2026-05-01T13:00:00Z"))
    assert sorted(row["n"] for row in sink.to_dicts()) == [1, 1, 1, 2, 3]
    assert sink.to_dicts()[0]["start_time"].isoformat() == "2026-05-01T12:00:00+00:00"
    empty, deep = feed.rejects
    assert "attribute 'id' of a CloudEvent" in empty.reason
    assert "JSON" in deep.reason
    assert feed.source.stats().rejected == 2


def read(mosquitto: Mosquitto, client: str, **options: Any) -> rxt.Streamable:
    """Return the stream of all sensors, for a client with a session."""
    return rxt.from_mqtt(mosquitto.url, TOPIC, client_id=client, **{**SENSORS, **options})


def all_rows(count: int, devices: int) -> set[tuple[str, int]]:
    """Return device and number of the rows of ``make_rows``."""
    return {(f"d{device}", number) for number in range(count) for device in range(devices)}


def close_all(port: int) -> None:
    """Publish a row so late that all before it come out."""
    publish(port, [("sensors/last/temp", b'{"time": 1000000, "device": "last", "n": 0}')])


class TestMessages:
    """Messages and their rows."""

    @pytest.mark.parametrize("version", [3, 5])
    @pytest.mark.parametrize("qos", [0, 1, 2])
    def test_rows_of_each_device_are_an_input(
        self, mosquitto: Mosquitto, version: int, qos: int
    ) -> None:
        """Both protocols, each quality of service: the rows are there, counted by device."""
        run = Rows(read(mosquitto, f"c{version}{qos}", version=version, qos=qos))
        publish(mosquitto.port, make_rows(20, 2), qos=qos, version=version)
        run.wait_for(40)
        close_all(mosquitto.port)
        run.wait_for(41)
        inputs = run.stats().inputs
        assert {name: inputs[name].events for name in ("d0", "d1")} == {"d0": 20, "d1": 20}
        assert sorted(run.stop()) == sorted(all_rows(20, 2))

    @pytest.mark.parametrize("qos", [0, 1])
    def test_a_property_that_the_client_refuses_blocks_nothing(
        self, mosquitto: Mosquitto, qos: int
    ) -> None:
        """The message comes in, and those behind it: paho-mqtt refuses U+FEFF in a property."""
        run = Rows(read(mosquitto, f"property {qos}"))
        first, second = make_rows(2, 1)
        refused = make_property("\ufeff" + 200 * "C")
        publish(mosquitto.port, [first], qos=qos, properties=refused)
        publish(mosquitto.port, [second])
        run.wait_for(2)
        close_all(mosquitto.port)
        run.wait_for(3)
        assert sorted(run.stop()) == sorted(all_rows(2, 1))

    def test_an_error_of_the_client_library_costs_only_the_connection(
        self, mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The thread goes on with another connection."""
        run = Rows(read(mosquitto, "error"))
        errors = [ValueError("what a broker should not send")]
        read_all = MqttConnection.read

        def read_once(connection: MqttConnection) -> None:
            if errors:
                raise errors.pop()
            read_all(connection)

        monkeypatch.setattr(MqttConnection, "read", read_once)
        publish(mosquitto.port, make_rows(3, 1))
        run.wait_for(3)
        assert not errors
        close_all(mosquitto.port)
        run.wait_for(4)
        assert sorted(run.stop()) == sorted(all_rows(3, 1))

    def test_a_message_is_an_object_an_array_or_lines(self, mosquitto: Mosquitto) -> None:
        """What cannot be read is rejected, and acknowledged: it never comes again."""
        payloads = [
            b'{"time": 1, "n": 1}',
            b'[{"time": 2, "n": 2},\n {"time": 3, "n": 3}]',
            b'{"time": 4, "n": 4}\n{"time": 5, "n": "five"}\n{"time": 6, "n": 6}\n',
            b'{\n  "time": 7,\n  "n": 7\n}',
            b"",
            b"\xff\xfe not JSON\n{",
            b"12",
            b'{"time": 9, "n": 1e999}',
            b"[" * 100_000,
        ]
        sink = rxt.Collect()
        with Feed(MqttSettings(mosquitto.url, ("forms",), client_id="forms"), sink) as run:
            feed = run.feed
            publish(mosquitto.port, [("forms", payload) for payload in payloads])
            wait_for(lambda: feed.stats().acknowledged == len(payloads))
            assert [each.reason.partition(":")[0] for each in run.rejects] == [
                "field 'n' is Int64 and cannot hold 'five' (str)",
                "it is not JSON",
                "it is not a JSON object",
                "it is not JSON",
                "it is not JSON",
            ]
        assert [row["n"] for row in sink.to_dicts()] == [1, 2, 3, 4, 6]
        with Feed(MqttSettings(mosquitto.url, ("forms",), client_id="forms"), sink) as run:
            feed = run.feed
            publish(mosquitto.port, [("forms", b'{"time": 11, "n": 11}')])
            time.sleep(1)
            print(feed.stats(), mosquitto.log)
            wait_for(lambda: feed.stats().acknowledged == 1)
            assert feed.stats().messages == 1

    def test_retained_and_repeated_messages_count_once(self, mosquitto: Mosquitto) -> None:
        """A number that has come before is a duplicate, whoever sends it again."""
        row = ("sensors/kept/temp", b'{"time": 5, "device": "kept", "n": 5}')
        publish(mosquitto.port, [row], retain=True)
        run = Rows(read(mosquitto, "kept"))
        publish(mosquitto.port, [row, row])
        wait_for(
            lambda: "kept" in run.stats().inputs and run.stats().inputs["kept"].duplicates == 2
        )
        assert run.stats().inputs["kept"].events == 1
        run.process.stop()
        publish(mosquitto.port, [(row[0], b"")], retain=True)


class TestSession:
    """The session of a client, over restarts of both sides."""

    def test_messages_published_meanwhile_arrive(
        self, mosquitto: Mosquitto, tmp_path: Path
    ) -> None:
        """A run that is resumed has what was published while it was down, in that order."""
        run = Rows(read(mosquitto, "meanwhile", delay=0), resume=tmp_path / "state")
        publish(mosquitto.port, make_rows(10, 2))
        run.wait_for(20)
        begun = run.stop()
        publish(mosquitto.port, list(make_rows(60, 2))[20:])
        run = Rows(read(mosquitto, "meanwhile", delay=0), resume=tmp_path / "state")
        run.wait_for(120)
        close_all(mosquitto.port)
        run.wait_for(121)
        assert sorted(begun + run.stop()) == sorted(all_rows(60, 2))

    def test_what_is_not_durable_is_not_acknowledged(
        self, mosquitto: Mosquitto, tmp_path: Path
    ) -> None:
        """A run that fails acknowledges no message that it has not kept: the next one has it."""

        def fail(row: Any) -> bool:
            raise RuntimeError("a query with a mistake")

        stream = read(mosquitto, "failing", delay=0)
        process = stream.where(fail).run(rxt.Collect())
        publish(mosquitto.port, make_rows(1, 1))
        with pytest.raises(Exception, match="mistake"):
            process.wait(60)
        run = Rows(read(mosquitto, "failing"))
        run.wait_for(1)
        run.process.stop()

    def test_a_restart_of_the_broker_loses_nothing(self, tmp_path: Path) -> None:
        """The stream goes on when the broker comes back, with its sessions or without."""
        with broker("allow_anonymous true\nlog_type all\n") as own:
            run = Rows(read(own, "steady"), resume=tmp_path / "state")
            publish(own.port, make_rows(10, 1))
            run.wait_for(10)
            own.restart()
            publish(own.port, list(make_rows(20, 1))[10:])
            run.wait_for(20)
            own.end()
            (own.folder / "mosquitto.db").unlink()
            # a client that connects while the broker ends does so once more
            begun = len(own.log)
            own.start()
            wait_for(lambda: "Sending SUBACK to steady" in own.log[begun:])
            publish(own.port, list(make_rows(30, 1))[20:])
            run.wait_for(30)
            run.process.stop()

    @pytest.mark.full
    def test_a_blocked_query_keeps_the_connection(self, mosquitto: Mosquitto) -> None:
        """A hand-off without room blocks pushes, but not what is said to the broker."""
        gate, seen = threading.Event(), []

        def wait(batch: Any) -> None:
            seen.append(len(batch))
            gate.wait(60)

        hand_off = rxt.HandOff(max_rows=10)
        stream = read(mosquitto, "slow", delay=0, hand_off=hand_off, keepalive=5, inflight=50)
        process = stream.run(wait)
        publish(mosquitto.port, make_rows(200, 1))
        wait_for(lambda: bool(seen))
        time.sleep(8)  # the broker ends a connection that is silent for 7.5 s
        log = mosquitto.log
        gate.set()
        wait_for(lambda: process.diagnostics().events_in == 200)
        process.stop()
        assert "slow has exceeded timeout" not in log


class TestErrors:
    """Runs that cannot begin."""

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("localhost", """got 'localhost'. Hint: url="mqtt://localhost"."""),
            ("localhost:1883", 'Hint: url="mqtt://localhost:1883"'),
            ("tcp://house:1884", 'Hint: url="mqtt://house:1884"'),
            ("ssl://house:8883/x", 'Hint: url="mqtts://house:8883"'),
            ("bob:secret@house", """got '…@house'. Hint: url="mqtt://house"."""),
            ("mqtt://localhost:nine", "with a port from 1 to 65535"),
            ("mqtt://localhost:0", "with a port from 1 to 65535"),
            ("mqtt://local host", 'Hint: url="mqtt://localhost:1883"'),
            ("mqtt://localhost/rooms", "nothing behind the port, got .*Hint: topics are"),
            (None, 'got None. Hint: url="mqtt://localhost:1883"'),
        ],
    )
    def test_a_url_that_names_no_broker_is_an_error(self, url: Any, message: str) -> None:
        """The error says which url was probably meant, without user and password."""
        with pytest.raises(ArgumentError, match=message) as caught:
            rxt.from_mqtt(url, "t", schema={"x": int})
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"topics": None}, ArgumentError, "topic None is not a filter. Hint: sensors"),
            ({"topics": "a/{input}"}, ArgumentError, r'Hint: topics="a/\+", input="a/{input}"'),
            ({"client_id": 7}, ArgumentError, "client_id is a text, got int"),
            ({"inflight": "1"}, ArgumentError, "inflight is 1 to 65535, got '1'"),
            ({"port": 1883}, TypeError, r"from_mqtt\(\) .* 'port'. Hint: url= has host and port"),
        ],
    )
    def test_wrong_arguments_are_errors(
        self, arguments: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        """Each argument is checked when the stream is made."""
        with pytest.raises(error, match=message):
            rxt.from_mqtt(
                **{"url": "mqtt://localhost", "topics": "t", "schema": {"x": int}, **arguments}
            )

    def test_a_file_that_is_missing_is_named(self) -> None:
        """The error of TLS names no file."""
        stream = rxt.from_mqtt("mqtts://127.0.0.1:9", "t", schema={"x": int}, ca="/nowhere/ca.pem")
        with pytest.raises(SourceError, match=r"Hint: ca= is the path .* '/nowhere/ca.pem'"):
            stream.run(rxt.Collect())

    def test_a_broker_that_is_not_there_fails_the_run(self) -> None:
        """The error names the broker, without user and password."""
        stream = rxt.from_mqtt("mqtt://bob:secret@127.0.0.1:9", "t", schema={"x": int})
        with pytest.raises(SourceError, match=r"broker at mqtt://127\.0\.0\.1:9: ") as caught:
            stream.run(rxt.Collect())
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("version", [3, 5])
    def test_a_wrong_password_fails_the_run(self, version: int) -> None:
        """Credentials that the broker refuses end the run at once."""
        more = "allow_anonymous false\npassword_file {folder}/passwords\n"
        with broker(more, passwords=PASSWORDS) as own:
            for user in ("mqtt://bob:wrong@", "mqtt://"):
                url = own.url.replace("mqtt://", user)
                stream = rxt.from_mqtt(url, "t", schema={"x": int}, version=version)
                with pytest.raises(SourceError, match="refuses the connection: Not authorized"):
                    stream.run(rxt.Collect())
            url = own.url.replace("mqtt://", "mqtt://bob:secret@")
            rxt.from_mqtt(url, "t", schema={"x": int}, version=version).run(rxt.Collect()).stop()

    def test_a_durable_run_needs_a_client_id(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        """Without a session there is nothing that a restart could take up."""
        stream = rxt.from_mqtt(mosquitto.url, "t", schema={"x": int})
        with pytest.raises(ArgumentError, match="client_id"):
            stream.run(rxt.Collect(), resume=tmp_path / "state")
        stream.run(rxt.Collect()).stop()
