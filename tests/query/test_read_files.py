"""Streams from CSV, JSON lines and Parquet files: times, units, zones, types."""

from __future__ import annotations

import gzip
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError, SchemaError, SourceError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
READ: dict[str, Any] = {
    ".csv": rxt.read_csv,
    ".json": rxt.read_json,
    ".parquet": rxt.read_parquet,
}


def write(folder: Path, *rows: str, head: str = "t,x") -> Path:
    """A CSV file."""
    path = folder / "a.csv"
    path.write_text("\n".join([head, *rows, ""]), "utf-8")
    return path


def starts(stream: rxt.Streamable) -> list[Any]:
    """The starts of its rows."""
    return stream.to_polars()["start_time"].to_list()


def test_csv_times_have_an_offset_or_are_given_a_zone(tmp_path: Path) -> None:
    """An ISO time is read with its offset; one without is refused until a zone is named."""
    path = write(tmp_path, "2026-01-01T12:00:00Z,1", "2026-01-01T14:30:00+02:00,2")
    assert starts(rxt.read_csv(path, start="t")) == [NOON, NOON + timedelta(minutes=30)]
    path = write(tmp_path, "2026-01-01T07:00:00,1")
    with pytest.raises(
        SourceError, match=r"in column 't' have no offset .*T07:00:00\. Hint: time_z"
    ):
        rxt.read_csv(path, start="t")
    assert starts(rxt.read_csv(path, start="t", time_zone="America/New_York")) == [NOON]


@pytest.mark.parametrize(
    "text",
    ["2026-01-01T12:00:00.000Z", "2026-01-01 13:00:00+01:00", "2026-01-01T14:00+0200",
     "2026-01-01T12:00Z", "2026-01-01 12:00:00", "2026-01-01T12:00:00.0", "2026-01-01 12:00",
     "2026/01/01 12:00"],
)  # fmt: skip
def test_each_form_of_iso_8601_is_read(text: str, tmp_path: Path) -> None:
    """With and without seconds, with a space for T; a zone counts only without an offset."""
    assert starts(rxt.read_csv(write(tmp_path, f"{text},1"), start="t", time_zone="UTC")) == [NOON]
    path = tmp_path / "a.json"
    path.write_text(f'{{"t":"{text}","x":1}}\n', "utf-8")
    assert starts(rxt.read_json(path, start="t", time_zone="UTC")) == [NOON]


def test_forms_may_be_mixed(tmp_path: Path) -> None:
    """Each text is read for itself; an empty end never ends."""
    path = write(tmp_path, "2026-01-01T12:00Z,,1", "2026-01-01T14:00:00+02:00,,3", head="t,e,x")
    assert rxt.read_csv(path, start="t", end="e").to_polars()["end_time"].to_list() == [None, None]
    days = write(tmp_path, "2026-01-01,1", "2026-01-02,2")
    both = starts(rxt.read_csv(days, start="t", time_zone="Europe/Berlin"))
    assert both == [NOON - timedelta(hours=13), NOON + timedelta(hours=11)]


@pytest.mark.parametrize(
    "text", ["01/02/2026 10:00", "13.01.2026", "1-2-26", "1-2-26T10:00:00Z", "01/02/2026T10:00Z"]
)
@pytest.mark.parametrize("at", [0, 150])
def test_a_date_with_the_day_or_the_month_first_is_refused(
    text: str, at: int, tmp_path: Path
) -> None:
    """It is not guessed, in the first rows or later; the message shows it."""
    path = write(tmp_path, *["2026-01-01T12:00:00Z,1"] * at, f"{text},1")
    with pytest.raises(
        SourceError, match=rf"'{text}' in column 't', row {at}, is not a valid time.*day or th"
    ):
        rxt.read_csv(path, start="t").to_polars()


def test_dates_of_the_payload_are_not_guessed_either(tmp_path: Path) -> None:
    """With the year first they are dates; else they stay as they are."""
    path = write(tmp_path, "1,2026-02-01,01/02/2026", head="t,iso,other")
    frame = rxt.read_csv(path, start="t", unit="ticks").to_polars()
    assert frame.row(0)[2:] == (date(2026, 2, 1), "01/02/2026")


@pytest.mark.parametrize(
    ("number", "unit"),
    [("1767268800", "s"), ("1767268800000", "ms"), ("1767268800000000", "us"),
     ("1767268800000000000", "ns"), ("1767268800.0", "s")],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_numbers_need_a_unit(number: str, unit: Any, suffix: str, tmp_path: Path) -> None:
    """Without it the message guesses the likely one; with it they are instants."""
    path = tmp_path / f"a{suffix}"
    path.write_text(f"t,x\n{number},1\n" if suffix == ".csv" else f'{{"t":{number},"x":1}}\n')
    with pytest.raises(
        ArgumentError,
        match=rf"unit is not known\. Hint: unit='{unit}' makes .* 2026-01-01T12:00:00Z",
    ):
        READ[suffix](path, start="t")
    assert starts(READ[suffix](path, start="t", unit=unit)) == [NOON]


def test_numbers_may_be_ticks(tmp_path: Path) -> None:
    """Then they stay numbers, and the end may be empty."""
    path = write(tmp_path, "5,,1", "7,9,2", head="t,e,x")
    rows = rxt.read_csv(path, start="t", end="e", unit="ticks").to_polars().rows()
    assert rows == [(5, None, 1), (7, 9, 2)]
    with pytest.raises(
        ArgumentError, match=r"unit='s' makes 5 the time 1970.* unit='ticks' leaves them"
    ):
        rxt.read_csv(path, start="t", end="e")
    json = tmp_path / "a.json"
    json.write_text('{"s":5,"e":null,"x":1}\n', "utf-8")
    stream = rxt.read_json(json, start="s", end="e", unit="ticks")
    assert stream.to_polars().rows() == [(5, None, 1)]


def test_a_unit_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Outside of time, or unknown; nothing wraps."""
    path = write(tmp_path, "1767268800000,1")
    with pytest.raises(SourceError, match=r"in the unit 's'\. Hint: unit='ms' makes"):
        rxt.read_csv(path, start="t", unit="s")
    with pytest.raises(ArgumentError, match="unit is one of s, ms, us, ns, ticks, got 'sec'"):
        rxt.read_csv(path, start="t", unit="sec")  # type: ignore[arg-type]


def test_a_unit_is_for_numbers_alone(tmp_path: Path) -> None:
    """Texts that are ISO 8601 say themselves what they mean; digits in quotes are numbers."""
    path = write(tmp_path, "2026-01-01T12:00:00Z,1")
    assert starts(rxt.read_csv(path, start="t", unit="s")) == [NOON]
    json = tmp_path / "a.json"
    json.write_text('{"t":"1767268800","x":1}\n', "utf-8")
    assert starts(rxt.read_json(json, start="t", unit="s")) == [NOON]


def test_a_clock_that_is_changed_is_an_error_or_a_choice(tmp_path: Path) -> None:
    """A time that exists twice or never is named with its row, and the options choose."""
    path = write(tmp_path, "2026-10-25T01:00:00,1", "2026-10-25T02:30:00,2")
    berlin: dict[str, Any] = {"start": "t", "time_zone": "Europe/Berlin"}
    with pytest.raises(SourceError, match=r"'t', row 1, exists twice in the zone .*ambiguous='ear"):
        rxt.read_csv(path, **berlin)
    hours = [
        starts(rxt.read_csv(path, **berlin, ambiguous=choice))[1].hour
        for choice in ("earliest", "latest")
    ]
    assert hours == [0, 1]
    path = write(tmp_path, "2026-03-29T01:00:00,1", "2026-03-29T02:30:00,2")
    with pytest.raises(SourceError, match=r"row 1, exists never in the zone .*nonexistent='forw"):
        rxt.read_csv(path, **berlin)
    moved = starts(rxt.read_csv(path, **berlin, nonexistent="forward"))
    assert moved == [datetime(2026, 3, 29, 0, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_zone": "Europe/Berlinn"}, "no zone 'Europe/Berlinn'. Hint: did you mean 'Europe/B"),
        ({"time_zone": 5}, "there is no zone 5"),
        ({"ambiguous": "earliest"}, "are for times in a zone. Hint: time_zone= names it"),
        ({"time_zone": "UTC", "ambiguous": "first"}, "ambiguous is 'earliest' or 'latest', got 'f"),
        ({"time_zone": "UTC", "nonexistent": "null"}, "nonexistent is 'forward', got 'null'"),
        ({"schema": {"x": int}, "fields": ["x"]}, "schema= and fields= both name the fields"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """When the stream is made."""
    with pytest.raises(ArgumentError, match=message):
        rxt.read_csv(write(tmp_path, "2026-01-01T12:00:00Z,1"), start="t", **options)


def test_a_schema_has_the_fields_and_their_types(tmp_path: Path) -> None:
    """A text stays a text, a later type is known from the start, and other columns are left out."""
    head, row = "t,zip,n,at,day,left", "5,00501,1,2026-01-01T12:00:00Z,2026-01-01,out"
    path = write(tmp_path, row, head=head)
    types = {"zip": str, "n": float, "at": datetime, "day": date}
    made = rxt.read_csv(path, start="t", unit="ticks", schema=types, name="parcels")
    assert made.to_polars().row(0)[2:] == ("00501", 1.0, NOON, date(2026, 1, 1))
    assert made._node.source is not None
    assert made._node.source.name == "parcels"
    json = tmp_path / "a.json"
    json.write_text('{"t":5,"zip":"00501","n":1,"at":"2026-01-01T12:00:00Z","day":"2026-01-01"}\n')
    read = rxt.read_json(json, start="t", unit="ticks", schema=types)
    assert read.to_polars().row(0)[2:] == ("00501", 1.0, NOON, date(2026, 1, 1))
    with pytest.raises(SchemaError, match="has no column 'y'; it has"):
        rxt.read_json(json, start="t", unit="ticks", schema={"y": int})
    with pytest.raises(SourceError, match=r"is not of type|does not fit the type"):
        rxt.read_csv(path, start="t", unit="ticks", schema={"left": int}).to_polars()


def test_a_parquet_file_has_ticks_or_a_unit_or_a_zone(tmp_path: Path) -> None:
    """Numbers are ticks there, unless a unit is given; naive datetimes need a zone."""
    path = tmp_path / "a.parquet"
    naive = NOON.replace(tzinfo=None)
    pl.DataFrame({"t": [1767268800], "n": [naive], "x": [1]}).write_parquet(path)
    assert starts(rxt.read_parquet(path, start="t")) == [1767268800]
    assert starts(rxt.read_parquet(path, start="t", unit="s")) == [NOON]
    with pytest.raises(SourceError, match="'n' have no offset"):
        rxt.read_parquet(path, start="n")
    assert starts(rxt.read_parquet(path, start="n", time_zone="UTC")) == [NOON]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "t,x\n" + "".join(f"{i},{i}\n" for i in range(200)) + "200,word\n"),
        ("a.json", '{"t":"2026-01-01T00:00:00","x":1}\n'),
        ("b.json", '{"t":"yesterday","x":1}\n'),
        ("c.json", '[{"t":1,"x":1},\n{"t":2,"x":1}]\n'),
        ("a.parquet", "no parquet"),
        ("b.csv", ""),
    ],
    ids=["word", "naive", "yesterday", "array", "parquet", "empty"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    """What is wrong with a file is a SourceError with its path, be it found early or late."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    options = {"unit": "ticks"} if name == "a.csv" else {}
    with pytest.raises(SourceError, match=rf"{name} cannot be read"):
        READ[path.suffix](path, start="t", **options).to_polars()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.csv",
            "t,x\n" + "1,1\n" * 2_000 + "2,1.5\n",
            r"'1\.5' in column 'x' is not of type i64.*'x': fl",
        ),
        ("a.csv", "t,x\n1,1\n2,2,3\n", "a line has more values than .* stands in quotes"),
        ("a.json", '{"t":1,"x":1}\n\nnope\n', "line 3 is not a JSON object"),
        ("b.json", '{"t":1,"x":1}\n[1]\n', "line 2 is not a JSON object"),
    ],
)
def test_a_wrong_line_is_told_in_words_of_this_library(
    name: str, text: str, said: str, tmp_path: Path
) -> None:
    """polars names options of its own, and no line of a file of JSON lines."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(SourceError, match=said) as told:
        READ[path.suffix](path, start="t", unit="ticks").to_polars()
    assert "infer_schema_length" not in str(told.value)


def test_a_field_that_comes_late_in_a_json_file_is_there(tmp_path: Path) -> None:
    """And a number that becomes a fraction; with a schema, too."""
    path = tmp_path / "a.json"
    lines = [f'{{"t": {t}, "x": {t}}}' for t in range(500)]
    path.write_text("\n".join([*lines, '{"t": 500, "x": 0.5, "y": "late"}', ""]), "utf-8")
    frame = rxt.read_json(path, start="t", unit="ticks").to_polars()
    assert frame.schema["x"] == pl.Float64
    assert frame.rows()[-1] == (500, 501, 0.5, "late")
    named = rxt.read_json(path, start="t", unit="ticks", schema={"y": str}).to_polars()
    assert named["y"].drop_nulls().to_list() == ["late"]


def test_a_field_that_is_nested_is_refused_unless_others_are_named(tmp_path: Path) -> None:
    """Wherever it stands; fields= leaves it out."""
    path = tmp_path / "a.json"
    lines = [f'{{"t": {t}, "x": {t}}}' for t in range(500)]
    path.write_text("\n".join([*lines, '{"t": 500, "x": 1, "tags": ["a"]}', ""]), "utf-8")
    with pytest.raises(SchemaError, match=r"a\.json has the field 'tags' .*Hint: fields="):
        rxt.read_json(path, start="t", unit="ticks")
    named = rxt.read_json(path, start="t", unit="ticks", fields=["x"])
    assert named.to_polars().height == 501


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_a_stream_without_rows_if_a_schema_names_its_fields(
    tmp_path: Path, suffix: str, content: bytes
) -> None:
    """As of a day on which nothing came; its fields are not known without."""
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(
        SourceError, match=rf"a\{suffix} cannot be read: it is empty.*Hint: schema="
    ):
        READ[suffix](path, start="t")
    for unit, time in ((None, pl.Datetime("us", "UTC")), ("ticks", pl.Int64())):
        found = READ[suffix](path, start="t", end="u", schema={"x": int}, unit=unit).to_polars()
        assert found.schema == {"start_time": time, "end_time": time, "x": pl.Int64()}


def test_a_byte_order_mark_is_of_csv_alone(tmp_path: Path) -> None:
    """JSON has none, and polars would name a character of a file that looks right."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbft,x\n1,a\n")
    assert starts(rxt.read_csv(path, start="t", unit="ticks")) == [1]
    path.write_bytes(b'\xef\xbb\xbf{"t": 1}\n')
    with pytest.raises(SourceError, match=r"begins with a byte order mark.*Hint: "):
        rxt.read_json(path, start="t", unit="ticks")


@pytest.mark.parametrize(("head", "twice"), [("t,x,x", "x"), ("t,t,x", "t")])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, head: str, twice: str) -> None:
    """One of the two would get another name, without a word."""
    path = write(tmp_path, "1,2,3,4", head=f"{head},y")
    with pytest.raises(SchemaError, match=rf"two columns '{twice}'.*Hint: "):
        rxt.read_csv(path, start="t", unit="ticks")
    path = write(tmp_path, "1,2,3,4", head="t,x,x,y")
    assert rxt.read_csv(path, start="t", unit="ticks", fields=["y"]).to_polars().width == 3


def test_lines_of_old_macs_are_refused(tmp_path: Path) -> None:
    """They would be one line, the header; CR and LF are as good as LF."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,x\r1,a\r3,b\r")
    with pytest.raises(SourceError, match=r"a\.csv has lines that end with CR alone.*Hint: "):
        rxt.read_csv(path, start="t", unit="ticks")
    path.write_bytes(b"t,x\r\n1,a\r\n3,b\r\n")
    assert starts(rxt.read_csv(path, start="t", unit="ticks")) == [1, 3]
    path.write_bytes(gzip.compress(b"t,x\n1,a\n3,b\n"))
    assert starts(rxt.read_csv(path, start="t", unit="ticks")) == [1, 3]


@pytest.mark.parametrize("text", ["3", "3,", '3,"c"', "3,b\r"])
def test_a_last_line_that_was_cut_off_is_refused(tmp_path: Path, text: str) -> None:
    """The values that it lacks are not null; in a line with an end they are."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,x,y\n1,a,b\n" + text.encode())
    cut = r"a\.csv cannot be read: its last line is cut off after [12] of 3 values\. Hint: "
    with pytest.raises(SourceError, match=cut):
        rxt.read_csv(path, start="t", unit="ticks")
    path.write_bytes(path.read_bytes() + b"\n")
    assert starts(rxt.read_csv(path, start="t", unit="ticks")) == [1, 3]


@pytest.mark.parametrize(
    "text", ["3,b,c", "3,,", '3,b,"c\nd"', '3,b,"c ""d"""', "3,b," + 70_000 * "c"]
)
def test_a_last_line_with_all_values_needs_no_end(tmp_path: Path, text: str) -> None:
    """Also if a text in quotes has several lines, or many characters."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,x,y\n1,a,b\n" + text.encode())
    assert starts(rxt.read_csv(path, start="t", unit="ticks")) == [1, 3]


def test_a_file_with_another_separator_is_recognised(tmp_path: Path) -> None:
    """The message says which, and what reads it."""
    path = write(tmp_path, "1;2", head="t;x")
    with pytest.raises(
        SchemaError, match=r"it has t;x\. Hint: its columns are separated by ';': separator=';'"
    ):
        rxt.read_csv(path, start="t")


def test_a_pandas_frame_has_its_times_in_a_column_or_in_the_index() -> None:
    """The index counts only without start=."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"t": pd.to_datetime(["2026-01-01T12:00Z"]), "x": [1]})
    assert starts(rxt.from_pandas(frame, start="t")) == [NOON]
    indexed = frame.set_index("t")
    assert rxt.from_pandas(indexed, advance_time="5m").to_polars().row(0)[2:] == (1,)
    assert starts(rxt.from_pandas(indexed.rename_axis(None))) == [NOON]


def test_a_pandas_frame_that_cannot_be_read_is_refused() -> None:
    """Naive times, another kind of frame, a name that is taken."""
    pd = pytest.importorskip("pandas")
    naive = pd.DataFrame({"t": pd.to_datetime(["2026-01-01T12:00"]), "x": [1]})
    with pytest.raises(rxt.EventError, match=r"without a zone.* Hint: time_zone='UTC'"):
        rxt.from_pandas(naive, start="t")
    with pytest.raises(ArgumentError, match=r"got DataFrame\. Hint: rxt\.from_pandas takes it"):
        rxt.from_polars(naive, start="t")
    with pytest.raises(ArgumentError, match=r"got LazyFrame\. Hint: frame\.collect\(\)"):
        rxt.from_polars(pl.LazyFrame({"t": [1]}), start="t")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="from_pandas takes a pandas DataFrame, got DataFrame"):
        rxt.from_pandas(pl.DataFrame({"t": [1]}), start="t")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="the index and a column are both called 'x'"):
        rxt.from_pandas(naive.rename_axis("x"))


def test_a_csv_file_may_have_another_separator(tmp_path: Path) -> None:
    """It is one character."""
    path = tmp_path / "trips.csv"
    path.write_text("t;x;d\n2026-01-01T00:00:00Z;1,5;01.02.2026\n")
    frame = rxt.read_csv(path, start="t", separator=";").to_polars()
    assert frame.drop("start_time", "end_time").rows() == [("1,5", "01.02.2026")]
    for wrong in ("", ";;", "·", None):
        with pytest.raises(rxt.ArgumentError, match="separator is one character of ASCII, got"):
            rxt.read_csv(path, start="t", separator=wrong)  # type: ignore[arg-type]


def test_the_times_of_a_frame_may_be_given_a_zone() -> None:
    """The rule is that of files, where the clock is changed, too."""
    twice = datetime(2026, 10, 25, 2, 30)
    frame = pl.DataFrame({"t": [twice], "e": [datetime(2026, 12, 1)], "x": [1]})
    made = partial(rxt.from_polars, frame, start="t", end="e", time_zone="Europe/Berlin")
    earliest = made(ambiguous="earliest").to_polars()
    assert str(earliest["start_time"][0]) == "2026-10-25 00:30:00+00:00"
    assert str(earliest["end_time"][0]) == "2026-11-30 23:00:00+00:00"
    with pytest.raises(rxt.SourceError, match=r"frame cannot .* row 0, exists twice .*ambiguous="):
        made()
    with pytest.raises(rxt.ArgumentError, match="time_zone= names it"):
        rxt.from_polars(frame, start="t", nonexistent="forward")
    for other in (
        rxt.from_arrow(frame.to_arrow(), start="t", time_zone="UTC"),
        rxt.from_pandas(frame.to_pandas(), start="t", time_zone="UTC"),
        rxt.from_pandas(frame.to_pandas().set_index("t"), time_zone="UTC"),
        rxt.from_polars(frame.with_columns(pl.col("t").cast(pl.Date)), start="t", time_zone="UTC"),
    ):
        assert other.to_polars()["start_time"].dt.date().to_list() == [twice.date()]
    with pytest.raises(rxt.EventError, match="take it as time_zone="):
        rxt.from_polars(frame, start="t").to_polars()
