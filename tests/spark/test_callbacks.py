"""Ports of a run with Spark: another local process that knows py4j's protocol changes nothing."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from child_process import environment
from file_streams import FileStream
from processes import descendants
from sink_input import batches, expected_rows, wait_until, write

import rxtemporal as rxt
from rxtemporal.spark import SparkSink, from_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="finds ports in /proc"),
]

LISTENS = "0A"
CALL = "c\n{}\ncall\ns\nsx\ne\n"
FORGET = "m\nd\n{}\ne\n"
WRONG = "A\nwrong\ne\n"


def ports() -> set[int]:
    """The ports on which this process and those that it has started listen."""
    sockets = {f"socket:[{line[9]}]": int(line[1].split(":")[1], 16) for line in listening()}
    files = [file for pid in (os.getpid(), *descendants(os.getpid())) for file in open_files(pid)]
    return {sockets[file] for file in files if file in sockets}


def open_files(pid: int) -> list[str]:
    """What a process has open; nothing if it has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for file in Path("/proc", str(pid), "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(file))
    return found


def listening() -> list[list[str]]:
    """The sockets of this machine that listen, with their address (1) and number (9)."""
    lines = [
        line.split()
        for kind in ("tcp", "tcp6")
        for line in Path("/proc/self/net", kind).read_text(encoding="ascii").splitlines()[1:]
    ]
    return [line for line in lines if line[3] == LISTENS]


def ask(port: int, text: str) -> bytes:
    """Send a command as a process without the token, and return what is answered within a while."""
    answer = b""
    # a server of another kind waits, resets the connection, or takes no second one
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=0.25) as connection,
    ):
        connection.sendall(text.encode())
        while piece := connection.recv(4096):
            answer += piece
    return answer


def attack() -> list[bytes]:
    """Call the functions of this process, and let it forget them, through each port.

    A function that is forgotten cannot be called again, which would end its query.
    """
    names = [f"p{number}" for number in range(20)]
    commands = [CALL.format(name) for name in names] + [FORGET.format(name) for name in names]
    asked = [(port, first + "".join(commands)) for port in ports() for first in ("", WRONG)]
    with ThreadPoolExecutor(len(asked)) as pool:
        return [*pool.map(ask, *zip(*asked, strict=True))]


def test_a_stranger_can_neither_call_the_function_of_a_sink_nor_remove_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No answer shows that a command was executed, and each row still arrives once."""
    rows: list[tuple[Any, ...]] = []

    def take(frame: DataFrame, number: int) -> None:
        found = pl.DataFrame(pl.from_arrow(frame.toArrow()))
        rows.extend(found.select("start_time", "end_time", "k", "v").rows())

    sink = SparkSink(take, path=tmp_path, session=spark, trigger="0 seconds")
    given = batches(9)
    sink.open("q", given[0].schema)
    write(sink, given[:4])
    wait_until(lambda: len(rows) >= 9)
    check_refused(attack())
    write(sink, given[4:])
    sink.close(None)
    assert sorted(rows, key=str) == sorted(expected_rows(9), key=str)


def test_a_stranger_cannot_end_a_stream_of_micro_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same of a streaming DataFrame that is read in this process."""
    files = FileStream(tmp_path / "rows", pl.Schema({"start": pl.Int64, "x": pl.Int64}))
    for number in range(4):
        files.add(pl.DataFrame({"start": [number], "x": [number]}))
    stream = from_dataframe(
        files.frame(spark),
        start="start",
        advance_time=rxt.INCREASING_START_TIME,
        trigger="availableNow",
    )
    found: list[Any] = []

    def take(event: Any) -> None:
        if not found:
            check_refused(attack())
        found.append(event)

    ended: list[Exception | None] = []
    stream.subscribe(take, ended.append, lambda: ended.append(None))
    wait_until(lambda: bool(ended))
    assert ended == [None]
    assert len([each for each in found if not isinstance(each, rxt.Cti)]) == 4


BESIDE = """
import pathlib, sys
from sink_input import batches, feed, wait_until
from rxtemporal.spark import SparkSink, session

spark, own, rows = session(), [], []
rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
query = rate.writeStream.foreachBatch(lambda frame, number: own.append(frame.count())).start()
wait_until(lambda: sum(own) > 0)
take = lambda frame, number: rows.append(frame.count())
feed(SparkSink(take, path=pathlib.Path("sink"), session=spark, trigger="0 seconds"), batches(5))
before = sum(own)
wait_until(lambda: sum(own) > before or query.exception() is not None)
assert query.exception() is None and sum(rows) == 15
query.stop()
spark.stop()
"""


@pytest.mark.full
@pytest.mark.parametrize("pinned", ["true", "false"])
def test_a_query_that_the_program_has_started_before_goes_on(tmp_path: Path, pinned: str) -> None:
    """The token comes while py4j's server runs; and so it does with pyspark's other gateway."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE],
        env=environment(PYSPARK_PIN_THREAD=pinned),
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def check_refused(answers: list[bytes]) -> None:
    """Nothing was executed: there is no result, and no error of an object or of a function."""
    assert answers, "no port was found"
    for each in answers:
        known = each.startswith((b"!xn\n", b"!xsAuthentication error"))
        assert known or not each.startswith(b"!"), each
