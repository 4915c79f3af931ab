"""The way in over HTTP: receipts, refusals and their dead letters."""

from __future__ import annotations

import asyncio
import gzip
import io
import json

import polars as pl
import pytest
from service_clients import make_house, open_client, reading

import rxtemporal as rxt
from rxtemporal.errors import SpoolError
from rxtemporal.serve.settings import (
    DeadLetterSettings,
    Limits,
    Settings,
    StateSettings,
    TokenSettings,
)
from rxtemporal.serve.tokens import make_token

ROWS = "/streams/readings"


def read_letters(folder):
    """Return the dead letters of a folder."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def post(body, settings=None, house=None, path=ROWS, **headers):
    """Return the answer to one request to a service of its own."""

    async def run():
        async with open_client(house or make_house()[0], settings) as client:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await client.post(path, content=content, headers=headers)

    return asyncio.run(run())


def test_each_row_has_its_fate_in_the_receipt(tmp_path):
    """A receipt has what was accepted, late, a duplicate or refused, and says that it is safe."""
    settings = Settings(state=StateSettings(folder=tmp_path))
    rows = [reading(500, n=1), reading(500, n=1), reading(9), reading(501, temp="hot")]
    answer = post(rows, settings)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    reason = "field 'temp' is Float64 and cannot hold 'hot' (str)"
    assert answer.json() == {
        "accepted": 1,
        "late": [{"index": 2, "reason": "dropped", "by": 391}],
        "duplicates": 1,
        "refused": [{"index": 3, "reason": reason}],
        "cti": 400,
        "durable": True,
    }


def test_a_service_without_a_folder_says_so():
    """Without a folder nothing is durable."""
    assert post(reading(5)).json()["durable"] is False


def make_arrow(rows=3):
    """Return an Arrow stream."""
    file = io.BytesIO()
    frame = pl.DataFrame({"time": range(rows), "device": ["a"] * rows, "temp": [0.5] * rows})
    frame.write_ipc_stream(file)
    return file.getvalue()


LINES = b"".join(json.dumps(reading(n)).encode() + b"\r\n\n" for n in range(3))
ARRAY = json.dumps([reading(n) for n in range(3)]).encode()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (ARRAY, "application/json"),
        (ARRAY, "application/json; charset=utf-8"),
        (ARRAY, ""),
        (b" " + ARRAY, "application/x-www-form-urlencoded"),
        (LINES, "application/x-ndjson"),
        (LINES, ""),
        (make_arrow(), "application/vnd.apache.arrow.stream"),
        (make_arrow(), ""),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_bodies_come_in_several_forms(body, kind, encoding):
    """JSON, JSON lines and Arrow, told by the content type or as they begin; also compressed."""
    sent = gzip.compress(body[:9]) + gzip.compress(body[9:]) if encoding else body
    headers = {"content-type": kind, "content-encoding": encoding}
    assert post(sent, **headers).json()["accepted"] == 3


def test_times_are_iso_texts_and_lateness_is_in_seconds():
    """With times of ISO 8601 the receipt has the CTI so, too."""
    rows = [reading("2026-05-01T12:00:00Z"), reading("2026-05-01T11:59:00+00:00")]
    receipt = post(rows, house=make_house(delay=0)[0]).json()
    assert receipt["cti"] == "2026-05-01T12:00:00Z"
    assert receipt["late"] == [{"index": 1, "reason": "dropped", "by": 60.0}]


def test_lateness_is_in_seconds_where_each_device_has_its_own_time():
    """There is no CTI of all that would show the form of the times."""
    rows = [reading("2026-05-01T12:00:00Z"), reading("2026-05-01T11:59:00Z")]
    receipt = post(rows, house=make_house(delay="0s", clock="device")[0]).json()
    assert receipt["cti"] is None
    assert [late["by"] for late in receipt["late"]] == [60.0]


def test_a_header_numbers_the_rows():
    """Sequence: is the number of the first row; a repeat is a duplicate, within its source."""
    rows = [reading(5), {"device": "no time"}, reading(6)]

    async def run():
        async with open_client(make_house()[0], sequence="7", source="device 7") as client:
            first = await client.post(ROWS, json=rows)
            again = await client.post(ROWS, json=rows)
            third = await client.post(ROWS, json=reading(6), headers={"sequence": "9"})
            other = await client.post(ROWS, json=rows, headers={"source": "device 8"})
            wide = await client.post(ROWS, json=rows, headers={"sequence": str(2**63 - 1)})
            return [each.json() for each in (first, again, third, other, wide)]

    first, again, third, other, wide = asyncio.run(run())
    assert (first["accepted"], first["duplicates"]) == (2, 0)
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    assert (third["accepted"], third["duplicates"]) == (0, 1)
    assert other["accepted"] == 2
    assert "seq is a number" in wide["error"]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"time": 5,', {"line": 1, "byte": 11}),
        (b'[{"time": 5},\n NaN]', {"line": 2, "byte": 15}),
        (b'["\xff"]', {"line": 1, "byte": 2}),
        (b"[" * 100_000, {"line": 1, "byte": 0}),
        (b'{"time": ' + b"9" * 5_000 + b"}", {"line": 1, "byte": 0}),
        (b'{"time": 1e999}', {"line": 1, "byte": 0}),
        (b'{"a": "\\ud800"}', {"line": 1, "byte": 15}),
        (b"", {"line": 1, "byte": 0}),
        (b"5", {"byte": 0}),
        (b"\xff\xff\xff\xff\x10\x00\x00\x00", {"byte": 0}),
        (make_arrow()[:-100], {"byte": 232}),
    ],
    ids=range(11),
)
def test_a_body_that_cannot_be_read_is_told_with_its_place(tmp_path, body, place):
    """It is refused as a whole with 400, and is in the dead letters with its bytes."""
    answer = post(body, Settings(dead_letters=DeadLetterSettings(folder=tmp_path)), source="d 7")
    assert answer.status_code == 400
    assert {name: answer.json().get(name) for name in place} == place
    (letter,) = read_letters(tmp_path)
    assert (letter["stream"], letter["source"]) == ("readings", "d 7")
    assert letter["reason"] == answer.json()["error"]
    assert "text" in letter or "base64" in letter


def test_rows_beyond_the_limits_are_refused_by_index(tmp_path):
    """Too many fields, a text that is too long: this row alone, in each form of a body."""
    settings = Settings(
        limits=Limits(fields=5, text=20), dead_letters=DeadLetterSettings(folder=tmp_path)
    )
    rows = [reading(1), reading(2, "a" * 21), reading(3, b=1, c=2, d=3), reading(4, x=["y" * 21])]
    answer = post(rows, settings, sequence="0").json()
    assert [each["index"] for each in answer["refused"]] == [1, 2, 3]
    assert answer["accepted"] == 1
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    assert post(lines, settings).json()["refused"] == answer["refused"]
    letters = read_letters(tmp_path)
    assert [json.loads(each["text"]) for each in letters] == 2 * rows[1:]
    assert [each["index"] for each in letters] == 2 * [1, 2, 3]
    file = io.BytesIO()
    frame = pl.DataFrame({"time": [1, 2], "device": ["a", "b" * 21], "temp": [0.5, 1.0]})
    frame.write_ipc_stream(file)
    answer = post(file.getvalue(), settings).json()
    assert (answer["accepted"], [each["index"] for each in answer["refused"]]) == (1, [1])


def test_the_first_refused_rows_have_their_reasons_and_the_others_are_counted(tmp_path):
    """Behind 100 rows there are kinds of reasons, and one letter with all of the body."""
    settings = Settings(dead_letters=DeadLetterSettings(folder=tmp_path))
    rows = [reading(n, temp=f"hot {n}") if n % 3 else {"time": n, "mark": n} for n in range(450)]
    house, source = make_house()
    answer = post([*rows, reading(500)], settings, house).json()
    assert answer["accepted"] == 1
    assert [each["index"] for each in answer["refused"]] == list(range(100))
    kinds = {"field 'temp' is Float64": 234, "field 'device' is missing": 116}
    assert answer["more_refused"] == {"count": 350, "kinds": kinds}
    *first, rest = read_letters(tmp_path)
    assert [each["index"] for each in first] == list(range(100))
    assert json.loads(rest["text"])[:450] == rows
    assert "350 more rows are refused" in rest["reason"]
    assert "field 'temp' is Float64: 234" in rest["reason"]
    assert source.stats().rejected == 450


def test_reasons_of_many_kinds_are_few(tmp_path):
    """A sender cannot make a receipt long with fields of many names."""
    rows = [reading(n, **{f"field {n}": 1}) for n in range(5_000)]
    house, _ = make_house(extra="refuse")
    answer = post(rows, house=house)
    assert len(answer.content) < 20_000
    more = answer.json()["more_refused"]
    assert more["count"] == sum(more["kinds"].values()) == 4_900


def test_what_is_refused_can_be_queried():
    """Rows and whole bodies are in the stream of rejected rows."""
    house, _ = make_house()

    async def run():
        settings = Settings(limits=Limits(fields=3))
        async with open_client(house, settings, source="device 7") as client:
            seen = []
            client.served.service.sources["readings"].rejects.subscribe(seen.append)
            await client.post(ROWS, content=b'{"time')
            await client.post(ROWS, content=json.dumps(reading(1, a=2)).encode())
            await client.post(ROWS, json={"device": "a"})
            return [(each.input, each.row) for each in seen]

    rows = ['{"time', {"time": 1, "device": "a", "temp": 1.0, "a": 2}, {"device": "a"}]
    assert asyncio.run(run()) == [("device 7", row) for row in rows]


def test_a_cti_can_be_posted():
    """A CTI counts less the delay; its receipt has the CTI of the stream."""
    path = f"{ROWS}/cti"
    assert post({"time": 500}, path=path).json() == {"cti": 400, "durable": False}
    answer = post({"time": "2026-05-01T12:00:00Z"}, path=path, house=make_house(delay=0)[0])
    assert answer.json()["cti"] == "2026-05-01T12:00:00Z"
    late = post({"time": "9999-01-01T00:00:00Z"}, path=path, house=make_house(delay=0)[0]).json()
    assert (late["cti"], late["ignored"][:42]) == (
        None,
        "the CTI is too far ahead of the wall clock",
    )
    assert "'time'. Hint: a CTI is {" in post({"cti": 5}, path=path).json()["error"]
    for body in (b"[]", {"time": "noon"}, {"time": 2**70}, {"time": True}, {}, b"x" * 9_999):
        assert post(body, path=path).status_code in (400, 413)


@pytest.mark.parametrize(
    ("unit", "second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_a_cti_is_a_unix_time_as_the_times_of_rows_are(unit, second):
    """Fractions and nanoseconds, too; and one that is ahead of the wall clock is told so."""
    path, noon = f"{ROWS}/cti", 1_777_636_800  # 2026-05-01T12:00:00Z

    def send(time):
        house = make_house(delay="0s", unit=unit)[0]
        return post({"time": time}, path=path, house=house).json()

    assert send(noon * second)["cti"] == "2026-05-01T12:00:00Z"
    if unit in ("s", "ms"):
        assert send((noon + 0.5) * second)["cti"] == "2026-05-01T12:00:00.500000Z"
    late = send((noon + 10**9) * second)
    assert late["cti"] is None
    assert late["ignored"].startswith("the CTI is too far ahead of the wall clock")
    assert "not a valid time in the unit" in send(10**30)["error"]


def test_a_service_is_refused_without_the_newest_file_of_a_sink(tmp_path):
    """Also if a reader deletes it after the stop: what has been delivered then is in the state."""
    settings = Settings(state=StateSettings(folder=tmp_path / "state"))

    async def run():
        sinks = {"all": rxt.ParquetFolder(tmp_path / "results")}
        async with open_client(make_house(delay=0)[0], settings, sinks) as client:
            assert (await client.post(ROWS, json=[reading(5), reading(9)])).status_code == 200

    asyncio.run(run())
    newest = max((tmp_path / "results").glob("*.parquet"))
    assert pl.read_parquet(newest).height == 1
    newest.unlink()
    with pytest.raises(SpoolError, match="lost the position of this run"):
        asyncio.run(run())


def test_a_cti_of_a_device_is_for_this_device_alone():
    """Its receipt has the CTI of the device; whom it cannot be for is said, and nobody moves."""

    async def run():
        async with open_client(make_house(clock="device")[0]) as client:
            await client.post(ROWS, json=[reading(5), reading(5, device="b")])
            answers = [
                await client.post(f"{ROWS}/cti", json={"time": 500, **fields})
                for fields in ({"device": "a"}, {"device": 7}, {"device": None}, {"devise": "a"})
            ]
            ahead = {"time": "9999-01-01T00:00:00Z", "device": "a"}
            async with open_client(make_house(clock="device", delay="0s")[0]) as other:
                answers.append(await other.post(f"{ROWS}/cti", json=ahead))
            late = [
                (await client.post(ROWS, json=reading(300, device=each))).json()["late"]
                for each in "ab"
            ]
            return answers, [len(each) for each in late]

    (told, *refused, ahead), late = asyncio.run(run())
    assert told.json() == {"cti": 400, "durable": False}
    assert [each.status_code for each in refused] == [400, 400, 400]
    errors = [each.json()["error"] for each in refused]
    assert "field 'device' is String and cannot hold 7" in errors[0]
    assert "'device' is null. Hint: a CTI without this field is for all" in errors[1]
    assert "a CTI has no field 'devise'" in errors[2]
    assert "too far ahead of the wall clock" in ahead.json()["ignored"]
    assert late == [1, 0]
    answer = post({"time": 500, "device": "a"}, path=f"{ROWS}/cti")
    assert answer.status_code == 400
    assert "Hint: clock=" in answer.json()["error"]


def test_a_token_decides_what_may_be_written():
    """No token, a wrong one: 401; another's stream or source: 403, whether it is there or not."""
    text, digest = make_token()
    rights = TokenSettings(digest, write=("readings",), sources=("device 7",))
    settings = Settings(tokens={"gateway": rights})
    bearer = f"Bearer {text}"
    assert post(reading(1), settings).status_code == 401
    assert post(reading(1), settings, authorization="Bearer x").status_code == 401
    assert post(reading(1), settings, authorization=bearer).status_code == 200
    other = post(reading(1), settings, path="/streams/commands", authorization=bearer)
    assert other.status_code == 403
    named = post(reading(1), settings, authorization=bearer, source="device 8")
    assert named.status_code == 403
    assert post(reading(1), path="/streams/commands").status_code == 404


@pytest.mark.parametrize("name", ["..", "../..", "%2e%2e", "..%2f..%2fetc", "%00", "a%0d%0ab"])
def test_names_never_become_paths(tmp_path, name):
    """Whatever a stream or a source is called, only the folder of dead letters has files."""
    folder = tmp_path / "in" / "letters"
    settings = Settings(dead_letters=DeadLetterSettings(folder=folder))
    assert post(b"{", settings, path=f"/streams/{name}").status_code in (404, 405)
    assert post(b"{", settings, source=name).status_code == 400
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [folder]
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "image/png"}, 415),
        ({"content-encoding": "br"}, 415),
        ({"content-encoding": "gzip"}, 400),
        ({"sequence": "-1"}, 400),
        ({"sequence": "9" * 5_000}, 400),
        ({"sequence": "1_0"}, 400),
        ({"source": "x" * 513}, 400),
        ({"source": b"\xff"}, 400),
        ({"source": ""}, 400),
    ],
)
def test_headers_that_are_none_are_refused(headers, status):
    """A header that cannot be read is the sender's mistake."""
    assert post(reading(1), **headers).status_code == status


def test_texts_become_values_for_which_json_has_no_type():
    """A date is a text in JSON, as in JSON lines."""
    house, _ = make_house(schema={"day": pl.Date})
    assert post([{"time": 1, "day": "2026-05-01"}, 5], house=house).json()["accepted"] == 1


def test_first_mistakes_are_answered_with_what_to_do():
    """A token, a source, a body or a path that is missing is told with a hint."""
    text, digest = make_token()
    rights = TokenSettings(digest, write=("readings",), sources=("a", "b"))
    settings = Settings(tokens={"gateway": rights})
    bearer = f"Bearer {text}"
    for answer, status, words in (
        (post(reading(1), settings), 401, "needs a token. Hint: send the header `Authorization"),
        (post(reading(1), settings, authorization=text), 401, "`Authorization: Bearer TOKEN`"),
        (post(reading(1), settings, authorization=bearer), 403, "header `Source: NAME`"),
        (post(reading(1), settings, authorization=bearer, source="c"), 403, "`Source: NAME`"),
        (post(reading(1), settings, authorization=text), 401, "takes tokens of the kind Bearer"),
        (post(b""), 400, "it is empty. Hint: send a row"),
        (post(b" \n"), 400, "it is empty"),
        (post(reading(1), path=ROWS + "/"), 404, "without the slash at its end"),
        (post(reading(1), path="/"), 404, "Hint: one of these paths"),
        (post(reading(1), path="/streams/none"), 404, "no stream 'none' accepts rows"),
    ):
        assert answer.status_code == status
        assert words in answer.json()["error"]
    assert "/streams/{name}" in post(reading(1), path="/").json()["paths"]


def test_the_name_of_the_own_input_is_reserved():
    """A sender of this name would share its numbers with those that name no source."""
    answer = post(reading(1), source="source")
    assert answer.status_code == 403
    assert "no source can be called 'source'" in answer.json()["error"]


def test_sources_of_an_earlier_life_count(tmp_path, monkeypatch):
    """A stream has a limit of sources, whatever way they came, and known ones go on."""
    monkeypatch.setattr("rxtemporal.query.push_source.MOST_INPUTS", 3)
    settings = Settings(state=StateSettings(folder=tmp_path))

    async def run(*names):
        async with open_client(make_house()[0], settings) as client:
            posts = [await client.post(ROWS, json=reading(1), headers={"source": n}) for n in names]
            return [each.status_code for each in posts]

    assert asyncio.run(run("a", "b")) == [200, 200]
    assert asyncio.run(run("c", "d", "a", "c")) == [200, 403, 200, 200]
