"""New codes of the keys that are kept when others are forgotten."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KeptKeys:
    """Keys that are kept: their former codes, in order of the new ones, and how many there were."""

    old: Codes
    count: int

    @property
    def new(self) -> Codes:
        """The new codes by the former ones; -1 for a key that is forgotten."""
        new = np.full(self.count, -1)
        new[self.old] = np.arange(len(self.old))
        return new

    @property
    def gone(self) -> Codes:
        """The former codes of the keys that are forgotten."""
        return np.flatnonzero(self.new < 0)

    def pick_entries(self, entries: Mapping[int, Value]) -> dict[int, Value]:
        """Return the entries of a mapping by key that belong to kept keys."""
        new = self.new.tolist()
        return {new[key]: value for key, value in entries.items() if new[key] >= 0}

    def renumber(self, codes: Codes) -> Codes:
        """Return the new codes of these keys; a negative code, of no key, stays."""
        return np.where(codes < 0, codes, self.new[codes])

    def pick(self, array: npt.NDArray[Scalar], axis: int = -1) -> npt.NDArray[Scalar]:
        """Return an array by key with the kept keys alone; this axis has the keys.

        An array that has no elements yet for the latest keys has none for them afterwards.
        """
        return array.take(self.old[: np.searchsorted(self.old, array.shape[axis])], axis=axis)
