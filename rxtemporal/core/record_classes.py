"""Records: classes whose objects are rows, of the standard library and of other ones.

They are dataclasses, NamedTuples, pydantic models, msgspec Structs and attrs classes; a TypedDict
names the fields of dicts. A library is known by what it leaves on its classes, so none is imported.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from rxtemporal.errors import SchemaError

# so many classes are remembered; to look one up again costs some microseconds
_MOST_CLASSES = 1_024


class Record(NamedTuple):
    """Reader of the objects of one class as rows.

    A field has the name of its attribute: an alias is a name in JSON, and belongs to who reads it.
    """

    names: tuple[str, ...] | None
    """The attributes that are its fields; None: each object has fields of its own."""
    read: Callable[[Any], dict[str, Any]]
    """Function that returns an object as a new dict of its fields."""


def find_record(kind: type[Any]) -> Record | None:
    """Return the reader of the objects of a class; None if they are not rows."""
    try:
        return _find_record(kind)  # type: ignore[arg-type]  # to mypy no class has a hash
    except Exception:  # the code of a metaclass, which may even refuse a hash
        return None


@lru_cache(maxsize=_MOST_CLASSES)
def _find_record(kind: type[Any]) -> Record | None:
    names = _list_names(kind)
    if names is None:
        # rows of other libraries, as those of SQLAlchemy
        has_fields = callable(getattr(kind, "_asdict", None))
        return Record(None, _read_asdict) if has_fields else None
    if _is_pydantic(kind) and kind.model_config.get("extra") == "allow":
        return Record(None, partial(_read_extra, _make_getter(names), names))
    return Record(names, partial(_read, _make_getter(names), names))


def is_record_class(given: Any) -> bool:
    """Return True if this is a class that names the fields of a row.

    >>> is_record_class(typing.TypedDict("Reading", {"temp": float})), is_record_class(dict)
    (True, False)
    """
    return isinstance(given, type) and (_is_typed_dict(given) or _list_names(given) is not None)


def list_annotations(kind: type) -> dict[str, Any]:
    """Return the annotation of each field of a class for which ``is_record_class`` is true.

    ``SchemaError``: a field has none, or a key of a TypedDict may be missing.
    """
    if _is_pydantic(kind):
        return _list_pydantic(kind)
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"an annotation of {kind.__name__} names what is not there: {error}. "
            "Hint: define it, and the class, at the top of a module."
        ) from None
    if _is_typed_dict(kind):
        _refuse_optional_keys(kind)
        # the annotations without NotRequired and its like
        return {name: _strip_qualifiers(hint) for name, hint in hints.items()}
    # attr.ib(type=float) has no annotation
    given = {each.name: each.type for each in getattr(kind, "__attrs_attrs__", ())}
    fields = {name: hints.get(name, given.get(name)) for name in _list_names(kind) or ()}
    if untyped := [name for name, hint in fields.items() if hint is None]:
        raise SchemaError(
            f"field {untyped[0]!r} of {kind.__name__} has no type. "
            f"Hint: annotate it, as in {untyped[0]}: float."
        )
    return fields


def _list_names(kind: type) -> tuple[str, ...] | None:
    """Return the attributes that are the fields of a class; None if it has none."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if _is_pydantic(kind):
        return (*kind.model_fields, *kind.model_computed_fields)  # type: ignore[attr-defined]
    if isinstance(names := getattr(kind, "__struct_fields__", None), tuple):  # msgspec
        return names
    if isinstance(fields := getattr(kind, "__attrs_attrs__", None), tuple):
        return tuple(field.name for field in fields)
    if issubclass(kind, tuple) and isinstance(names := getattr(kind, "_fields", None), tuple):
        return names
    return None


def _is_pydantic(kind: type) -> bool:
    return isinstance(getattr(kind, "model_fields", None), dict) and hasattr(
        kind, "__pydantic_core_schema__"
    )


def _list_pydantic(kind: Any) -> dict[str, Any]:
    fields = {
        # the metadata of Annotated is kept beside the type
        name: typing.Annotated[(field.annotation, *field.metadata)]
        if field.metadata
        else field.annotation
        for name, field in kind.model_fields.items()
    }
    return fields | {name: each.return_type for name, each in kind.model_computed_fields.items()}


def _is_typed_dict(kind: type) -> bool:
    # typing_extensions has a TypedDict of its own
    return (
        issubclass(kind, dict) and hasattr(kind, "__total__") and hasattr(kind, "__required_keys__")
    )


def _refuse_optional_keys(kind: Any) -> None:
    if kind.__optional_keys__:
        name = min(kind.__optional_keys__)
        raise SchemaError(
            f"key {name!r} of {kind.__name__} may be missing, and each row has all fields. "
            f"Hint: declare {name}: … | None without NotRequired or total=False, and give None."
        )


def _strip_qualifiers(hint: Any) -> Any:
    """Return the type in Required[…] or ReadOnly[…]."""
    while getattr(typing.get_origin(hint), "_name", None) in ("Required", "ReadOnly"):
        (hint,) = typing.get_args(hint)
    return hint


def _make_getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda item: tuple(getattr(item, name) for name in names)


def _read(
    get: Callable[[Any], tuple[Any, ...]], names: tuple[str, ...], item: Any
) -> dict[str, Any]:
    return dict(zip(names, get(item), strict=True))


def _read_extra(
    get: Callable[[Any], tuple[Any, ...]], names: tuple[str, ...], item: Any
) -> dict[str, Any]:
    return {**(item.__pydantic_extra__ or {}), **_read(get, names, item)}


def _read_asdict(item: Any) -> dict[str, Any]:
    return dict(item._asdict())
