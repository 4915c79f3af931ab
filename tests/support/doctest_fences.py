"""Extension of griffe: the examples of a docstring become code blocks of the page."""

from __future__ import annotations

import re
from typing import Any

import griffe

# an example, with what it prints, up to the next empty line
EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n.+)*")


def fence_examples(text: str) -> str:
    """Return a docstring with a fence around each of its examples."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class DoctestFences(griffe.Extension):
    """Rewrites the docstrings of all objects when they are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put the examples of an object's docstring into fences."""
        if obj.docstring:
            obj.docstring.value = fence_examples(obj.docstring.value)
