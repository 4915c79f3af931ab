"""The demonstration: its counts against an independent computation, and as a newcomer runs it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from page_columns import read_causes, read_flow, read_numbers

from rxtemporal.cli.demo import feeds, main
from rxtemporal.cli.demo.main import demo
from rxtemporal.cli.demo.query import DELAY, airborne, departures_by_airport

ROOT = Path(__file__).parents[2]
HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)


class Silent:
    """A display that shows nothing and remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.advanced = 0

    def say(self, text: str) -> None:
        """Remember a line."""
        self.said.append(text)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """Count what is advanced."""

        def advance() -> None:
            self.advanced += 1

        yield advance

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show nothing."""
        yield


def accepted() -> pl.DataFrame:
    """Return the departures that no door and not the merge drop, by plain loops over the file.

    Each airport's every tenth departure promises what lies four hours before it; the merge passes
    on the highest promise of any airport less an hour.
    """
    rows = feeds.flights().filter(pl.col("departure").is_not_null())
    flights = rows.select("departure", "origin", "dep_delay").to_dicts()
    queues = {o: [f for f in flights if f["origin"] == o] for o in feeds.AIRPORTS}
    shown = dict.fromkeys(queues, datetime.min.replace(tzinfo=UTC))
    counts = dict.fromkeys(queues, 0)
    promises = dict.fromkeys(queues, datetime.min.replace(tzinfo=UTC))
    merged = datetime.min.replace(tzinfo=UTC)
    kept = []
    while any(queues.values()):
        origin = min(
            (o for o in queues if queues[o]), key=lambda o: max(shown[o], queues[o][0]["departure"])
        )
        flight = queues[origin].pop(0)
        shown[origin] = max(shown[origin], flight["departure"])
        counts[origin] += 1
        if flight["departure"] >= promises[origin] and flight["departure"] >= merged:
            kept.append(flight)
        if counts[origin] % 10 == 0:
            promise = flight["departure"] - timedelta(hours=4)
            if promise > promises[origin]:
                promises[origin] = promise
                merged = max(merged, promise - DELAY)
    return pl.DataFrame(kept, schema_overrides={"departure": pl.Datetime("us", "UTC")})


def windows(departures: pl.DataFrame) -> pl.DataFrame:
    """Return departures and mean delay in the quarter after each hour, by plain polars.

    A departure counts in the four quarters that follow the end of a window holding it; quarters
    with the same rows are one result.
    """
    last = pl.col("departure").dt.truncate("15m") + HOUR
    quarters = departures.with_row_index("flight").with_columns(
        quarter=pl.concat_list([last - QUARTER * 3 + QUARTER * i for i in range(4)])
    )
    return (
        quarters.explode("quarter")
        .group_by("quarter", "origin")
        .agg(
            departures=pl.len().cast(pl.Int64),
            mean_delay=pl.col("dep_delay").mean(),
            rows=pl.col("flight").sort(),
        )
        .sort("origin", "quarter")
        .with_columns(
            again=(
                (pl.col("rows") == pl.col("rows").shift(1))
                & (pl.col("quarter") - pl.col("quarter").shift(1) == QUARTER)
            )
            .over("origin")
            .fill_null(False)
        )
        .with_columns(stretch=(~pl.col("again")).cum_sum())
        .group_by("stretch", "origin", maintain_order=True)
        .agg(
            start_time=pl.col("quarter").first(),
            end_time=pl.col("quarter").last() + QUARTER,
            departures=pl.col("departures").first(),
            mean_delay=pl.col("mean_delay").first(),
        )
        .select("start_time", "end_time", "origin", "departures", "mean_delay")
        .sort("start_time", "origin")
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object]:
    """Run the demonstration once, without Spark."""
    pytest.importorskip("matplotlib", reason="the picture needs the plots extra")
    out = tmp_path_factory.mktemp("demo")
    return out, demo(out, spark=False, rate=None, display=Silent())


def test_counts_are_those_of_the_file(ran: tuple[Path, object]) -> None:
    """Events in, late at the doors and every fate are what the file says."""
    report = ran[1]
    assert sum(report.events.values()) == 26_483
    assert report.late_at_door == {"EWR": 90, "JFK": 98, "LGA": 1}
    assert report.fates == {"landed": 26_398, "diverted": 85, "cancelled": 521}
    late = sum(report.late_at_door.values()) + sum(report.late_at_subject.values())
    assert 26_483 - late == accepted().height


def test_table_equals_an_independent_computation(ran: tuple[Path, object]) -> None:
    """Every row of the table is what plain polars computes from what was accepted."""
    table = pl.read_parquet(ran[0] / "departures.parquet").sort("start_time", "origin")
    expected = windows(accepted())
    assert table.drop("mean_delay").equals(expected.drop("mean_delay"))
    assert (table["mean_delay"] - expected["mean_delay"]).abs().max() < 1e-9


def test_twice_adds_nothing(ran: tuple[Path, object]) -> None:
    """A second run into the same place leaves the same table."""
    out, report = ran
    again = demo(out, spark=False, rate=None, display=Silent())
    assert again.table.equals(report.table)


def test_picture_is_a_picture(ran: tuple[Path, object]) -> None:
    """The picture is a PNG of some size."""
    data = ran[1].picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000


def test_the_event_flow_page_is_of_one_day(ran: tuple[Path, object]) -> None:
    """The page has the departures of that day by plain polars, the late ones and the causes."""
    flow = read_flow(ran[1].page.read_text("utf-8"))
    day = pl.col("departure").is_between(*main.FLOW_DAY, closed="left")
    gone = feeds.flights().filter(day)
    counts = {each["name"]: len(read_numbers(each["kind"])) for each in flow["arrivals"]}
    assert counts == dict(gone.group_by("origin").len().rows())
    assert "'EWR': 26 of 334 events came late" in flow["sentence"]
    output = next(each for each in flow["nodes"] if each["id"] == flow["output"])
    assert output["rowsOut"] > 100
    assert all(read_causes(output))


def test_airborne_equals_an_independent_count() -> None:
    """At each moment as many flights are in the air as have departed and not landed."""
    flights = feeds.flights().filter(pl.col("landing").is_not_null())
    counted = airborne(feeds.flights()).to_polars()
    for moment in (datetime(2013, 1, day, 17, 31, tzinfo=UTC) for day in (1, 11, 31)):
        alive = flights.filter(pl.col("departure") <= moment, pl.col("landing") > moment)
        row = counted.filter(pl.col("start_time") <= moment, pl.col("end_time") > moment)
        found = dict(row.select("origin", "airborne").rows())
        assert found == dict(alive.group_by("origin").len().rows())


def test_query_is_the_documents_hopping_window() -> None:
    """One departure counts for an hour, in the quarter that follows each window's end."""
    from rxtemporal import PointEvent, from_events

    at = datetime(2013, 1, 1, 12, 7, tzinfo=UTC)
    one = from_events([PointEvent(at, {"origin": "EWR", "dep_delay": 7})])
    row = departures_by_airport(one).to_polars().row(0, named=True)
    assert (row["start_time"], row["end_time"]) == (
        datetime(2013, 1, 1, 12, 15, tzinfo=UTC),
        datetime(2013, 1, 1, 13, 15, tzinfo=UTC),
    )


def run_command(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder of its own."""
    environment = {**os.environ, "COLUMNS": "120", **({"PYTHONPATH": path} if path else {})}
    return subprocess.run(
        [sys.executable, "-P", "-m", "rxtemporal", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


@pytest.mark.full
def test_installed_wheel_runs_the_demonstration(tmp_path: Path) -> None:
    """The wheel, installed in an empty folder, brings its data and runs without Spark."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("the build package is not installed")
    # a copy, for building leaves a folder behind that a later build would pack again
    source, wheels = tmp_path / "source", tmp_path / "wheels"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(wheels), str(source)],
        check=True, capture_output=True,
    )  # fmt: skip
    target = tmp_path / "installed"
    wheel = next(wheels.glob("*.whl"))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(target), str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    done = run_command(tmp_path, "demo", "--no-spark", path=str(target))
    assert done.returncode == 0, done.stderr
    assert "26,483" in done.stdout
    assert (tmp_path / "rxtemporal-demo" / "departures.parquet").exists()
    assert (tmp_path / "rxtemporal-demo" / "airborne.png").exists()


def test_unwritable_place_is_one_clear_error(tmp_path: Path) -> None:
    """An --out that cannot be a folder is one line that names it, and no traceback."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = run_command(tmp_path, "demo", "--no-spark", "--out", "file/below")
    assert done.returncode == 1
    assert "file/below" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupt_stops_cleanly(tmp_path: Path) -> None:
    """Ctrl-C ends a run at once with status 130, one line on how to go on, and no traceback."""
    running = subprocess.Popen(
        [sys.executable, "-P", "-u", "-m", "rxtemporal", "demo", "--no-spark", "--rate", "100"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    )  # fmt: skip
    assert running.stdout is not None
    assert "without Spark" in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "The same command starts again" in out
    assert "Traceback" not in err


def test_interrupt_within_exec_has_the_same_status(tmp_path: Path) -> None:
    """Ctrl-C while a dataclass is made ends with status 130 too, and not by the signal."""
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "import rxtemporal.cli.demo.main as demo\n"
        "from rxtemporal.cli.main import main\n"
        "demo.demo = lambda *given, **options: exec('raise KeyboardInterrupt')\n"
        "sys.exit(main(['demo', '--no-spark']))\n",
        encoding="utf-8",
    )
    places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        # only a module (-m) ends by the signal; a program of -c does not
        [sys.executable, "-P", "-m", "program"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 130
    assert b"The same command starts again" in done.stdout


def test_help_and_wrong_words(tmp_path: Path) -> None:
    """Help says what there is; a wrong rate says what is allowed."""
    assert "--no-spark" in run_command(tmp_path, "demo", "--help").stdout
    wrong = run_command(tmp_path, "demo", "--rate", "-3")
    assert wrong.returncode == 2
    assert "positive" in wrong.stderr


def test_weather_is_packaged() -> None:
    """The month's weather comes with the package: each airport's hours, one reading at a time."""
    weather = feeds.weather()
    assert weather.height == 2_226
    assert sorted(weather["origin"].unique()) == list(feeds.AIRPORTS)
    assert not weather.select("origin", "valid_from").is_duplicated().any()
