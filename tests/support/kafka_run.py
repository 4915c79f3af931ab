"""A run over a topic of Kafka, to be killed: its rows go into a file, or into a table of Spark.

    python kafka_run.py SERVERS TOPIC FOLDER file|spark DELAY MESSAGES

It reads so many messages at once, saves itself after almost every batch, and prints the number of
rows that it has written. SIGTERM stops it, and an error ends it. SIGUSR1 lets it print how far it
is, SIGABRT where its threads are.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from pathlib import Path

import rxtemporal as rxt
from rxtemporal.brokers import kafka
from rxtemporal.run import checkpoint

# rows of different partitions may come as far out of order; each has its own time
DELAY = 2_000


class CountedFile(rxt.File):
    """A file that tells how many rows are written."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Append rows."""
        super().write(batch)
        if len(batch):
            print(len(batch), flush=True)


def make_sink(folder: Path, kind: str) -> rxt.Sink:
    """Return the sink of the run."""
    if kind == "file":
        return CountedFile(folder / "rows.jsonl")
    from rxtemporal.spark import ParquetTable, SparkSink

    return SparkSink(ParquetTable(folder / "table"), path=folder / "sink", trigger="0 seconds")


def main(servers: str, topic: str, folder: Path, kind: str, delay: int, messages: int) -> None:
    """Run until SIGTERM, or until an error of the run, which is raised."""
    faulthandler.enable()
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    kafka.MOST_MESSAGES = messages
    # no lock is taken in a signal's handler, for the interrupted call may hold it
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    rows = rxt.from_kafka(
        servers, topic, schema={"p": int, "n": int}, delay=delay, group="run", name="rows"
    )
    process = rows.run(make_sink(folder, kind), resume=folder / "state")
    signal.signal(signal.SIGUSR1, lambda *_: print(process.diagnostics(), file=sys.stderr))
    while not stopped and not process.wait(0.05):
        pass
    process.stop()
    if process.error is not None:
        raise process.error


if __name__ == "__main__":
    at, name, place, what, *numbers = sys.argv[1:]
    main(at, name, Path(place), what, *map(int, numbers))
