"""Settings of operators as text, for fingerprints: the same text in another process."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import polars as pl

from rxtemporal.operators import expressions

# fields that are no setting of an operator: a span is the same number however it was given
_UNWRITTEN = ("line", "time")
# objects of other packages are users' code, and their attributes are its parameters
_NOT_USERS = {"rxtemporal", "polars", "numpy", *sys.stdlib_module_names} - {"__main__"}


def describe_settings(described: Any) -> str:
    """Return the fields of an operator, or of a part of one, with their values."""
    fields = [f.name for f in dataclasses.fields(described) if f.name not in _UNWRITTEN]
    return _join((name, describe_value(getattr(described, name))) for name in fields)


def describe_value(value: Any, within: tuple[int, ...] = ()) -> str:
    """Return a setting of an operator as text that is the same in another process.

    Of code it is the name, and the parameters: attributes of objects, default arguments of
    functions, and the constants that they take from functions around them. ``within`` are the ids
    of the objects that contain the value.
    """
    if id(value) in within:
        return "..."
    if isinstance(value, type):
        return value.__qualname__
    inner = functools.partial(describe_value, within=(*within, id(value)))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inner, value))}]"
    if type(value) is dict:  # not a schema, which has a text of its own
        return f"{{{', '.join(f'{inner(key)}: {inner(each)}' for key, each in value.items())}}}"
    if isinstance(value, (set, frozenset)):  # in no order that another process would have
        return f"{{{', '.join(sorted(map(inner, value)))}}}"
    if isinstance(value, pl.Expr):
        return expressions.describe(value)
    if dataclasses.is_dataclass(value) and not _is_users(type(value)):
        return f"{type(value).__name__}({describe_settings(value)})"
    found = dict(_list_parameters(value))
    if not found and _is_plain(value):
        return repr(value)
    name = str(getattr(value, "__qualname__", type(value).__qualname__))
    return f"{name}({_join((n, inner(found[n])) for n in sorted(found))})" if found else name


def _join(settings: Iterator[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={text}" for name, text in settings)


def _is_users(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _NOT_USERS


def _is_plain(value: Any) -> bool:
    """Return True if the text of a value says what it is, and is the same in another process."""
    if isinstance(value, enum.Enum):
        return True
    # a frame is data, whose text is neither short nor complete
    if callable(value) or hasattr(value, "__dataframe__"):
        return False
    try:
        text = repr(value)
    except Exception:  # of a user's class
        return False
    return not text.startswith("<") and " at 0x" not in text


def _list_parameters(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a user's code by name; nothing for other values."""
    if isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _list_variables(value)
    elif _is_users(type(value)) and not isinstance(value, enum.Enum):
        yield from _list_attributes(value).items()


def _list_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the default arguments of a function, and its variables from functions around it."""
    code, defaults = function.__code__, function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if not _may_change(content):
            yield name, content


def _may_change(value: Any) -> bool:
    """Return True for what a function may use as its memory, which is no parameter."""
    if isinstance(value, (list, dict, set)):
        return True
    return _is_users(type(value)) and not isinstance(value, (enum.Enum, tuple, types.FunctionType))


def _list_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object of a user's class, and those that its class gives it."""
    found: dict[str, Any] = {}
    slots = list[str]()
    for kind in reversed(type(value).__mro__):
        if _is_users(kind):
            found |= {n: v for n, v in vars(kind).items() if n[0] != "_" and not _is_code(v)}
            declared = kind.__dict__.get("__slots__", ())
            slots += [declared] if isinstance(declared, str) else declared
    found |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    # a value that is computed once and kept is no parameter
    computed = functools.cached_property
    return {
        name.lstrip("_"): each
        for name, each in found.items()
        if not isinstance(getattr(type(value), name, None), computed)
    }


def _is_code(value: Any) -> bool:
    """Return True for methods, properties and the like, and for classes."""
    return hasattr(type(value), "__get__") or isinstance(value, type)
