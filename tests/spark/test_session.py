"""The session that Spark was given wins: a running one, spark-submit's, that of its files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from child_process import HERE, environment
from hypothesis import given
from hypothesis import strategies as st
from sink_input import expected_rows, read_table, wait_until

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import explain, run, session, stream
from rxtemporal.spark.jvm.java import find_java
from rxtemporal.spark.jvm.session import STATE_STORE, merge_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE = 300
PROBE = str(HERE / "session_probe.py")
PARTITIONS = "spark.sql.shuffle.partitions"
QUICK = "-XX:TieredStopAtLevel"

names = st.sampled_from([PARTITIONS, "spark.driver.host", "spark.app.name", STATE_STORE[0], "x"])
settings = st.dictionaries(names, st.sampled_from("abc"))
masters = st.sampled_from(["local", "local[3]", "local-cluster[2,1,512]", "yarn", "spark://a:1"])


@given(settings, settings, masters, masters | st.none())
def test_the_strongest_way_to_give_a_setting_wins(
    outside: dict[str, str], inside: dict[str, str], master: str, own: str | None
) -> None:
    """A program's settings, then those from outside; a default never replaces either."""
    outside["spark.master"] = master
    if own is not None:
        inside["spark.master"] = own
    found = merge_settings(outside, inside)
    assert found.items() >= {**outside, **inside}.items()
    assert found["spark.master"] == (own or master)


@given(settings, settings, masters)
def test_a_cluster_gets_no_setting_of_this_machine(
    outside: dict[str, str], inside: dict[str, str], master: str
) -> None:
    """Its executors could not reach a driver on the loopback device, nor use paths from here."""
    found = merge_settings({**outside, "spark.master": master}, inside)
    added = found.keys() - outside.keys() - inside.keys()
    local = {"spark.driver.host", "spark.driver.bindAddress", "spark.executorEnv.PYTHONPATH"}
    local |= {PARTITIONS, "spark.ui.enabled", "spark.sql.streaming.checkpointFileManagerClass"}
    wanted = local - outside.keys() - inside.keys() if master.startswith("local") else set()
    assert added & local == wanted


def probe(folder: Path, *arguments: str, submit: list[str] | None = None, **changes: str) -> Any:
    """Return what a program tells about its sessions; ``submit``: run by spark-submit with that."""
    pyspark = pytest.importorskip("pyspark")
    folder.mkdir(exist_ok=True)
    program = [sys.executable]
    if submit is not None:
        program = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *submit]
        changes = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, **changes}
    # tests start Java with options for short runs, and here its own are looked at
    variables = {**environment(**changes), "SPARK_SUBMIT_OPTS": ""}
    done = subprocess.run(
        [*program, PROBE, str(folder), *arguments],
        env=variables,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    warned = "spark.settings_ignored" in done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "warned": warned}


def all_on(master: str) -> dict[str, list[str]]:
    """Return what a program tells if all its sinks run in sessions of this master."""
    return {kind: [master] for kind in ("table", "function", "direct")}


def write_defaults(folder: Path, **settings: object) -> str:
    """Write a ``spark-defaults.conf``, and return its folder."""
    folder.mkdir(exist_ok=True)
    lines = [f"spark.{name.replace('_', '.')} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return str(folder)


@pytest.mark.full
@pytest.mark.java
def test_what_spark_submit_was_given_holds_for_sinks_and_session(tmp_path: Path) -> None:
    """Its master, and its number of partitions, which is that of the buckets as well."""
    submit = ["--master", "local[1]", "--conf", f"{PARTITIONS}=33"]
    found = probe(tmp_path, submit=submit)
    assert found["sinks"] == all_on("local[1]")
    assert read_table(tmp_path / "table") == expected_rows(3)
    assert found["settings"]["spark.master"] == "local[1]"
    assert found["settings"][PARTITIONS] == "33"
    assert found["split"].startswith("33 buckets, split")
    # what nobody has given
    assert found["settings"][STATE_STORE[0]] == STATE_STORE[1]


@pytest.mark.full
@pytest.mark.java
def test_spark_defaults_and_submit_args_hold_where_nothing_stronger_is_given(
    tmp_path: Path,
) -> None:
    """Of three ways to give a setting the strongest wins, for each set of ways that give it."""
    conf = write_defaults(
        tmp_path / "conf", x_1=1, x_12=1, x_13=1, x_123=1, master="local[3]", driver_memory="1100m"
    )
    arguments = "--master local[1] " + " ".join(f"--conf spark.x.{n}=2" for n in (2, 12, 23, 123))
    code = [word for n in (3, 13, 23, 123) for word in ("--set", f"spark.x.{n}=3")]
    code += ["--set", "spark.driver.extraJavaOptions=-Dthree=3"]  # Spark puts its own before these
    found = probe(
        tmp_path,
        "--no-sinks",
        *code,
        SPARK_CONF_DIR=conf,
        PYSPARK_SUBMIT_ARGS=f"{arguments} pyspark-shell",
    )
    given = found["settings"]
    strongest = {name: value for name, value in given.items() if name.startswith("spark.x.")}
    assert strongest == {f"spark.x.{n}": n[-1] for n in ("1", "2", "3", "12", "13", "23", "123")}
    assert given["spark.master"] == "local[1]"
    assert given["spark.driver.memory"] == "1100m"
    assert "-Dthree=3" in found["java"]
    assert not found["warned"]
    assert "-Xmx1100m" in found["java"]
    assert not [each for each in found["java"] if each.startswith(QUICK)], "Spark at half speed"


def hourly(clicks: rxt.Streamable) -> rxt.Streamable:
    """A query."""
    return clicks.group_by("k").tumbling_window(10).aggregate(n=agg.count())


def in_streaming(spark: SparkSession, folder: Path) -> DataFrame:
    """The query over a streaming DataFrame."""
    rows = spark.readStream.schema("start bigint, k string, cti bigint").parquet(str(folder))
    return run(hourly, clicks=stream(rows, start="start", cti="cti"))


@pytest.mark.java
def test_a_session_without_the_state_store_is_refused_and_both_hints_work(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The setting is named, with the call and the line of spark-defaults that set it."""
    plain = spark.newSession()
    plain.conf.unset(STATE_STORE[0])
    with pytest.raises(rxt.BindingError, match=re.escape(STATE_STORE[0])) as refused:
        in_streaming(plain, tmp_path)
    call = re.search(r"spark\.conf\.set\('(\S+)', '(\S+)'\)", str(refused.value))
    line = re.search(r"the line '(\S+) (\S+)' to spark-defaults", str(refused.value))
    assert call is not None
    assert line is not None
    assert call.groups() == line.groups()
    plain.conf.set(*call.groups())
    assert in_streaming(plain, tmp_path).isStreaming


@pytest.mark.full
@pytest.mark.java
def test_a_running_session_is_used_and_settings_it_cannot_take_are_named(tmp_path: Path) -> None:
    """No sink starts a second one beside it, and the program's own work is in it, too."""
    memory = "spark.driver.memory=5g"
    asked = ["--set", memory, "--set", f"{PARTITIONS}=7"]
    found = probe(tmp_path, "--plain", "local[1]", *asked)
    assert found["sinks"] == all_on("local[1]")
    assert found["split"].startswith("7 buckets")
    assert found["settings"].get("spark.driver.memory") != "5g"
    assert found["warned"]


@pytest.mark.java
def test_a_setting_that_can_no_longer_change_is_named(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """What can change is applied in silence; of the rest a warning says where it has to be set."""
    before = spark.conf.get(PARTITIONS)
    try:
        assert session(**{PARTITIONS: 5, "spark.master": spark.sparkContext.master}) is spark
        assert spark.conf.get(PARTITIONS) == "5"
        assert not caplog.records
        session(**{"spark.driver.memory": "77m", PARTITIONS: 6})
        assert spark.conf.get(PARTITIONS) == "6"
        assert spark.conf.get("spark.driver.memory") != "77m"
        assert "spark.driver.memory" in caplog.text
        assert "spark-defaults.conf" in caplog.text
        assert PARTITIONS not in caplog.text
    finally:
        spark.conf.set(PARTITIONS, before)


@pytest.mark.java
def test_the_number_of_buckets_is_sparks_number_of_partitions(spark: SparkSession) -> None:
    """Where nobody has set it, too: Spark's own default counts."""
    rows = spark.createDataFrame([(1, "a")], "start_time bigint, k string")
    before = spark.conf.get(PARTITIONS)
    spark.conf.unset(PARTITIONS)
    try:
        split = explain(hourly, clicks=rows).splitlines()[-1]
        assert split.startswith(f"{spark.conf.get(PARTITIONS)} buckets")
        assert split.startswith("200 buckets")
    finally:
        spark.conf.set(PARTITIONS, before)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A cluster of Spark's own with one worker, on this machine; its address."""
    pyspark = pytest.importorskip("pyspark")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    size = ["--cores", "2", "--memory", "1g", "-d", str(folder / "work")]
    kinds = {
        "master.Master": [*place, "--port", str(port)],
        "worker.Worker": [*place, *size, address],
    }
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    home = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with contextlib.ExitStack() as stack:
        for kind, arguments in kinds.items():
            log = stack.enter_context((folder / kind).open("w", encoding="utf-8"))
            running = subprocess.Popen(
                [program, f"org.apache.spark.deploy.{kind}", *arguments],
                env={**os.environ, **home},
                stdout=log,
                stderr=log,
            )
            stack.callback(running.wait)
            stack.callback(running.kill)
        log_of_master = folder / "master.Master"
        wait_until(lambda: "Registering worker" in log_of_master.read_text("utf-8"), PATIENCE)
        yield address


@pytest.mark.full
@pytest.mark.java
def test_on_a_cluster_everything_runs_there(tmp_path: Path) -> None:
    """By spark-submit and by spark-defaults alone: sinks, session, and a driver to be reached."""
    with cluster(tmp_path) as address:
        memory = "spark.executor.memory=512m"
        submitted = probe(tmp_path / "submitted", submit=["--master", address, "--conf", memory])
        conf = write_defaults(tmp_path / "conf", master=address, executor_memory="512m")
        python = sys.executable
        alone = probe(tmp_path / "alone", SPARK_CONF_DIR=conf, PYSPARK_PYTHON=python)
        for found, folder in ((submitted, "submitted"), (alone, "alone")):
            assert found["sinks"] == all_on(address)
            assert found["settings"]["spark.master"] == address
            assert read_table(tmp_path / folder / "table") == expected_rows(3)
            # both would bind it to this machine
            assert not found["settings"]["spark.driver.host"].startswith("127.0.0.1")
            assert "spark.driver.bindAddress" not in found["settings"]
            assert found["split"].startswith("200 buckets")
