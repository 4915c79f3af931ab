"""The ordered spool: what is in it stays, what is torn is found, what does not fit is refused."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.files import WriterLock
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import SchemaError, SpoolError
from rxtemporal.storage.segments import SEGMENT, SegmentFolder, Spool

SCHEMA = pl.Schema({"x": pl.Int64(), "name": pl.String()})


def batch(first: int, cti: int, rows: int = 2) -> EventBatch:
    """Some rows from ``first`` on; the last one never ends."""
    starts = np.arange(first, first + rows)
    ends = np.append(starts[:-1] + 5, MAX_TIME)
    payload = pl.DataFrame({"x": starts, "name": [f"n{s}" for s in starts]}, schema=SCHEMA)
    return EventBatch.of_rows(starts, ends, payload, cti)


def opened(path: Path, name: str = "q", schema: pl.Schema = SCHEMA) -> Spool:
    """The spool at a path."""
    return Spool.open(path, name, schema)


def files(path: Path) -> list[str]:
    """The names in a folder."""
    return sorted(os.listdir(path))


def test_a_segment_comes_back_as_it_went_in(tmp_path: Path) -> None:
    """Rows, times in ticks (the end of time too) and the segment's number are read back."""
    with opened(tmp_path) as spool:
        assert (spool.last, spool.cti, spool.segments()) == (0, None, [])
        assert spool.append(batch(0, 10)) == 1
        assert spool.append(batch(10, 20)) == 2
        assert spool.read(2).rows() == [
            (10, 15, 10, "n10", 2),
            (11, MAX_TIME, 11, "n11", 2),
        ]
        assert spool.read(1).columns == ["start_time", "end_time", "x", "name", SEGMENT]
        assert (spool.last, spool.cti, spool.segments()) == (2, 20, [1, 2])


def test_every_type_a_payload_has_comes_back(tmp_path: Path) -> None:
    """A segment keeps each carried type and null, and both ends of time as times."""
    frame = pl.DataFrame(
        {
            "flag": [True, None],
            "small": pl.Series([1, None], dtype=pl.Int8),
            "real": [0.5, None],
            "text": ["ä", None],
            "raw": [b"\x00", None],
            "money": pl.Series(["1.50", None]).cast(pl.Decimal(38, 2)),
            "at": pl.Series([MIN_TIME, MAX_TIME]).cast(pl.Datetime("us", "Europe/Berlin")),
            "local": pl.Series([0, None]).cast(pl.Datetime("us")),
            "took": pl.Series([7, None]).cast(pl.Duration("us")),
            "day": pl.Series([1, None]).cast(pl.Date),
            "nothing": pl.Series([None, None], dtype=pl.Null),
        }
    )
    given = EventBatch.of_rows(np.array([1, 2]), np.array([2, 3]), frame, 9)
    with opened(tmp_path, schema=frame.schema) as spool:
        spool.append(given)
        assert spool.read(1).select(frame.columns).equals(frame)
        assert spool.read(1).select(frame.columns).schema == frame.schema


def test_a_segment_is_plain_arrow_of_the_oldest_layout(tmp_path: Path) -> None:
    """pyarrow reads a segment's file as it lies there, and no column is a string view."""
    pa = pytest.importorskip("pyarrow")
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
    table = pa.ipc.open_file(tmp_path / "000000000001.arrow").read_all()
    assert table.schema.field("name").type == pa.large_string()
    assert table.num_rows == 2


def test_an_empty_batch_is_a_segment_too(tmp_path: Path) -> None:
    """A segment without rows carries its CTI."""
    with opened(tmp_path) as spool:
        spool.append(EventBatch.empty(SCHEMA, MAX_TIME))
        assert spool.read(1).height == 0
    with opened(tmp_path) as spool:
        assert spool.cti == MAX_TIME


def test_a_spool_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    """After closing and opening numbers go on and the CTI is known."""
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
    with opened(tmp_path) as spool:
        assert (spool.last, spool.cti) == (1, 10)
        assert spool.append(batch(10, 20)) == 2


def test_discarding_keeps_the_place(tmp_path: Path) -> None:
    """Committed segments go, and the number and CTI of the last one stay."""
    with opened(tmp_path) as spool:
        for number in range(4):
            spool.append(batch(number * 10, number * 10 + 10))
        spool.discard(2)
        assert spool.segments() == [3, 4]
        assert spool.describe(2).cti == 20
        spool.discard(4)
        assert spool.segments() == []
        assert files(tmp_path) == ["000000000004.done", "lock", "spool.json"]
    with opened(tmp_path) as spool:
        assert (spool.last, spool.cti) == (4, 40)
        assert spool.append(batch(40, 50)) == 5
        assert spool.segments() == [5]


def test_discarding_twice_or_more_than_there_is_does_no_harm(tmp_path: Path) -> None:
    """``discard`` is about everything up to a number, whatever of it is there."""
    with opened(tmp_path) as spool:
        spool.discard(3)
        spool.append(batch(0, 10))
        spool.discard(9)
        SegmentFolder(tmp_path).discard(1)
        assert (spool.segments(), spool.last) == ([], 1)


def test_an_interrupted_discard_is_finished(tmp_path: Path) -> None:
    """Files at or below the mark are leftovers, and opening deletes them."""
    with opened(tmp_path) as spool:
        for number in range(3):
            spool.append(batch(number * 10, number * 10 + 10))
    os.rename(tmp_path / "000000000002.json", tmp_path / "000000000002.done")
    with opened(tmp_path) as spool:
        assert spool.segments() == [3]
    assert files(tmp_path)[:3] == [
        "000000000002.done",
        "000000000003.arrow",
        "000000000003.json",
    ]


def test_a_reader_may_discard_while_the_spool_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reader of a killed run discards in the midst of opening is not damage."""
    with opened(tmp_path) as spool:
        for number in range(4):
            spool.append(batch(number * 10, number * 10 + 10))
    read = Spool.content

    def content(folder: Spool, number: int) -> bytes:
        SegmentFolder(tmp_path).discard(2)
        return read(folder, number)

    monkeypatch.setattr(Spool, "content", content)
    with opened(tmp_path) as spool:
        assert (spool.segments(), spool.last, spool.cti) == ([3, 4], 4, 40)


def test_what_an_interrupted_write_leaves_is_deleted(tmp_path: Path) -> None:
    """A half-written file, or facts without their segment, are not a segment."""
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
    (tmp_path / ".000000000002.arrow.part").write_bytes(b"ARROW1 and no more")
    (tmp_path / "000000000002.json").write_bytes((tmp_path / "000000000001.json").read_bytes())
    with opened(tmp_path) as spool:
        assert (spool.last, spool.cti) == (1, 10)
        assert files(tmp_path) == ["000000000001.arrow", "000000000001.json", "lock", "spool.json"]
        assert spool.append(batch(10, 20)) == 2


def damaged(path: Path, name: str, change: Any) -> None:
    """Change the bytes of a file of a spool with two segments."""
    with opened(path) as spool:
        spool.append(batch(0, 10))
        spool.append(batch(10, 20))
    data = bytearray((path / name).read_bytes())
    (path / name).write_bytes(change(data))


def flip(data: bytearray) -> bytearray:
    """Flip one bit in the middle."""
    data[len(data) // 2] ^= 4
    return data


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("000000000001.arrow", lambda data: data[:-9], "torn"),
        ("000000000001.arrow", flip, "CRC-32"),
        ("000000000002.arrow", flip, "CRC-32"),
        ("000000000002.json", flip, "checksum"),
        ("000000000001.json", lambda data: b"", "checksum"),
        ("spool.json", lambda data: data[:20], "damaged"),
    ],
)
def test_damage_is_found_when_the_spool_is_opened(
    tmp_path: Path, name: str, change: Any, says: str
) -> None:
    """A torn file or a flipped bit anywhere is refused with the file's name and advice."""
    damaged(tmp_path, name, change)
    with pytest.raises(SpoolError, match=says) as refused:
        opened(tmp_path)
    assert name in str(refused.value)
    assert "Hint: a file was changed or lost" in str(refused.value)
    WriterLock(tmp_path / "lock").release()  # the lock was let go


def test_damage_is_found_when_a_segment_is_read(tmp_path: Path) -> None:
    """A reader in another process, who opens nothing, finds a flipped bit too."""
    damaged(tmp_path, "000000000001.arrow", flip)
    with pytest.raises(SpoolError, match="CRC-32"):
        SegmentFolder(tmp_path).read(1)


def test_a_lost_segment_is_found(tmp_path: Path) -> None:
    """A gap in the numbers is damage, not the beginning."""
    with opened(tmp_path) as spool:
        for number in range(3):
            spool.append(batch(number * 10, number * 10 + 10))
    (tmp_path / "000000000002.arrow").unlink()
    with pytest.raises(SpoolError, match="000000000002"):
        opened(tmp_path)


def test_there_is_one_writer(tmp_path: Path) -> None:
    """A second writer, of this process or another, is told who the first one is."""
    with opened(tmp_path):
        with pytest.raises(SpoolError, match=rf"pid {os.getpid()}\b.*Hint"):
            opened(tmp_path)
        code = (
            "import pathlib, sys; from rxtemporal.core.files import WriterLock; "
            "WriterLock(pathlib.Path(sys.argv[1], 'lock'))"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, tmp_path],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert f"SpoolError: {tmp_path} is being written by the process with pid {os.getpid()}" in (
            other.stderr
        )
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("name", "schema", "says"),
    [
        ("other", SCHEMA, "query 'q', but this run has 'other'"),
        ("q", pl.Schema({"x": pl.Float64(), "name": pl.String()}), "schema"),
        ("q", pl.Schema({"name": pl.String(), "x": pl.Int64()}), "schema"),
    ],
)
def test_another_query_or_schema_is_refused(
    tmp_path: Path, name: str, schema: pl.Schema, says: str
) -> None:
    """A spool belongs to one query with one schema, and says which when another comes."""
    opened(tmp_path).close()
    with pytest.raises(SpoolError, match=says) as refused:
        opened(tmp_path, name, schema)
    assert "its own path" in str(refused.value)


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A spool of a later version is not misread."""
    opened(tmp_path).close()
    header = json.loads((tmp_path / "spool.json").read_bytes())
    (tmp_path / "spool.json").write_text(json.dumps({**header, "format": 99}), encoding="utf-8")
    with pytest.raises(SpoolError, match="format 99"):
        opened(tmp_path)


@pytest.mark.parametrize("field", ["start_time", "end_time", SEGMENT])
def test_reserved_names_are_refused(tmp_path: Path, field: str) -> None:
    """A payload field with the name of one of the spool's columns is refused by name."""
    with pytest.raises(SchemaError, match=field):
        opened(tmp_path, schema=pl.Schema({field: pl.Int64()}))


def test_a_batch_has_to_fit(tmp_path: Path) -> None:
    """A batch of another schema, or whose CTI goes back, is refused and leaves nothing."""
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
        with pytest.raises(SchemaError, match="not for a spool"):
            spool.append(EventBatch.empty({"y": pl.Int64()}, 20))
        with pytest.raises(SpoolError, match="goes back"):
            spool.append(EventBatch.empty(SCHEMA, 9))
        assert spool.last == 1


@pytest.mark.parametrize(
    ("call", "nth"),
    [
        ("builtins.open", 1),
        ("builtins.open", 2),
        ("os.fsync", 1),
        ("os.fsync", 2),
        ("os.replace", 1),
        ("os.replace", 2),
    ],
)
def test_a_full_disk_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    """Wherever in an append the disk is full, the spool is as before, and a repetition works."""
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
        before = files(tmp_path)
        with monkeypatch.context() as patch:
            failing(patch, call, nth, errno.ENOSPC)
            with pytest.raises(SpoolError, match=r"No space left.*free some space") as refused:
                spool.append(batch(10, 20))
        assert str(tmp_path) in str(refused.value)
        assert (files(tmp_path), spool.last, spool.cti) == (before, 1, 10)
        assert spool.append(batch(10, 20)) == 2
        assert spool.read(2).height == 2


def test_a_segment_that_readers_have_seen_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only the last sync fails the segment is there, and repeating the call completes it."""
    with opened(tmp_path) as spool:
        for _ in range(2):
            with monkeypatch.context() as patch:
                failing(patch, "rxtemporal.storage.segments.sync_folder", 1, errno.EIO)
                with pytest.raises(SpoolError, match="cannot write segment"):
                    spool.append(batch(0, 10))
            assert (spool.segments(), spool.read(1).height) == ([1], 2)
        assert spool.append(batch(0, 10)) == 1
        assert spool.append(batch(0, 10)) == 2, "a batch that comes again later is another one"
    with opened(tmp_path) as spool:
        assert (spool.last, spool.segments()) == (2, [1, 2])


def test_what_was_not_synced_stays_when_another_batch_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who does not repeat the call finds the segment before his own."""
    with opened(tmp_path) as spool:
        with monkeypatch.context() as patch:
            failing(patch, "rxtemporal.storage.segments.sync_folder", 1, errno.EIO)
            with pytest.raises(SpoolError):
                spool.append(batch(0, 10))
        assert spool.append(batch(10, 20)) == 2
        assert [spool.read(number)["x"][0] for number in spool.segments()] == [0, 10]


def test_a_forked_process_holds_no_lock_and_writes_nothing(tmp_path: Path) -> None:
    """A child made by ``os.fork`` lets go of the spool at once, and is told so if it writes."""
    spool = opened(tmp_path)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            spool.append(batch(0, 10))
        except SpoolError as error:
            os.write(theirs, str(error).encode())
        os.read(ours, 1)  # it lives on until its parent has looked
        os._exit(0)
    try:
        said = os.read(ours, 1_000).decode()
        assert "was forked from" in said
        assert spool.append(batch(0, 10)) == 1
        spool.close()
        opened(tmp_path).close()
    finally:
        os.write(theirs, b"x")
        os.waitpid(child, 0)
        os.close(ours)
        os.close(theirs)


def failing(patch: pytest.MonkeyPatch, target: str, nth: int, code: int) -> None:
    """Let the nth call of a function fail as the system would."""
    module, _, name = target.rpartition(".")
    original, calls = getattr(sys.modules[module], name), list[Any]()

    def call(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) == nth:
            raise OSError(code, os.strerror(code), args[0])
        return original(*args, **options)

    patch.setattr(target, call)


def test_a_limit_on_the_size_of_files_is_reported(tmp_path: Path) -> None:
    """What the system itself refuses arrives as a ``SpoolError``, and a smaller append works."""
    big = EventBatch.of_rows(
        np.arange(9_000), np.arange(9_000) + 1, pl.DataFrame({"x": np.arange(9_000)}), 9_000
    )
    with Spool.open(tmp_path, "q", big.schema) as spool:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            with pytest.raises(SpoolError, match=r"File too large.*ulimit"):
                spool.append(big)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert spool.append(big) == 1


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    """A path that cannot be a folder is named, with what to do."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match=r"file.*is a file; choose another path"):
        opened(tmp_path / "file" / "spool")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_no_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A folder that must not be written is named, with the system's reason."""
    with opened(tmp_path) as spool, monkeypatch.context() as patch:
        failing(patch, "builtins.open", 1, code)
        with pytest.raises(SpoolError, match=os.strerror(code)) as refused:
            spool.append(batch(0, 10))
        assert str(tmp_path) in str(refused.value)


def test_the_highest_number_outlives_its_rows(tmp_path: Path) -> None:
    """Where a field numbers rows, the highest one ever appended is known, whatever is discarded."""

    def numbers() -> Spool:
        return Spool.open(tmp_path, "q", SCHEMA, numbered="x")

    given = [(batch(0, 10), 1), (EventBatch.empty(SCHEMA, 11), 1), (batch(11, 20), 12)]
    with numbers() as spool:
        assert spool.highest == 0
    for each, highest in given:
        with numbers() as spool:
            spool.append(each)
            assert spool.highest == highest
            spool.discard(spool.last - 1)
    with numbers() as spool:
        spool.discard(3)
    with numbers() as spool:
        assert (spool.segments(), spool.highest) == ([], 12)


def test_the_highest_number_need_not_be_in_the_last_segment(tmp_path: Path) -> None:
    """Rows with lower numbers may follow; the highest one stays, also where the spool is opened."""
    for first, highest in ((5, 6), (1, 6), (6, 7)):
        with Spool.open(tmp_path, "q", SCHEMA, numbered="x") as spool:
            spool.append(batch(first, 10))
            assert spool.highest == highest
    with Spool.open(tmp_path, "q", SCHEMA, numbered="x") as spool:
        assert spool.highest == 7


def test_where_nothing_numbers_rows_nothing_is_said_of_it(tmp_path: Path) -> None:
    """A spool without such a field, and one that was begun without, know no highest number."""
    with opened(tmp_path) as spool:
        spool.append(batch(0, 10))
        assert spool.highest is None
    assert b"highest" not in (tmp_path / "000000000001.json").read_bytes()
    with Spool.open(tmp_path, "q", SCHEMA, numbered="x") as spool:
        spool.append(batch(10, 20))
        assert spool.highest is None
