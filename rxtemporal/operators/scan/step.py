"""scan: a user's function, called with each row of a key in order and with the key's state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.errors import SchemaError
from rxtemporal.operators.scan.ordered_step import OrderedStep

Function = Callable[[Any, int, dict[str, Any]], Any]

_PLAIN = (NoneType, bool, int, float, str, bytes)
_COLLECTIONS = (list, tuple, dict, set, frozenset)


def _is_same(state: Any, seed: Any) -> bool:
    """Return True if a state is surely equal to the seed: a plain value, or empty as it is."""
    if type(state) is not type(seed):
        return False
    if type(seed) in _COLLECTIONS:
        return not state and not seed
    return type(seed) in _PLAIN and repr(state) == repr(seed)


class ScanStep(OrderedStep):
    """Calls a user's function with each row once, when its start is committed.

    ``fn(state, start, payload)`` returns the key's next state, and None, a payload or a list of
    payloads, which live as long as the row. Holds a state for each key, too, until it is the seed
    again. Costs a call for each row.
    """

    held = MappingProxyType({**OrderedStep.held, "_states": BY_KEY})

    def __init__(
        self, seed: Any, fn: Function, result: pl.Schema, schema: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        super().__init__(pl.Schema({**{key: schema[key] for key in keys}, **result}), schema, keys)
        self._seed = seed
        self._fn = fn
        self._reader = PayloadReader(result)
        self._keys = list(keys)
        self._states: dict[int, Any] = {}

    def compute(
        self, key: Int64s, start: Int64s, payload: pl.DataFrame
    ) -> tuple[Int64s, pl.DataFrame]:
        """Call the function with the rows, and return its results."""
        of, results = self._call(key, start, payload)
        return of, self._frame(payload, of, results)

    def mark_states(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys whose state is not the seed."""
        held[[key for key, state in self._states.items() if not _is_same(state, self._seed)]] = True

    def _call(self, key: Int64s, start: Int64s, payload: pl.DataFrame) -> tuple[Int64s, list[Any]]:
        """Call the function row by row; return its results, each with the number of its row."""
        of: list[int] = []
        results: list[Any] = []
        states = self._states
        rows = payload.iter_rows(named=True) if payload.width else ({} for _ in range(len(key)))
        for i, (k, s, row) in enumerate(zip(key.tolist(), start.tolist(), rows, strict=True)):
            state = states[k] if k in states else copy.deepcopy(self._seed)
            returned = self._fn(state, s, row)
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise SchemaError(
                    f"scan's function returns a pair (state, result), got {returned!r}. "
                    "Hint: for a row without a result return (state, None)."
                )
            states[k], result = returned
            if result is None:
                continue
            for each in result if isinstance(result, list) else (result,):
                of.append(i)
                results.append(each)
        return np.array(of, np.int64), results

    def _frame(self, payload: pl.DataFrame, of: Int64s, results: list[Any]) -> pl.DataFrame:
        """Return the results as a payload, the keys first."""
        try:
            frame = self._reader.frame(results)
        except BadPayloadError as error:
            for name in self._keys:
                if any(name in each for each in results if isinstance(each, dict)):
                    raise SchemaError(
                        f"scan's function returns {name!r}, which is a group key: a grouped stream "
                        "puts its keys in front of the results. Hint: leave it out."
                    ) from error
            raise SchemaError(
                f"scan's function returned {results[error.row]!r} for "
                f"{payload.row(int(of[error.row]), named=True)}: {error}"
            ) from error
        if not self._keys:
            return frame
        keys = payload.select(self._keys)[of]
        return pl.DataFrame([*keys.get_columns(), *frame.get_columns()])
