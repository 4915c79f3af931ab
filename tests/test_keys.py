"""Group keys as codes: numbered by first appearance, the same whichever way they are looked up."""

from __future__ import annotations

import math
from typing import Any

import oracle
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal import keys
from rxtemporal.keys import KeyCoder

SCHEMA = {"k": pl.String, "x": pl.Int64, "y": pl.Float64}
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, "", "a", "b"]),
        "x": st.sampled_from([None, 0, 1]),
        "y": st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]),
    }
)


def key(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return what is the same for equal keys."""
    return tuple(oracle.freeze(row[name]) for name in names)


@pytest.mark.parametrize("few", [0, 10_000], ids=["distinct first", "one by one"])
@pytest.mark.parametrize("names", [("k",), ("x",), ("y",), ("k", "x", "y")], ids=str)
@given(batches=st.lists(st.lists(ROWS, max_size=12), max_size=5))
def test_codes_are_by_first_appearance(
    few: int, names: tuple[str, ...], batches: list[list[dict[str, Any]]]
) -> None:
    """Equal keys have one code across batches, null, NaN and both zeros included."""
    coder = KeyCoder({name: SCHEMA[name] for name in names})
    model: dict[Any, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "FEW_ROWS", few)
        for rows in batches:
            frame = pl.DataFrame(rows, schema=SCHEMA)
            codes = coder.encode(frame)
            expected = [model.setdefault(key(row, names), len(model)) for row in rows]
            assert codes.tolist() == expected
            assert len(coder) == len(model)
            decoded = coder.decode(codes).to_dicts()
            assert [key(row, names) for row in decoded] == [key(row, names) for row in rows]
            assert coder.decode(codes).schema == {name: SCHEMA[name] for name in names}


def test_many_batches_of_new_keys_stay_quick_to_decode() -> None:
    """However many batches brought new keys, the keys lie in a few chunks."""
    coder = KeyCoder({"k": pl.Int64})
    for number in range(500):
        coder.encode(pl.DataFrame({"k": [number]}))
    assert coder.decode([0, 250, 499])["k"].to_list() == [0, 250, 499]
    assert coder._values.n_chunks() <= keys.MOST_CHUNKS
