"""A service that receives readings over HTTP and MQTT, and writes their sums into a table.

Each request gets a receipt once its readings are on disk, and each message of the broker is
acknowledged then. A message that comes twice is known by the numbers of its readings. Spark writes
the table, each row once, if there is Java. The sample starts its own devices, and ends when they
have sent everything. It needs ``pip install 'rxtemporal[serve,mqtt]'``.

    python samples/ingest_service.py [--no-spark] [--mqtt mqtt://localhost:1883]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import uvicorn

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.serve import Settings, app

MESSAGES, READINGS = 10, 50
LAST = MESSAGES * READINGS


def application() -> rxt.Application:
    fields = {"device": str, "value": int}
    readings = rxt.PushSource("readings", schema=fields, delay=LAST, seq="n")
    house = rxt.Application("house")
    house.define_stream("readings", readings.stream)
    windows = readings.stream.group_by("device").tumbling_window(100)
    house.query("sums", windows.aggregate(readings=agg.count(), total=agg.sum("value")))
    return house


def make_sink(folder: Path, with_spark: bool) -> rxt.Sink:
    if not with_spark:
        return rxt.File(folder / "sums.parquet")
    from rxtemporal.spark import ParquetTable, SparkSink

    return SparkSink(ParquetTable(folder / "sums.parquet"), path=folder / "spark")


@contextlib.contextmanager
def serve(settings: Settings, sink: rxt.Sink):
    """Serve on a free port. For good it is ``rxtemporal serve ingest_service.py:application``."""
    served = app(application(), settings, sinks={"sums": sink})
    server = uvicorn.Server(uvicorn.Config(served, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield served.service, f"http://127.0.0.1:{port}/streams/readings"
    finally:
        server.should_exit = True
        thread.join()


def list_messages(device: str) -> list[bytes]:
    rows = [{"time": n, "device": device, "value": n, "n": n} for n in range(LAST)]
    cuts = range(0, LAST, READINGS)
    return [json.dumps(rows[begin : begin + READINGS]).encode() for begin in cuts]


def post_all(url: str, device: str) -> list[dict]:
    """Post the messages of a device, the last one twice; return the receipts."""
    headers = {"Source": device, "Content-Type": "application/json"}
    messages = list_messages(device)
    requests = [urllib.request.Request(url, each, headers) for each in [*messages, messages[-1]]]
    return [json.load(urllib.request.urlopen(each)) for each in requests]


def publish_all(broker: str, device: str) -> None:
    from paho.mqtt.client import CallbackAPIVersion, Client

    host, _, port = broker.removeprefix("mqtt://").partition(":")
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect(host, int(port or 1883))
    client.loop_start()
    for each in list_messages(device):
        client.publish(f"house/{device}", each, qos=1).wait_for_publish()
    client.disconnect()
    client.loop_stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-spark", action="store_true", help="write the table without Spark")
    parser.add_argument("--mqtt", metavar="URL", help="a broker, for two more devices")
    options = parser.parse_args()
    with_spark = not options.no_spark and shutil.which("java") is not None
    over_http = [f"device {n}" for n in range(6)]
    over_mqtt = ["radio 0", "radio 1"] if options.mqtt else []
    print("Spark writes the table" if with_spark else "without Spark: a file sink writes the table")
    print(f"a broker, for {len(over_mqtt)} devices" if over_mqtt else "no broker: HTTP alone")

    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        sections: dict = {"state": {"folder": str(folder / "state")}}
        if options.mqtt:
            topics = {"topics": ["house/+"], "input": "house/{input}", "client_id": "sample"}
            sections["mqtt"] = {"url": options.mqtt, **topics}
        sink = make_sink(folder, with_spark)
        with serve(Settings.parse(sections), sink) as (service, url), ThreadPoolExecutor() as pool:
            posted = list(pool.map(lambda device: post_all(url, device), over_http))
            for device in over_mqtt:
                publish_all(options.mqtt, device)
            readings = service.sources["readings"]
            while readings.stats().accepted < LAST * len(over_http + over_mqtt):
                time.sleep(0.05)
            # the end of the sample: the last windows close, and the table is complete
            readings.close()
            service.process.wait()
        table = pl.read_parquet(folder / "sums.parquet")
    receipts = [each for of_device in posted for each in of_device]
    accepted, twice = (sum(each[key] for each in receipts) for key in ("accepted", "duplicates"))
    print(f"receipts: {accepted:,} readings accepted, {twice} duplicates")
    sums = table.group_by("device").agg(pl.sum("readings", "total")).sort("device")
    for device, count, total in sums.iter_rows():
        print(f"{device}: {count} readings, sum {total:,}")


if __name__ == "__main__":
    main()
