"""A run over an MQTT broker for crash tests, in a process of its own that is killed.

    python mqtt_consumer.py FOLDER PORT QUIET DELAY VERSION

It writes the rows of ``mosquitto.make_rows`` into a file, with a checkpoint after almost every
push, and ends when all that has come is acknowledged, and no row
has come for ``QUIET`` seconds: then it closes the source, so that the
file is complete.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import rxtemporal as rxt
from rxtemporal.brokers.mqtt_feed import MqttFeed
from rxtemporal.brokers.mqtt_settings import MqttSettings
from rxtemporal.run import checkpoint


def main(folder: Path, port: int, quiet: float, delay: int, version: int) -> None:
    """Run until the messages end, or until it is killed."""
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    source = rxt.PushSource(
        "rows", schema={"device": str, "n": int}, seq="n", delay=delay, batch_rows=64
    )
    process = source.stream.run(rxt.File(folder / "rows.jsonl"), resume=folder / "state")
    settings = MqttSettings(
        f"mqtt://127.0.0.1:{port}",
        ("sensors/+/temp",),
        input="sensors/{input}/temp",
        client_id="consumer",
        version=version,
        inflight=50,
    )
    feed = MqttFeed(source, settings)
    feed.start()
    print("begun", flush=True)
    seen, since = -1, time.monotonic()
    while True:
        stats = feed.stats()
        if stats.messages != seen or stats.acknowledged < seen or not stats.connected:
            seen, since = stats.messages, time.monotonic()
        elif time.monotonic() - since > quiet:
            break
        time.sleep(0.02)
    feed.stop()

    source.close()
    process.wait()


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    at, patience, late, protocol = map(float, numbers)
    main(Path(place), int(at), patience, int(late), int(protocol))
