"""A folder of a run that was killed, kept for the releases to come.

    python tests/support/saved_folder.py

makes ``tests/run/saved/format-N.tar.xz``, with N the format of the file, and in it the results that
the run had given. Make one when the format changes, and keep the old ones: a release continues the
folders of the release before, or says what to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint
from rxtemporal.storage.event_log.stored_log import FORMAT

SAVED = Path(__file__).parents[1] / "run" / "saved"
# the times of all rows; the checkpoint is before the second mark, the process dies at the third
TIMES, MARKS = range(1, 400), (1, 150, 230)
Results = dict[str, list[list[Any]]]


class Kept(rxt.Sink):
    """A sink that cuts off what was written after a checkpoint."""

    def __init__(self, rows: list[list[Any]]) -> None:
        self.rows = rows

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the rows."""
        self.rows += map(list, batch.to_polars("ticks").rows())

    def save(self) -> bytes:
        """Return how many rows there are."""
        return str(len(self.rows)).encode()

    def load(self, state: bytes) -> None:
        """Forget later ones."""
        del self.rows[int(state) :]


def make_house() -> tuple[rxt.Application, rxt.PushSource, rxt.PushSource]:
    """Return an application with operators that hold state of each kind, and its sources."""
    rows = rxt.PushSource(
        "rows", schema={"room": str, "temp": float}, start="t", unit="ticks", delay=7, seq="n"
    )
    limits = rxt.PushSource(
        "limits", schema={"room": str, "limit": float}, start="t", end="end", unit="ticks", delay=7
    )
    app = rxt.Application("house")
    stream, known = (
        app.define_stream("rows", rows.stream),
        app.define_stream("limits", limits.stream),
    )
    rooms = stream.group_by("room")
    mean = {"n": agg.count(), "mean": agg.mean("temp"), "most": agg.max("temp")}
    app.query("tumbling", rooms.tumbling_window(20).aggregate(**mean))
    app.query("hopping", rooms.hopping_window(30, 10).aggregate(**mean))
    app.query("sessions", rooms.session_window(6).aggregate(**mean))
    app.query("snapshot", stream.extend_lifetime(9).snapshot_window().aggregate(n=agg.count()))
    app.query("counted", rooms.count_window(5).aggregate(**mean))
    app.query("joined", stream.join(known, on="room").where(pl.col("temp") > pl.col("limit")))
    app.query("alone", stream.left_anti_join(known, on="room"))
    app.query("latest", rooms.to_signal().ungroup())
    app.query("changes", stream.extend_lifetime(12).distinct())
    app.query("shifted", stream.shift_event_time(40).extend_lifetime(15))
    return app, rows, limits


def run(folder: Path | None, results: Results, times: range, *, stops: bool) -> None:
    """Push the rows of these times, some of them late and out of order."""
    app, rows, limits = make_house()
    names = list(app.queries)
    sinks = {name: Kept(results.setdefault(name, [])) for name in names}
    process = app.run(sinks=sinks, resume=folder)
    for time in times:
        if time % 50 == 1:
            limit = {"t": time, "end": time + 45, "room": "hall", "limit": 20.0 + time / 100}
            limits.push(limit)
        room, moved = ("hall", "lab", "attic")[time % 3], time - 5 * (time % 7 == 0)
        quiet = room == "attic" and time % 100 > 50
        if not quiet:
            rows.push({"t": moved, "room": room, "temp": 15.0 + time * 37 % 23 / 2, "n": time})
        limits.push(rxt.Cti(time))
    if stops:
        process.stop()
        process.wait(60)
    else:
        os.write(1, json.dumps(results).encode())
        os._exit(0)  # as if it were killed


def main() -> None:
    """Make the folder: a run that is saved, then one that dies with events in its log."""
    first, second, third = MARKS
    if sys.argv[1:]:
        checkpoint.SECONDS = 1e9
        results = Results(json.loads(sys.stdin.read()))
        run(Path(sys.argv[1]), results, range(second, third), stops=False)
        return
    results = Results()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run(folder, results, range(first, second), stops=True)
        died = subprocess.run(
            [sys.executable, __file__, str(folder)],
            input=json.dumps(results).encode(), stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        (folder / "results.json").write_bytes(died.stdout)
        (folder / "lock").unlink(missing_ok=True)
        SAVED.mkdir(exist_ok=True)
        with tarfile.open(SAVED / f"format-{FORMAT}.tar.xz", "w:xz") as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    main()
