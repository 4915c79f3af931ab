"""A run into a topic, for tests that kill it: kind, address, folder and rows are its arguments.

It prints a line for each batch that has been written.
"""

from __future__ import annotations

import sys
from typing import Any

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint

ROOMS = ("attic", "hall", "lab")


def main(kind: str, address: str, folder: str, rows: int) -> None:
    """Count the readings of each room in each window of 30."""
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    if kind == "model":
        from kafka_model import connect_model

        connect_model(address)
    sinks = {
        "kafka": lambda: rxt.KafkaTopic(address, "results", key="room"),
        "model": lambda: rxt.KafkaTopic("model:1", "results", transactional_id="house"),
        "mqtt": lambda: rxt.MqttTopic(address, "results/{room}"),
    }
    frame = pl.DataFrame({"t": range(rows), "room": [*ROOMS] * (rows // 3)})
    stream = rxt.from_polars(frame, start="t", batch_rows=50, advance_time=2, name="readings")
    counted = stream.group_by("room").tumbling_window(30).aggregate(n=agg.count())
    sink: Any = sinks[kind]()
    write = sink.write

    def tell(batch: rxt.EventBatch) -> None:
        write(batch)
        if len(batch):
            print("written", flush=True)

    sink.write = tell
    counted.run(sink, name="counts", resume=folder).wait()


def expect(rows: int) -> list[tuple[int, str, int]]:
    """Return start, room and count of the results that a topic has to have."""
    return [(start, room, 10) for start in range(0, rows, 30) for room in ROOMS]


if __name__ == "__main__":
    main(*sys.argv[1:4], rows=int(sys.argv[4]))
