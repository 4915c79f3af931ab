"""Encoder of result rows as JSON."""

from __future__ import annotations

from typing import Any

from rxtemporal.errors import BindingError


def make_encoder(sink: str) -> Any:
    """Return an encoder with ``encode`` and ``encode_lines``, for rows as dicts.

    Values that JSON does not have become text, NaN becomes null.

    >>> make_encoder("Http").encode({"start_time": 4, "temp": float("nan")})
    b'{"start_time":4,"temp":null}'
    """
    try:
        import msgspec
    except ModuleNotFoundError as error:
        raise BindingError(
            f"{sink} needs msgspec. Hint: pip install 'rxtemporal[json]'."
        ) from error
    return msgspec.json.Encoder(enc_hook=str)
