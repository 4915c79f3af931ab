"""Classes of the standard library, pydantic, msgspec and attrs, as schemas and as rows."""

from __future__ import annotations

import dataclasses
import enum
import typing
import uuid
from collections import namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType

import polars as pl
import pytest
from records import CLASSES, KINDS, Kind, Reading, Room

from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.record_classes import find_record
from rxtemporal.core.schema import infer_type, payload_schema, to_fields
from rxtemporal.errors import SchemaError

pydantic = pytest.importorskip("pydantic", reason="its models are rows")
attrs = pytest.importorskip("attrs", reason="its classes are rows")
msgspec = pytest.importorskip("msgspec", reason="its structs are rows")

SCHEMA = pl.Schema(
    {"ts": pl.Int64(), "room": pl.String(), "temp": pl.Float64(), "kind": pl.String()}
)
ROW = {"ts": 1, "room": "lab", "temp": 20.5, "kind": "hot"}


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_a_class_is_a_schema(kind: Any) -> None:
    """Fields in their order; Optional, NewType, Literal and Annotated stand for their type."""
    assert [*payload_schema(kind).items()] == [*SCHEMA.items()]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_object_is_a_row(kind: Any) -> None:
    """A dict with the names of the attributes."""
    assert to_fields(kind(**ROW)) == ROW
    assert to_fields(kind(**{**ROW, "temp": None})) == {**ROW, "temp": None}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("beside", [[], [ROW]], ids=["alone", "beside dicts"])
def test_objects_are_payloads_of_a_batch(kind: Any, beside: list[Any]) -> None:
    """With the schema of the class, and with the one that the first object has."""
    other = {"ts": 2, "room": "hall", "temp": None, "kind": "cold"}
    rows = [*beside, kind(**ROW), kind(**other)]
    expected = [*beside, ROW, other]
    assert PayloadReader(payload_schema(kind)).frame(rows).to_dicts() == expected
    assert PayloadReader().frame(rows).to_dicts() == expected


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_object_that_does_not_fit_is_named(kind: Any) -> None:
    """Its class has one field more than the stream; the message says so."""
    reader = PayloadReader(pl.Schema({k: v for k, v in SCHEMA.items() if k != "kind"}))
    with pytest.raises(BadPayloadError, match="field 'kind' appears in mid-stream"):
        reader.frame([kind(**ROW)])


class Other(pydantic.BaseModel):
    """A model with a computed field, an alias and fields of its objects."""

    model_config = pydantic.ConfigDict(extra="allow")
    temp: float = pydantic.Field(alias="degreesCelsius")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def fahrenheit(self) -> float:
        """A computed field."""
        return self.temp * 9 / 5 + 32


class Camel(msgspec.Struct, rename="camel", tag=True):
    """A struct with other names in JSON."""

    room_name: str


@attrs.define
class Private:
    """A class whose attribute has another name in its initializer."""

    _temp: float
    scale: ClassVar[str] = "C"


@dataclasses.dataclass
class Constant:
    """A dataclass with what is no field."""

    x: int
    unit: ClassVar[str] = "C"
    seed: dataclasses.InitVar[int] = 0


def test_names_are_those_of_the_attributes() -> None:
    """Aliases are names in JSON; computed fields are fields, and what is no field is none."""
    model = Other(degreesCelsius=100.0, note="x")
    assert to_fields(model) == {"note": "x", "temp": 100.0, "fahrenheit": 212.0}
    assert dict(payload_schema(Other)) == {"temp": pl.Float64, "fahrenheit": pl.Float64}
    assert PayloadReader().frame([model, model])["note"].to_list() == ["x", "x"]
    assert to_fields(Camel("lab")) == {"room_name": "lab"}
    assert [*payload_schema(Camel)] == ["room_name"]
    assert to_fields(Private(1.0)) == {"_temp": 1.0}
    assert [*payload_schema(Private)] == ["_temp"]
    assert to_fields(Constant(1)) == {"x": 1}
    assert [*payload_schema(Constant)] == ["x"]


class Aware(pydantic.BaseModel):
    """Types of pydantic's own."""

    at: pydantic.AwareDatetime
    naive: pydantic.NaiveDatetime | None
    born: pydantic.PastDate
    size: pydantic.PositiveInt
    price: Annotated[Decimal, pl.Decimal(10, 2)]


def test_types_of_pydantic() -> None:
    """Its names of constrained types are the types; a polars type in Annotated counts."""
    assert dict(payload_schema(Aware)) == {
        "at": pl.Datetime("us", "UTC"),
        "naive": pl.Datetime("us"),
        "born": pl.Date(),
        "size": pl.Int64(),
        "price": pl.Decimal(10, 2),
    }
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    row = Aware(at=noon, naive=None, born=date(2000, 1, 1), size=3, price=Decimal("1.50"))
    frame = PayloadReader(payload_schema(Aware)).frame([row])
    assert frame.rows() == [(noon, None, date(2000, 1, 1), 3, Decimal("1.50"))]


class Plain(enum.Enum):
    """An enum that is no str."""

    A = "a"


class Inner(NamedTuple):
    """A record in a record."""

    x: int


@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        (NewType("Id", int), pl.Int64()),
        (Annotated[float | None, "unit"], pl.Float64()),
        (Literal["a", "b", None], pl.String()),
        (Literal[1, 2], pl.Int64()),
        (Literal[True], pl.Boolean()),
        (Annotated[Decimal, pl.Decimal(10, 2)] | None, pl.Decimal(10, 2)),
        (Kind, pl.String()),
        (enum.IntEnum("Level", "LOW HIGH"), pl.Int64()),
        (typing.Union[Room, None], pl.String()),  # noqa: UP007
        (timedelta, pl.Duration("us")),
    ],
    ids=str,
)
def test_annotations(type_: Any, dtype: pl.DataType) -> None:
    """What stands for one type of a field."""
    assert payload_schema({"x": type_}) == pl.Schema({"x": dtype})


@pytest.mark.parametrize(
    ("type_", "hint"),
    [
        (Plain, "derive it from str too, as enum.StrEnum does"),
        (Inner, "make a field of each part"),
        (Literal["a", 1], "name one type"),
        (int | str, "name one type"),
        (uuid.UUID, "declare the type of its plain form"),
        (Any, "declare the type of its plain form"),
        (Decimal, r"Annotated\[Decimal, pl.Decimal\(precision, scale\)\]"),
        ("float", "write the type itself, float, without quotes"),
        (dict, "declare the type of its plain form"),
    ],
    ids=str,
)
def test_annotations_that_are_refused(type_: Any, hint: str) -> None:
    """The message names the field and ends in what to do."""
    with pytest.raises(SchemaError, match=f"field 'x' has type .*Hint: .*{hint}.*"):
        payload_schema({"x": type_})


class Partial(typing.TypedDict, total=False):
    """A dict without some keys."""

    x: int


class Sure(Partial):
    """A dict that inherits an optional key."""

    y: int


def test_classes_that_are_refused() -> None:
    """A key that may be missing, a field without a type, an annotation of nothing."""
    for kind in (Partial, Sure):
        with pytest.raises(SchemaError, match=r"key 'x' of \w+ may be missing.*Hint: declare x"):
            payload_schema(kind)
    for untyped in (namedtuple("Untyped", "x"), attrs.make_class("Untyped", ["x"])):
        with pytest.raises(SchemaError, match=r"'x' of Untyped has no type\. Hint: annotate it"):
            payload_schema(untyped)

    @dataclasses.dataclass
    class Lost:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"of Lost names what is not there: .*Nowhere.*Hint:"):
        payload_schema(Lost)
    for given in (Reading(1, Room("lab"), 1.0, "hot"), dict, object, int):
        with pytest.raises(SchemaError, match=r"schema= is a mapping .* Hint: schema=\{"):
            payload_schema(given)
    assert payload_schema(attrs.make_class("Old", {"x": attrs.field(type=int)})) == {
        "x": pl.Int64()
    }


def test_values_that_are_enums() -> None:
    """A StrEnum is a text in a batch; another enum is refused with its value as the hint."""
    frame = PayloadReader(pl.Schema({"kind": pl.String()})).frame([{"kind": Kind.HOT}])
    assert frame.rows() == [("hot",)]
    with pytest.raises(SchemaError, match=r"holds .*Plain.*Hint: its \.value is a payload"):
        infer_type("x", Plain.A)


def test_what_is_no_record() -> None:
    """A class without fields, and classes themselves."""
    assert [find_record(kind) for kind in (int, str, dict, tuple, type, object)] == [None] * 6
    assert to_fields(Reading) == {"payload": Reading}


class Row:
    """A row of a library that has a method for its fields alone."""

    def _asdict(self) -> dict[str, Any]:
        return {"x": 1}


def test_rows_of_other_libraries() -> None:
    """An object that gives its fields as a dict."""
    assert to_fields(Row()) == {"x": 1}
    assert PayloadReader().frame([Row(), Row()])["x"].to_list() == [1, 1]
