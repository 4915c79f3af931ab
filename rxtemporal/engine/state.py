"""State of a step: the attributes that are saved, and loaded in place."""

from __future__ import annotations

from typing import Any, ClassVar

from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import CheckpointError


class Stateful:
    """Object with state: the attributes named in ``held`` are saved.

    An attribute may be any type of the codec, another ``Stateful`` (which is loaded in
    place), or a list, tuple or dict of those.
    """

    held: ClassVar[tuple[str, ...]] = ()
    made_for: str = ""
    """The operator and fields that its owner made it for; the state of any other is refused."""

    def capture(self) -> Captured:
        """Return the state; an equal object that ``load``s its bytes continues from here."""
        return Captured("step", {"for": self.made_for, "state": self}, _state_of)

    def save(self) -> bytes:
        """Return the state as bytes."""
        return self.capture().dumps()

    def load(self, data: bytes) -> None:
        """Continue from a saved state; a state that does not fit changes nothing."""
        saved = loads("step", data)
        saved_for = saved["for"]
        if saved_for and self.made_for and saved_for != self.made_for:
            raise CheckpointError(
                f"this state was saved by {saved_for}; it cannot be loaded by {self.made_for}. "
                "Hint: after a change of the query start without the saved state."
            )
        _check_fit(saved["state"], self)
        _restore(saved["state"], self)


def _state_of(value: Any) -> Any:
    """Return the state of a ``Stateful`` as a plain value; None for anything else."""
    if not isinstance(value, Stateful):
        return None
    held = {name: getattr(value, name) for name in value.held}
    return {"class": type(value).__name__, "held": held}


def _check_fit(saved: Any, into: Any) -> None:
    """Refuse a state that does not fit the object, before any of it is loaded."""
    if isinstance(into, Stateful):
        found = saved.get("class") if isinstance(saved, dict) else None
        if found != type(into).__name__:
            raise CheckpointError(f"this is the state of a {found}, not of a {type(into).__name__}")
        if set(saved["held"]) != set(into.held):
            raise CheckpointError(
                f"this state of a {found} was saved by another version, which keeps other values. "
                "Hint: finish a run with the version that has begun it, or begin anew."
            )
        for name in into.held:
            _check_fit(saved["held"][name], getattr(into, name))
    elif isinstance(into, (list, tuple)) and any(isinstance(each, Stateful) for each in into):
        if len(saved) != len(into):
            raise CheckpointError(f"this state has {len(saved)} parts, not {len(into)}")
        for part, each in zip(saved, into, strict=True):
            _check_fit(part, each)


def _restore(saved: Any, into: Any) -> Any:
    """Return the saved value; a ``Stateful`` in ``into`` is loaded in place."""
    if isinstance(into, Stateful):
        for name, value in saved["held"].items():
            setattr(into, name, _restore(value, getattr(into, name)))
        return into
    if isinstance(into, dict) and isinstance(saved, dict):
        return {key: _restore(value, into.get(key)) for key, value in saved.items()}
    are_lists = isinstance(into, (list, tuple)) and isinstance(saved, (list, tuple))
    if are_lists and len(into) == len(saved):
        return type(saved)(map(_restore, saved, into))
    return saved
