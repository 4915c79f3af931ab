"""A service that receives readings over HTTP and MQTT, and writes their sums into a Spark table.

Each request gets a receipt once its readings are on disk, and each message of the broker is
acknowledged then; one that comes twice is known by the numbers of its readings. The sample starts
its own devices, and ends when they have sent everything. Without Java a file takes the place of the
table. It needs ``pip install 'rxtemporal[serve,mqtt]'``.

    python samples/ingest_service.py [--no-spark] [--mqtt localhost:1883]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.serve import ServiceApp, Settings, app

ROWS, CUT = 500, 50


def make_service(folder: Path, sink: rxt.Sink, broker: str | None) -> ServiceApp:
    fields = {"device": str, "value": int}
    readings = rxt.PushSource("readings", schema=fields, delay=ROWS, seq="n")
    windows = readings.stream.group_by("device").tumbling_window(100)
    house = rxt.Application("house")
    house.query("sums", windows.aggregate(readings=agg.count(), total=agg.sum("value")))
    sections: dict = {"state": {"folder": str(folder / "state")}}
    if broker is not None:
        topics = {"topics": ["house/+"], "input": "house/{input}", "client_id": "sample"}
        sections["mqtt"] = {"url": f"mqtt://{broker}", **topics}
    return app(house, Settings.parse(sections), sinks={"sums": sink})


def make_sink(folder: Path, with_spark: bool) -> rxt.Sink:
    if not with_spark:
        return rxt.File(folder / "sums.parquet")
    from rxtemporal.spark import ParquetTable, SparkSink

    return SparkSink(ParquetTable(folder / "sums.parquet"), path=folder / "spark")


def list_messages(device: str) -> list[bytes]:
    rows = [{"time": n, "device": device, "value": n, "n": n} for n in range(ROWS)]
    return [json.dumps(rows[first : first + CUT]).encode() for first in range(0, ROWS, CUT)]


def post_all(url: str, device: str) -> list[dict]:
    """Post the messages of a device, the last one twice; return the receipts."""
    # if the settings have tokens, also "Authorization": f"Bearer {token}"
    headers = {"Source": device, "Content-Type": "application/json"}
    messages = list_messages(device)
    requests = [urllib.request.Request(url, each, headers) for each in [*messages, messages[-1]]]
    return [json.load(urllib.request.urlopen(each)) for each in requests]


def publish_all(broker: str, device: str) -> None:
    from paho.mqtt.client import CallbackAPIVersion, Client

    host, _, port = broker.partition(":")
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect(host, int(port or 1883))
    client.loop_start()
    for each in list_messages(device):
        client.publish(f"house/{device}", each, qos=1).wait_for_publish()
    client.disconnect()
    client.loop_stop()


def run_devices(port: int, broker: str | None) -> tuple[int, list[dict]]:
    """Send the readings of all devices; return the number of devices and the receipts."""
    url = f"http://127.0.0.1:{port}/streams/readings"
    receipts = [each for n in range(6) for each in post_all(url, f"device {n}")]
    radios = [] if broker is None else ["radio 0", "radio 1"]
    for device in radios:
        publish_all(broker, device)
    return 6 + len(radios), receipts


def main() -> None:
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise SystemExit("this sample needs: pip install 'rxtemporal[serve,mqtt]'") from error

    parser = argparse.ArgumentParser()
    parser.add_argument("--no-spark", action="store_true", help="write a file, without Spark")
    parser.add_argument("--mqtt", metavar="HOST:PORT", help="a broker, for two more devices")
    options = parser.parse_args()
    with_spark = not options.no_spark and shutil.which("java") is not None
    print("Spark writes the table" if with_spark else "without Spark: a file has the results")

    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        served = make_service(folder, make_sink(folder, with_spark), options.mqtt)
        # for good: rxtemporal serve FILE.py:NAME
        server = uvicorn.Server(uvicorn.Config(served, port=0, log_level="warning"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        devices, receipts = run_devices(port, options.mqtt)
        readings = served.service.sources["readings"]
        while readings.stats().accepted < devices * ROWS:
            time.sleep(0.05)
        # the end of the stream: its last windows close, and the table is complete
        readings.close()
        served.service.process.wait()
        server.should_exit = True
        thread.join()
        table = pl.read_parquet(folder / "sums.parquet")

    accepted, twice = (sum(each[key] for each in receipts) for key in ("accepted", "duplicates"))
    print(f"receipts: {accepted:,} readings accepted, {twice} duplicates")
    sums = table.group_by("device").agg(pl.sum("readings", "total")).sort("device")
    for device, count, total in sums.iter_rows():
        print(f"{device}: {count} readings, sum {total:,}")


if __name__ == "__main__":
    main()
