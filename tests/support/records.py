"""One record, as a class of each library."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest

# a test module that imports this one is skipped where a library is missing
attrs = pytest.importorskip("attrs", reason="its classes are rows")
msgspec = pytest.importorskip("msgspec", reason="its structs are rows")
pydantic = pytest.importorskip("pydantic", reason="its models are rows")
pytest.importorskip("pydantic.dataclasses")
typing_extensions = pytest.importorskip("typing_extensions", reason="pydantic asks for its types")

Room = NewType("Room", str)


class Kind(enum.StrEnum):
    """An enum whose members are texts."""

    HOT = "hot"
    COLD = "cold"


@dataclasses.dataclass
class Reading:
    """A dataclass."""

    ts: int
    room: Room
    temp: float | None
    kind: Literal["hot", "cold"]


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    """A dataclass without a dict."""

    ts: int
    room: Room
    temp: float | None
    kind: Kind | Literal["hot", "cold"]


class Named(NamedTuple):
    """A NamedTuple."""

    ts: int
    room: Room
    temp: float | None
    kind: Kind


class Model(pydantic.BaseModel):
    """A model of pydantic."""

    ts: int
    room: Room
    temp: Annotated[float, pydantic.Field(ge=-50)] | None
    kind: Kind


@pydantic.dataclasses.dataclass
class Checked:
    """A dataclass of pydantic."""

    ts: int
    room: Room
    temp: float | None
    kind: Literal["hot", "cold"]


class Struct(msgspec.Struct):
    """A struct of msgspec."""

    ts: int
    room: Room
    temp: Annotated[float, msgspec.Meta(ge=-50)] | None
    kind: Kind


@attrs.define
class Defined:
    """A class of attrs."""

    ts: int
    room: Room
    temp: float | None
    kind: Kind


class Typed(typing.TypedDict):
    """A TypedDict."""

    ts: int
    room: Room
    temp: float | None
    kind: Literal["hot", "cold"]


class Extended(typing_extensions.TypedDict):
    """A TypedDict of typing_extensions."""

    ts: int
    room: typing_extensions.Required[Room]
    temp: typing_extensions.ReadOnly[float | None]
    kind: Literal["hot", "cold"]


# classes whose objects are rows
KINDS: dict[str, Any] = {
    each.__name__: each for each in (Reading, Slotted, Named, Model, Checked, Struct, Defined)
}
# and those that are schemas
CLASSES: dict[str, Any] = {**KINDS, "Typed": Typed, "Extended": Extended}
