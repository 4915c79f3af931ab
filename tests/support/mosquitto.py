"""An MQTT broker for the tests: Debian's mosquitto on a free port, with a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from needs import skip_or_fail

# where Debian has it, which is not always on the PATH
DEBIAN = "/usr/sbin/mosquitto"
CONFIGURATION = """
listener {port} 127.0.0.1
persistence true
persistence_location {folder}/
max_queued_messages 0
max_inflight_messages 1000
"""

# bob has the password "secret"
PASSWORDS = (
    "bob:$7$101$QpZjaLseyNJ8JNcC$"
    "hDwPyVpX/JUoT8GFcQSSSKzsOOp+yolWJ7jwfNJiYAuh6VrN1Q+kxBFAGIQPw0YbD5oeZq6ys3qu/HuZ+XsrTQ==\n"
)


def find_program() -> str | None:
    """Return the path of the broker, None if there is none."""
    return shutil.which("mosquitto") or (DEBIAN if Path(DEBIAN).exists() else None)


class Mosquitto:
    """A broker that can be killed and started again with what it had."""

    def __init__(self, program: str, folder: Path, more: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        text = CONFIGURATION.format(port=self.port, folder=folder) + more
        (folder / "mosquitto.conf").write_text(text)
        self._program, self.folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The url to connect with."""
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [self._program, "-c", str(self.folder / "mosquitto.conf")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None, f"mosquitto does not start: {self.log}"
                assert time.monotonic() < deadline, f"mosquitto does not answer: {self.log}"
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> None:
        """End it by a signal, and wait; with SIGTERM it saves all that it has."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(20)

    def restart(self, number: int = signal.SIGTERM) -> None:
        """End it, and start it again."""
        self.end(number)
        self.start()

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)


@contextmanager
def broker(more: str = "allow_anonymous true\n", **files: str) -> Iterator[Mosquitto]:
    """Run a broker with further lines of configuration; ``{folder}`` is its folder.

    ``files`` are written into it before.
    """
    program = find_program()
    if program is None:
        skip_or_fail("mqtt", "there is no mosquitto: apt install mosquitto")
        raise AssertionError
    # as root, mosquitto becomes another user
    folder = Path(tempfile.mkdtemp(prefix="mosquitto-"))
    folder.chmod(0o777)
    try:
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o644)
        running = Mosquitto(program, folder, more.replace("{folder}", str(folder)))
        try:
            yield running
        finally:
            running.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(
    port: int, messages: Iterable[tuple[str, bytes]], *, qos: int = 1, version: int = 5,
    retain: bool = False, properties: Any = None,
) -> None:  # fmt: skip
    """Publish messages and wait until the broker has them; it may be away for a while."""
    import paho.mqtt.client as paho

    protocol = paho.MQTTv5 if version == 5 else paho.MQTTv311
    client: Any = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=protocol)
    client.max_inflight_messages_set(1_000)
    client.reconnect_delay_set(1, 1)
    _connect(client, port)
    # its ``wait_for_publish`` raises for a message that waits since the broker was away
    arrived, count = threading.Semaphore(0), 0
    client.on_publish = lambda *_: arrived.release()
    client.loop_start()
    for topic, payload in messages:
        client.publish(topic, payload, qos, retain, properties)
        count += 1
    for _ in range(count):
        assert arrived.acquire(timeout=60)
    client.disconnect()
    # its thread may end, and be forgotten, just when it is waited for
    with suppress(AttributeError):
        client.loop_stop()


def _connect(client: Any, port: int) -> None:
    """Connect to a broker that may start again just now."""
    deadline = time.monotonic() + 60
    while True:
        try:
            client.connect("127.0.0.1", port)
            return
        except OSError:
            assert time.monotonic() < deadline, "there is no broker"
        time.sleep(0.05)


def start_publisher(port: int, count: int, *options: str) -> subprocess.Popen[bytes]:
    """Publish numbered rows of several devices in another process, see ``main``."""
    command = [sys.executable, __file__, str(port), str(count), *options]
    return subprocess.Popen(command)


def make_rows(count: int, devices: int) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of several devices by turns, numbered in each, with their topics."""
    for number in range(count):
        for device in range(devices):
            row = f'{{"time": {number}, "device": "d{device}", "n": {number}}}'
            yield f"sensors/d{device}/temp", row.encode()


def main(port: str, count: str, devices: str = "4", qos: str = "1") -> None:
    """Publish ``count`` rows of each device."""
    publish(int(port), make_rows(int(count), int(devices)), qos=int(qos))


if __name__ == "__main__":
    main(*sys.argv[1:])
