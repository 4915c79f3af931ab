"""Codec of saved states: values come back as they were, damaged or foreign bytes are refused."""

from __future__ import annotations

import collections
import math
import struct
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from child_process import environment

from rxtemporal import CheckpointError, EventBatch
from rxtemporal.core.columns import Coded, Columns
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import VERSION, Captured, Deferred, dumps, loads
from rxtemporal.engine.keys import KeyCoder


class Pair(NamedTuple):
    """Not a plain tuple."""

    a: int
    b: int


def restored(value: Any) -> Any:
    """Return a value that was written and read; one read without being written is the same."""
    written = dumps("test", value)
    assert dumps("test", loads("test", Captured("test", value))) == written
    return loads("test", written)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -(2**70), "text", b"\x00\xff", 0.1, -0.0, math.inf,
        datetime(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC),
        datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        date(2024, 5, 1), timedelta(1, 2, 3), Decimal("1.20"),
        [1, [2.5]], (1, ("a",)), {1, 2}, frozenset({"a"}), {("a", 1): {frozenset({2}): [None]}},
    ],
)  # fmt: skip
def test_a_state_comes_back_as_it_was(value: Any) -> None:
    """Values of users' states come back equal and of the same type, zones included."""
    back = restored(value)
    assert (back, type(back)) == (value, type(value))
    if isinstance(value, datetime):
        assert back + timedelta(180) == value + timedelta(180)
        assert (back + timedelta(180)).utcoffset() == (value + timedelta(180)).utcoffset()


def test_arrays_and_frames_come_back_as_they_were() -> None:
    """Columns keep their types, shapes and contents."""
    bools = np.arange(22).reshape(2, 11) % 3 == 0
    long = np.zeros((3, 200_000))
    long[1, 7], long[2, -1] = -0.0, math.nan
    others = np.array(5), np.arange(12).reshape(3, 4)[:, 1:], np.array(["2024-05-01"], "M8[us]")
    arrays = (np.arange(3), np.zeros((0, 3)), bools, bools[:0], np.array([[1.5, 2.5]]))
    for array in (*arrays, *others, long, long[:, ::2]):
        back = restored(array)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert back.tobytes() == array.tobytes()  # -0.0 and NaN, too
    frame = pl.DataFrame({"s": ["a", None], "d": [Decimal("1.50"), None]})
    assert restored(frame).equals(frame)
    assert restored(pl.DataFrame(height=3)).height == 3


@pytest.mark.parametrize(
    "value",
    [collections.Counter("aab"), collections.defaultdict(int), Pair(1, 2), object(), {1: object()}],
)
def test_values_that_cannot_be_restored_are_refused(value: Any) -> None:
    """A subclass of a plain type or an object cannot be saved; the message says what can."""
    with pytest.raises(CheckpointError, match="made of numbers, strings, times, lists"):
        dumps("test", value)


def test_keys_come_back_with_their_codes() -> None:
    """A coder gives old keys their codes, and new ones the next."""
    coder = KeyCoder({"k": pl.String(), "n": pl.Int64()})
    keys = Columns.from_frame(pl.DataFrame({"k": ["b", None, "b"], "n": [1, 2, 1]}))
    codes = coder.encode(keys)
    back = restored(coder)
    more = Columns.from_frame(pl.DataFrame({"k": ["b", "c", None], "n": [1, 1, 2]}))
    assert back.encode(keys).tolist() == codes.tolist() == [0, 1, 0]
    assert back.encode(more).tolist() == coder.encode(more).tolist()


@pytest.mark.parametrize("rows", [0, 3])
def test_batches_come_back_as_they_were(rows: int) -> None:
    """A batch keeps columns, CTI, and the names of its keys."""
    frame = pl.DataFrame({"start_time": [1, 2, 3], "end_time": [4, 5, None], "k": ["a", "b", "a"]})
    batch = EventBatch.from_polars(frame.head(rows), cti=7)
    for one in (batch, batch.replace(payload=pl.DataFrame(height=rows))):
        back = restored(one)
        assert (back.cti, back.keys, back.schema) == (7, (), one.schema)
        assert back.to_polars().equals(one.to_polars())
    assert restored(batch.replace(keys=("k",))).keys == ("k",)


def test_a_default_writes_other_objects() -> None:
    """An object of another type is written as the plain value that ``default`` makes of it."""
    value = [Pair(1, 2), {"p": (Pair(3, 4),)}]
    saved = dumps("test", value, lambda each: each._asdict() if isinstance(each, Pair) else None)
    assert loads("test", saved) == [{"a": 1, "b": 2}, {"p": ({"a": 3, "b": 4},)}]
    with pytest.raises(CheckpointError, match="cannot be saved"):
        dumps("test", [object()], lambda each: None)


def test_what_is_captured_does_not_change() -> None:
    """Whatever happens to the value afterwards, the bytes are those of the moment."""
    coder = KeyCoder({"k": pl.String()})
    coder.encode(Columns.from_frame(pl.DataFrame({"k": ["a"]})))
    batch = EventBatch(
        np.array([1]), np.array([5]), np.array([1]), pl.DataFrame({"x": [1]}), MIN_TIME
    )
    objects, array = np.array([[1], None], object), np.arange(3)
    value: dict[Any, Any] = {
        "list": [1, [2, {3}]], "dict": {"a": {"b": [1]}}, "array": array, "objects": objects,
        "tuple": ([1],), "keys": coder, "batch": batch, "bools": np.ones(3, bool),
        "nested": Captured("inner", {"own": array}),
    }  # fmt: skip
    captured, before = Captured("test", value), dumps("test", value)
    value["list"][1][1].add(4)
    value["dict"]["a"]["b"].append(2)
    value["tuple"][0].clear()
    value["bools"][1] = False
    array[:] = 7
    objects[0].append(2)
    coder.encode(Columns.from_frame(pl.DataFrame({"k": ["b"]})))
    batch.end[0], batch.edge[0] = 3, 0
    value["new"] = 1
    assert captured.dumps() == before
    assert b"".join(captured.list_chunks()) == before


def test_a_dict_may_get_a_key_while_it_is_captured() -> None:
    """As a payload does whose user goes on; the state has what was there when it began."""
    odd = object()
    payload: dict[Any, Any] = {odd: 1}

    def add_a_key(value: Any) -> Any:
        payload["more"] = 2
        return "odd" if value is odd else None

    assert loads("test", dumps("test", [payload], add_a_key)) == [{"odd": 1}]
    assert payload == {odd: 1, "more": 2}


class Later(Deferred):
    """A value that becomes plain when it is written."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def make_plain(self) -> Any:
        """Return the value in a list."""
        return [self.value]


def test_a_deferred_value_is_plain_once_it_is_written() -> None:
    """Until then it is the same object; what cannot be saved is refused when it is written."""
    later = Later(datetime(2024, 5, 1, tzinfo=UTC))
    captured = Captured("test", {"rows": later})
    assert loads("test", captured.dumps()) == {"rows": [later.value]}
    assert loads("test", captured)["rows"] is later
    refused = Captured("test", Later(object()))
    with pytest.raises(CheckpointError, match="cannot be saved"):
        refused.dumps()


def test_a_captured_state_inside_another_is_bytes() -> None:
    """It comes back as what ``dumps`` returns of it."""
    inner = Captured("inner", [1, np.arange(2)])
    assert restored([inner, None]) == [inner.dumps(), None]


def test_a_captured_state_is_read_as_it_was() -> None:
    """What is read is changed neither by the original nor by later work on what was read."""
    coder = KeyCoder({"k": pl.String()})
    rows = Columns.from_frame(pl.DataFrame({"k": ["a", "b"]}))
    rows.coded = Coded(("k",), coder, coder.encode(rows))
    array, objects = np.arange(3), np.array([[1], None], object)
    inner = Captured("inner", [array])
    batch = EventBatch(np.array([1, 2]), np.array([5, 6]), None, rows, MIN_TIME)
    captured = Captured("test", [coder, rows, batch, array, objects, inner])
    array[:] = 7
    objects[0].append(2)
    keys, columns, again, mine, things, own = loads("test", captured)
    assert mine.tolist() == loads("inner", own)[0].tolist() == [0, 1, 2]
    assert things.tolist() == [[1], None]
    assert columns.coded is again.columns.coded is None
    keys.encode(Columns.from_frame(pl.DataFrame({"k": ["c"]})))
    assert (len(keys), len(coder)) == (3, 2)
    with pytest.raises(CheckpointError, match="not of a other"):
        loads("other", Captured("test", 1))


@pytest.mark.parametrize("place", [0, 3, 5, 7, 10, 14, 20, 60, -1])
def test_damaged_states_are_refused(place: int) -> None:
    """One flipped bit, a cut, or no bytes at all raise a CheckpointError and nothing else."""
    saved = dumps("test", [np.arange(5), {"a": 1}])
    damaged = bytearray(saved)
    damaged[place] ^= 8
    for data in (bytes(damaged), saved[:place], saved + b"x", b"", None, "text"):
        with pytest.raises(CheckpointError):
            loads("test", data)  # type: ignore[arg-type]


def test_a_state_has_a_kind_and_a_version() -> None:
    """Another kind and another version are refused; the message names them and gives a hint."""
    saved = dumps("run", 1)
    with pytest.raises(CheckpointError, match=r"FILE is the state of a run, not of a bucket.*or X"):
        loads("bucket", saved, "FILE", "or X")
    older = saved[:4] + struct.pack("<H", VERSION - 1) + saved[6:]
    with pytest.raises(CheckpointError, match=rf"FILE was not saved in version {VERSION} .*or X"):
        loads("run", older, "FILE", "or X")


SHARED_FRAME = """
import os, threading, time
import polars as pl
from rxtemporal.engine.codec import dump_frame
frame = pl.DataFrame({f"c{n}": range(50) for n in range(5)})
end = time.monotonic() + 1.5
def repeat(use):
    while time.monotonic() < end:
        use()
uses = (lambda: dump_frame(frame), frame.get_columns, frame.get_columns)
threads = [threading.Thread(target=repeat, args=(use,), daemon=True) for use in uses]
for each in threads:
    each.start()
for each in threads:
    each.join()
print("done")
"""


def test_a_frame_may_be_read_while_it_is_encoded() -> None:
    """A checkpoint encodes frames that the run still uses; polars lets two threads lock up."""
    done = subprocess.run(
        [sys.executable, "-c", SHARED_FRAME],
        env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
