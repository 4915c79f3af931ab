"""Numbers of devices: those that the rows of a source name, in order of their first rows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Coded, Columns, has_nulls
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.safe_text import brief
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.keys import KeyCoder, KeyGroup
from rxtemporal.errors import EventError


class DeviceNumbers:
    """The numbers of the devices of one source.

    ``fields`` are those whose values name a device; none is null. ``turn`` is the lock of whoever
    owns this: other threads may ask for the numbers of rows that have been grouped. Holds the
    values of each device.

    >>> numbers = DeviceNumbers(pl.Schema({"device": pl.String}), "a", threading.RLock())
    >>> [numbers.find({"device": name, "x": 1}) for name in "aba"], len(numbers)
    ([0, 1, 0], 2)
    >>> numbers.find_value("b")
    1
    """

    __slots__ = (
        "_group", "_plain", "_reader", "_single", "_source", "_turn", "coder", "fields",
    )  # fmt: skip

    def __init__(self, fields: pl.Schema, source: str, turn: threading.RLock) -> None:
        self.fields = tuple(fields)
        self._source, self._turn = source, turn
        self._reader = PayloadReader(fields)
        self._single = self.fields[0] if len(fields) == 1 else None
        # those that single events have named by plain values
        self._plain: dict[tuple[type, Any], int] = {}
        self.coder = KeyCoder(fields)
        self._group = KeyGroup(self.coder, turn)

    def __len__(self) -> int:
        return len(self.coder)

    def encode(self, columns: Columns) -> Int64s:
        """Return the number of each row's device; ``EventError`` if a row has none."""
        for name in self.fields:
            if has_nulls(columns[name]):
                raise EventError(
                    f"a row of stream {self._source!r} has null for {name!r}, which names the "
                    "device whose clock it follows"
                )
        return self.coder.encode_columns([columns[name] for name in self.fields])

    def find(self, payload: Any) -> int:
        """Return the number of the device of one event; ``EventError`` if it has none."""
        fields = payload if type(payload) is dict else to_fields(payload)
        value = fields.get(self._single) if self._single is not None else None
        key = type(value), value
        if value is not None and type(value) in (str, int) and (known := self._plain.get(key)):
            return known - 1
        try:
            given = self._reader.columns([{name: fields[name] for name in self.fields}])
        except (BadPayloadError, KeyError) as error:
            raise EventError(
                f"the payload {brief(payload)} does not name a device of stream {self._source!r}: "
                f"{error}"
            ) from None
        with self._turn:
            device = int(self.encode(given)[0])
        if type(value) in (str, int):
            self._plain[key] = device + 1
        return device

    def find_value(self, device: Any) -> int:
        """Return the number of a device that is given by its value, of several fields by a tuple.

        ``EventError``: it is not of the fields' types.
        """
        values = (device,) if len(self.fields) == 1 else device
        if not isinstance(values, (list, tuple)) or len(values) != len(self.fields):
            raise EventError(
                f"a device of stream {self._source!r} is a tuple of {', '.join(self.fields)}, got "
                f"{brief(device)}"
            )
        return self.find(dict(zip(self.fields, values, strict=True)))

    def find_values(self, devices: Sequence[Any]) -> Int64s:
        """Return the numbers of devices that ``list_values`` has returned."""
        rows = [(each,) for each in devices] if self._single is not None else devices
        given = [dict(zip(self.fields, row, strict=True)) for row in rows]
        with self._turn:
            return self.encode(self._reader.columns(given))

    def decode(self, numbers: Int64s) -> Columns:
        """Return the values of devices as columns."""
        return self.coder.decode(numbers)

    def list_values(self, numbers: Int64s) -> tuple[Any, ...]:
        """Return the values of devices, as ``Clocks.list_devices`` does."""
        return Clocks(self.coder.decode(numbers), MIN_TIME).list_devices()

    def code(self, numbers: Int64s) -> Coded:
        """Return the numbers of the devices of rows, for those who read the rows."""
        return Coded(self.fields, self.coder, numbers)

    def group(self, columns: Columns) -> Coded | None:
        """Return numbers of the devices of rows that are found when they are first read.

        None if a row has no device.
        """
        named = [columns[name] for name in self.fields]
        return None if any(map(has_nulls, named)) else self._group.add(self.fields, named)

    def translate(self, parts: Sequence[Coded]) -> Int64s:
        """Return the numbers of the devices of rows that have been grouped."""
        return self.coder.translate(*parts)

    def load(self, coder: KeyCoder) -> None:
        """Continue with the devices that another one has numbered."""
        self.coder, self._group = coder, KeyGroup(coder, self._turn)
        self._plain.clear()
