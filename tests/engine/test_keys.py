"""Group keys as codes: numbered by first appearance, the same whichever way they are looked up."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import oracle
import polars as pl
import pytest
from forgetting import forgetful
from hypothesis import given, settings
from hypothesis import strategies as st

from rxtemporal import CheckpointError
from rxtemporal.core.columns import Columns, Demand, RepeatingColumns
from rxtemporal.engine import keys
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.keys import KeyCoder

BERLIN = ZoneInfo("Europe/Berlin")
# the same wall clock twice, an hour apart
TWICE = [datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 1, 30, tzinfo=UTC)]
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "k": (pl.String(), [None, "", "a", "b", "a key of more than twelve bytes", "a key of mere"]),
    "x": (pl.Int64(), [None, 0, 1, -1, -(2**63), 2**63 - 1, 2**32]),
    "y": (pl.Float64(), [None, 0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -math.inf, 5e-324]),
    "small": (pl.Int8(), [None, 0, -128, 127]),
    "half": (pl.Int32(), [None, 0, 5, -(2**31), 2**31 - 1]),
    "single": (pl.Float32(), [None, 0.0, -0.0, math.nan, 1.5]),
    "flag": (pl.Boolean(), [None, False, True]),
    "bytes": (pl.Binary(), [None, b"", b"\0", b"\0\0", b"more than twelve bytes"]),
    "money": (pl.Decimal(38, 2), [None, Decimal("0.00"), Decimal("1.10"), Decimal(10) ** 35]),
    "day": (pl.Date(), [None, date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "naive": (pl.Datetime("us"), [None, datetime(1, 1, 1), datetime(9999, 12, 31)]),
    "aware": (pl.Datetime("us", "Europe/Berlin"), [None, *(t.astimezone(BERLIN) for t in TWICE)]),
    "span": (pl.Duration("us"), [None, timedelta(0), timedelta(-1), timedelta(days=9_999)]),
    "nothing": (pl.Null(), [None]),
}
NAMES = [
    *((name,) for name in VALUES), ("k", "x"), ("x", "y"), ("k", "x", "y"),
    ("money", "bytes", "aware", "flag"),
]  # fmt: skip
FEW = pytest.mark.parametrize("few", [0, 10_000, 4], ids=["hashed", "one by one", "in turns"])


def rows_of(names: tuple[str, ...], max_size: int = 12) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw rows with these fields."""
    row = st.fixed_dictionaries({name: st.sampled_from(VALUES[name][1]) for name in names})
    return st.lists(row, max_size=max_size)


def schema_of(names: tuple[str, ...]) -> dict[str, Any]:
    """Return the types of these fields."""
    return {name: VALUES[name][0] for name in names}


def key(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return a value that is equal for equal keys; times as instants in any time zone."""
    values = (row[name] for name in names)
    return tuple(
        oracle.freeze(v.timestamp() if isinstance(v, datetime) and v.tzinfo else v) for v in values
    )


def encode(coder: KeyCoder, frame: pl.DataFrame) -> Any:
    """Return the codes of a frame's rows."""
    return coder.encode(Columns.from_frame(frame))


def limited(patch: pytest.MonkeyPatch, few: int) -> None:
    """Set the number of rows up to which a batch is looked up row by row."""
    patch.setattr(keys, "FEW_ROWS", few)


def agrees(names: tuple[str, ...], batches: list[list[dict[str, Any]]]) -> KeyCoder:
    """Check a new coder against a dict, batch by batch, and return it."""
    schema = schema_of(names)
    coder = KeyCoder(schema)
    model: dict[Any, int] = {}
    firsts: list[dict[str, Any]] = []
    for rows in batches:
        codes = encode(coder, pl.DataFrame(rows, schema=schema))
        expected = [model.setdefault(key(row, names), len(model)) for row in rows]
        firsts += [rows[expected.index(code)] for code in range(len(firsts), len(model))]
        assert codes.tolist() == expected
        assert codes.dtype == np.int64
        assert len(coder) == len(model)
        first = pl.DataFrame([firsts[code] for code in expected], schema=schema)
        decoded = coder.decode(codes).frame
        assert decoded.schema == first.schema
        assert repr(decoded.rows()) == repr(first.rows())  # -0.0 is not 0.0 here
    return coder


@FEW
@pytest.mark.parametrize("names", NAMES, ids="+".join)
@settings(max_examples=max(5, settings().max_examples // 5))
@given(data=st.data())
def test_codes_are_by_first_appearance(
    few: int, names: tuple[str, ...], data: st.DataObject
) -> None:
    """Equal keys have one code across batches, and decode to the first of them."""
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, few)
        agrees(names, data.draw(st.lists(rows_of(names), max_size=5)))


@FEW
@pytest.mark.parametrize("names", [("k",), ("y",), ("k", "x", "y")], ids="+".join)
@settings(max_examples=max(5, settings().max_examples // 5))
@given(data=st.data())
def test_rows_that_repeat_others_have_the_codes_of_these(
    few: int, names: tuple[str, ...], data: st.DataObject
) -> None:
    """Only the few are looked up, and numbered as all rows would be."""
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, few)
        schema = pl.Schema(schema_of(names))
        spread, repeated = KeyCoder(schema), KeyCoder(schema)
        for _ in range(data.draw(st.integers(1, 3))):
            rows = data.draw(rows_of(names, 4))
            numbers = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
            # in order of first appearance, each at least once
            which = np.array([*range(len(rows)), *numbers], np.int64)
            columns = dict(enumerate(Columns.from_frame(pl.DataFrame(rows, schema)).columns))
            repeating = RepeatingColumns([None] * len(names), columns, which, Demand())
            taken = Columns(schema, repeating, len(which))
            if data.draw(st.booleans()):  # some of the few may be gone, or come later
                chosen = data.draw(st.lists(st.sampled_from(range(len(which))))) if rows else []
                taken, which = taken.take(np.array(chosen, np.int64)), which[chosen]
            all_rows = pl.DataFrame([rows[row] for row in which], schema)
            assert repeated.encode(taken).tolist() == encode(spread, all_rows).tolist()
            assert len(repeated) == len(spread)


@pytest.mark.parametrize("names", [("k",), ("bytes",), ("money",), ("k", "x"), ("x", "k", "y")])
@pytest.mark.parametrize("hashes", [1, 2, 3])
@settings(max_examples=max(5, settings().max_examples // 5))
@given(data=st.data())
def test_values_of_one_hash_stay_apart(
    hashes: int, names: tuple[str, ...], data: st.DataObject
) -> None:
    """Hashes that collide, early or late, do not change the codes."""

    def colliding(values: pl.Series) -> np.ndarray:
        texts = [str(value) for value in values.to_list()]
        return np.array([len(text) % hashes for text in texts], np.int64)

    with pytest.MonkeyPatch.context() as patch:
        limited(patch, 0)
        patch.setattr(keys, "_hash_values", colliding)
        agrees(names, data.draw(st.lists(rows_of(names), max_size=5)))


@given(data=st.data(), names=st.sampled_from(NAMES))
def test_cuts_do_not_matter(data: st.DataObject, names: tuple[str, ...]) -> None:
    """However the rows are cut into batches, their codes are the same."""
    rows = data.draw(rows_of(names, max_size=30))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    schema = schema_of(names)
    frame = pl.DataFrame(rows, schema=schema)
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, data.draw(st.sampled_from([0, 3, 10_000])))
        whole, cut = KeyCoder(schema), KeyCoder(schema)
        expected = encode(whole, frame).tolist()
        bounds = [0, *cuts, len(rows)]
        parts = [frame[begin:end] for begin, end in pairwise(bounds)]
        assert [code for part in parts for code in encode(cut, part).tolist()] == expected


@FEW
@given(data=st.data(), names=st.sampled_from(NAMES))
def test_a_restored_coder_continues(few: int, data: st.DataObject, names: tuple[str, ...]) -> None:
    """A restored coder gives known keys their codes, and new keys the next ones."""
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, few)
        coder = agrees(names, data.draw(st.lists(rows_of(names), max_size=5)))
        restored = KeyCoder.restore(coder.state())
        assert restored.names == coder.names
        assert restored.state().equals(coder.state())
        frame = pl.DataFrame(data.draw(rows_of(names)), schema=schema_of(names))
        assert encode(restored, frame).tolist() == encode(coder, frame).tolist()


def test_a_state_with_a_key_twice_is_refused() -> None:
    """Saved keys are distinct; otherwise every later key would get a wrong code."""
    with pytest.raises(CheckpointError, match=r"\['k'\] are 3 rows, of which 2 differ"):
        KeyCoder.restore(pl.DataFrame({"k": [1, 2, 1]}))


@pytest.mark.parametrize("make", [str, int, lambda i: f"a key of more than 12 bytes {i}"])
def test_many_keys(make: Any) -> None:
    """Large batches with old and new keys, over many growths of the table."""
    rng = np.random.default_rng(1)
    coder, model = KeyCoder({"k": pl.Series([make(0)]).dtype}), {}
    for size in (10, 100, 5_000, 20_000):
        values = [make(i) for i in rng.integers(0, 3 * size, size).tolist()]
        expected = [model.setdefault(value, len(model)) for value in values]
        codes = encode(coder, pl.DataFrame({"k": values}))
        assert codes.tolist() == expected
        assert coder.decode(codes).frame["k"].to_list() == values


def test_nan_in_small_batches_is_held_once() -> None:
    """The look-up table of small batches has NaN once, although NaN does not equal itself."""
    coder = KeyCoder({"k": pl.String(), "y": pl.Float64()})
    for _ in range(10):
        assert encode(coder, pl.DataFrame({"k": "a", "y": [float("nan")]})).tolist() == [0]
    assert len(coder._few_codes) == 1


def test_a_key_does_not_keep_its_batch() -> None:
    """A kept string keeps only its own bytes, not those of its whole column."""
    coder = KeyCoder({"k": pl.String()})
    values = [f"a key of more than twelve bytes {i % 2}" for i in range(10_000)]
    encode(coder, pl.DataFrame({"k": values}))
    assert coder.state().estimated_size() < 1_000


@FEW
@given(data=st.data(), names=st.sampled_from(NAMES))
def test_kept_keys_are_numbered_anew(few: int, data: st.DataObject, names: tuple[str, ...]) -> None:
    """A coder keeps the keys held, in order, and numbers all others as if never seen."""
    with pytest.MonkeyPatch.context() as patch, forgetful():
        limited(patch, few)
        coder = agrees(names, data.draw(st.lists(rows_of(names), max_size=5)))
        size = len(coder)
        held = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
        expected = KeyCoder.restore(coder.decode(np.flatnonzero(held)).frame)
        assert coder.is_full == (size > 0)
        kept = coder.forget(held)
        assert not coder.is_full
        assert coder.state().equals(expected.state())
        if kept is None:
            assert held.all()
        else:
            assert (kept.old.tolist(), kept.count) == (np.flatnonzero(held).tolist(), size)
        frame = pl.DataFrame(data.draw(rows_of(names)), schema=schema_of(names))
        assert encode(coder, frame).tolist() == encode(expected, frame).tolist()
        assert coder.state().equals(expected.state())


def test_keys_are_forgotten_when_most_are_not_held() -> None:
    """A coder is full when it knows many more keys than twice those held at the last look."""
    coder = KeyCoder({"k": pl.Int64()})
    sizes = []
    for number in range(0, 50_000, 100):
        encode(coder, pl.DataFrame({"k": range(number, number + 100)}))
        sizes.append(len(coder))
        if coder.is_full:
            held = coder.decode(np.arange(len(coder))).frame["k"].to_numpy() >= number - 400
            forgotten = coder.forget(held) is not None
            assert len(coder) == (500 if forgotten else len(held))
    assert min(sizes[-20:]) <= 600
    assert keys.MANY_KEYS + 2 * 500 < max(sizes) <= keys.MANY_KEYS + 2 * 500 + 100


@pytest.mark.long
def test_keys_of_which_a_batch_brings_many_are_forgotten_every_few_batches() -> None:
    """To forget costs as much for a few keys as for many; few batches do not fill the spare."""
    coder, moves, sizes = KeyCoder({"k": pl.Int64()}), [], []
    for batch in range(60):
        encode(coder, pl.DataFrame({"k": range(2_000 * batch, 2_000 * (batch + 1))}))
        sizes.append(len(coder))
        if coder.is_full and coder.forget(np.zeros(len(coder), np.bool_)) is not None:
            moves.append(batch)
    assert len(moves) < 20
    assert max(sizes) <= keys.MANY_KEYS + keys.MOST_SPARE + 2_000
    for batch in range(60, 70):  # as fast as before, but a key at a time
        for key in range(2_000 * batch, 2_000 * (batch + 1)):
            encode(coder, pl.DataFrame({"k": [key]}))
            if coder.is_full:
                coder.forget(np.zeros(len(coder), np.bool_))
    assert len(coder) <= 2 * keys.MANY_KEYS


def test_keys_that_stay_are_not_moved() -> None:
    """If most keys are held, all stay, and the coder is full when there are twice as many."""
    coder = KeyCoder({"k": pl.Int64()})
    encode(coder, pl.DataFrame({"k": range(3_000)}))
    assert coder.is_full
    assert coder.forget(np.arange(3_000) < 1_600) is None
    assert len(coder) == 3_000
    encode(coder, pl.DataFrame({"k": range(4_224)}))
    assert not coder.is_full
    encode(coder, pl.DataFrame({"k": [5_000]}))
    assert coder.is_full


def test_arrays_by_key_follow_the_kept_keys() -> None:
    """Elements of kept keys stay, in any layout; one not made yet stays unmade."""
    kept = KeptKeys(np.array([1, 3, 4]), 6)
    assert kept.new.tolist() == [-1, 0, -1, 1, 2, -1]
    assert kept.gone.tolist() == [0, 2, 5]
    assert kept.renumber(np.array([4, -1, 1, 0])).tolist() == [2, -1, 0, -1]
    assert kept.pick(np.arange(8)).tolist() == [1, 3, 4]
    assert kept.pick(np.arange(4)).tolist() == [1, 3]
    assert kept.pick(np.arange(12).reshape(2, 6)).tolist() == [[1, 3, 4], [7, 9, 10]]
    assert kept.pick(np.arange(12).reshape(6, 2), 0).tolist() == [[2, 3], [6, 7], [8, 9]]
    assert kept.pick_entries({1: "a", 2: "b", 4: "c"}) == {0: "a", 2: "c"}


def test_without_fields_there_is_one_key() -> None:
    """Rows of a stream that is not grouped have code 0; the key has no columns."""
    coder, codes = KeyCoder({}), np.zeros(3, np.int64)
    assert len(coder) == 1
    assert encode(coder, pl.DataFrame(height=3)).tolist() == [0, 0, 0]
    assert (coder.columns(codes), len(coder.decode(codes))) == ([], 3)
    assert len(KeyCoder.restore(coder.state())) == 1


def test_a_coder_loads_kernels_only_when_made() -> None:
    """Importing the module does not import numba."""
    code = "import sys, rxtemporal.engine.keys; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
