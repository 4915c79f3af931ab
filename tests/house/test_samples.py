"""The samples run, from anywhere, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mosquitto import broker
from needs import need_java

SAMPLES = Path(__file__).parents[2] / "samples"

PRINTED_RUN = """\
INPUT Insert: input A, time 5, payload 1
OUTPUT Insert: time 5, payload 1
INPUT Insert: input B, time 0, payload 2
OUTPUT Insert: time 0, payload 2
INPUT CTI: input A, time 5
OUTPUT CTI: time 0
INPUT CTI: input B, time 0
INPUT Insert: input A, time 7, payload 3
OUTPUT Insert: time 7, payload 3
INPUT CTI: input A, time 8
OUTPUT CTI: time 3
INPUT Insert: input B, time 1, payload 4
"""

HOPPING_TABLES = """\
Adjusted Events
  00:00:01  never ends  e0
  00:00:03  00:00:07    e1
  00:00:05  00:00:15    e2
  00:00:11  00:00:15    e3
Query
  00:00:01  00:00:03    1
  00:00:03  00:00:05    2
  00:00:05  00:00:07    3
  00:00:07  00:00:11    2
  00:00:11  00:00:15    3
  00:00:15  never ends  1
"""

DEVICES = """\
completed
attic  360 events, 0 late, 4 windows with 180 warm readings
cellar 360 events, 0 late, 4 windows with 180 warm readings
hall   360 events, 0 late, 4 windows with 180 warm readings
lab    360 events, 0 late, 4 windows with 180 warm readings
shed   360 events, 360 late, 0 windows with 0 warm readings
"""

JOINS = """\
Flights that leave, and the wind
  06:08 to 06:23   EWR B6 507 9
  06:20 to 06:35   EWR UA 1545 9
  06:50 to 07:05   EWR DL 461 31
  06:55 to 07:10   LGA AA 8 12
Idle periods
  06:00 to 06:08   EWR
  06:30 to 06:55   LGA
  06:35 to 06:50   EWR
  07:05 to 07:30   EWR
  07:10 to 07:30   LGA
"""

FLIGHTS = """\
6,577 windows; the busiest:
  05 Jan 20:15 to 21:15  JFK  37 departures, 2.9 min late
  06 Jan 20:15 to 21:15  JFK  36 departures, 2.3 min late
  24 Jan 13:30 to 14:30  EWR  36 departures, 14.2 min late
  02 Jan 20:15 to 21:15  JFK  35 departures, 14.3 min late
  05 Jan 20:30 to 21:30  JFK  35 departures, 3.3 min late
EWR  9,655 departures, 547 too late to count
JFK  9,061 departures, 619 too late to count
LGA  7,767 departures, 316 too late to count
the latest was 21:46:00 late
"""

REPLAY = """\
live: 6 rows, 3 events too late
  12:00  floor 1  20 readings, up to 24.0 degrees
  12:00  floor 4  11 readings, up to 24.0 degrees
  12:30  floor 1  18 readings, up to 24.0 degrees
  12:30  floor 4   9 readings, up to 24.0 degrees
  13:00  floor 1  19 readings, up to 24.0 degrees
  13:00  floor 4  10 readings, up to 24.0 degrees
replay: 6 rows, 3 events too late
  the same
at ten minutes a second: 6 rows, 3 events too late
  the same, in 8.8 s
"""

INGEST_ROWS = """\
receipts: 3,000 readings accepted, 300 duplicates
""" + "".join(f"device {n}: 500 readings, sum 124,750\n" for n in range(6))
INGEST = "without Spark: a file has the results\n" + INGEST_ROWS

SPARK_SINK = """\
1,763 rows written, 0 were already in the table
1,763 rows in the table, 26,483 departures
"""
SPARK_SINK_AGAIN = """\
0 rows written, 1,763 were already in the table
1,763 rows in the table, 26,483 departures
"""

HOURS = """\
  00:00 to 01:00  attic   9  25.0
  00:00 to 01:00  hall    9  25.0
  00:00 to 01:00  lab     8  25.0
  01:00 to 02:00  attic   7  25.0
  01:00 to 02:00  hall   10  25.0
  01:00 to 02:00  lab     7  24.0
  02:00 to 03:00  attic   4  25.0
  02:00 to 03:00  hall    4  25.0
  02:00 to 03:00  lab     5  25.0
"""

RUNS = [
    ("printed_run.py", [], PRINTED_RUN),
    ("printed_run.py", ["--alternate"], PRINTED_RUN),
    ("hopping_tables.py", [], HOPPING_TABLES),
    ("devices.py", [], DEVICES),
    ("flights.py", [], FLIGHTS),
    ("joins.py", [], JOINS),
    ("ingest_service.py", ["--no-spark"], INGEST),
    ("replay.py", [], REPLAY),
]


WITH_JAVA = {"spark_sink.py", "same_query_three_ways.py"}


def run(name: str, arguments: list[str], folder: Path) -> str:
    """Run a sample in a folder, to a good end and without a warning; return what it prints."""
    # a dependency's warning of this kind is none of ours
    quiet = {key: value for key, value in os.environ.items() if key != "PYTHONWARNDEFAULTENCODING"}
    ran = subprocess.run(
        [sys.executable, str(SAMPLES / name), *arguments],
        cwd=folder,
        env=quiet,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(("name", "arguments", "printed"), RUNS)
def test_a_sample_prints_what_it_promises(
    name: str, arguments: list[str], printed: str, tmp_path: Path
) -> None:
    """A sample ends well and prints just these lines."""
    assert run(name, arguments, tmp_path) == printed


@pytest.mark.java
@pytest.mark.full
def test_the_spark_sample_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A second run finds every row written, and adds none."""
    need_java()
    assert run("spark_sink.py", [], tmp_path) == SPARK_SINK
    assert run("spark_sink.py", [], tmp_path) == SPARK_SINK_AGAIN


@pytest.mark.full
def test_the_service_receives_over_a_broker(tmp_path: Path) -> None:
    """With a broker two more devices send over MQTT, and each of their readings counts once."""
    with broker() as mosquitto:
        place = mosquitto.url.removeprefix("mqtt://")
        printed = run("ingest_service.py", ["--no-spark", "--mqtt", place], tmp_path)
    radios = "".join(f"radio {n}: 500 readings, sum 124,750\n" for n in range(2))
    assert printed == INGEST + radios


@pytest.mark.java
@pytest.mark.full
def test_the_service_writes_a_table_of_spark(tmp_path: Path) -> None:
    """With Java the same sums are in a table that Spark has written."""
    need_java()
    assert run("ingest_service.py", [], tmp_path) == "Spark writes the table\n" + INGEST_ROWS


@pytest.mark.java
@pytest.mark.full
def test_one_query_has_one_table_in_three_ways(tmp_path: Path) -> None:
    """Live, replayed, in Spark: the sample asserts that the tables are equal, and prints them."""
    need_java()
    tables = "".join(f"{title}\n{HOURS}" for title in ("Live", "Replay", "Spark"))
    assert run("same_query_three_ways.py", [], tmp_path) == tables


def test_every_sample_is_run() -> None:
    """There is no sample that nobody runs."""
    assert {path.name for path in SAMPLES.glob("*.py")} == {name for name, _, _ in RUNS} | WITH_JAVA
