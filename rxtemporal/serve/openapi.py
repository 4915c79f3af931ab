"""Description of a service for programs: its paths, bodies and answers, as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import polars as pl

from rxtemporal import __version__
from rxtemporal.query.push_source import PushSource
from rxtemporal.serve.routes import WEBSOCKET, Need, Route
from rxtemporal.serve.service import Service

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_TYPES: dict[type[pl.DataType], dict[str, Any]] = {
    pl.Boolean: {"type": "boolean"},
    pl.Date: {"type": "string", "format": "date"},
    pl.Datetime: {"type": "string", "format": "date-time"},
    pl.Decimal: {"type": ["number", "string"]},
    pl.String: {"type": "string"},
}
_ERRORS = {
    400: "The body, a header or a position cannot be read; `error` says why.",
    401: "The token is missing or unknown.",
    403: "The token does not permit this, or a page of another site has sent the request.",
    408: "The body came too slowly.",
    409: "The results so far cannot be computed; `error` says why.",
    410: "Results from this position on are not kept any more; `oldest` is the oldest position.",
    413: "The body is larger than the limit, or has too many rows.",
    415: "The content type or the compression is not supported.",
    429: "The rate of the token is used up. Repeat the request after `Retry-After` seconds.",
    503: "The service does not take the request now. Repeat it after `Retry-After` seconds.",
}
_WAITS = (429, 503)
_NUMBER = {"type": "integer"}
_TIME = {"type": ["string", "integer", "null"], "description": "ISO 8601, or ticks"}
_COMPONENTS = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string", "description": "The reason, with a hint."}},
    },
    "Receipt": {
        "type": "object",
        "required": ["accepted", "late", "duplicates", "refused", "cti", "durable"],
        "properties": {
            "accepted": {**_NUMBER, "description": "Rows that the stream has taken."},
            "late": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "reason", "by"],
                    "properties": {
                        "index": {**_NUMBER, "description": "The row of the body, from 0."},
                        "reason": {"type": "string"},
                        "by": {"type": "number", "description": "Seconds; of ticks: ticks."},
                    },
                },
            },
            "duplicates": {**_NUMBER, "description": "Rows whose number has come before."},
            "unsure": {**_NUMBER, "description": "Rows that may have come before."},
            "refused": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "reason"],
                    "properties": {"index": _NUMBER, "reason": {"type": "string"}},
                },
            },
            "more_refused": {
                "type": "object",
                "properties": {"count": _NUMBER, "kinds": {"type": "object"}},
            },
            "cti": {**_TIME, "description": "No row before this time is taken any more."},
            "durable": {"type": "boolean", "description": "True if the rows are on disk."},
        },
    },
    "Time": {
        "type": "object",
        "required": ["cti", "durable"],
        "properties": {
            "cti": _TIME,
            "durable": {"type": "boolean"},
            "ignored": {"type": "string", "description": "The reason why time has not advanced."},
        },
    },
}  # fmt: skip


def describe_service(service: Service, routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description of a service with these routes.

    Each stream and each query has paths of its own, with its fields. WebSockets, which OpenAPI does
    not describe, stand in the text of the same path.
    """
    routes = [*routes]
    sockets = {route.path: route.summary for route in routes if route.method == WEBSOCKET}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if route.method == WEBSOCKET:
            continue
        for path, name in _list_paths(service, route.path):
            operation = _describe_route(service, route, name)
            if (socket := sockets.get(route.path)) is not None:
                operation["description"] += f"\n\nAs a WebSocket: {socket}"
            paths.setdefault(path, {})[route.method.lower()] = operation
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": service.name,
            "version": __version__,
            "description": "Rows go into streams, and results of queries come out (rxtemporal).",
        },
        "paths": paths,
        "components": {"schemas": _COMPONENTS | dict(_list_rows(service))},
    }
    if not service.tokens.is_open:
        scheme = {"type": "http", "scheme": "bearer"}
        described["components"]["securitySchemes"] = {"token": scheme}
    return described


def _list_rows(service: Service) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the description of the rows of each stream, with its name as a component."""
    for number, (name, source) in enumerate(service.sources.items()):
        yield _name_row(number, name), _describe_row(source)


def _name_row(number: int, name: str) -> str:
    """Return the name of a component, in which not all characters may stand.

    >>> _name_row(0, "readings"), _name_row(1, "a/b")
    ('readings_row', 'stream_1_row')
    """
    return f"{name}_row" if _PLAIN.fullmatch(name) else f"stream_{number}_row"


def _list_paths(service: Service, path: str) -> Iterator[tuple[str, str]]:
    """Yield the paths for which one with ``{name}`` stands, each with the name."""
    if "{name}" not in path:
        yield path, ""
        return
    for name in service.feeds if path.startswith("/queries") else service.sources:
        yield path.replace("{name}", quote(name, safe="")), name


def _describe_route(service: Service, route: Route, name: str) -> dict[str, Any]:
    words = route.path.replace("{name}", name).split("/")
    operation: dict[str, Any] = {
        "operationId": "_".join(filter(None, [route.method.lower(), *words])) or "root",
        "summary": route.summary,
        "description": route.summary,
        "responses": {"200": _describe_answer(route)},
    }
    if name:
        operation["tags"] = [name]
    if route.need is not Need.NOBODY and not service.tokens.is_open:
        operation["security"] = [{"token": []}]
    if route.method == "POST":
        rows = route.path.endswith("}")
        operation["requestBody"] = {
            "required": True,
            "content": _describe_rows(_find_row(service, name)) if rows else _describe_cti(),
        }
    operation["parameters"] = [*_list_parameters(route)]
    operation["responses"] |= {
        str(status): _describe_error(status) for status in _find_errors(route)
    }
    return operation


def _find_errors(route: Route) -> list[int]:
    """Return the statuses of the errors of a route."""
    found = [] if route.need is Need.NOBODY else [401, 403, 503]
    if route.path == "/readyz":
        found = [503]
    if route.method == "POST":
        found += [400, 408, 413, 415, 429]
    if route.path.startswith("/queries/"):
        found += [400, 409 if route.path.endswith("/now") else 410]
    return sorted(found)


def _describe_error(status: int) -> dict[str, Any]:
    error: dict[str, Any] = {
        "description": _ERRORS.get(status, HTTPStatus(status).phrase),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    if status in _WAITS:
        error["headers"] = {"Retry-After": {"schema": _NUMBER, "description": "seconds"}}
    return error


def _describe_answer(route: Route) -> dict[str, Any]:
    kind: str = "application/json"
    schema: dict[str, Any] = {"type": "object"}
    if route.method == "POST":
        component = "Receipt" if route.path.endswith("}") else "Time"
        schema = {"$ref": f"#/components/schemas/{component}"}
    elif route.path.endswith("/now"):
        schema = {"type": "array", "items": {"type": "object"}}
    elif route.path.endswith("/events"):
        kind, schema = "text/event-stream", {"type": "string"}
    elif route.path == "/metrics":
        kind, schema = "text/plain", {"type": "string"}
    elif route.path in ("/", "/debug"):
        kind, schema = "text/html", {"type": "string"}
    content = {kind: {"schema": schema}}
    if route.path.endswith("/now"):  # with ?every=
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": route.summary, "content": content}


def _list_parameters(route: Route) -> Iterator[dict[str, Any]]:
    if route.method == "POST":
        yield _make_parameter(
            "Source", "header", "The source of the rows, if the token permits it."
        )
        if route.path.endswith("}"):
            first = "The sequence number of the first row, for rows without a field for it."
            yield _make_parameter("Sequence", "header", first, "integer")
            yield _make_parameter("Content-Encoding", "header", "gzip or deflate")
    elif route.path.endswith("/now"):
        every = "A span, as `1s`: changes are sent as server-sent events, so often at most."
        yield _make_parameter("every", "query", every)
    elif route.path.startswith("/queries/"):
        position = "A position: ticks, an ISO time, `now`, or `oldest`, which is the default."
        yield _make_parameter("from", "query", position)
        yield _make_parameter("Last-Event-ID", "header", "The position of the last event.")


def _make_parameter(name: str, place: str, text: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": place, "description": text, "schema": {"type": kind}}


def _find_row(service: Service, name: str) -> dict[str, Any]:
    number = list(service.sources).index(name)
    return {"$ref": f"#/components/schemas/{_name_row(number, name)}"}


def _describe_rows(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bodies that a stream takes, by content type.

    Not those with CloudEvents, which generators of clients would confuse with rows.
    """
    return {
        "application/json": {"schema": {"oneOf": [row, {"type": "array", "items": row}]}},
        "application/x-ndjson": {"schema": {"type": "string"}},
        "application/vnd.apache.arrow.stream": {"schema": {"type": "string", "format": "binary"}},
    }


def _describe_row(source: PushSource) -> dict[str, Any]:
    layout = source.layout
    times = [name for name in (layout.start, layout.end) if name is not None]
    unit = f"a number of {layout.unit} since 1970" if layout.unit else "ticks"
    time = {"type": ["string", "integer"], "description": f"ISO 8601 with a zone, or {unit}"}
    fields: dict[str, Any] = dict.fromkeys(times, time)
    required = [] if layout.start is None else [layout.start]
    fields |= {name: _describe_type(dtype) for name, dtype in layout.schema.items()}
    if layout.seq is not None:
        number = "The sequence number of the row: a repeated one is a duplicate."
        fields[layout.seq] = {**_NUMBER, "description": number}
    return {"type": "object", "required": required, "properties": fields}


def _describe_type(dtype: pl.DataType) -> Mapping[str, Any]:
    """Return the schema of the values of a field, any of which may be null."""
    known = _TYPES.get(type(dtype))
    if known is None:
        known = {"type": "number"} if dtype.is_float() else {}
    if dtype.is_integer():
        known = _NUMBER
    if not known:
        return {"description": str(dtype)}
    kinds = known["type"] if isinstance(known["type"], list) else [known["type"]]
    return {**known, "type": [*kinds, "null"]}


def _describe_cti() -> dict[str, Any]:
    device = {"description": "The only device that it is for, in a stream with clock=."}
    cti = {
        "type": "object",
        "required": ["time"],
        "properties": {"time": _TIME, "device": device},
        "additionalProperties": False,
    }
    return {"application/json": {"schema": cti}}
