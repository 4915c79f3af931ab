"""State of a step: the attributes that are saved, loaded in place, split and merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from rxtemporal.core.batch import Bools
from rxtemporal.engine.codec import Captured, Saved, loads
from rxtemporal.engine.holdings import PART, Held, Hold, Moves, NextEdge, Selection, pair_parts
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.errors import CheckpointError

if TYPE_CHECKING:
    from rxtemporal.engine.cut_windows import Windows


class Keys(Protocol):
    """Keys that are known by their codes, which their owner forgets from time to time."""

    @property
    def is_full(self) -> bool:
        """True if so many keys are known that their owner should see which ones it holds."""

    def __len__(self) -> int:
        """Return the number of keys."""

    def forget(self, held: Bools) -> KeptKeys | None:
        """Forget keys that are not held; return those kept, or None if all stay."""


class Stateful:
    """Object with state: the attributes named in ``held`` are saved.

    An attribute may be any type of the codec, another ``Stateful`` (which is loaded in
    place), or a list, tuple or dict of those. ``held`` says of each what belongs to a key in it, in
    an order in which nothing comes before that to which it refers.
    """

    held: Mapping[str, Held] = MappingProxyType({})
    made_for: str = ""
    """The operator and fields that its owner made it for; the state of any other is refused."""
    windows: Windows | None = None
    """The starts and ends of the windows of the rows returned last, of a step that knows them."""

    def identify(self, made_for: str) -> None:
        """Note what the object is made for: it loads the state of no other."""
        self.made_for = made_for

    def capture(self) -> Captured:
        """Return the state; an equal object continues from it, or from its bytes, by ``load``."""
        return Captured("step", {"for": self.made_for, "state": self}, _state_of)

    def save(self) -> bytes:
        """Return the state as bytes."""
        return self.capture().dumps()

    def keep_selected(self, selection: Selection) -> None:
        """Drop the state of all keys that are not selected."""
        for name, kind in self.held.items():
            setattr(self, name, kind.keep(getattr(self, name), selection))

    def check_saved(self, held: Mapping[str, Any]) -> None:
        """Refuse saved values that this object cannot hold."""

    def drop_keys(self, kept: KeptKeys | None) -> None:
        """Drop the keys that are not kept, of which no row is held; None: all are kept."""
        if kept is not None:
            self.keep_selected(Selection.of_keys(kept))

    def forget_unused(self, keys: Keys, mark: Callable[[Bools], object]) -> None:
        """Drop the keys of which nothing is held, once so many are known that it is time to look.

        ``mark`` sets ``held``, ``bool[keys]``, to True for those that are in use.
        """
        if keys.is_full:
            held = np.zeros(len(keys), np.bool_)
            mark(held)
            self.drop_keys(keys.forget(held))

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the state of an equal object that holds other keys, at the same CTI.

        The other one is not used afterwards.
        """
        for name, kind in self.held.items():
            setattr(self, name, kind.merge(getattr(self, name), getattr(other, name), moves))

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys that hold the output CTI below that of the input, which is ``cti``.

        Several may be of one key.
        """
        return []

    def list_counters(self) -> list[IdCounter]:
        """Return where the object, and its parts, note the next edge id that they give out."""
        found = list[IdCounter]()
        for name, kind in self.held.items():
            if isinstance(kind, NextEdge):
                found.append(IdCounter(self, name, kind))
            elif kind is PART:
                for part, _ in pair_parts(*2 * [getattr(self, name)]):
                    found += part.list_counters()
        return found

    def load(self, data: Saved) -> None:
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

    def load_copy(self, data: Saved) -> None:
        """Continue from the state of an object of the same query, whatever it was made for."""
        made_for, self.made_for = self.made_for, ""
        try:
            self.load(data)
        finally:
            self.made_for = made_for


class IdCounter(NamedTuple):
    """The place in a state where the next edge id is."""

    state: Stateful
    name: str
    kind: NextEdge

    def go_on(self, other: IdCounter) -> None:
        """Give out no id that another one has given out."""
        mine, its = getattr(self.state, self.name), getattr(other.state, other.name)
        if mine != its:
            setattr(self.state, self.name, self.kind.join(mine, its))


def _state_of(value: Any) -> Any:
    """Return the state of a ``Stateful`` as a plain value; None for anything else."""
    if not isinstance(value, Stateful):
        return None
    held = {name: getattr(value, name) for name in value.held}
    return {"class": type(value).__name__, "held": held}


def _check_fit(saved: Any, into: Any) -> None:
    """Refuse a state that does not fit the object, before any of it is loaded."""
    if isinstance(into, Stateful):
        kind = type(into).__name__
        if not isinstance(saved, dict) or "class" not in saved:
            raise make_version_error(f"what is a {kind} here")
        if saved["class"] != kind:
            raise CheckpointError(
                f"this is the state of a {saved['class']}, not of a {kind}. Hint: finish a run "
                "with the version that has begun it, or begin anew."
            )
        if set(saved["held"]) != set(into.held):
            raise make_version_error(f"this state of a {kind}")
        into.check_saved(saved["held"])
        for name in into.held:
            _check_fit(saved["held"][name], getattr(into, name))
    elif isinstance(into, (list, tuple)) and any(isinstance(each, Stateful) for each in into):
        if len(saved) != len(into):
            raise CheckpointError(f"this state has {len(saved)} parts, not {len(into)}")
        for part, each in zip(saved, into, strict=True):
            _check_fit(part, each)


def make_version_error(what: str) -> CheckpointError:
    """Return the error for a value that an earlier or a later version has saved."""
    return CheckpointError(
        f"{what} was saved by another version, which keeps other values. "
        "Hint: finish a run with the version that has begun it, or begin anew."
    )


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
